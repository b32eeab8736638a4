"""Results as frames, and frames as files: tab-separated columns, CSV or JSON lines."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from depgen.errors import UserError
from depgen.locations import check_output

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, Any]
By = Literal["word", "sentence", "document", "all"]
"""What a row of scores is."""
Unit = Literal["nats", "bits"]
Trees = Literal["gold", "sampled"]
"""The trees that a bound is over: the sentences' own, or a parser's."""
Pooling = Literal["last", "first", "mean"]
"""Which of the states of a word's tokens is the word's: that of the last, that of the first, or the mean of all."""
_Text = TypeVar("_Text", covariant=True)


@dataclass(frozen=True, repr=False)
class TextResults(Generic[_Text]):
    """Results of several texts that hold trees or graphs, in the order in which the texts were given.

    Attributes:
        texts: one result for each text.
    """

    texts: tuple[_Text, ...]

    def rows(self) -> list[Row]:
        """The rows of the table."""
        raise NotImplementedError(f"{type(self).__name__} has no rows")

    def to_frame(self) -> "DataFrame":
        """The same as a table."""
        from pandas import DataFrame

        return DataFrame(self.rows())

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[_Text]:
        return iter(self.texts)

    def __getitem__(self, place: int) -> _Text:
        return self.texts[place]

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} texts (to_frame() gives the table)"

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())


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
