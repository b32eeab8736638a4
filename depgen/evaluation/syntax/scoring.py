"""What minimal pairs and suites share: the scores of their sentences, and rows of means."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from jsonargparse.typing import PositiveInt

from depgen.data.tokenization import Tokens
from depgen.errors import UserError
from depgen.evaluation.encoded_text import encode_documents
from depgen.evaluation.measure import Measured
from depgen.evaluation.scores import score_words
from depgen.evaluation.text_documents import document_of

if TYPE_CHECKING:
    from depgen.evaluation.system import System

logger = logging.getLogger(__name__)

Protocol = Literal["plain", "paper"]
"""`paper`: that of the GiLT paper; `plain`: whole sentences, all pairs and all predictions."""
MOST_UNKNOWN = 20.0
"""The largest share of pairs or items with `<unk>`, per cent, at which a score still decides between systems."""
COUNTS = {"pairs", "items", "identical", "unread", "known_pairs", "known_items"}
"""Of several paradigms or suites these are summed, and all else is averaged."""


@dataclass(frozen=True)
class SyntaxOptions:
    """The options of both.

    Attributes:
        tokens: words are separated by `whitespace`, or by `rules` for English; by default rules for runs and the plain
            protocol.
        beam_size: (systems whose scores are bounds) structures of a sentence that are summed over; see `depgen score`.
        tokens_per_batch: scored at once, padding included; no score depends on it.
        protocol: `plain`: all pairs or predictions, with the end of the sentence; or `paper`, that of GiLT: every tenth
            pair of each paradigm, final punctuation cut off as a word and scored, the end of the sentence not; of
            suites the first prediction alone, a final stop after every sentence, and none outside the six circuits.
    """

    tokens: Tokens | None = None
    beam_size: PositiveInt | None = None
    tokens_per_batch: PositiveInt | None = None
    protocol: Protocol = "plain"


def score_sentences(
    system: "System", texts: Sequence[str], places: Sequence[str], options: SyntaxOptions
) -> tuple[pd.DataFrame, list[tuple[int, ...]], int | None]:
    """The words of sentences, each read by itself, as `score_words` gives them; their token ids, and the beam."""
    usual: Tokens = "rules" if options.protocol == "plain" and system.checkpoint != system.run else "whitespace"
    tokens = options.tokens or usual
    documents = [document_of(text, tokens=tokens) for text in texts]
    documents = [
        replace(document, places=(place,) * len(document.sentences))
        for document, place in zip(documents, places, strict=True)
    ]
    encoded, _ = encode_documents(system, documents, as_one=system.reads_documents())
    ids = [tuple(chain.from_iterable(each.encoding.ids.tolist() for each in read)) for read in encoded]
    for text, place, own in zip(texts, places, ids, strict=True):
        if not own:
            raise UserError(
                f"{place}: the system reads no word of {text!r} in the form `{system.reading.known_form}`: name "
                "another by --form, or leave the sentence out."
            )
    words = score_words(
        system, documents, beam_size=options.beam_size, tokens_per_batch=options.tokens_per_batch,
        progress=sys.stderr.isatty(),
    )  # fmt: skip
    return words, ids, words.attrs["beam_size"]


def of_groups(table: pd.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pd.DataFrame:
    """The sums of the counts and the means of the accuracies of each group."""
    return table.groupby(list(by), sort=False).agg({name: "sum" if name in COUNTS else "mean" for name in measures})


def combined(table: pd.DataFrame) -> dict[str, float]:
    """The same of a whole table."""
    return {str(name): table[name].sum() if name in COUNTS else table[name].mean() for name in table}


def measured(
    items: pd.DataFrame,
    rows: Sequence[Mapping[str, Any]],
    counted: str,
    *,
    options: SyntaxOptions,
    system: "System",
    beam_size: int | None,
) -> Measured:
    """Items and rows, these with the share of `<unk>`, whether it decides, and how the scores came about."""
    table = pd.DataFrame(rows)
    counts = table.columns.intersection(list(COUNTS))
    table[counts] = table[counts].astype(int)
    unknown = 100 * (table[counted] - table[f"known_{counted}"]) / table[counted]
    if unknown.iloc[-1] > MOST_UNKNOWN:
        logger.warning(
            "%.1f %% of the %s hold <unk>, more than %.0f %%: the accuracy decides nothing between systems. Take a "
            "run with a subword vocabulary.", unknown.iloc[-1], counted, MOST_UNKNOWN,
        )  # fmt: skip
    table = table.assign(
        unknown=unknown, decided=unknown <= MOST_UNKNOWN, protocol=options.protocol, likelihood=system.model.likelihood,
        beam_size=beam_size,
    )  # fmt: skip
    return Measured(items, table)
