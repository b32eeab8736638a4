"""`depgen generate`: texts from a trained system, the same flags for every system that writes."""

import json as json_format
import logging
import sys
from pathlib import Path

from depgen.errors import UserError
from depgen.evaluation.generated_text import GeneratedTexts
from depgen.evaluation.loading import load_run
from depgen.evaluation.text_documents import read_documents
from depgen.locations import check_output, write_atomically
from depgen.trees.lines import read_lines
from depgen.trees.text_form import FormName

log = logging.getLogger(__name__)


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
    system = load_run(run, device=device, form=form)
    log.info("Writing with %s", system.trained.checkpoint)
    read = read_documents if system.model.reads_sentences else read_prompts
    texts = system.generate(
        None if prompts is None else read(prompts), number=number, sentences=sentences, top_p=top_p,
        temperature=temperature, top_k=top_k, greedy=greedy, max_new_tokens=max_new_tokens, batch_size=batch_size,
        seed=seed, progress=sys.stderr.isatty(),
    )  # fmt: skip
    rows = _json(texts) if json else _lines(texts)
    content = "".join(f"{row}\n" for row in rows)
    if output is None:
        return content
    write_atomically(output, content)
    log.info("%d texts written to %s", len(rows), output)
    return None


def _json(texts: GeneratedTexts) -> list[str]:
    """A line a text; prompts and texts of documents are lists of sentences."""
    return [
        json_format.dumps(
            {
                "prompt": each.prompt if each.prompt_sentences is None else each.prompt_sentences,
                "text": each.text if each.sentences is None else each.sentences,
                "seed": each.seed,
            },
            ensure_ascii=False,
        )
        for each in texts
    ]


def _lines(texts: GeneratedTexts) -> list[str]:
    """A line a text; of documents a line a sentence that has words, with a blank line between documents."""
    documents = [each.sentences for each in texts if each.sentences is not None]
    if not documents:
        return [each.text for each in texts]
    if wordless := sum(not any(document) for document in documents):
        log.warning(
            "%d of %d documents have not a word and are no lines, so that those behind them do not stand where "
            "their prompts do: --json has a line for every one.",
            wordless, len(documents),
        )  # fmt: skip
    return "\n\n".join("\n".join(filter(None, document)) for document in documents).split("\n")


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
