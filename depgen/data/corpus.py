"""The protocol of corpora: documents by split, with the statistics that were published for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from depgen.trees.sentence import Document
from depgen.trees.text_form import FormName

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


@dataclass(frozen=True)
class SplitStatistics:
    """Sizes of one split; None where nothing is published."""

    documents: int | None = None
    sentences: int | None = None
    tokens: int | None = None
    types: int | None = None


@runtime_checkable
class Corpus(Protocol):
    """A corpus of documents.

    Attributes:
        name: what results call it.
        published: the published statistics of each split, to be compared with the files at hand.
    """

    name: str
    published: Mapping[Split, SplitStatistics]

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in file order."""
        ...

    def fingerprint(self, split: Split) -> str:
        """A hex digest of the split's content and of the reading options."""
        ...


@runtime_checkable
class DrawnSplits(Protocol):
    """A corpus without official splits, whose documents a seed has drawn into them."""

    def drawn(self) -> Mapping[Split, Sequence[str]]:
        """Identifiers of each split's documents; empty where there are official splits after all."""
        ...


def sources(corpus: object) -> Iterator[object]:
    """A corpus, the one that it reads, and so on."""
    while corpus is not None:
        yield corpus
        corpus = getattr(corpus, "corpus", None)


def drawn_splits(corpus: Corpus) -> Mapping[Split, Sequence[str]]:
    """Identifiers of each split's documents where a seed has drawn them, in a corpus or in the one that it reads.

    Empty where splits are official.
    """
    return next((each.drawn() for each in sources(corpus) if isinstance(each, DrawnSplits)), {})


def form_of(corpus: Corpus) -> FormName | None:
    """The form that a corpus's text is in (`depgen.trees.text_form`), which it says by an attribute `form`, or not."""
    form: FormName | None = getattr(corpus, "form", None)
    return form


def form_in(corpus: Corpus | None) -> FormName | None:
    """The form of a corpus that says it, or that has been lower-cased; None of any other."""
    if corpus is None:
        return None
    lowercased = any(getattr(each, "lowercase", False) is True for each in sources(corpus))
    return form_of(corpus) or ("lower" if lowercased else None)
