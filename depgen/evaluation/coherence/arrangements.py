"""What is asked about a document: which of several arrangements of sentences it is.

Three tasks have this one form. `order`: the document, or its sentences shuffled (Barzilay & Lapata, 2008; Ji et al.,
2015)? `insertion`: to which place does a sentence belong that was taken out (Chen, Snyder & Barzilay, 2007)? `ending`:
does it end with its own last sentence, or with another document's (Mostafazadeh et al., 2016)?

All draws depend on the seed and the words alone, so that systems of any vocabulary are asked the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError

Task = Literal["order", "insertion", "ending"]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """Which of some arrangements is the document.

    Attributes:
        candidates: places among the trial's arrangements, the document (0) first.
        distances: places between where each candidate has a sentence and where it belongs; zeros in other tasks.
    """

    candidates: Int[np.ndarray, " candidates"]
    distances: Float[np.ndarray, " candidates"]


@dataclass(frozen=True)
class Trial:
    """A document, other arrangements of sentences, and the questions about them.

    Attributes:
        name: the document's identifier.
        sentences: the words of all that stand in an arrangement, no two alike.
        arrangements: places in `sentences`, no two rows alike; the first is the document.
        questions: at least one.
    """

    name: str
    sentences: tuple[Words, ...]
    arrangements: Int[np.ndarray, "arrangements length"]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class CoherenceTask:
    """What a system is asked about a corpus.

    Args:
        task: see the module.
        corpus: whose documents; None for that of the run's own.
        split: of it.
        max_documents: only the first so many; None for all.
        sentences: cut documents into pieces of like length of at most so many sentences, each a document from here on;
            None keeps them whole.
        shuffles: (order) of each document.
        insertions: (insertion) sentences that are taken out of each document, one at a time; None for every one.
        distractors: (ending) last sentences of other documents, each against the true one.
        seed: of all draws.
        resamples: of the test set.
    """

    task: Task = "order"
    corpus: Corpus | None = None
    split: Split = "test"
    max_documents: int | None = None
    sentences: int | None = None
    shuffles: int = 24
    insertions: int | None = None
    distractors: int = 3
    seed: int = 0
    resamples: int = 1000

    def __post_init__(self) -> None:
        for name in ("max_documents", "sentences", "shuffles", "insertions", "distractors", "resamples"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise UserError(f"{name}: expected at least 1, found {number}.")

    @property
    def asked(self) -> str:
        """The task and its own number in words."""
        taken = "every sentence" if self.insertions is None else _counted(self.insertions, "sentence")
        return {
            "order": f"{_counted(self.shuffles, 'shuffle')} of each",
            "insertion": f"{taken} of each put back",
            "ending": f"{_counted(self.distractors, 'other ending')} for each",
        }[self.task]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def trials(asked: CoherenceTask, corpus: Corpus) -> list[Trial]:
    """The trials of a corpus, those of documents that are too short to ask about left out.

    A document of one sentence has no place to choose and no end to its beginning; its shuffles are itself.

    Raises:
        UserError: there are none, or too few endings.
    """
    documents = list(_pieces(corpus, asked))
    if asked.task != "order":
        documents = [(name, sentences) for name, sentences in documents if len(sentences) > 1]
    if not any(len(sentences) > 1 for _, sentences in documents):
        raise UserError(
            f"{corpus.name} {asked.split}: expected documents of several sentences, found none. Name a corpus that has "
            "some, such as depgen.data.rocstories.RocStories."
        )
    ask = _asker(asked, documents)
    return [
        _trial(name, sentences, ask, np.random.default_rng((asked.seed, place)))
        for place, (name, sentences) in enumerate(documents)
    ]


def _pieces(corpus: Corpus, asked: CoherenceTask) -> Iterator[tuple[str, list[Words]]]:
    """Documents or pieces of them by name, without sentences that have no words."""
    for document in islice(corpus.documents(asked.split), asked.max_documents):
        filled = [sentence.words for sentence in document.sentences if sentence.words]
        if not filled:
            continue
        cuts = -(-len(filled) // (asked.sentences or len(filled)))
        for number, part in enumerate(np.array_split(np.arange(len(filled)), cuts), start=1):
            name = document.identifier if cuts == 1 else f"{document.identifier}:{number}"
            yield name, [filled[place] for place in part]


Order = tuple[int, ...]
"""Sentences one after the other; the same number is the same words."""
Candidates = list[tuple[Order, int]]
"""Arrangements to choose from, the true one first, and the distance of each."""
_Ask = Callable[[Order, Callable[[Words], int], np.random.Generator], list[Candidates]]


def _asker(asked: CoherenceTask, documents: Sequence[tuple[str, list[Words]]]) -> _Ask:
    """What makes the questions about a document, given it, the number of any sentence, and chance."""
    if asked.task == "order":
        return lambda document, _, generator: shuffled(document, asked.shuffles, generator)
    if asked.task == "insertion":
        return lambda document, _, generator: inserted(document, asked.insertions, generator)
    endings = [sentences[-1] for _, sentences in documents]
    if len(set(endings)) <= asked.distractors:
        raise UserError(
            f"Expected more than {asked.distractors} different endings among the documents, found "
            f"{len(set(endings))}: ask for fewer distractors."
        )

    def ended(document: Order, number: Callable[[Words], int], generator: np.random.Generator) -> list[Candidates]:
        others: dict[int, None] = {}
        while len(others) < asked.distractors:
            drawn = number(endings[int(generator.integers(len(endings)))])
            if drawn != document[-1]:
                others[drawn] = None
        return [[(document, 0), ((*document[:-1], other), 0)] for other in others]

    return ended


def shuffled(document: Order, shuffles: int, generator: np.random.Generator) -> list[Candidates]:
    """The document against each of its shuffles, which may be the document again."""
    return [[(document, 0), (tuple(generator.permutation(document).tolist()), 0)] for _ in range(shuffles)]


def inserted(document: Order, insertions: int | None, generator: np.random.Generator) -> list[Candidates]:
    """Each place for each of the sentences that are taken out; places that give the same text are one, the nearest.

    >>> inserted((0, 1, 1), None, np.random.default_rng(0))[0]
    [((0, 1, 1), 0), ((1, 0, 1), 1), ((1, 1, 0), 2)]
    >>> inserted((0, 1, 1), None, np.random.default_rng(0))[2]
    [((0, 1, 1), 0), ((1, 0, 1), 2)]
    """
    taken = np.arange(len(document))
    if insertions is not None and insertions < len(document):
        taken = np.sort(generator.choice(len(document), insertions, replace=False))
    asked = []
    for place in taken.tolist():
        others = document[:place] + document[place + 1 :]
        found: dict[Order, int] = {}
        for other in sorted(range(len(document)), key=lambda each: abs(each - place)):
            found.setdefault((*others[:other], document[place], *others[other:]), abs(other - place))
        asked.append(list(found.items()))
    return asked


def _trial(name: str, sentences: Sequence[Words], ask: _Ask, generator: np.random.Generator) -> Trial:
    """A trial in which the same text is the same arrangement."""
    texts: dict[Words, int] = {}

    def number(words: Words) -> int:
        return texts.setdefault(words, len(texts))

    rows: dict[Order, int] = {}
    questions = []
    for candidates in ask(tuple(map(number, sentences)), number, generator):
        places = [rows.setdefault(order, len(rows)) for order, _ in candidates]
        distances = np.array([distance for _, distance in candidates], dtype=np.float64)
        questions.append(Question(np.array(places), distances))
    return Trial(name, tuple(texts), np.array(list(rows)), tuple(questions))
