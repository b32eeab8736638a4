"""Semantic textual similarity: pairs of sentences that people have judged, for training and in seven test sets.

The test sets are those of the shared tasks of 2012 to 2016, the STS Benchmark's and SICK's; the parts of a year form
one set (the "all" setting of Gao et al., 2021). Pairs without a judgement are left out, and so
is the part SMT of 2013, whose sentences are not distributed.

The Benchmark was drawn from the shared tasks, so that its training pairs are 17 to 50 % of their test sets, and its
development pairs, by which weights are chosen, another 2 to 19 %; test pairs that are among either are marked
(`SentencePair.seen`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from depgen.data.corpus import Split, SplitStatistics, files_sha256
from depgen.data.tokenization import tokenize
from depgen.errors import UserError
from depgen.locations import find_data, find_file
from depgen.trees.lines import read_texts
from depgen.trees.normalization import NUMBER, lowered
from depgen.trees.sentence import Document, Sentence

TEST_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick")
"""In the order of tables."""
HIGHEST = 5.0
"""The similarity of two sentences that say the same; the lowest is 0."""
TrainingSet = Literal["stsb", "sick"]
Numbers = Literal["runs", "whole"]

_YEARS = {f"sts{year}": f"STS{year}-en-test" for year in range(12, 17)}
_BENCHMARK, _SICK = "STSBenchmark/sts-{}.csv", "SICK/SICK_{}.txt"
_HOW_TO_GET = (
    "The tasks of 2012 to 2016 (STS12-en-test to STS16-en-test) and STSBenchmark are at "
    "http://ixa2.si.ehu.eus/stswiki, SICK at https://zenodo.org/records/2787612."
)


@dataclass(frozen=True)
class JudgedPair:
    """Two sentences as their file has them, and their similarity.

    Attributes:
        identifier: file and line.
        first: the one sentence.
        second: the other.
        score: from 0 (nothing in common) to 5 (the same); SICK's from 1.
    """

    identifier: str
    first: str
    second: str
    score: float


@dataclass(frozen=True)
class SentencePair:
    """Two sentences as words, and their similarity.

    Attributes:
        identifier: file and line.
        first: words of the one; none where the sentence holds no letter and no number.
        second: words of the other.
        score: see `JudgedPair`.
        test_set: its place among `TEST_SETS`; -1 outside the test split.
        seen: whether a test pair is among those that are trained or chosen on too.
    """

    identifier: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    score: float
    test_set: int = -1
    seen: bool = False


# -- files ------------------------------------------------------------------------------------------------------------


def read_task(folder: Path) -> list[JudgedPair]:
    """The judged pairs of a year: every `STS.input.<part>.txt` with its `STS.gs.<part>.txt`.

    Raises:
        UserError: no such file, a part without judgements, or lines that do not belong together.
    """
    inputs = sorted(folder.glob("STS.input.*.txt"))
    if not inputs:
        raise UserError(f"{folder}: expected files STS.input.<part>.txt, found none. {_HOW_TO_GET}")
    pairs = []
    for path in inputs:
        gold = find_file(path.absolute().with_name(path.name.replace("input", "gs", 1)), how_to_get=_HOW_TO_GET)
        texts, scores = read_texts(path), read_texts(gold)
        if len(texts) != len(scores):
            raise UserError(
                f"{gold}: expected a line for each of the {len(texts)} in {path.name}, found {len(scores)}."
            )
        for number, (text, score) in enumerate(zip(texts, scores, strict=True), start=1):
            if score.strip():
                first, second, *_ = _columns(text, path, number, at_least=2)
                pairs.append(
                    JudgedPair(f"{path.name}:{number}", first, second, similarity_of(score, f"{gold}:{number}"))
                )
    return pairs


def read_benchmark(path: Path) -> list[JudgedPair]:
    """The pairs of a file of the STS Benchmark: score and sentences are its columns 5 to 7; quotes are text."""
    pairs = []
    for number, line in enumerate(read_texts(path), start=1):
        _, _, _, _, score, first, second, *_ = _columns(line, path, number, at_least=7)
        pairs.append(JudgedPair(f"{path.name}:{number}", first, second, similarity_of(score, f"{path}:{number}")))
    return pairs


def read_sick(path: Path) -> list[JudgedPair]:
    """The pairs of a file of SICK, whose first line names its columns."""
    pairs = []
    for number, line in enumerate(read_texts(path)[1:], start=2):
        _, first, second, score, *_ = _columns(line, path, number, at_least=4)
        pairs.append(JudgedPair(f"{path.name}:{number}", first, second, similarity_of(score, f"{path}:{number}")))
    return pairs


def _columns(line: str, path: Path, number: int, *, at_least: int) -> list[str]:
    columns = line.split("\t")
    if len(columns) < at_least:
        raise UserError(f"{path}:{number}: expected {at_least} columns between tabs, found {len(columns)}.")
    return columns


def similarity_of(text: str, where: str) -> float:
    """The similarity that a column holds.

    Args:
        text: of the column.
        where: its place, for messages.

    Raises:
        UserError: it is no number from 0 to 5.
    """
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= HIGHEST:
        raise UserError(f"{where}: expected a similarity from 0 to {HIGHEST:g}, found {text!r}.")
    return score


# -- words ------------------------------------------------------------------------------------------------------------


def similarity_words(text: str, numbers: Numbers = "runs") -> tuple[str, ...]:
    """The words of a sentence: lower case, numbers as `N`, no token without a letter (an `N` is one).

    Shen et al. (2022) cut by NLTK's tokeniser, we by our own, which does without its downloads; it cuts words off
    numbers at a hyphen.

    Args:
        text: the sentence.
        numbers: as the words that an encoder knows are written: `runs`, each run of digits is `N` (Shen et al., 2022);
            `whole`, only what is all a number, or `%`, as in the language-modelling Penn Treebank.

    >>> similarity_words("At 7:30 a 3rd dog didn't eat 1.5 bones!")
    ('at', 'N:N', 'a', 'Nrd', 'dog', 'did', "n't", 'eat', 'N.N', 'bones')
    >>> similarity_words("At 7:30 a 3rd dog didn't eat 1.5 bones!", "whole")
    ('at', 'N', 'a', '3rd', 'dog', 'did', "n't", 'eat', 'N', 'bones')
    """
    tokens = tokenize(text.lower())
    written = (lowered(token) if numbers == "whole" else re.sub(r"\d+", NUMBER, token) for token in tokens)
    return tuple(token for token in written if any(character.isalpha() for character in token))


def _matched(pair: JudgedPair) -> tuple[str, str]:
    """What tells pairs apart: letters and digits alone, whichever sentence comes first."""
    first, second = sorted("".join(filter(str.isalnum, text.lower())) for text in (pair.first, pair.second))
    return first, second


# -- the corpus -------------------------------------------------------------------------------------------------------


class SimilarityTasks:
    """Judged pairs: training sets, the Benchmark's development set as validation split, seven test sets in one split.

    Args:
        folder: where the tasks' folders lie, under `$DEPGEN_DATA` unless absolute.
        train: what is trained on. The authors' code takes both sets, and the figures of Shen et al. (2022) can only
            come from it: 80 and more on SICK, 64 to 72 on the Benchmark itself. The paper names `stsb` alone.
        numbers: see `similarity_words`.
        name: what results call the corpus.
    """

    def __init__(
        self,
        folder: str = "sts",
        *,
        train: Sequence[TrainingSet] = ("stsb", "sick"),
        numbers: Numbers = "runs",
        name: str = "STS",
    ) -> None:
        if not train or len(set(train)) != len(train):
            raise UserError(f"train: expected stsb, sick or both, found {list(train)}.")
        self.folder, self.train, self.numbers, self.name = folder, tuple(train), numbers, name
        sizes = {"stsb": 5749, "sick": 4500}
        self.published: Mapping[Split, SplitStatistics] = {
            "train": SplitStatistics(documents=sum(sizes[each] for each in self.train)),
            "valid": SplitStatistics(documents=1500),
            "test": SplitStatistics(documents=18850),
        }

    def pairs(self, split: Split) -> Iterator[SentencePair]:
        """The pairs of a split, as words, in the order of the sets and their files.

        Raises:
            UserError: a file is missing, or is not as expected.
        """
        if split == "test":
            for number, name in enumerate(TEST_SETS):
                for pair in self._test_set(name):
                    yield self._words(pair, number, _matched(pair) in self._trained_or_chosen_on)
        else:
            for pair in self._training_pairs if split == "train" else self._benchmark("dev"):
                yield self._words(pair)

    def documents(self, split: Split) -> Iterator[Document]:
        """The pairs of a split, each a document of two sentences."""
        for pair in self.pairs(split):
            yield Document((Sentence(pair.first), Sentence(pair.second)), pair.identifier)

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's files, of those that are trained or chosen on, and of the reading options."""
        options = {"reader": "SimilarityTasks", "split": split, "train": self.train, "numbers": self.numbers}
        return files_sha256(self._paths(split), **options)

    @cached_property
    def _training_pairs(self) -> list[JudgedPair]:
        read: dict[TrainingSet, Callable[[], list[JudgedPair]]] = {
            "stsb": lambda: self._benchmark("train"),
            "sick": lambda: read_sick(self._file(_SICK.format("train"))),
        }
        return [pair for name in self.train for pair in read[name]()]

    @cached_property
    def _trained_or_chosen_on(self) -> frozenset[tuple[str, str]]:
        return frozenset(map(_matched, [*self._training_pairs, *self._benchmark("dev")]))

    def _benchmark(self, part: str) -> list[JudgedPair]:
        return read_benchmark(self._file(_BENCHMARK.format(part)))

    def _test_set(self, name: str) -> list[JudgedPair]:
        if name in _YEARS:
            return read_task(find_data(Path(self.folder) / _YEARS[name], how_to_get=_HOW_TO_GET))
        return self._benchmark("test") if name == "stsb" else read_sick(self._file(_SICK.format("test_annotated")))

    def _words(self, pair: JudgedPair, test_set: int = -1, seen: bool = False) -> SentencePair:
        first, second = (similarity_words(text, self.numbers) for text in (pair.first, pair.second))
        return SentencePair(pair.identifier, first, second, pair.score, test_set, seen)

    def _file(self, name: str) -> Path:
        return find_file(Path(self.folder) / name, how_to_get=_HOW_TO_GET)

    def _paths(self, split: Split) -> list[Path]:
        chosen = [self._file(_BENCHMARK.format("dev"))]
        if split == "valid":
            return chosen
        names = {"stsb": _BENCHMARK.format("train"), "sick": _SICK.format("train")}
        trained = [self._file(names[each]) for each in self.train]
        if split == "train":
            return trained
        years = (find_data(Path(self.folder) / name, how_to_get=_HOW_TO_GET) for name in _YEARS.values())
        parts = [path for year in years for path in sorted(year.glob("STS.*.txt"))]
        return [
            *trained,
            *chosen,
            *parts,
            self._file(_BENCHMARK.format("test")),
            self._file(_SICK.format("test_annotated")),
        ]
