"""Minimal pairs (BLiMP): how often a system finds the grammatical sentence of a pair likelier."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from jsonargparse.typing import PositiveInt

from depgen.data.generated import controlled_contexts, controlled_pairs
from depgen.data.tokenization import Tokens
from depgen.errors import UserError
from depgen.evaluation.measure import Measured
from depgen.evaluation.scores import score_words
from depgen.evaluation.text_documents import document_of, rows_of
from depgen.evaluation.unit_scores import encode_documents
from depgen.locations import find_data
from depgen.trees.text_files import FileFormat, unpacked

if TYPE_CHECKING:
    from depgen.evaluation.system import System


# -- what suites share: scores of sentences, and rows of means --------------------------------------------------------

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


# -- minimal pairs ----------------------------------------------------------------------------------------------------

NAMES = {
    "good": ("sentence_good", "good"),
    "bad": ("sentence_bad", "bad"),
    "paradigm": ("UID", "paradigm"),
    "phenomenon": ("linguistics_term", "phenomenon"),
    "id": ("pairID", "id"),
}
"""What the fields or columns of a file may be called: in BLiMP, and in other files."""
CONTEXTS = ("context_good", "context_bad")
GENERATED = {"generated": controlled_pairs, "generated_contexts": controlled_contexts}
"""The pairs that are drawn, and in no file."""
_FORMATS: Mapping[str, FileFormat] = {".jsonl": "jsonl", ".tsv": "tsv", ".csv": "csv"}
"""By the ending of a file of pairs; others in a folder hold none."""
_EVERY = 10


@dataclass(frozen=True)
class PairOptions(SyntaxOptions):
    """The options of `minimal-pairs`, beside those of `SyntaxOptions`.

    Attributes:
        pairs: JSON lines or a table (`.tsv`, `.csv`) with `sentence_good` and `sentence_bad`, or a folder of such
            files; by default BLiMP in `$DEPGEN_DATA/blimp`. `UID` or `paradigm`, `linguistics_term` or `phenomenon`,
            and `pairID` or `id` may be there too; also `context_good` and `context_bad`, sentences after which those
            of the pair are scored. `.gz` is unpacked. `generated` and `generated_contexts` are the pairs of the small
            generated language.
    """

    pairs: Path | None = None


def minimal_pairs(system: "System", options: PairOptions = PairOptions()) -> Measured:
    """How often a system finds the grammatical sentence of a pair likelier, per cent.

    An item is a pair. A row for each paradigm, each phenomenon (the mean of its paradigms) and all (the mean of all
    paradigms). Ties are wrong; of pairs with contexts they count by half, so that a system without context has 50 %.
    `accuracy` compares summed log-probabilities, `accuracy_by_token` those divided by the number of tokens. `chance` is
    the accuracy of random scores, with which identical pairs tie; a row with more than 20 % of pairs with `<unk>` is
    not `decided`.
    """
    protocol = options.protocol
    pairs = pairs_of_protocol(read_pairs(options.pairs), protocol)
    has_contexts = {*CONTEXTS} <= {*pairs.columns}
    sides = [
        pairs[context] + "\n" + pairs[side] if has_contexts else pairs[side]
        for context, side in zip(CONTEXTS, ("good", "bad"), strict=True)
    ]
    places = pairs.index.repeat(2).tolist()
    words, ids, beam = score_sentences(system, pd.concat(sides, axis=1).to_numpy().ravel().tolist(), places, options)
    if has_contexts:
        words = words[words["sentence"] == 2]
    if protocol == "paper":
        words = words[~words["is_end"]]
    by_sentence = words.groupby("document").agg({"log_prob": "sum", "tokens": "sum", "unknown": "any"})
    good, bad = (by_sentence[side::2].reset_index(drop=True) for side in (0, 1))
    unknown = good["unknown"] | bad["unknown"]
    right, tied = good["log_prob"] > bad["log_prob"], good["log_prob"] == bad["log_prob"]
    pairs = pairs.reset_index(drop=True)
    items = pairs[["phenomenon", "paradigm", "id", "good", "bad"]].assign(
        log_prob_good=good["log_prob"], log_prob_bad=bad["log_prob"], tokens_good=good["tokens"],
        tokens_bad=bad["tokens"], right=right,
        right_by_token=good["log_prob"] / good["tokens"] > bad["log_prob"] / bad["tokens"], unknown=unknown,
        identical=[one == other for one, other in zip(ids[::2], ids[1::2], strict=True)],
    )  # fmt: skip
    items = items.join(pairs[pairs.columns.difference(items.columns, sort=False)])
    counted = items.assign(
        pairs=1, accuracy=100.0 * right + 50.0 * (has_contexts & tied), known_pairs=~unknown,
        accuracy_by_token=100.0 * items["right_by_token"], chance=50.0 * ~items["identical"],
        known_accuracy=(100.0 * right).mask(unknown),
    )  # fmt: skip
    measures = ["pairs", "accuracy", "accuracy_by_token", "chance", "identical", "known_pairs", "known_accuracy"]
    paradigms = of_groups(counted, ["phenomenon", "paradigm"], measures).sort_index()
    rows = []
    for phenomenon, own in paradigms.groupby("phenomenon"):
        rows += [{"level": "paradigm", "name": name, **each} for (_, name), each in own.to_dict("index").items()]
        rows.append({"level": "phenomenon", "name": phenomenon, **combined(own)})
    rows.append({"level": "overall", "name": "all", **combined(paradigms)})
    return measured(items, rows, "pairs", options=options, system=system, beam_size=beam)


def read_pairs(path: Path | None = None) -> pd.DataFrame:
    """The pairs of a file, or of all files in a folder; by default of BLiMP under `$DEPGEN_DATA/blimp`.

    Columns `good`, `bad`, `paradigm` (by default the `condition`, or else the name of the file), `phenomenon` (by
    default the paradigm), `id` (by default the line) and what else the files say of a pair; the index is file and line.
    `.gz` is unpacked.
    """
    if path is not None and str(path) in GENERATED:
        drawn = enumerate(GENERATED[str(path)](), start=1)
        return pd.DataFrame({f"{path}:{line}": _pair(row, path, line) for line, row in drawn}.values())
    if path is None:
        how = "The 67 files of github.com/alexwarstadt/blimp belong there; or name a file or folder of pairs."
        path = find_data("blimp", how_to_get=how)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    formats = {file: _FORMATS.get(unpacked(file).suffix.lower()) for file in files}
    rows = {
        f"{file}:{line}": _pair(row, file, line)
        for file, kind in formats.items()
        if kind is not None
        for line, row in rows_of(file, kind)
    }
    if not rows:
        raise UserError(
            f"{path}: expected pairs as JSON lines (.jsonl), or as columns separated by tabs (.tsv) or commas (.csv), "
            "found none: rename the file by what it holds."
        )
    pairs = pd.DataFrame(rows.values(), index=list(rows), dtype=object)
    for place, pair in pairs[pairs.duplicated(["paradigm", "id"])].iterrows():
        raise UserError(
            f"{place}: expected an id that no other pair of the paradigm {pair['paradigm']} has, found {pair['id']} "
            "again: give each pair another id, or none at all."
        )
    return pairs


def _pair(row: Mapping[str, Any], file: Path, line: int) -> dict[str, Any]:
    pair = {name: value for name, value in row.items() if not any(name in names for names in NAMES.values())}
    for column, names in NAMES.items():
        name = next((each for each in names if each in row), None)
        if name is None and column in ("good", "bad"):
            raise UserError(f"{file}:{line}: expected {' or '.join(names)}, found {', '.join(row)}: name it so.")
        value = "" if name is None else row[name]
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise UserError(f"{file}:{line}: expected text as {name}, found {value!r:.40}.")
        pair[column] = " ".join(str(value).split()) if column in ("good", "bad") else str(value)
    pair["paradigm"] = pair["paradigm"] or str(pair.get("condition") or unpacked(file).stem)
    pair["phenomenon"] = pair["phenomenon"] or pair["paradigm"]
    pair["id"] = pair["id"] or str(line)
    return pair


def pairs_of_protocol(pairs: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    """All pairs; or, of the paper, every tenth of each paradigm, with the final punctuation as a word by itself."""
    if protocol == "plain":
        return pairs
    pairs = pairs[pairs.groupby("paradigm").cumcount() % _EVERY == 0].copy()
    for side in ("good", "bad"):
        for place, text in pairs.loc[~pairs[side].str.endswith((".", "?", "!")), side].items():
            raise UserError(
                f"{place}: expected a sentence that ends with one of . ? !, found {text!r}: take --protocol plain."
            )
        pairs[side] = pairs[side].str.replace(r"\s*([.?!])$", r" \1", regex=True)
    return pairs
