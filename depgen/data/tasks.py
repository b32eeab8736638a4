"""Tasks that trained systems are fine-tuned on, and their data module: GLUE by prompts, similarity of two sentences.

GLUE (Wang et al., 2018): RTE, SST-2, MRPC and STS-B as prompts whose next word is the answer. Test answers are not
public: the development file is the test split, and every tenth example of the training file, by which weights are
chosen, is the validation split.

Similarity: pairs of sentences that people have judged. The test sets are those of the shared tasks of 2012 to 2016, the
STS Benchmark's and SICK's; the parts of a year form one set (the "all" setting of Gao et al., 2021). Pairs without a
judgement are left out, and so is the part SMT of 2013, whose sentences are not distributed. The Benchmark was drawn
from the shared tasks, so that its training pairs are 17 to 50 % of their test sets, and its development pairs, by which
weights are chosen, another 2 to 19 %; test pairs that are among either are marked (`Example.seen`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.data.batch import Batch, ItemBatch, TokenItem, collate_tokens
from depgen.data.corpus import Split, SplitStatistics, Versioned, files_sha256
from depgen.data.module import Collate, CorpusData
from depgen.data.sampler import ResumableLoader
from depgen.data.table import EncodedSplit
from depgen.data.tokenization import rule_versions, tokenize
from depgen.data.vocabulary import UNK_WORD, VOCABULARY_FILE, Vocabulary, load_vocabulary
from depgen.errors import UserError, check_at_least
from depgen.locations import find_data, find_file
from depgen.training.runs import named_checkpoint
from depgen.trees.annotator import Annotator
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_files import read_columns, read_lines
from depgen.trees.text_form import lowered

HIGHEST = 5.0
"""The similarity of two sentences that say the same; the lowest is 0."""


@dataclass(frozen=True)
class Example:
    """An example of a task.

    Attributes:
        identifier: file and line.
        sentences: words of the prompt alone, or of both sentences of a pair.
        answer: the place of the class; or the similarity, from 0 to 5, SICK's from 1.
        test_set: of a pair of the test split, the place of its set among `TEST_SETS`; else -1.
        seen: whether a test pair is among those that are trained or chosen on too.
    """

    identifier: str
    sentences: tuple[tuple[str, ...], ...]
    answer: float
    test_set: int = -1
    seen: bool = False


class TaskCorpus(Versioned, ABC):
    """The examples of a task; as a corpus, each is a document of its sentences.

    Attributes:
        name: what results call it.
        published: the published sizes of its splits.
        verbalisers: the words that name the classes; none: answers are similarities.
    """

    name: str
    published: Mapping[Split, SplitStatistics] = {}
    verbalisers: tuple[str, ...] = ()

    @abstractmethod
    def examples(self, split: Split) -> Iterator[Example]:
        """The examples of a split, in file order."""

    @abstractmethod
    def fingerprint(self, split: Split) -> str:
        """A digest of the split's files and of the reading options."""

    def documents(self, split: Split) -> Iterator[Document]:
        """The examples of a split as documents."""
        for example in self.examples(split):
            yield Document(tuple(map(Sentence, example.sentences)), example.identifier)


# -- files ------------------------------------------------------------------------------------------------------------


def read_rows(path: Path, wanted: Sequence[str], names: Sequence[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """File and line, and the wanted columns of each row of tab-separated values, in which quotes are text.

    Args:
        path: the file.
        wanted: names of columns.
        names: see `depgen.trees.text_files.read_columns`.
    """
    for number, row in read_columns(path, separator="tab_unquoted", names=names):
        if missing := [name for name in wanted if name not in row]:
            raise UserError(f"{path}:1: expected the column {missing[0]!r}, found {', '.join(map(repr, row))}.")
        yield f"{path}:{number}", [row[name] for name in wanted]


def similarity_of(text: str, where: str) -> float:
    """The similarity that a column holds."""
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= HIGHEST:
        raise UserError(f"{where}: expected a similarity from 0 to {HIGHEST:g}, found {text!r}.")
    return score


# -- GLUE -------------------------------------------------------------------------------------------------------------

GlueName = Literal["rte", "sst2", "mrpc", "stsb"]
SELECTED_EVERY = 10


class GlueTask(NamedTuple):
    """The columns of a task's files, and its prompt.

    Attributes:
        folder: of `train.tsv` and `dev.tsv`.
        texts: the columns of its sentences.
        label: the column of the answer.
        classes: the answers, in the order of the verbalisers; none: a similarity.
        prompt: with `{0}` and `{1}` for the sentences; the answer is the next word.
        verbalisers: the words that name the classes.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    classes: tuple[str, ...]
    prompt: str
    verbalisers: tuple[str, ...]


_PAIR = "Sentence1:{0}; Sentence2:{1}; Label:"
TASKS: Mapping[GlueName, GlueTask] = {
    "rte": GlueTask("RTE", ("sentence1", "sentence2"), "label", ("not_entailment", "entailment"), _PAIR, ("0", "1")),
    "sst2": GlueTask(
        "SST-2", ("sentence",), "label", ("0", "1"), "Sentence1:{0}; Sentiment:", ("negative", "positive")
    ),
    "mrpc": GlueTask(
        "MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), _PAIR, ("inequivalent", "equivalent")
    ),
    "stsb": GlueTask("STS-B", ("sentence1", "sentence2"), "score", (), "Sentence1:{0}; Sentence2:{1}; Score:", ()),
}  # fmt: skip
"""Prompts of Huang et al. (2026), Appendix A. Verbalisers of SST-2 are those of the code; the paper has 0 and 1."""


class GluePrompts(TaskCorpus):
    """The prompts of a task of GLUE.

    Args:
        task: which one.
        folder: where the tasks' folders lie, under `$DEPGEN_DATA` unless absolute.
        verbalisers: a word for each class, the classes in the order of `GlueTask.classes`; None: the authors' code's.
        max_examples: use only the first examples of the training file, for training and validation; None: all.
    """

    def __init__(
        self,
        task: GlueName,
        folder: str = "glue",
        *,
        verbalisers: Sequence[str] | None = None,
        max_examples: int | None = None,
    ) -> None:
        check_at_least(SELECTED_EVERY, max_examples=max_examples)
        self.task, self.folder, self.max_examples, self.name = task, folder, max_examples, f"GLUE {task}"
        self.layout = TASKS[task]
        self.verbalisers = self.layout.verbalisers if verbalisers is None else tuple(verbalisers)
        if len(self.verbalisers) != len(self.layout.classes):
            raise UserError(
                f"verbalisers: expected {len(self.layout.classes)} words for {task}, found {list(self.verbalisers)}."
            )

    def examples(self, split: Split) -> Iterator[Example]:
        """The prompts of a split, whose words are cut at white space: marks stay with their words."""
        most, (_, texts, label, classes, prompt, _) = None if split == "test" else self.max_examples, self.layout
        rows = read_rows(self._path(split), (label, *texts))
        for place, (where, (answer, *sentences)) in enumerate(islice(rows, most), start=1):
            if split != "test" and (place % SELECTED_EVERY == 0) != (split == "valid"):
                continue
            if classes and answer not in classes:
                raise UserError(f"{where}: {label}: expected {' or '.join(classes)}, found {answer!r}.")
            value = float(classes.index(answer)) if classes else similarity_of(answer, f"{where}: {label}")
            words = prompt.format(*sentences).split()
            yield Example(Path(where).name, (tuple(words),), value)

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's file and of the reading options."""
        options = {**self.versions, "split": split, "task": self.task, "prompt": self.layout.prompt}
        most = {} if split == "test" or self.max_examples is None else {"max_examples": self.max_examples}
        return files_sha256([self._path(split)], reader="GluePrompts", **options, **most)

    def _path(self, split: Split) -> Path:
        folder = Path(self.folder) / self.layout.folder
        return find_file(
            folder / ("dev.tsv" if split == "test" else "train.tsv"),
            how_to_get=f"The tasks are at https://gluebenchmark.com/tasks: put train.tsv and dev.tsv into {folder}.",
        )


# -- similarity -------------------------------------------------------------------------------------------------------

TEST_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick")
"""In the order of tables."""
SimilarityPair = tuple[str, str, str, float]
"""File and line, two sentences as their file has them, and their similarity."""
_TEXTS = ("first", "second")
BENCHMARK_COLUMNS = ("genre", "file", "year", "id", "score", *_TEXTS)
_HOW_TO_GET = (
    "The tasks of 2012 to 2016 (STS12-en-test to STS16-en-test) and STSBenchmark are at "
    "http://ixa2.si.ehu.eus/stswiki, SICK at https://zenodo.org/records/2787612."
)


def letters_of(pair: SimilarityPair) -> tuple[str, ...]:
    """What tells pairs apart: letters and digits alone, whichever sentence comes first."""
    return tuple(sorted("".join(filter(str.isalnum, text.lower())) for text in pair[1:3]))


def read_pairs(path: Path) -> list[SimilarityPair]:
    """The pairs of a file of the STS Benchmark (`.csv`) or of SICK."""
    if path.suffix == ".csv":
        rows = read_rows(path, (*_TEXTS, "score"), BENCHMARK_COLUMNS)
    else:
        rows = read_rows(path, ("sentence_A", "sentence_B", "relatedness_score"))
    return [(Path(where).name, first, second, similarity_of(score, where)) for where, (first, second, score) in rows]


def read_year(folder: Path) -> list[SimilarityPair]:
    """The judged pairs of a year: every `STS.input.<part>.txt` with its `STS.gs.<part>.txt`."""
    inputs = sorted(folder.glob("STS.input.*.txt"))
    if not inputs:
        raise UserError(f"{folder}: expected files STS.input.<part>.txt, found none. {_HOW_TO_GET}")
    pairs = []
    for path in inputs:
        gold = find_file(path.absolute().with_name(path.name.replace("input", "gs", 1)), how_to_get=_HOW_TO_GET)
        rows, scores = list(read_rows(path, _TEXTS, _TEXTS)), list(read_lines(gold))
        if len(rows) != len(scores):
            raise UserError(f"{gold}: expected a line for each of the {len(rows)} in {path.name}, found {len(scores)}.")
        pairs += [
            (Path(where).name, first, second, similarity_of(score, f"{gold}:{number}"))
            for (where, (first, second)), (number, score) in zip(rows, scores, strict=True)
            if score.strip()
        ]
    return pairs


def similarity_words(text: str) -> tuple[str, ...]:
    """The words of a sentence: lower case, numbers as `N` as in the encoder's text, no token without a letter.

    Shen et al. (2022) cut by NLTK's tokeniser, we by our own, which does without its downloads; it cuts words off
    numbers at a hyphen.

    >>> similarity_words("At 7:30 a 3rd dog didn't eat 1.5 bones!")
    ('at', 'N', 'a', '3rd', 'dog', 'did', "n't", 'eat', 'N', 'bones')
    """
    tokens = map(lowered, tokenize(text.lower()))
    return tuple(token for token in tokens if any(character.isalpha() for character in token))


class SimilarityTasks(TaskCorpus):
    """Judged pairs: training sets, the Benchmark's development set as validation split, seven test sets in one split.

    Args:
        folder: where the tasks' folders lie, under `$DEPGEN_DATA` unless absolute.
        train: what is trained on. The authors' code takes both sets, and the figures of Shen et al. (2022) can only
            come from it: 80 and more on SICK, 64 to 72 on the Benchmark itself. The paper names `stsb` alone.
    """

    name = "STS"

    def __init__(self, folder: str = "sts", *, train: Sequence[Literal["stsb", "sick"]] = ("stsb", "sick")) -> None:
        self.folder, self.train = folder, tuple(train)
        sizes = {"stsb": 5749, "sick": 4500}
        self.published: Mapping[Split, SplitStatistics] = {
            "train": SplitStatistics(documents=sum(sizes[task] for task in self.train)),
            "valid": SplitStatistics(documents=1500),
            "test": SplitStatistics(documents=18850),
        }

    def examples(self, split: Split) -> Iterator[Example]:
        """The pairs of a split, in the order of the sets and their files; a sentence without words is one `<unk>`."""
        training, chosen = self._training_files(), read_pairs(self._file("stsb", "dev"))
        if split == "valid":
            yield from map(_example, chosen)
            return
        trained = [pair for file in training for pair in read_pairs(file)]
        if split == "train":
            yield from map(_example, trained)
            return
        seen = {letters_of(pair) for pair in (*trained, *chosen)}
        for place, name in enumerate(TEST_SETS):
            pairs = read_pairs(self._file(name, "test")) if name in ("stsb", "sick") else read_year(self._year(name))
            for pair in pairs:
                yield replace(_example(pair), test_set=place, seen=letters_of(pair) in seen)

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's files, of those that are trained or chosen on, and of the reading options."""
        training, chosen = self._training_files(), self._file("stsb", "dev")
        paths = training if split == "train" else [chosen]
        if split == "test":
            parts = [path for name in TEST_SETS[:5] for path in sorted(self._year(name).glob("STS.*.txt"))]
            paths = [*training, chosen, *parts, self._file("stsb", "test"), self._file("sick", "test")]
        options = {"split": split, "train": self.train, "numbers": "whole"}
        return files_sha256(
            paths, reader="SimilarityTasks", **self.versions, **rule_versions(tokens="rules"), **options
        )

    def _training_files(self) -> list[Path]:
        return [self._file(name, "train") for name in self.train]

    def _file(self, name: str, part: str) -> Path:
        file = f"STSBenchmark/sts-{part}.csv"
        if name == "sick":
            file = f"SICK/SICK_{part}{'_annotated' if part == 'test' else ''}.txt"
        return find_file(Path(self.folder) / file, how_to_get=_HOW_TO_GET)

    def _year(self, name: str) -> Path:
        return find_data(Path(self.folder) / f"{name.upper()}-en-test", how_to_get=_HOW_TO_GET)


def _example(pair: SimilarityPair) -> Example:
    identifier, *texts, score = pair
    return Example(identifier, tuple(similarity_words(text) or (UNK_WORD,) for text in texts), score)


# -- batches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedExample:
    """An example with its sentences as token ids."""

    sentences: tuple[TokenItem, ...]
    example: Example


@dataclass(frozen=True, kw_only=True)
class TaskBatch(Batch):
    """Examples as a system reads them, and their answers.

    Attributes:
        sequences: the first sentence of every example, then the second of every one, as the system's collate makes it.
        answers: see `Example`.
        items: each example's place in its split.
        test_sets: see `Example`.
        seen: see `Example`.
        global_examples: examples in the global batch, over all devices: what a loss is divided by.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"items", "test_sets", "seen"})

    sequences: Any
    answers: Float[Tensor, " batch"]
    items: Int[Tensor, " batch"]
    test_sets: Int[Tensor, " batch"]
    seen: Bool[Tensor, " batch"]
    global_examples: int


def collate_examples(batch: ItemBatch, sequences: Callable[[ItemBatch], Any] = collate_tokens) -> TaskBatch:
    """A padded batch of examples.

    Args:
        batch: of `EncodedExample`s.
        sequences: makes the batch of their sentences.
    """
    assert batch.global_items is not None, "examples are no slices of a stream"
    by_place = zip(*(item.sentences for item in batch.items), strict=True)
    examples = [item.example for item in batch.items]
    return TaskBatch(
        sequences=sequences(replace(batch, items=[sentence for of_place in by_place for sentence in of_place])),
        answers=torch.tensor([example.answer for example in examples]),
        items=torch.tensor([item.sentences[0].index for item in batch.items]),
        test_sets=torch.tensor([example.test_set for example in examples]),
        seen=torch.tensor([example.seen for example in examples]),
        global_examples=batch.global_items,
    )


class EncodedExamples:
    """A split's examples with their sentences as token ids.

    Args:
        split: a document for each example.
        examples: of the split.
    """

    def __init__(self, split: EncodedSplit, examples: Sequence[Example]) -> None:
        assert len(split) == len(examples), f"{len(split)} documents for {len(examples)} examples"
        self.split, self.examples = split, examples

    @cached_property
    def lengths(self) -> Int[np.ndarray, " examples"]:
        """The tokens of each in a batch of its like: of its longest sentence, as often as it has sentences."""
        bounds = map(self.split.sentences, range(len(self.examples)))
        return np.array([(len(each) - 1) * int(np.diff(each).max()) for each in bounds], dtype=np.int64)

    def __getitem__(self, index: int) -> EncodedExample:
        item, example = self.split[index], self.examples[index]
        if len(example.sentences) == 1:
            return EncodedExample((item,), example)
        parts = np.split(item.ids, self.split.sentences(index)[1:-1])
        return EncodedExample(tuple(TokenItem(item.index, ids) for ids in parts), example)


class TaskData(CorpusData):
    """Examples of a task as ids of the vocabulary of a trained run.

    Args:
        corpus: where the examples come from.
        encoder: the run that is fine-tuned: its folder, its experiment's name (its newest run) or a checkpoint in it.
            Its vocabulary is the data's, and travels on with the new run.
        annotator: what gives prompts graphs, of all splits; None for systems that need none.
        examples_per_batch: of the global batch, whatever the number of devices; drawn at random.
        eval_tokens_per_batch: budget of tokens at validation and test, padding included.
        kwargs: the arguments of `CorpusData` for workers, seed and collate.
    """

    corpus: TaskCorpus

    def __init__(
        self,
        corpus: TaskCorpus,
        encoder: str,
        *,
        annotator: Annotator | None = None,
        examples_per_batch: int = 64,
        eval_tokens_per_batch: int = 16384,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(
            corpus, annotator=annotator, trees_for=("train", "valid", "test"), vocabulary=None, joining="roots",
            left_dependents="last_piece", max_documents=None, **kwargs,
        )  # fmt: skip
        check_at_least(1, examples_per_batch=examples_per_batch)
        self.encoder, self._examples = encoder, dict[Split, list[Example]]()
        self.examples_per_batch, self.eval_tokens_per_batch = examples_per_batch, eval_tokens_per_batch

    @cached_property
    def encoder_checkpoint(self) -> Path:
        """The file that the encoder's weights lie in."""
        return named_checkpoint(self.encoder)[1]

    def _own_vocabulary(self) -> Vocabulary:
        """The encoder's; a run takes it over and needs the encoder's no more."""
        return load_vocabulary(named_checkpoint(self.encoder_checkpoint)[0] / VOCABULARY_FILE)

    def verbaliser_ids(self) -> list[int]:
        """The id of each class: the first piece of its word."""
        words = self.corpus.verbalisers
        ids = [self.vocabulary.pieces(word)[0] for word in words]
        if len(set(ids)) < len(ids):
            raise UserError(
                f"verbalisers: expected words of different first pieces, found {', '.join(words)}, which this "
                "vocabulary begins alike. Set data.init_args.corpus.init_args.verbalisers."
            )
        return ids

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled examples of an epoch; at validation and test every example once."""
        if split not in self._examples:  # read once for all epochs
            self._examples[split] = list(self.corpus.examples(split))
        examples = EncodedExamples(self.filled_split(split), self._examples[split])
        if epoch is None:
            return self._by_length(examples, self.eval_tokens_per_batch, None)
        ones = np.ones(len(examples.examples), np.int64)  # the unit of a batch is an example, however long
        return self._by_length(examples, self.examples_per_batch, epoch, lengths=ones)

    @property
    def plain_collate(self) -> Collate:
        """Padded examples with their answers."""
        return collate_examples
