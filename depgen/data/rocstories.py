"""ROCStories: five-sentence stories in CSV files with the columns sentence1 to sentence5."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import SplitFiles, log_left_out
from depgen.data.overlap import Overlap
from depgen.errors import UserError
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FORMS, FormName

COLUMNS = tuple(f"sentence{number}" for number in range(1, 6))
HOW_TO_GET = (
    "The stories are given out at https://cs.rochester.edu/nlp/rocstories; {train,valid,test}.csv, in lower case and "
    "with [MALE], [FEMALE] and [NEUTRAL] for names, come with the code of Kong et al. (2021)."
)


class RocStories(SplitFiles):
    """Stories of five sentences (Mostafazadeh et al., 2016), delexicalised and split by Kong et al. (2021).

    A story is a document; other columns are ignored. Stories with an empty sentence are left out and counted.

    Args:
        folder: where train.csv, valid.csv and test.csv lie, under `$DEPGEN_DATA` unless absolute.
        additional_train: further files of the training split, in the same folder. Raw stories want
            `depgen.annotation.delexicalize` first.
        lowercase: whether words are lower-cased, but for placeholders such as `[MALE]`; the published stories are.
        name: what results call the corpus.
        overlap: what becomes of training stories that equal one of validation or test: see `depgen.data.overlap`.
    """

    published: Mapping[Split, SplitStatistics] = {
        "train": SplitStatistics(documents=78_529, sentences=5 * 78_529),
        "valid": SplitStatistics(documents=9_816, sentences=5 * 9_816),
        "test": SplitStatistics(documents=9_816, sentences=5 * 9_816),
    }
    how_to_get = HOW_TO_GET

    def __init__(
        self,
        folder: str = "rocstories",
        additional_train: Sequence[str] = (),
        lowercase: bool = True,
        name: str = "ROCStories",
        overlap: Overlap | None = None,
    ) -> None:
        files: dict[Split, Sequence[str]] = {
            "train": ["train.csv", *additional_train], "valid": ["valid.csv"], "test": ["test.csv"],
        }  # fmt: skip
        super().__init__(folder, files, lowercase=False, name=name, overlap=overlap)
        self.form: FormName | None = "stories" if lowercase else None

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The stories of a file; identifiers are file and first line."""
        incomplete, spelt = 0, FORMS[self.form or "as_is"].spelt
        for line, texts in read_stories(path):
            sentences = tuple(Sentence(words) for text in texts if (words := tuple(map(spelt, text.split()))))
            if len(sentences) == len(COLUMNS):
                yield Document(sentences, f"{path.name}:{line}")
            else:
                incomplete += 1
        log_left_out(incomplete, "stories with an empty sentence", corpus=self.name, split=split)

    def options(self) -> dict[str, object]:
        """Whether capitals stay, see `SplitFiles`; published stories have none, whatever is done to them."""
        return {} if self.form else {"lowercase": False}


def read_stories(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The first line's number and the five texts of each story in a CSV file; blank lines are passed over.

    Raises:
        UserError: no such columns, a row of another length, bad CSV or UTF-8, a file without stories.
    """
    rows = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    stories, line = 0, 1
    try:
        header = next(rows)
        if missing := [column for column in COLUMNS if column not in header]:
            raise UserError(
                f"{path}:1: expected the columns {', '.join(COLUMNS)}, found {', '.join(header)}: add {missing}."
            )
        indices = [header.index(column) for column in COLUMNS]
        line = rows.line_num + 1
        for row in rows:
            if row and len(row) != len(header):
                raise UserError(f"{path}:{line}: expected {len(header)} fields, found {len(row)}; are commas quoted?")
            if row:
                stories += 1
                yield line, [row[index] for index in indices]
            line = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}:{line}: expected CSV, found: {error}.") from error
    if not stories:
        raise UserError(f"{path}: expected stories below the header, found none.")
