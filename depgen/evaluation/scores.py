"""How likely a system finds texts: a frame with a row a word, and its sums by sentence, by document or over all.

What a system gives a word is of one of three kinds: `exact` log-probabilities by the chain rule; `pseudo`-log-
likelihoods, for which each word is hidden in turn and predicted from all others of its sentence; or a lower `bound` of
the exact one. Their perplexities have different names, since they do not compare.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import pandas as pd

from depgen.data.vocabulary import EOS_WORD
from depgen.evaluation.encoded_text import encode_documents
from depgen.evaluation.frames import By, Reads, Unit
from depgen.evaluation.text_documents import TextDocument, warn_of_raw_text
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import TokenFigures, beam_of, next_word_figures, score_documents
from depgen.language_models.base import Likelihood

logger = logging.getLogger(__name__)

PERPLEXITY: Mapping[Likelihood, str] = {
    "exact": "perplexity", "pseudo": "pseudo_perplexity", "bound": "perplexity_bound",
}  # fmt: skip
"""What a perplexity of each kind is called: those of different kinds do not compare."""
LEVELS: Mapping[By, tuple[str, ...]] = {
    "word": ("document", "sentence", "position"), "sentence": ("document", "sentence"), "document": ("document",),
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
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for each word of documents, and for each end (`<eos>`) that the system predicts.

    Columns: `document`, `sentence` and `position`, from 1; `word`; `tokens`, 0 for a word that the system does not
    read; `unknown`, whether `<unk>` replaces it or a part of it; `is_end`; `log_prob`, nats, summed over its tokens;
    `start` and `end`, its characters in a string (NA in files). With `next_words` also `entropy`, nats, of the
    distribution over the vocabulary that the word's first token was predicted from, and `rank`, the place of its token
    there (1: the likeliest; of several tokens the last place). What the scores are is said by `attrs`: `likelihood`
    and, of bounds, `beam_size`.

    The arguments are those of `depgen.evaluation.system.System.score`.

    Raises:
        UserError: the system gives texts no likelihood, lacks what is wanted, or can't read a text of this length.
    """
    model, vocabulary = trained.model, trained.vocabulary
    encoded, units = encode_documents(trained, documents, as_one=trained.reads_documents(reads))
    figures: Iterator[TokenFigures | None] = repeat(None)
    with beam_of(model, beam_size) as beam:
        scores = chain.from_iterable(
            score_documents(model, units, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch, progress=progress)
        )
        if next_words:
            figures = chain.from_iterable(next_word_figures(model, units, vocabulary=vocabulary, progress=progress))
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
                tokens.append(of_tokens if measured is None else of_tokens | measured._asdict())
                own += [(EOS_WORD, True, None if own[-1][2] is None else own[-1][2][1:] * 2)] * len(ends)
            words += [
                (number, place, position, word, is_end, *(span or (None, None)))
                for position, (word, is_end, span) in enumerate(own, start=1)
            ]
    names = ["document", "sentence", "position", "word", "is_end", "start", "end"]
    frame = pd.DataFrame(words, columns=names)
    frame = frame.astype({"document": int, "sentence": int, "position": int, "is_end": bool})  # of no word too
    frame = frame.join(_by_word(tokens, len(words), next_words=next_words))
    warn_of_raw_text(_last_words(frame, documents))
    if trained.checkpoint == trained.run and not all(document.by_spaces for document in documents):
        logger.warning(
            "%s has learnt from raw text, and is given words that rules or a treebank have cut, such as `do n't`: give "
            "it text whose words white space separates.", trained.run,
        )  # fmt: skip
    frame.attrs = {"likelihood": model.likelihood, "beam_size": beam}
    return frame


def _by_word(tokens: Sequence[Mapping[str, np.ndarray]], words: int, *, next_words: bool) -> pd.DataFrame:
    """The figures of each row of words, from those of its tokens."""
    names = ["row", "log_prob", "unknown", *(TokenFigures._fields if next_words else ())]
    table = pd.DataFrame({name: np.concatenate([part[name] for part in tokens] or [np.zeros(0)]) for name in names})
    rows = table.groupby("row")
    of_words = {
        "tokens": rows.size(), "unknown": rows["unknown"].any(), "log_prob": rows["log_prob"].sum(skipna=False),
        **({"entropy": rows["entropy"].first(), "rank": rows["rank"].max()} if next_words else {}),
    }  # fmt: skip
    found = pd.DataFrame(of_words).reindex(range(words))
    found["tokens"] = found["tokens"].fillna(0).astype(int)
    found["unknown"] = found["unknown"].fillna(False).astype(bool)
    return found.astype({"rank": "Int64"} if next_words else {})


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
    if by != "word":
        return table_of_sums(sums(words, LEVELS[by]), documents, by=by, unit=unit, kind=words.attrs)
    kind = {**words.attrs, "unit": unit}
    measured = [name for name in ("start", "end", "entropy", "rank") if name in words and words[name].notna().any()]
    table = words.assign(**kind, surprisal=-words["log_prob"])[[*_OF_WORDS, *kind, *measured, "surprisal"]]
    return beside_texts(in_unit(table, unit), documents, by)


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
    nats = [name for name in table if str(name).startswith(("log_prob", "surprisal", "entropy"))]
    return table.assign(**{name: table[name] / math.log(2) for name in nats}) if unit == "bits" else table
