"""Minimal pairs (BLiMP): how often a system finds the grammatical sentence of a pair likelier."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from depgen.data.generated import controlled_contexts, controlled_pairs
from depgen.errors import UserError
from depgen.evaluation.measure import Measured
from depgen.evaluation.syntax.scoring import Protocol, SyntaxOptions, combined, measured, of_groups, score_sentences
from depgen.locations import find_data, json_value
from depgen.trees.text_files import Separator, read_columns, read_lines, unpacked

if TYPE_CHECKING:
    from depgen.evaluation.system import System

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
_SEPARATORS: Mapping[str, Separator | None] = {".jsonl": None, ".tsv": "tab", ".csv": "comma"}
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
    files = [file for file in files if unpacked(file).suffix.lower() in _SEPARATORS]
    rows = {f"{file}:{line}": _pair(row, file, line) for file in files for line, row in _rows(file)}
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


def _rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    separator = _SEPARATORS[unpacked(file).suffix.lower()]
    if separator is not None:
        yield from read_columns(file, separator=separator)
        return
    for line, text in read_lines(file):
        if text.strip():
            row = json_value(text, f"{file}:{line}")
            if not isinstance(row, dict):
                raise UserError(f"{file}:{line}: expected a JSON object, found a {type(row).__name__}.")
            yield line, row


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
