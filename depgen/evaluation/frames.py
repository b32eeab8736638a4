"""Results as frames, and frames as files: tab-separated columns, CSV or JSON lines."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from depgen.errors import UserError
from depgen.locations import check_output

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, Any]
By = Literal["word", "own_word", "sentence", "document", "all"]
"""The unit that each row of scores describes. An own word is the text between two blanks, such as `don't`."""
Unit = Literal["nats", "bits"]
Reads = Literal["sentence", "document"]
"""What a system reads at once."""
Trees = Literal["gold", "sampled"]
"""The trees that a bound is over: the sentences' own, or a parser's."""
Pooling = Literal["last", "first", "mean"]
"""Which of the states of a word's tokens is the word's: that of the last, that of the first, or the mean of all."""
AttentionKind = Literal["dependency", "self"]
"""What weighs DMLM's mixture, or the self-attention of a layer."""


def check_table_output(output: Path | None, *, json: bool) -> None:
    """Raises UserError if a table can't be written to a file, or if the file's ending is of another format."""
    if output is None:
        return
    check_output(output)
    ending = output.suffix.lower()
    if json and ending in (".csv", ".tsv", ".conllu", ".sdp"):
        raise UserError(f"{output} is to hold JSON lines: expected an ending such as .jsonl, found {ending}.")
    if not json and ending in (".json", ".jsonl", ".conllu", ".sdp"):
        raise UserError(
            f"{output} is to hold a table: expected an ending such as .tsv or .csv, found {ending}. JSON lines are "
            "written with --json."
        )


def written(frames: Iterable["DataFrame"], *, output: Path | None, json: bool, digits: int = 6) -> Iterator[str] | None:
    """Frames of the same columns as one text, a part each; None once they are in the file, which is then whole.

    Args:
        frames: one below the other.
        output: a file, with commas if its name ends in `.csv`, else with tabs; None: the parts are returned.
        json: JSON lines.
        digits: after the point in columns of floats; columns of objects, such as fields of a user's file, are written
            as they are.
    """
    comma = output is not None and output.suffix.lower() == ".csv"
    parts = _parts(frames, "," if comma else "\t", json=json, digits=digits)
    if output is None:
        return parts
    unfinished = output.with_name(f".{output.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(parts)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return None


def _parts(frames: Iterable["DataFrame"], separator: str, *, json: bool, digits: int) -> Iterator[str]:
    for number, frame in enumerate(frames):
        if json:
            yield frame.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)
        else:
            as_numbers = dict.fromkeys(frame.select_dtypes("bool"), int)
            yield frame.astype(as_numbers).to_csv(
                sep=separator, index=False, header=number == 0, float_format=f"%.{digits}f", lineterminator="\n"
            )


def json_ready(content: Any) -> Any:  # noqa: ANN401 - values of JSON
    """The content with null for what JSON has no word for: infinite or undefined numbers."""
    if isinstance(content, dict):
        return {name: json_ready(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [json_ready(each) for each in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
