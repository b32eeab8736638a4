"""Questions about a document: which of several arrangements of sentences it is.

Three tasks have this one form. `order`: the document, or its sentences shuffled (Barzilay & Lapata, 2008; Ji et al.,
2015)? `insertion`: to which place does a sentence belong that was taken out (Chen, Snyder & Barzilay, 2007)? `ending`:
does it end with its own last sentence, or with another document's (Mostafazadeh et al., 2016)?

All draws depend on the seed and the words alone, so that systems of any vocabulary get the same questions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError, check_at_least
from depgen.trees.sentence import Sentence

Task = Literal["order", "insertion", "ending"]
Words = tuple[str, ...]
_NUMBERS: Mapping[Task, str] = {"order": "shuffles", "insertion": "insertions", "ending": "distractors"}
"""The number that each task alone has."""
MOST_SENTENCES = 20_000_000
"""Of all arrangements of a corpus together: about half a gigabyte, and a minute before anything is scored."""


@dataclass(frozen=True)
class ArrangementQuestion:
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
        name: the identifier of the document, or of the piece.
        document: that of the document that it is a piece of.
        sentences: all that occur in an arrangement, no two of the same words.
        arrangements: places in `sentences`, no two rows alike; the first is the document.
        questions: at least one.
    """

    name: str
    document: str
    sentences: tuple[Sentence, ...]
    arrangements: Int[np.ndarray, "arrangements length"]
    questions: tuple[ArrangementQuestion, ...]


@dataclass(frozen=True)
class CoherenceTask:
    """The questions about a corpus.

    Args:
        task: `order`, the document or its sentences shuffled; `insertion`, where a sentence belongs that was taken out;
            `ending`, its own last sentence or another document's.
        corpus: whose documents; by default that of the run's own.
        split: of it.
        max_documents: number of documents, the first ones; by default all.
        sentences: (not of endings) cut documents into pieces of like length of at most this many sentences, each a
            document from here on.
        shuffles: (order) of each document.
        insertions: (insertion) sentences that are taken out of each document, one at a time; `null` for every one.
        distractors: (ending) last sentences of other documents, each against the true one.
        seed: of all draws; they depend on it and on the corpus alone.
        resamples: of the test set.

    Raises:
        UserError: numbers out of range, or of another task.
    """

    task: Task = "order"
    corpus: Corpus | None = None
    split: Split = "test"
    max_documents: int | None = None
    sentences: int | None = None
    shuffles: int = 24
    insertions: int | None = 5
    distractors: int = 3
    seed: int = 0
    resamples: int = 1000

    def __post_init__(self) -> None:
        counts = ("max_documents", "sentences", "shuffles", "insertions", "distractors", "resamples")
        check_at_least(1, **{name: getattr(self, name) for name in counts})
        for task, name in _NUMBERS.items():
            if task != self.task and getattr(self, name) != self.__dataclass_fields__[name].default:
                raise UserError(f"{name}: this number is of `{task}`, and the task is `{self.task}`: leave it out.")
        check_at_least(0, seed=self.seed)
        if self.task == "ending" and self.sentences is not None:
            raise UserError(
                "sentences: a piece of a document does not end where the document does, so that `ending` takes whole "
                "documents: leave sentences out."
            )

    @property
    def asked(self) -> str:
        """The task and its own number in words."""
        taken = "every sentence" if self.insertions is None else _counted(self.insertions, "sentence")
        return {
            "order": f"{_counted(self.shuffles, 'shuffle')} of each",
            "insertion": f"{taken} of each put back",
            "ending": f"{_counted(self.distractors, 'other ending')} for each",
        }[self.task]

    def arrangements_of(self, sentences: int) -> int:
        """How many of a document there are at most."""
        taken = sentences if self.insertions is None else min(sentences, self.insertions)
        return {
            "order": 1 + self.shuffles, "insertion": max(1, taken * sentences), "ending": 1 + self.distractors,
        }[self.task]  # fmt: skip


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def trials(asked: CoherenceTask, corpus: Corpus) -> list[Trial]:
    """The trials of a corpus, those of documents that are too short to ask about left out.

    A document of one sentence has no place to choose and no end to its beginning; its shuffles are itself.

    Raises:
        UserError: there are none, too few endings, or more arrangements than can be held.
    """
    documents = list(_pieces(corpus, asked))
    if asked.task != "order":
        documents = [piece for piece in documents if len(piece.sentences) > 1]
    if not any(len(piece.sentences) > 1 for piece in documents):
        raise UserError(
            f"{corpus.name} {asked.split}: expected documents of several sentences, found none. Name a corpus that has "
            "some, such as depgen.data.corpora.RocStories."
        )
    _refuse_too_many(asked, corpus, documents)
    ask = _asker(asked, documents)
    return [_trial(piece, ask, np.random.default_rng((asked.seed, place))) for place, piece in enumerate(documents)]


def _refuse_too_many(asked: CoherenceTask, corpus: Corpus, pieces: Sequence["_Piece"]) -> None:
    """Refuse what would fill the memory before it is found out."""
    lengths = [len(piece.sentences) for piece in pieces]
    total = sum(asked.arrangements_of(length) * length for length in lengths)
    if total > MOST_SENTENCES:
        number = _NUMBERS[asked.task]
        raise UserError(
            f"{corpus.name} {asked.split}: {asked.asked} of {len(pieces):,} documents of up to {max(lengths):,} "
            f"sentences would make arrangements of {total:,} sentences, and at most {MOST_SENTENCES:,} can be asked "
            f"about at once: give fewer {number} or max_documents"
            + ("." if asked.task == "ending" else ", or cut documents by sentences.")
        )


@dataclass(frozen=True)
class _Piece:
    """A document, or a part of one; sentences without words are none of it."""

    name: str
    document: str
    sentences: list[Sentence]


def _pieces(corpus: Corpus, asked: CoherenceTask) -> Iterator[_Piece]:
    """Documents or pieces of them."""
    for document in islice(corpus.documents(asked.split), asked.max_documents):
        filled = [sentence for sentence in document.sentences if sentence.words]
        if not filled:
            continue
        cuts = -(-len(filled) // (asked.sentences or len(filled)))
        for number, part in enumerate(np.array_split(np.arange(len(filled)), cuts), start=1):
            name = document.identifier if cuts == 1 else f"{document.identifier}:{number}"
            yield _Piece(name, document.identifier, [filled[place] for place in part])


Order = tuple[int, ...]
"""Sentences one after the other; the same number is the same words."""
Candidates = list[tuple[Order, int]]
"""Arrangements to choose from, the true one first, and the distance of each."""
_Ask = Callable[[Order, Callable[[Sentence], int], np.random.Generator], list[Candidates]]


def _asker(asked: CoherenceTask, documents: Sequence[_Piece]) -> _Ask:
    """What makes the questions about a document, given it, the number of any sentence, and chance."""
    if asked.task == "order":
        return lambda document, _, generator: shuffled(document, asked.shuffles, generator)
    if asked.task == "insertion":
        return lambda document, _, generator: inserted(document, asked.insertions, generator)
    endings = [piece.sentences[-1] for piece in documents]
    different = len({ending.words for ending in endings})
    if different <= asked.distractors:
        raise UserError(
            f"Expected more than {asked.distractors} different endings among the documents, found {different}: ask "
            "for fewer distractors."
        )

    def ended(document: Order, number: Callable[[Sentence], int], generator: np.random.Generator) -> list[Candidates]:
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


def _trial(piece: _Piece, ask: _Ask, generator: np.random.Generator) -> Trial:
    """A trial in which the same text is the same arrangement."""
    texts: dict[Words, tuple[int, Sentence]] = {}

    def number(sentence: Sentence) -> int:
        return texts.setdefault(sentence.words, (len(texts), sentence))[0]

    rows: dict[Order, int] = {}
    questions = []
    for candidates in ask(tuple(map(number, piece.sentences)), number, generator):
        places = [rows.setdefault(order, len(rows)) for order, _ in candidates]
        distances = np.array([distance for _, distance in candidates], dtype=np.float64)
        questions.append(ArrangementQuestion(np.array(places), distances))
    known = tuple(sentence for _, sentence in texts.values())
    return Trial(piece.name, piece.document, known, np.array(list(rows)), tuple(questions))
