"""How likely a system finds texts: a frame with a row a word, and its sums by sentence, by document or over all.

What a system gives a word is of one of three kinds: `exact` log-probabilities by the chain rule; `pseudo`-log-
likelihoods, for which each word is hidden in turn and predicted from all others of its sentence; or a lower `bound` of
the exact one. Their perplexities have different names, since they do not compare.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import pandas as pd

from depgen.data.vocabulary import EOS_WORD
from depgen.evaluation.encoded_text import TextEncoder
from depgen.evaluation.frames import By, Unit
from depgen.evaluation.next_words import TokenFigures, figures_of_next_words
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.unit_scores import score_documents
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
    encoder: TextEncoder,
    documents: Sequence[TextDocument],
    *,
    tokens_per_batch: int | None = None,
    batch_size: int | None = None,
    next_words: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for each word of documents, and for each end (`<eos>`) that the system predicts.

    Columns: `document`, `sentence` and `position`, from 1; `word`; `tokens`, 0 for a word that the system does not
    read; `unknown`, whether `<unk>` replaces it or a part of it; `is_end`; `log_prob`, nats, summed over its tokens;
    `start` and `end`, its characters in a string (NA in files). With `next_words` also `entropy`, nats, of the
    distribution over the vocabulary that the word's first token was predicted from, and `rank`, the place of its token
    there (1: the likeliest; of several tokens the last place).

    Args:
        encoder: how documents are given to the system.
        documents: of any texts.
        tokens_per_batch: see `depgen.evaluation.unit_scores.score_documents`.
        batch_size: the most sentences or documents that are scored at once.
        next_words: measure entropies and ranks too.
        progress: show a progress bar.

    Raises:
        UserError: a text that is longer than the system reads at once.
    """
    model, vocabulary = encoder.trained.model, encoder.trained.vocabulary
    read, units = encoder.encoded(documents)
    scores = chain.from_iterable(
        score_documents(
            model, units, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch, batch_size=batch_size,
            progress=progress,
        )
    )  # fmt: skip
    figures: Iterator[TokenFigures | None] = repeat(None)
    if next_words:
        figures = chain.from_iterable(figures_of_next_words(model, units, vocabulary=vocabulary, progress=progress))
    words, tokens = list[tuple[Any, ...]](), list[dict[str, Any]]()
    for number, sentences in enumerate(read, start=1):
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
    return frame.join(_by_word(tokens, len(words), next_words=next_words))


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


def last_words(words: pd.DataFrame, documents: Sequence[TextDocument]) -> list[tuple[str, bool]]:
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


@dataclass(frozen=True)
class TextColumns:
    """What is known of texts besides their scores.

    Attributes:
        documents: `identifier` and number of `sentences` of each document, by its number, from 1.
        fields: what a file says of each document besides its text, such as item and condition, as it says it.
        sentences: `sent_id` where the file has some, `place` and `text`, by document and sentence.
    """

    documents: pd.DataFrame
    fields: pd.DataFrame
    sentences: pd.DataFrame

    @classmethod
    def of(cls, documents: Sequence[TextDocument]) -> "TextColumns":
        """Those of documents."""
        numbers = pd.RangeIndex(1, len(documents) + 1, name="document")
        counts = [(each.identifier, len(each.sentences)) for each in documents]
        sentences = [
            (number, place, own, where, " ".join(sentence.words))
            for number, each in enumerate(documents, start=1)
            for place, (sentence, where, own) in enumerate(
                zip(each.sentences, each.places, each.sentence_ids or repeat(None), strict=False), start=1
            )
        ]
        names = ["document", "sentence", "sent_id", "place", "text"]
        of_sentences = pd.DataFrame(sentences, columns=names).set_index(["document", "sentence"])
        if not any(each.sentence_ids for each in documents):
            del of_sentences["sent_id"]
        return cls(
            pd.DataFrame(counts, numbers, ["identifier", "sentences"]),
            pd.DataFrame([each.fields for each in documents], numbers, dtype=object),
            of_sentences,
        )

    def beside(self, table: pd.DataFrame, by: By) -> pd.DataFrame:
        """A table of scores with these columns; a field that has the name of a column of the scores is left out.

        Args:
            table: its rows are named by the columns of `LEVELS`.
            by: what a row is.
        """
        if by == "all":
            counts = {"documents": len(self.documents), "sentences": len(self.sentences)}
            return pd.concat([pd.DataFrame([counts]), table], axis=1)
        if by == "document":
            table = table.join(self.documents, on="document")
        else:
            of_words = self.sentences.columns.intersection(["sent_id"])
            table = table.join(
                self.sentences[of_words] if by == "word" else self.sentences, on=["document", "sentence"]
            )
        if clash := [name for name in self.fields if name in table]:
            logger.warning(
                "The scores have columns of their own called %s: those of the texts are left out. Rename them if they "
                "are to be kept.",
                ", ".join(clash),
            )
        fields = self.fields.drop(columns=clash)
        table = table.join(fields, on="document")
        places = dict.fromkeys(("document", *fields, "identifier", "sentences", "sentence", "sent_id", "place"))
        return table[[*(name for name in places if name in table), *(name for name in table if name not in places)]]


def score_table(
    words: pd.DataFrame,
    texts: TextColumns,
    *,
    likelihood: Likelihood,
    by: By = "word",
    unit: Unit = "nats",
    beam_size: int | None = None,
) -> pd.DataFrame:
    """The scores of texts: a row a word, sentence or document, or one for all.

    Args:
        words: as `score_words` gives them.
        texts: what is known of the texts besides.
        likelihood: what the scores are.
        by: what a row is.
        unit: of log-probabilities, surprisals and entropies.
        beam_size: structures of a text that a bound sums over; None for other scores.
    """
    if by != "word":
        return sum_table(sums(words, LEVELS[by]), texts, likelihood=likelihood, by=by, unit=unit, beam_size=beam_size)
    kind = {"likelihood": likelihood, "beam_size": beam_size, "unit": unit}
    measured = [name for name in ("start", "end", "entropy", "rank") if name in words and words[name].notna().any()]
    table = words.assign(**kind, surprisal=-words["log_prob"])[[*_OF_WORDS, *kind, *measured, "surprisal"]]
    return texts.beside(in_unit(table, unit), by)


def sum_table(
    found: pd.DataFrame,
    texts: TextColumns,
    *,
    likelihood: Likelihood,
    by: By,
    unit: Unit = "nats",
    beam_size: int | None = None,
) -> pd.DataFrame:
    """The same of sums over sentences, over documents or over all; see `score_table`."""
    if by == "document":  # those without a word too
        found = found.reindex(texts.documents.index, fill_value=0)
    table = with_perplexities(found, likelihood).drop(columns=["ends", "unread", "known_log_prob"])
    table = table.assign(likelihood=likelihood, beam_size=beam_size, unit=unit).reset_index(drop=by == "all")
    return texts.beside(in_unit(table, unit), by)


def in_unit(table: pd.DataFrame, unit: Unit) -> pd.DataFrame:
    """A table in nats in another unit."""
    nats = [name for name in table if str(name).startswith(("log_prob", "surprisal", "entropy"))]
    return table.assign(**{name: table[name] / math.log(2) for name in nats}) if unit == "bits" else table
