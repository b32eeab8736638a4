"""A trained system that scores, generates, parses and encodes texts; the verbs call the same functions.

`depgen.load` finds a run, a checkpoint or a pretrained model that is on this machine. Nothing is fetched.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from depgen.data.tokenization import Tokens, detokenize
from depgen.decoding.settings import made_options
from depgen.errors import UserError, check_at_least, check_one_of
from depgen.evaluation.activations import (
    BEGIN,
    AttentionKind,
    DependencyAttention,
    Pooling,
    attention_weights,
    pooled,
    states_by,
)
from depgen.evaluation.generation import continuations, text_seed, texts_after
from depgen.evaluation.over_trees import Trees, bound_table, bounds_of_sentences
from depgen.evaluation.parsing import Parses, SystemParser, parse_documents
from depgen.evaluation.reading import Reading
from depgen.evaluation.scores import By, Unit, score_table, score_words
from depgen.evaluation.text_documents import (
    Text,
    TextDocument,
    TextWithFields,
    check_texts,
    documents_of,
    warn_of_raw_text,
)
from depgen.evaluation.trained import Reads, Trained, load_trained
from depgen.evaluation.unit_scores import encode_documents, in_batches
from depgen.language_models.base import Masking
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.masked import MaskedLanguageModel
from depgen.trees.text_form import FormName


class System(Trained):
    """A system in evaluation mode; `depgen.load` makes it.

    Texts are a string or a list of strings, and results are in their order. Each line of a string is one sentence,
    but runs that have learnt from sentences of raw text cut lines into sentences, unless a dictionary calls the text
    `sentence`. Words are cut at white space (`tokens="whitespace"`) or by rules for English (`tokens="rules"`), by
    default as the run's corpus was. No result depends on `batch_size` or `tokens_per_batch`. What a kind of system
    can't do is refused by `UserError`.
    """

    def score(
        self,
        texts: TextWithFields | Iterable[TextWithFields],
        *,
        given: str | Iterable[str] | None = None,
        by: By = "word",
        unit: Unit = "nats",
        reads: Reads | None = None,
        next_words: bool = False,
        bow_correction: bool = False,
        begin: str | None = None,
        stride: int | None = None,
        masking: Masking | None = None,
        frequency: str | Path | None = None,
        beam_size: int | None = None,
        tokens: Tokens | None = None,
        tokens_per_batch: int | None = None,
        progress: bool = False,
    ) -> pd.DataFrame:
        """Log-probability and surprisal of each word, with its characters in the string; see `score_words`.

        Rows of sentences and documents hold sums, and perplexities per word, per token and per known word.

        Args:
            texts: strings, or dictionaries with a string `text` and other fields, which become columns of the table.
            given: a context for each text, or one for all: the texts are scored after it, and it is not. A context and
                its text are read as one document.
            by: one row for each `word`; `own_word`, the text between two blanks, such as `don't`; `sentence`; or
                `document` (a string); or one row for `all`.
            unit: of log-probabilities, surprisals and entropies.
            reads: what is read at once: by default a `document` by systems that know of its sentences, else a
                `sentence` by itself.
            beam_size: (systems whose scores are bounds) structures of a text that are summed over; by default as in
                the run. A larger beam usually gives a tighter bound; in a beam search it need not.
            next_words: also the entropy of the distribution that each word's first token was predicted from, and that
                token's rank; by systems that predict each word from those before it alone, without a structure.
            bow_correction: give each word the blank after it and not the one before it; by the same systems.
            begin: (pretrained models) the token that begins a text, or `none`: its first word then has no score.
            stride: (pretrained models) tokens by which a window slides over a text that is longer than the context; by
                default half of the context.
            masking: (pretrained masked models) what is hidden when a token is predicted: by default it alone,
                `original`; or also the later tokens of its word, `within_word_l2r` (Kauf & Ivanova 2023).
            frequency: a run, or the YAML file of an experiment: how often each word is in its training text, as a
                column.
            tokens: see `System`.
            tokens_per_batch: scored at once, padding included; None: as many as are fast on the device. No score
                depends on it.
            progress: show a progress bar.

        Raises:
            UserError: the system gives texts no likelihood, lacks what is wanted, or can't read a text of this length.
        """
        check_one_of(by=(by, By), unit=(unit, Unit))
        check_at_least(1, tokens_per_batch=tokens_per_batch)
        options: dict[str, Any] = {
            "beam_size": beam_size, "next_words": next_words, "bow_correction": bow_correction, "begin": begin,
            "stride": stride, "masking": masking, "frequency": frequency, "tokens_per_batch": tokens_per_batch,
            "progress": progress,
        }  # fmt: skip
        documents = documents_of(texts, self.reading, tokens)
        if given is None:
            words = score_words(self, documents, reads=reads, **options)
            return score_table(words, documents, by=by, unit=unit)
        if reads == "sentence":
            raise UserError("A context and its text are read as one document: leave out reads='sentence'.")
        contexts = _contexts(given, len(documents), self.reading, tokens)
        words = score_words(self, list(map(_joined, contexts, documents)), reads="document", **options)
        before = words["document"].map(dict(enumerate((len(each.sentences) for each in contexts), start=1)))
        own = words.assign(sentence=words["sentence"] - before)[words["sentence"] > before]
        return score_table(own, documents, by=by, unit=unit)

    def score_over_trees(
        self,
        texts: TextWithFields | Iterable[TextWithFields],
        *,
        trees: Trees = "sampled",
        number_of_trees: int = 100,
        parser: str = "ewt_supar",
        seed: int = 0,
        by: By = "sentence",
        unit: Unit = "nats",
        tokens: Tokens | None = None,
        tokens_per_batch: int | None = None,
        progress: bool = False,
    ) -> pd.DataFrame:
        """A lower bound of each sentence's log-probability, by a system that scores a text with its tree (ITEXP).

        Args:
            texts: strings, or dictionaries as in `score`.
            trees: `gold`: the joint probability with the sentence's own tree; `sampled`: importance sampling of trees
                from a parser, a bound in expectation, with effective sample sizes.
            number_of_trees: samples of each sentence; bounds by the first 1, 10, 100, … are given too.
            parser: the name or folder of a SuPar dependency parser. Its scores of arcs make a distribution over
                projective trees with one root.
            seed: of the samples.
            by: one row for each `sentence` or `document` (a string), or one row for `all`.
            unit: of log-probabilities and surprisals.
            tokens: see `System`.
            tokens_per_batch: tokens of the levels of trees that are read at once, padding included; None: as many as
                are fast on the device. No score depends on it.
            progress: show a progress bar.

        Raises:
            UserError: the system gives trees no probability, there is no such parser, or a sentence is too long.
        """
        check_one_of(by=(by, By), unit=(unit, Unit), trees=(trees, Trees))
        check_at_least(1, tokens_per_batch=tokens_per_batch, number_of_trees=number_of_trees)
        if by in ("word", "own_word"):
            raise UserError("Bounds over trees are of sentences, not of their words: leave out by, or take sentence.")
        documents = documents_of(texts, self.reading, tokens)
        sentences = bounds_of_sentences(
            self, documents, trees=trees, number_of_trees=number_of_trees, parser=parser, seed=seed,
            tokens_per_batch=tokens_per_batch, progress=progress,
        )  # fmt: skip
        return bound_table(sentences, documents, by=by, unit=unit)

    def generate(
        self,
        prompts: Text | Iterable[Text] | None = None,
        *,
        number: int = 1,
        max_new_tokens: int = 100,
        batch_size: int = 64,
        seed: int = 0,
        detokenized: bool = True,
        progress: bool = False,
        **options: Any,  # noqa: ANN401 - of the system
    ) -> pd.DataFrame:
        """New text after each prompt, a row each: prompt, text, the text's own seed, and log-probability.

        The log-probability (nats) is of the text's tokens given the prompt, under the system's own distribution, with
        that of the end unless the text was cut; with a structure, the joint one. Systems that build a structure give it
        as `structure`, and those of graphs, trees and labelled constituents also as `sentence`, over the words of
        prompt and text (`depgen.trees.sentence.Sentence`). The new sentences of a document are lines of its text.
        Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.

        Args:
            prompts: strings, which become words as the run's corpus did; "" for a text from nothing. None: one such.
            number: texts of each prompt.
            max_new_tokens: where a text, or a sentence of a document, is cut.
            batch_size: texts generated at once.
            seed: of the sampling.
            detokenized: write texts as people do, where `rules` have cut the run's corpus into words.
            progress: show a progress bar.
            options: the system's own, the fields of `model.generation_options`: `top_p`, `temperature`, `top_k`,
                `greedy` and `unknown` (let texts hold `<unk>`) of all systems here; `beam_size` and
                `length_normalization` of those that read a text as one sequence
                (`depgen.decoding.settings.TokenOptions`); `sentences` of those that read documents sentence by sentence
                (`DocumentOptions`).

        Raises:
            UserError: the system does not generate texts, has no such option, numbers out of range, or prompts of such
                a length that the system can't read them.
        """
        self.check_has_end()
        check_at_least(1, number=number, max_new_tokens=max_new_tokens, batch_size=batch_size)
        model: Any = self.model
        name = type(model).__name__
        if model.generation_options is None:
            raise UserError(f"{self.checkpoint} holds a {name}, which does not write texts.")
        own = made_options(model.generation_options, options, system=name)
        documents = documents_of([""] if prompts is None else prompts, self.reading)
        places = [(prompt, copy) for prompt in range(len(documents)) for copy in range(number)]
        if not places:
            return pd.DataFrame(columns=["prompt", "text", "seed", "log_prob"])
        seeds = [text_seed(seed, prompt, copy) for prompt, copy in places]
        write = continuations if isinstance(model, DocumentLanguageModel) else texts_after
        rows = write(
            self, documents, own, number=number, seeds=seeds, max_new_tokens=max_new_tokens, batch_size=batch_size,
            progress=progress,
        )  # fmt: skip
        if detokenized and self.reading.tokens == "rules":
            for row in rows:
                row["text"] = "\n".join(map(detokenize, row["text"].split("\n")))
        return pd.DataFrame(
            [
                {"prompt": documents[prompt].text, "text": row.pop("text"), "seed": own_seed, **row}
                for (prompt, _), own_seed, row in zip(places, seeds, rows, strict=True)
            ]
        )

    def parse(
        self,
        texts: Text | Iterable[Text],
        *,
        attention_head: tuple[int, int] | None = None,
        beam_size: int | None = None,
        tokens: Tokens | None = None,
        tokens_per_batch: int = 8192,
        batch_size: int | None = None,
        others: Sequence["System"] = (),
        progress: bool = False,
    ) -> Parses:
        """The trees, graphs or brackets of sentences, by a system that finds such; see `depgen.evaluation.parsing`.

        Args:
            texts: strings.
            attention_head: (masked Transformer) layer and attention head that it parses by, both 0-based; by default
                those that it was trained with, if any.
            beam_size: (graphs, brackets) hypotheses about those of a sentence; by default 20, or as in the run.
            tokens: see `System`.
            tokens_per_batch: parsed at once, padding included; no tree depends on it, except those of StructFormer with
                the published `calibration: batch`.
            batch_size: the most sentences at once; None: as many as the tokens allow.
            others: (trees) systems of other seeds. The trees are then those of the consensus: the mean of the
                probabilities of heads of this system and the others.
            progress: show a progress bar.

        Raises:
            UserError: the system does not parse, lacks an option or an attention head, was trained on text of unknown
                form (name it by `depgen.load(..., form=)`), or has no consensus with the others.
        """
        check_at_least(1, tokens_per_batch=tokens_per_batch, batch_size=batch_size)
        parser = SystemParser(
            [self, *others], attention_head, beam_size=beam_size, tokens_per_batch=tokens_per_batch,
            batch_size=batch_size,
        )  # fmt: skip
        parses = parse_documents(parser, documents_of(texts, self.reading, tokens), progress=progress)
        by_spaces = [document.by_spaces for document in parses.documents for _ in document.sentences]
        last_words = zip(by_spaces, parses.sentences, parses.unknown, strict=True)
        warn_of_raw_text([(sentence.words[-1], marks[-1]) for raw, sentence, marks in last_words if raw])
        return parses

    def states(
        self,
        texts: Text | Iterable[Text],
        layer: int = -1,
        *,
        pooling: Pooling = "last",
        reads: Reads | None = None,
        tokens: Tokens | None = None,
        tokens_per_batch: int = 8192,
        progress: bool = False,
    ) -> pd.DataFrame:
        """The hidden state of each word: a column `state_0`, `state_1`, … a dimension, NaN for words that are not read.

        Rows have `document`, `sentence` and `position`, from 1; `word`; its number of `tokens`; of strings `start` and
        `end`. No state depends on the batches.

        In systems that predict from left to right, a state depends on the words up to its own; in masked systems on the
        whole sentence, in which nothing is masked. DMLM's are those of its backbone, before they are mixed.

        Args:
            texts: strings.
            layer: 0 for the embedding, 1 for the first layer, …; negative from the top. The last is what the output
                matrix is applied to, after a final norm; systems of documents have no other.
            pooling: of a word of several tokens, the state of the `last`, of the `first`, or the `mean` of all.
            reads: what is encoded at once, as in `score`.
            tokens: see `System`.
            tokens_per_batch: encoded at once, padding included.
            progress: show a progress bar.

        Raises:
            UserError: the system has no such states, or can't encode a text of this length.
        """
        self.check_has_end()
        check_one_of(pooling=(pooling, Pooling))
        check_at_least(1, tokens_per_batch=tokens_per_batch)
        documents = documents_of(texts, self.reading, tokens)
        encoded, units = encode_documents(self, documents, as_one=self.reads_documents(reads))
        states = in_batches(
            self.model, units, states_by(self, layer), tokens_per_batch=tokens_per_batch, doing="encoding",
            progress=progress,
        )  # fmt: skip
        words = pd.DataFrame(
            [
                (number, place, position, word, 0, *(span or (None, None)))
                for number, sentences in enumerate(encoded, start=1)
                for place, sentence in enumerate(sentences, start=1)
                for position, (word, span) in enumerate(
                    zip(sentence.sentence.words, sentence.spans, strict=True), start=1
                )
            ],
            columns=["document", "sentence", "position", "word", "tokens", "start", "end"],
        )
        if words["start"].isna().all():
            words = words.drop(columns=["start", "end"])
        read = list(chain.from_iterable(states))
        if not read:
            return words
        every = list(chain.from_iterable(encoded))
        counts = np.concatenate([np.bincount(each.encoding.word_of_piece, minlength=sum(each.kept)) for each in every])
        kept = np.array([kept for each in every for kept in each.kept], dtype=bool)
        words.loc[kept, "tokens"] = counts
        of_words = pooled(np.concatenate(read), counts, pooling)
        table = np.full((len(words), of_words.shape[1]), np.nan, dtype=of_words.dtype)
        table[kept] = of_words
        return words.join(pd.DataFrame(table).add_prefix("state_"))

    def attention(
        self,
        sentence: str,
        *,
        kind: AttentionKind | None = None,
        layer: int | None = None,
        attention_head: int | None = None,
        tokens: Tokens | None = None,
    ) -> pd.DataFrame:
        """The attention over a sentence: a row for each pair of a word and what it may weigh.

        In systems that predict from left to right, `word` is the one that is predicted, and it weighs the beginning
        (`BOS`, whose `context_position` is 0) and the words before; in those that search for a structure, with the
        likeliest one. In masked systems a word weighs all. Positions count from 1. Weights of a word sum to 1, unless
        the system's own don't (StructFormer, UDGN). Words of several tokens are named by their pieces; `unknown` says
        which the vocabulary lacks. The frame's `attrs` name the `kind`, the `layer` (from 0; None where it is no
        layer's) and the `attention_head` (None: the mean over all).

        Args:
            sentence: a string of one line.
            kind: `dependency` (what weighs DMLM's mixture) or `self` (a layer's own). By default dependency attention
                of systems that have it, where no layer or attention head is named.
            layer: of self-attention, from 0; negative from the top. By default the last.
            attention_head: of self-attention, from 0; by default the mean over all.
            tokens: see `System`.

        Raises:
            UserError: the sentence has no words or several lines, or the system has no such attention.
        """
        self.check_has_end()
        check_one_of(kind=(kind, AttentionKind))
        (document,) = documents_of([{"sentence": sentence}], self.reading, tokens)
        if len(document.sentences) != 1:
            raise UserError(f"Expected one sentence in one line, found {len(document.sentences)} in {sentence[:40]!r}.")
        words, model = self.reading.words(document.sentences[0]), self.model
        ids: list[int] = self.reading.encode(words, self.vocabulary).ids.tolist()
        if not ids:
            raise UserError(f"Expected words that the system reads, found no token in {sentence!r}.")
        if kind is None:
            chosen = layer is not None or attention_head is not None
            kind = "dependency" if isinstance(model, DependencyAttention) and not chosen else "self"
        weights, found = attention_weights(
            model, ids, self.vocabulary, kind=kind, layer=layer, attention_head=attention_head
        )
        spelt = words if len(ids) == len(words) else [self.vocabulary.decode([index]) for index in ids]
        names, unknown = np.array(spelt, dtype=object), np.array(ids) == self.vocabulary.unk
        if isinstance(model, MaskedLanguageModel):
            row, column = np.indices(weights.shape).reshape(2, -1)
            context, context_position = names[column], column + 1
        else:
            row, column = np.tril_indices(len(ids))
            context, context_position = np.array([BEGIN, *names[:-1]], dtype=object)[column], column
        frame = pd.DataFrame(
            {
                "position": row + 1, "word": names[row], "unknown": unknown[row], "context_position": context_position,
                "context": context, "weight": weights[row, column].astype(np.float64),
            }
        )  # fmt: skip
        frame.attrs.update(kind=kind, layer=found, attention_head=attention_head)
        return frame


def _contexts(given: str | Iterable[str], texts: int, reading: Reading, tokens: Tokens | None) -> list[TextDocument]:
    if not isinstance(given, str):
        check_texts(given, "given")
    contexts = [given] * texts if isinstance(given, str) else list(given)
    if len(contexts) != texts:
        raise UserError(f"given: expected a context for each of {texts} texts, or one string, found {len(contexts)}.")
    return documents_of(contexts, reading, tokens)


def _joined(context: TextDocument, text: TextDocument) -> TextDocument:
    spans = None if context.spans is None or text.spans is None else context.spans + text.spans
    return replace(
        text, sentences=context.sentences + text.sentences, places=context.places + text.places, spans=spans,
        string=None, sentence_ids=(),
    )  # fmt: skip


def load(
    name: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: torch.dtype | str | None = None,
    form: FormName | None = None,
    first_word_space: bool | None = None,
) -> System:
    """The system of a run or checkpoint, or a pretrained causal language model, in evaluation mode.

    Where a name is looked up says `depgen.evaluation.trained`. One that is found in several places is refused.

    Args:
        name: a run folder (its best checkpoint), an experiment (its newest run), a checkpoint file, or a folder or hub
            name of a pretrained model; by default the newest run.
        device: cpu, cuda, …; by default a GPU where there is one.
        dtype: of the weights, such as `torch.bfloat16` or its name; by default as in the checkpoint.
        form: what words are brought into before the system sees them; by default the form of the run's corpus.
        first_word_space: whether the first word of a text is encoded with a space before it, by tokenizers like
            GPT-2's. By default runs have the space, as in their training, and pretrained models have none.

    Raises:
        UserError: no such system, or several of that name; no such device or dtype.
    """
    check_one_of(form=(form, FormName))
    trained = load_trained(name, device=device, form=form)
    reading = trained.reading
    if first_word_space is not None:
        reading = replace(reading, first_word_space=first_word_space)
    if dtype is not None:
        weights = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype, None)
        if not isinstance(weights, torch.dtype) or not weights.is_floating_point:
            raise UserError(f"dtype: expected float32, float64, bfloat16 or float16, found {dtype}.")
        trained.model.to(weights)
    return System(trained.model, trained.vocabulary, trained.run, trained.checkpoint, reading)
