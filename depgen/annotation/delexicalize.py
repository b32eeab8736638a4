"""Raw stories in the form of the published ROCStories: lower case, Penn tokens, placeholders for people's names."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from depgen.annotation.names import EntityNames, NameFinder, ProperNounNames
from depgen.data.formats import Columns
from depgen.data.names import (
    CapitalizedNames,
    Gender,
    delexicalize,
    everywhere,
    genders_in_story,
    library_name_genders,
    read_name_genders,
    tokens_of_story,
)
from depgen.errors import UserError
from depgen.locations import write_atomically

STORIES = Columns()
"""How files of stories are read."""


@dataclass(frozen=True)
class Delexicalization:
    """What `delexicalize_file` did.

    Attributes:
        stories: how many were written.
        placeholders: how many of each.
        method: how names were found.
        left_out: how many were not written, because the files of `apart_from` have them.
    """

    stories: int
    placeholders: Mapping[Gender, int]
    method: str
    left_out: int = 0

    def __str__(self) -> str:
        counts = ", ".join(f"[{gender}] {count}" for gender, count in sorted(self.placeholders.items()))
        rate = sum(self.placeholders.values()) / max(1, self.stories)
        apart = f", {self.left_out} left out" if self.left_out else ""
        return f"{self.stories} stories{apart}, {rate:.2f} placeholders a story ({counts}); names: {self.method}"


def delexicalize_file(
    source: Path,
    output: Path,
    *,
    ner: str | None = None,
    tagger: str | None = None,
    name_genders: Path | None = None,
    apart_from: Sequence[Path] = (),
) -> Delexicalization:
    """Write the stories of a CSV file with [MALE], [FEMALE] and [NEUTRAL] for names, and say how many.

    Args:
        source: CSV with the columns sentence1 to sentence5.
        output: CSV of the same columns.
        ner: a spaCy pipeline, trained here, installed or in a folder, whose entity recogniser finds the names.
        tagger: a spaCy pipeline whose proper nouns are taken instead; with neither, capitalised words are.
        name_genders: a file of name, tab and male, female or neutral; Faker's English names if not given.
        apart_from: files of delexicalised stories, such as those of the test split: a story is left out if a quarter of
            its runs of five words are in one story there.

    Raises:
        UserError: bad columns, no such pipeline, neither Faker nor a list, no capitals to go by.
    """
    if ner and tagger:
        raise UserError("Expected a pipeline for ner or for tagger, found both: give one.")
    genders: Mapping[str, Gender | None] = read_name_genders(name_genders) if name_genders else library_name_genders()
    stories = [tokens_of_story(texts) for _, texts in STORIES.rows(source)]
    finder: NameFinder = (
        EntityNames(ner) if ner else ProperNounNames(tagger, genders) if tagger else CapitalizedNames(stories, genders)
    )
    known = _KnownStories([texts for path in apart_from for _, texts in STORIES.rows(path)])
    counts: Counter[Gender] = Counter()
    table, left_out = io.StringIO(), 0
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(STORIES.columns)
    for story in stories:
        names = genders_in_story(story, everywhere(story, finder.find(story)), genders)
        placeholders: Counter[Gender] = Counter()
        written = delexicalize(story, names, placeholders)
        if written in known:
            left_out += 1
            continue
        counts += placeholders
        writer.writerow(written)
    write_atomically(output, table.getvalue())
    return Delexicalization(len(stories) - left_out, dict(counts), finder.method, left_out)


class _KnownStories:
    """Stories that others are compared with by their runs of `LENGTH` words.

    >>> known = _KnownStories([["the old dog slept all day"], ["a cat sat on the mat"]])
    >>> ["today the old dog slept all day"] in known, ["the old dog sat on the mat"] in known
    (True, False)
    """

    LENGTH, SHARE = 5, 0.25

    def __init__(self, stories: Sequence[Sequence[str]]) -> None:
        self._places: dict[tuple[str, ...], set[int]] = {}
        for number, story in enumerate(stories):
            for run in self._runs(story):
                self._places.setdefault(run, set()).add(number)

    def __contains__(self, story: Sequence[str]) -> bool:
        runs = self._runs(story)
        shared = Counter(number for run in runs for number in self._places.get(run, ()))
        return bool(shared) and max(shared.values()) >= self.SHARE * len(runs)

    def _runs(self, story: Sequence[str]) -> set[tuple[str, ...]]:
        words = " ".join(story).split()
        return {tuple(words[begin : begin + self.LENGTH]) for begin in range(len(words) - self.LENGTH + 1)}
