"""Tasks of GLUE (Wang et al., 2018) as prompts whose next word is the answer: RTE, SST-2, MRPC, STS-B.

Test answers are not public: the development file is the test split, and every tenth example of the training file, by
which weights are chosen, is the validation split.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from depgen.data.corpus import Split, SplitStatistics, files_sha256
from depgen.data.sts import similarity_of
from depgen.errors import UserError, check_at_least, check_one_of
from depgen.locations import find_file
from depgen.trees.lines import read_texts
from depgen.trees.sentence import Document, Sentence

Task = Literal["rte", "sst2", "mrpc", "stsb"]
SELECTED_EVERY = 10
_HOW_TO_GET = "The tasks are at https://gluebenchmark.com/tasks: put train.tsv and dev.tsv into {}."


@dataclass(frozen=True)
class GlueTask:
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
TASKS: Mapping[Task, GlueTask] = {
    "rte": GlueTask("RTE", ("sentence1", "sentence2"), "label", ("not_entailment", "entailment"), _PAIR, ("0", "1")),
    "sst2": GlueTask(
        "SST-2", ("sentence",), "label", ("0", "1"), "Sentence1:{0}; Sentiment:", ("negative", "positive")
    ),
    "mrpc": GlueTask(
        "MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), _PAIR, ("inequivalent", "equivalent")
    ),
    "stsb": GlueTask(
        "STS-B", ("sentence1", "sentence2"), "score", (), "Sentence1:{0}; Sentence2:{1}; Score:", ()
    ),
}  # fmt: skip
"""Prompts of Huang et al. (2026), Appendix A. Verbalisers of SST-2 are those of the code; the paper has 0 and 1."""


@dataclass(frozen=True)
class Prompt:
    """An example of a task.

    Attributes:
        identifier: file and line.
        words: of the prompt, at white space; marks stay with their words.
        answer: the place of its class, or its similarity.
    """

    identifier: str
    words: tuple[str, ...]
    answer: float


def read_task(path: Path, task: GlueTask) -> list[tuple[str, tuple[str, ...], float]]:
    """The identifier, the sentences and the answer of each line; the first line names the columns, quotes are text.

    Raises:
        UserError: an empty file, a missing column, a line of another number of columns, an answer that there is not, no
            example.
    """
    first, *lines = read_texts(path)
    names = first.split("\t")
    if missing := [name for name in (*task.texts, task.label) if name not in names]:
        raise UserError(f"{path}:1: expected the column {missing[0]!r}, found {', '.join(map(repr, names))}.")
    found = []
    for number, line in enumerate(lines, start=2):
        fields = line.split("\t")
        if len(fields) != len(names):
            raise UserError(f"{path}:{number}: expected {len(names)} columns between tabs, found {len(fields)}.")
        row = dict(zip(names, fields, strict=True))
        answer = _answer(row[task.label], task, f"{path}:{number}")
        found.append((f"{path.name}:{number}", tuple(row[name] for name in task.texts), answer))
    if not found:
        raise UserError(f"{path}: expected examples below the names of columns, found none. Copy the file again.")
    return found


def _answer(text: str, task: GlueTask, where: str) -> float:
    """The place of a class, or a similarity.

    Raises:
        UserError: it is neither.
    """
    if not task.classes:
        return similarity_of(text, f"{where}: {task.label}")
    if text not in task.classes:
        raise UserError(f"{where}: {task.label}: expected {' or '.join(task.classes)}, found {text!r}.")
    return float(task.classes.index(text))


class GluePrompts:
    """The prompts of a task, one a document of one sentence.

    Args:
        task: which one.
        folder: where the tasks' folders lie, under `$DEPGEN_DATA` unless absolute.
        prompt: with `{0}` and `{1}` for the sentences; None: the paper's.
        verbalisers: a word for each class, the classes in the order of `GlueTask.classes`; None: the authors' code's.
        max_examples: use only the first examples of the training file, for training and validation; None: all.

    Raises:
        UserError: no such task, a prompt that lacks a sentence, or another number of words than of classes.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        task: Task,
        folder: str = "glue",
        *,
        prompt: str | None = None,
        verbalisers: Sequence[str] | None = None,
        max_examples: int | None = None,
    ) -> None:
        check_one_of(task=(task, Task))
        check_at_least(SELECTED_EVERY, max_examples=max_examples)
        self.max_examples = max_examples
        self.task, self.folder, self.name = task, folder, f"GLUE {task}"
        self.layout = TASKS[task]
        self.prompt = self.layout.prompt if prompt is None else prompt
        self.verbalisers = self.layout.verbalisers if verbalisers is None else tuple(verbalisers)
        places = {f"{{{k}}}" for k in range(len(self.layout.texts))}
        if places != {*re.findall(r"\{[01]\}", self.prompt)}:
            raise UserError(f"prompt: expected {' and '.join(sorted(places))} for {task}, found {self.prompt!r}.")
        if len(self.verbalisers) != len(self.layout.classes):
            raise UserError(
                f"verbalisers: expected {len(self.layout.classes)} words for {task}, found {list(self.verbalisers)}."
            )

    def prompts(self, split: Split) -> Iterator[Prompt]:
        """The prompts of a split, in file order.

        Raises:
            UserError: a file is missing, or is not as expected.
        """
        examples = read_task(self._path(split), self.layout)
        most = None if split == "test" else self.max_examples
        for place, (identifier, texts, answer) in enumerate(examples[:most]):
            chosen = (place + 1) % SELECTED_EVERY == 0
            if split == "test" or chosen == (split == "valid"):
                yield Prompt(identifier, self._asked(texts), answer)

    def _asked(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The words of the prompt with the sentences in it."""
        return tuple(re.sub(r"\{([01])\}", lambda found: texts[int(found[1])].strip(), self.prompt).split())

    def documents(self, split: Split) -> Iterator[Document]:
        """The same, each a document of one sentence."""
        for prompt in self.prompts(split):
            yield Document((Sentence(prompt.words),), prompt.identifier)

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's file and of the reading options."""
        options = {"split": split, "task": self.task, "prompt": self.prompt}
        most = {} if split == "test" or self.max_examples is None else {"max_examples": self.max_examples}
        return files_sha256([self._path(split)], reader="GluePrompts", **options, **most)

    def _path(self, split: Split) -> Path:
        folder = Path(self.folder) / self.layout.folder
        return find_file(
            folder / ("dev.tsv" if split == "test" else "train.tsv"), how_to_get=_HOW_TO_GET.format(folder)
        )
