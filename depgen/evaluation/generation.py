"""`depgen generate`: texts from a trained system, the same flags for every system that writes."""

import json as json_format
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from depgen.data.vocabulary import AnyVocabulary
from depgen.decoding.generation import Writer
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.evaluation.document_generation import continue_documents
from depgen.evaluation.reading import Reading, reading_of_run
from depgen.evaluation.text_documents import read_documents
from depgen.evaluation.trained import Trained, load_trained
from depgen.language_models.document import DocumentLanguageModel
from depgen.locations import check_output, write_atomically
from depgen.seeds import seed_of
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FormName

log = logging.getLogger(__name__)
T = TypeVar("T")


def generate(
    *,
    run: str | None = None,
    prompts: Path | None = None,
    number: int = 1,
    sentences: int | None = None,
    top_p: float = 1.0,
    temperature: float = 1.0,
    top_k: int = 0,
    greedy: bool = False,
    max_new_tokens: int = 100,
    batch_size: int = 64,
    seed: int = 0,
    output: Path | None = None,
    json: bool = False,
    form: FormName | None = None,
    device: str | None = None,
) -> str | None:
    """Write texts with a trained system, from prompts or from nothing.

    Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.

    Args:
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        prompts: a file of one prompt a line, words separated by spaces. For systems that read documents sentence by
            sentence: a sentence a line with a blank line between documents, or JSON lines. Without it texts begin from
            nothing.
        number: texts a prompt (`-n`).
        sentences: how many sentences such systems write behind each document; 1 where nothing is said.
        top_p: nucleus sampling: the smallest set of words with this much probability.
        temperature: divides the log-probabilities of the (mixed) distribution.
        top_k: only the k most likely words; 0 for all.
        greedy: always the most likely word.
        max_new_tokens: where a text, or a sentence of a document, is cut.
        batch_size: texts written at once; changes nothing but speed.
        seed: of the sampling.
        output: a file for the texts, one a line, or for the new sentences of documents as above; without it they are
            printed.
        json: JSON lines with prompt, text and seed instead of bare texts; of documents, lists of sentences.
        form: what words of prompts are brought into before they are read: by default the form of the run's corpus, as
            in `depgen score`; `as_is` to leave them as they are.
        device: cpu, cuda, …; by default a GPU where there is one.

    Raises:
        UserError: no such run or file, an empty file of prompts, numbers out of range.
    """
    if output is not None:
        check_output(output)
    sampling = Sampling(top_p=top_p, temperature=temperature, top_k=top_k, greedy=greedy)
    trained = load_trained(run, device=device)
    log.info("Writing with %s", trained.checkpoint)
    writing = _Writing(
        trained, reading_of_run(trained.run, form), number, seed, sampling, max_new_tokens, batch_size, json
    )
    if isinstance(trained.model, DocumentLanguageModel):
        rows = writing.documents(trained.model, prompts, sentences or 1)
    elif sentences is not None:
        raise UserError(
            f"{trained.checkpoint} holds a {type(trained.model).__name__}, which reads no sentences: leave --sentences "
            "out, or take a system that reads documents sentence by sentence."
        )
    else:
        rows = writing.texts(prompts)
    content = "".join(f"{row}\n" for row in rows)
    if output is None:
        return content
    write_atomically(output, content)
    log.info("%d texts written to %s", len(rows), output)
    return None


@dataclass(frozen=True)
class _Writing:
    """What is written with and how; see `generate`."""

    trained: Trained
    reading: Reading
    number: int
    seed: int
    sampling: Sampling
    max_new_tokens: int
    batch_size: int
    json: bool

    def texts(self, prompts: Path | None) -> list[str]:
        """A line a text.

        Raises:
            UserError: the system does not write, or the prompts can't be read.
        """
        model, vocabulary = self.trained.model, self.trained.vocabulary
        if not isinstance(model, Writer):
            raise UserError(f"{self.trained.checkpoint} holds a {type(model).__name__}, which does not write texts.")
        lines = [""] if prompts is None else read_prompts(prompts)
        ids = [self._ids(Sentence(tuple(line.split()))) for line in lines]
        _log_unknown(ids, vocabulary)
        seeds = self._seeds(len(lines))
        texts = model.generate(
            self._copies(ids),
            eos=vocabulary.eos,
            sampling=self.sampling,
            seeds=seeds,
            max_new_tokens=self.max_new_tokens,
            batch_size=self.batch_size,
            progress=sys.stderr.isatty(),
        )
        decoded = [_one_line(vocabulary, each) for each in texts]
        return self._json(self._copies(lines), decoded, seeds) if self.json else decoded

    def documents(self, model: DocumentLanguageModel, prompts: Path | None, sentences: int) -> list[str]:
        """A line of JSON a document; or a line a sentence, and a blank line between documents.

        Sentences without a word, which a system may write, are no lines. Where last words are read twice, those that
        are written so are put down once.

        Raises:
            UserError: the prompts can't be read, or the system reads no documents of that length.
        """
        vocabulary = self.trained.vocabulary
        before = [()] if prompts is None else [document.sentences for document in read_documents(prompts)]
        self._refuse_longer(max(map(len, before)) + sentences)
        ids = [[found for each in document if (found := self._ids(each))] for document in before]
        _log_unknown([each for document in ids for each in document], vocabulary)
        seeds = self._seeds(len(before))
        texts = continue_documents(
            model,
            self._copies(ids),
            vocabulary=vocabulary,
            sampling=self.sampling,
            seeds=seeds,
            sentences=sentences,
            max_new_tokens=self.max_new_tokens,
            batch_size=self.batch_size,
            progress=sys.stderr.isatty(),
        )
        if self.reading.final_word_twice:
            texts = [[self._without_repeat(each) for each in document] for document in texts]
        decoded = [[_one_line(vocabulary, each) for each in document] for document in texts]
        if self.json:
            lines = [[" ".join(each.words) for each in document] for document in before]
            return self._json(self._copies(lines), decoded, seeds)
        if wordless := sum(not any(document) for document in decoded):
            log.warning(
                "%d of %d documents have not a word and are no lines, so that those behind them do not stand where "
                "their prompts do: --json has a line for every one.",
                wordless, len(decoded),
            )  # fmt: skip
        return "\n\n".join("\n".join(filter(None, document)) for document in decoded).split("\n")

    def _ids(self, sentence: Sentence) -> list[int]:
        """Token ids of a sentence in the form that the run has learnt from; none where that leaves no word."""
        found: list[int] = self.reading.encode(self.reading.words(sentence), self.trained.vocabulary).ids.tolist()
        return found

    def _refuse_longer(self, sentences: int) -> None:
        """Refuse documents that the run's data module would cut: behind a cut nothing is known of what is before."""
        longest = self.reading.longest
        if longest is not None and sentences > longest:
            raise UserError(
                f"{self.trained.run} is tested on segments of at most {longest} sentences "
                f"(eval_sentences_per_segment), and a document with its continuation would have {sentences}: give "
                "shorter prompts or fewer --sentences."
            )

    def _without_repeat(self, ids: list[int]) -> list[int]:
        """A sentence whose last token was read twice in training, with one of it; a sentence that was cut has no last.

        A system that has not repeated the token is left as it is.
        """
        ended = len(ids) < self.max_new_tokens
        return ids[:-1] if ended and ids[-1:] == ids[-2:-1] else ids

    def _seeds(self, prompts: int) -> list[int]:
        return [text_seed(self.seed, prompt, copy) for prompt in range(prompts) for copy in range(self.number)]

    def _copies(self, prompts: Sequence[T]) -> list[T]:
        return [prompt for prompt in prompts for _ in range(self.number)]

    def _json(self, prompts: Sequence[object], texts: Sequence[object], seeds: Sequence[int]) -> list[str]:
        rows = zip(prompts, texts, seeds, strict=True)
        return [
            json_format.dumps({"prompt": prompt, "text": text, "seed": seed}, ensure_ascii=False)
            for prompt, text, seed in rows
        ]


def _one_line(vocabulary: AnyVocabulary, ids: Sequence[int]) -> str:
    """The words of a text; one line, whatever the pieces hold."""
    return " ".join(vocabulary.decode(ids).split())


def _log_unknown(prompts: Sequence[Sequence[int]], vocabulary: AnyVocabulary) -> None:
    ids = [each for prompt in prompts for each in prompt]
    if unknown := ids.count(vocabulary.unk):
        log.info("%d of the prompts' %d tokens are unknown to the model and read as <unk>.", unknown, len(ids))


def read_prompts(path: Path) -> list[str]:
    """The lines of a file of prompts.

    Raises:
        UserError: the file is missing, empty, not UTF-8, or has an empty line.
    """
    lines = []
    for number, line in read_lines(path):
        if not line.strip():
            raise UserError(
                f"{path}:{number}: expected a prompt, found an empty line. Leave --prompts out to begin from nothing."
            )
        lines.append(line)
    return lines


def text_seed(seed: int, prompt: int, copy: int) -> int:
    """The seed of one text."""
    return seed_of(f"{seed} {prompt} {copy}")
