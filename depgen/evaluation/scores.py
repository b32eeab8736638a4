"""How likely a system finds texts: a frame with a row a word, and its sums by sentence, by document or over all.

What a system gives a word is of one of three kinds: `exact` log-probabilities by the chain rule; `pseudo`-log-
likelihoods, for which each word is hidden in turn and predicted from all others of its sentence; or a lower `bound` of
the exact one. Their perplexities have different names, since they do not compare.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from depgen.data.experiment import data_of
from depgen.data.tokenization import words_of
from depgen.data.vocabulary import EOS_WORD, word_counts
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.text_documents import TextDocument, warn_of_raw_text
from depgen.evaluation.trained import Reads, Trained, located
from depgen.evaluation.unit_scores import (
    TokenFigures,
    beam_of,
    encode_documents,
    next_word_figures,
    read_by,
    score_documents,
)
from depgen.language_models.base import Likelihood, Masking
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.masked import PretrainedMaskedLM
from depgen.training.runs import named_checkpoint
from depgen.trees.sentence import Sentence

Unit = Literal["nats", "bits"]

By = Literal["word", "own_word", "sentence", "document", "all"]
"""The unit that each row of scores describes. An own word is the text between two blanks, such as `don't`."""

logger = logging.getLogger(__name__)

PERPLEXITY: Mapping[Likelihood, str] = {
    "exact": "perplexity", "pseudo": "pseudo_perplexity", "bound": "perplexity_bound",
}  # fmt: skip
"""What a perplexity of each kind is called: those of different kinds do not compare."""
LEVELS: Mapping[By, tuple[str, ...]] = {
    "word": ("document", "sentence", "position"), "own_word": ("document", "sentence", "position"),
    "sentence": ("document", "sentence"), "document": ("document",),
    "all": (),
}  # fmt: skip
"""The columns that tell the rows of a table apart."""
_OF_WORDS = ("document", "sentence", "position", "word", "tokens", "unknown", "is_end", "log_prob")


def score_words(
    trained: Trained,
    documents: Sequence[TextDocument],
    *,
    reads: Reads | None = None,
    beam_size: int | None = None,
    next_words: bool = False,
    bow_correction: bool = False,
    begin: str | None = None,
    stride: int | None = None,
    masking: Masking | None = None,
    frequency: str | Path | None = None,
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for each word of documents, and for each end (`<eos>`) that the system predicts.

    Columns: `document`, `sentence` and `position`, from 1; `word`; `tokens`, 0 for a word that the system does not
    read; `unknown`, whether `<unk>` replaces it or a part of it; `is_end`; `log_prob`, nats, summed over its tokens;
    `start` and `end`, its characters in a string (NA in files). With `next_words` also `first_token_entropy`, nats, of
    the distribution over the vocabulary that the word's first token was predicted from, `first_token_rank`, the place
    of that token there (1: the likeliest), and `likeliest`, whether each of its tokens was. Of pretrained models also
    `windows`, how many windows begin with the word's tokens, so that its sum is the number of windows of a text.

    What the scores are is said by `attrs`: `likelihood`; of bounds, `beam_size`; `begin`, the token that begins a text;
    and, where they have a part, `bow_correction` and `masking`.

    With `bow_correction` a word's probability has the blank after it and not the one before it (Pimentel & Meister
    2024; Oh & Schuler 2024): it is multiplied by the probability that after its tokens another word begins or the text
    ends, and divided by the same probability before them. Before a text's first word nothing else can begin. The sum
    over a text and its end is that of the uncorrected scores. Nothing changes in vocabularies of words.

    A pretrained model that begins by `none` gives a text's first word no score.

    With `frequency` also a column of that name: how often the word is in the training text of a run or an experiment,
    as that text spells it; NA of words which that text leaves out, such as punctuation.

    The arguments are those of `depgen.evaluation.system.System.score`.
    """
    model = trained.model
    figures: Iterator[TokenFigures | None] = repeat(None)
    begun: Iterator[np.ndarray | None] = repeat(None)
    with beam_of(model, beam_size) as beam, read_by(trained, begin, stride, masking) as vocabulary:
        windows = getattr(model, "windows", None)
        as_one = trained.reads_documents(reads)
        encoded, units = encode_documents(trained, documents, as_one=as_one, sliding=windows is not None)
        scores = chain.from_iterable(
            score_documents(model, units, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch, progress=progress)
        )
        if bow_correction:
            trained.check_has_end()
        if next_words or bow_correction:
            figures = chain.from_iterable(
                next_word_figures(model, units, vocabulary=vocabulary, boundaries=bow_correction, progress=progress)
            )
        if windows is not None:
            begun = chain.from_iterable(map(windows.begun, units))
    alone = isinstance(model, DocumentLanguageModel)  # each sentence begins anew
    firsts = chain.from_iterable([True, *repeat(alone, len(unit) - 1)] for unit in units)
    words, tokens = list[tuple[Any, ...]](), list[dict[str, Any]]()
    for number, sentences in enumerate(encoded, start=1):
        for place, sentence in enumerate(sentences, start=1):
            own = list(zip(sentence.sentence.words, repeat(False), sentence.spans, strict=False))
            if len(ids := sentence.encoding.ids):
                log_probs, measured = next(scores), next(figures)
                ends = np.arange(len(log_probs) - len(ids))
                owner = np.append(np.flatnonzero(sentence.kept)[sentence.encoding.word_of_piece], len(own) + ends)
                unknown = np.append(sentence.unknown, ends < 0)
                of_tokens = {"row": len(words) + owner, "log_prob": log_probs.astype(np.float64), "unknown": unknown}
                of_tokens["first"] = np.arange(len(owner)) == (0 if next(firsts) else -1)
                of_tokens |= {} if (counts := next(begun)) is None else {"windows": counts[: len(owner)]}
                tokens.append(of_tokens if measured is None else of_tokens | measured._asdict())
                own += [(EOS_WORD, True, None if own[-1][2] is None else own[-1][2][1:] * 2)] * len(ends)
            words += [
                (number, place, position, word, is_end, *(span or (None, None)))
                for position, (word, is_end, span) in enumerate(own, start=1)
            ]
    names = ["document", "sentence", "position", "word", "is_end", "start", "end"]
    frame = pd.DataFrame(words, columns=names)
    frame = frame.astype({"document": int, "sentence": int, "position": int, "is_end": bool})  # of no word too
    unscored = windows is not None and windows.first > 0
    frame = frame.join(
        _by_word(tokens, len(words), next_words=next_words, bow_correction=bow_correction, unscored=unscored)
    )
    if frequency is not None:
        frame["frequency"] = pd.Series(_frequencies(frequency, documents), frame.index[~frame["is_end"]], "Int64")
    warn_of_raw_text(_last_words(frame, documents))
    if trained.checkpoint == trained.run and not all(document.by_spaces for document in documents):
        logger.warning(
            "%s has learnt from raw text, and is given words that rules or a treebank have cut, such as `do n't`: give "
            "it text whose words white space separates.", trained.run,
        )  # fmt: skip
    begin = None if model.likelihood == "pseudo" else "none" if unscored else vocabulary.types[vocabulary.start]
    frame.attrs = {"likelihood": model.likelihood, "beam_size": beam, "begin": begin}
    frame.attrs |= {"bow_correction": True} if bow_correction else {}
    frame.attrs |= {"masking": model.masking} if isinstance(model, PretrainedMaskedLM) else {}
    return frame


@cache
def _training_text(config: Path) -> tuple[Counter[str], Reading]:
    """How often each word is in the training text of an experiment's or a run's YAML file, and how that is spelt."""
    data = data_of(config)
    return word_counts(islice(data.corpus.documents("train"), data.max_documents)), Reading(**data.reading)


def _frequencies(name: str | Path, documents: Sequence[TextDocument]) -> list[int | None]:
    """How often each word of documents is in a training text; None of words that this leaves out.

    A word between blanks is cut as the training text was, and has the count of its rarest part.
    """
    kind, place = located(name)
    if kind == "pretrained":
        raise UserError(f"frequency: expected a run or the YAML file of an experiment, found the pretrained {place}.")
    if place.suffix == ".ckpt":
        place, _ = named_checkpoint(place)
    counts, reading = _training_text(place if place.is_file() else place / "config.yaml")
    frequencies = list[int | None]()
    for document in documents:
        cuts = document.by_spaces and reading.tokens == "rules"
        for sentence in document.sentences:
            parts = [words_of(word, "rules") if cuts else (word,) for word in sentence.words]
            cut = Sentence(tuple(chain.from_iterable(parts))) if cuts else sentence
            kept = reading.kept(cut)
            words = iter(reading.spelt(cut, kept))
            numbers = iter([counts[next(words)] if keep else None for keep in kept])
            for own in parts:
                known = [number for number in islice(numbers, len(own)) if number is not None]
                frequencies.append(min(known, default=None))
    return frequencies


def _by_word(
    tokens: Sequence[Mapping[str, np.ndarray]], words: int, *, next_words: bool, bow_correction: bool, unscored: bool
) -> pd.DataFrame:
    """The figures of each row of words, from those of its tokens; `unscored` first words of a text have none."""
    names = [*tokens[0]] if tokens else ["row", "log_prob", "unknown", "first", *TokenFigures._fields]
    table = pd.DataFrame({name: np.concatenate([part[name] for part in tokens] or [np.zeros(0)]) for name in names})
    if bow_correction:
        begins = table["row"].ne(table["row"].shift()) & ~table["first"].astype(bool)
        before = table["boundary"].where(begins, 0.0)
        table["log_prob"] += before.shift(-1, fill_value=0.0) - before
    windows = table.groupby("row")["windows"].sum() if "windows" in table else None
    if unscored:
        table = table[~table["row"].isin(table.loc[table["first"].astype(bool), "row"])]
    rows = table.groupby("row")
    of_words = {"tokens": rows.size(), "unknown": rows["unknown"].any(), "log_prob": rows["log_prob"].sum(skipna=False)}
    if next_words:
        of_words |= {"first_token_entropy": rows["entropy"].first(), "first_token_rank": rows["rank"].first()}
        of_words["likeliest"] = rows["rank"].max() == 1
    found = pd.DataFrame(of_words).reindex(range(words))
    if windows is not None:
        found["windows"] = windows.reindex(range(words), fill_value=0).astype(int)
    found["tokens"] = found["tokens"].fillna(0).astype(int)
    found["unknown"] = found["unknown"].fillna(False).astype(bool)
    return found.astype({"first_token_rank": "Int64", "likeliest": "boolean"} if next_words else {})


def _last_words(words: pd.DataFrame, documents: Sequence[TextDocument]) -> list[tuple[str, bool]]:
    """The last word of each sentence of the documents whose words white space separates, and whether it is unknown."""
    raw = [number for number, document in enumerate(documents, start=1) if document.by_spaces]
    own = words[~words["is_end"] & words["document"].isin(raw)]
    last = own.groupby(["document", "sentence"])[["word", "unknown"]].last()
    return list(zip(last["word"], last["unknown"], strict=True))


def sums(words: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The sums over the words of each sentence, document or whatever else tells them apart; ends are counted apart.

    Args:
        words: rows of `score_words`, with any columns besides.
        by: names of columns, such as `["document", "sentence"]`, which are the index of the sums; none: all words.
    """
    read = words["tokens"] > 0
    parts = pd.DataFrame(
        {
            "words": read & ~words["is_end"],
            "ends": words["is_end"],
            "tokens": words["tokens"],
            "unknown": words["unknown"],
            "unread": ~read,
            "log_prob": words["log_prob"].where(read, 0.0),
            "known_log_prob": words["log_prob"].where(read & ~words["unknown"], 0.0),
            **({"windows": words["windows"]} if "windows" in words else {}),
        }
    )
    if by:
        return parts.groupby([words[name] for name in by], sort=False).sum(skipna=False)
    return parts.groupby(np.zeros(len(parts), dtype=int)).sum(skipna=False).reindex([0], fill_value=0)


def with_perplexities(sums: pd.DataFrame, likelihood: Likelihood) -> pd.DataFrame:
    """Sums with their surprisal and their perplexities: per word, per token and per known word, each end counted as a
    word; NaN where nothing counts.
    """
    name, every = PERPLEXITY[likelihood], sums["words"] + sums["ends"]
    nothing = sums["tokens"] == 0
    with np.errstate(over="ignore"):
        return sums.assign(
            log_prob=sums["log_prob"].mask(nothing),
            surprisal=-sums["log_prob"].mask(nothing),
            **{
                name: np.exp(-sums["log_prob"] / every),
                f"token_{name}": np.exp(-sums["log_prob"] / sums["tokens"]),
                f"known_word_{name}": np.exp(-sums["known_log_prob"] / (every - sums["unknown"])),
            },
        )


def score_table(
    words: pd.DataFrame, documents: Sequence[TextDocument], *, by: By = "word", unit: Unit = "nats"
) -> pd.DataFrame:
    """The scores of texts: a row a word, sentence or document, or one for all.

    Args:
        words: as `score_words` gives them.
        documents: the texts.
        by: what a row is.
        unit: of log-probabilities, surprisals and entropies.
    """
    if by == "own_word":
        words = own_words(words, documents)
    elif by != "word":
        return table_of_sums(sums(words, LEVELS[by]), documents, by=by, unit=unit, kind=words.attrs)
    kind = {**words.attrs, "unit": unit}
    optional = ("start", "end", "windows", "first_token_entropy", "first_token_rank", "likeliest", "frequency")
    measured = [name for name in optional if name in words and words[name].notna().any()]
    table = words.assign(**kind, surprisal=-words["log_prob"])[[*_OF_WORDS, *kind, *measured, "surprisal"]]
    return beside_texts(in_unit(table, unit), documents, by)


def own_words(words: pd.DataFrame, documents: Sequence[TextDocument]) -> pd.DataFrame:
    """The rows of words with those joined that no blank separates, such as the parts of `don't`."""
    if not all(document.by_spaces or document.spans for document in documents):
        raise UserError("own_word: expected texts whose words blanks separate, found a treebank: take rows of words.")
    joined = words["start"].notna() & words["start"].eq(words["end"].shift()) & ~words["is_end"]
    first = words["document"].ne(words["document"].shift()) | words["sentence"].ne(words["sentence"].shift())
    how = dict.fromkeys(words.columns, "first") | {
        "word": "sum", "tokens": "sum", "unknown": "any", "end": "last", "windows": "sum", "likeliest": "all",
        "frequency": "min",
    }  # fmt: skip
    rows = words.groupby((first | ~joined).cumsum())
    table = rows.agg({name: how[name] for name in words.columns}).reset_index(drop=True)
    table["log_prob"] = rows["log_prob"].sum(min_count=1).to_numpy()
    table["position"] = table.groupby(["document", "sentence"]).cumcount() + 1
    table.attrs = words.attrs
    in_files = all(document.string is None for document in documents)
    return table.drop(columns=["start", "end"]) if in_files else table


def table_of_sums(
    sums: pd.DataFrame, documents: Sequence[TextDocument], *, by: By, unit: Unit, kind: Mapping[str, Any]
) -> pd.DataFrame:
    """The same of the sums over sentences, documents or all; `kind` is what the words' `attrs` say of the scores."""
    if by == "document":  # those without a word too
        sums = sums.reindex(numbers_of(documents), fill_value=0)
    table = with_perplexities(sums, kind["likelihood"]).drop(columns=["ends", "unread", "known_log_prob"])
    table = table.assign(**kind, unit=unit).reset_index(drop=by == "all")
    return beside_texts(in_unit(table, unit), documents, by)


def numbers_of(documents: Sequence[TextDocument]) -> pd.Index:
    """The documents by their numbers, from 1."""
    return pd.RangeIndex(1, len(documents) + 1, name="document")


def beside_texts(table: pd.DataFrame, documents: Sequence[TextDocument], by: By) -> pd.DataFrame:
    """A table of scores with what is known of the texts besides: names, places, sentences, and the fields of a file.

    A field that has the name of a column of the scores is left out.

    Args:
        table: its rows are named by the columns of `LEVELS`.
        documents: the texts.
        by: what a row is.
    """
    if by == "all":
        counts = {"documents": len(documents), "sentences": sum(len(each.sentences) for each in documents)}
        return pd.concat([pd.DataFrame([counts]), table], axis=1)
    if by == "document":
        names = [(each.identifier, len(each.sentences)) for each in documents]
        table = table.join(pd.DataFrame(names, numbers_of(documents), ["identifier", "sentences"]), on="document")
    else:
        sentences = [
            (number, place, own, where, " ".join(sentence.words))
            for number, each in enumerate(documents, start=1)
            for place, (sentence, where, own) in enumerate(
                zip(each.sentences, each.places, each.sentence_ids or repeat(None), strict=False), start=1
            )
        ]
        shown = ["sent_id"] * any(each.sentence_ids for each in documents) + ["place", "text"] * (by == "sentence")
        of_sentences = pd.DataFrame(sentences, columns=["document", "sentence", "sent_id", "place", "text"])
        table = table.join(of_sentences.set_index(["document", "sentence"])[shown], on=["document", "sentence"])
    fields = pd.DataFrame([each.fields for each in documents], numbers_of(documents), dtype=object)
    if clash := [name for name in fields if name in table]:
        logger.warning(
            "The scores have columns of their own called %s: those of the texts are left out. Rename them if they are "
            "to be kept.",
            ", ".join(clash),
        )
    fields = fields.drop(columns=clash)
    table = table.join(fields, on="document")
    first = dict.fromkeys(("document", *fields, "identifier", "sentences", "sentence", "sent_id", "place"))
    return table[[*(name for name in first if name in table), *(name for name in table if name not in first)]]


def in_unit(table: pd.DataFrame, unit: Unit) -> pd.DataFrame:
    """A table in nats in another unit."""
    nats = [name for name in table if str(name).startswith(("log_prob", "surprisal", "first_token_entropy"))]
    return table.assign(**{name: table[name] / math.log(2) for name in nats}) if unit == "bits" else table
