"""Questions about a document: which of several arrangements of sentences it is.

Three tasks have this one form. `order`: the document, or its sentences shuffled (Barzilay & Lapata, 2008; Ji et al.,
2015)? `insertion`: to which place does a sentence belong that was taken out (Chen, Snyder & Barzilay, 2007)? `ending`:
does it end with its own last sentence, or with another document's (Mostafazadeh et al., 2016)?

All draws depend on the seed and the words alone, so that systems of any vocabulary get the same options.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError, check_at_least
from depgen.trees.sentence import Sentence

Task = Literal["order", "insertion", "ending"]


@dataclass(frozen=True)
class CoherenceOptions:
    """The options of `coherence`: the questions about a corpus, and how their answers are counted.

    Attributes:
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
        against: the items of another run for the same questions (its `--item_output`): the difference of the two
            accuracies, with its 95 % interval over documents (pieces of one are drawn together); and the z of the
            paper, which is of resampled test sets.
        tokens_per_batch: scored at once, padding included; no score depends on it.
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
    against: Path | None = None
    tokens_per_batch: int | None = None

    def __post_init__(self) -> None:
        counts = (
            "max_documents", "sentences", "shuffles", "insertions", "distractors", "resamples", "tokens_per_batch",
        )  # fmt: skip
        check_at_least(1, **{name: getattr(self, name) for name in counts})
        check_at_least(0, seed=self.seed)
        if self.task == "ending" and self.sentences is not None:
            raise UserError(
                "sentences: a piece of a document does not end where the document does, so that `ending` takes whole "
                "documents: leave sentences out."
            )

    def __str__(self) -> str:
        taken = "every sentence" if self.insertions is None else _counted(self.insertions, "sentence")
        return {
            "order": f"{_counted(self.shuffles, 'shuffle')} of each",
            "insertion": f"{taken} of each put back",
            "ending": f"{_counted(self.distractors, 'other ending')} for each",
        }[self.task]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Question(NamedTuple):
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
    questions: tuple[Question, ...]


class _Piece(NamedTuple):
    """A document, or a part of one; sentences without words are none of it."""

    name: str
    document: str
    sentences: list[Sentence]


def trials(options: CoherenceOptions, corpus: Corpus) -> list[Trial]:
    """The trials of a corpus, those of documents that are too short to ask about left out.

    A document of one sentence has no place to choose and no end to its beginning; its shuffles are itself.
    """
    pieces = list(_pieces(options, corpus))
    if options.task != "order":
        pieces = [piece for piece in pieces if len(piece.sentences) > 1]
    if not any(len(piece.sentences) > 1 for piece in pieces):
        raise UserError(
            f"{corpus.name} {options.split}: expected documents of several sentences, found none. Name a corpus that "
            "has some, such as depgen.data.corpora.RocStories."
        )
    endings = [piece.sentences[-1] for piece in pieces]
    different = len({ending.words for ending in endings})
    if options.task == "ending" and different <= options.distractors:
        raise UserError(
            f"Expected more than {options.distractors} different endings among the documents, found {different}: "
            "ask for fewer distractors."
        )
    return [
        _trial(options, piece, endings, np.random.default_rng((options.seed, place)))
        for place, piece in enumerate(pieces)
    ]


def _pieces(options: CoherenceOptions, corpus: Corpus) -> Iterator[_Piece]:
    for document in islice(corpus.documents(options.split), options.max_documents):
        filled = [sentence for sentence in document.sentences if sentence.words]
        if not filled:
            continue
        cuts = -(-len(filled) // (options.sentences or len(filled)))
        for number, part in enumerate(np.array_split(np.arange(len(filled)), cuts), start=1):
            name = document.identifier if cuts == 1 else f"{document.identifier}:{number}"
            yield _Piece(name, document.identifier, [filled[place] for place in part])


def _trial(
    options: CoherenceOptions, piece: _Piece, endings: Sequence[Sentence], generator: np.random.Generator
) -> Trial:
    """A trial in which the same text is the same arrangement."""
    texts: dict[tuple[str, ...], tuple[int, Sentence]] = {}

    def number(sentence: Sentence) -> int:
        return texts.setdefault(sentence.words, (len(texts), sentence))[0]

    document = tuple(map(number, piece.sentences))
    if options.task == "order":
        choices = shuffled(document, options.shuffles, generator)
    elif options.task == "insertion":
        choices = inserted(document, options.insertions, generator)
    else:
        choices = ended(document, options.distractors, lambda: number(endings[int(generator.integers(len(endings)))]))
    rows: dict[Order, int] = {}
    asked = tuple(
        Question(
            np.array([rows.setdefault(order, len(rows)) for order, _ in candidates]),
            np.array([distance for _, distance in candidates], dtype=np.float64),
        )
        for candidates in choices
    )
    known = tuple(sentence for _, sentence in texts.values())
    return Trial(piece.name, piece.document, known, np.array(list(rows)), asked)


Order = tuple[int, ...]
"""Sentences one after the other; the same number is the same words."""
Candidates = list[tuple[Order, int]]
"""Arrangements to choose from, the true one first, and the distance of each."""


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
    choices = []
    for place in taken.tolist():
        others = document[:place] + document[place + 1 :]
        candidates: dict[Order, int] = {}
        for other in sorted(range(len(document)), key=lambda each: abs(each - place)):
            candidates.setdefault((*others[:other], document[place], *others[other:]), abs(other - place))
        choices.append(list(candidates.items()))
    return choices


def ended(document: Order, distractors: int, draw: Callable[[], int]) -> list[Candidates]:
    """The document against itself with each of some different endings, drawn until there are enough."""
    others: dict[int, None] = {}
    while len(others) < distractors:
        drawn = draw()
        if drawn != document[-1]:
            others[drawn] = None
    return [[(document, 0), ((*document[:-1], other), 0)] for other in others]
