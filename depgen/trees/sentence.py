"""What every corpus reader yields: sentences with whatever structure is known of them, in documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

Edge = tuple[int, int, str]
"""Head, dependent and label; both 1-based, head 0 = root."""
Constituent = tuple[int, int, str]
"""First word, the word after the last, and label; both 0-based."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words and, where annotated, a dependency tree, a graph or constituents over them.

    Attributes:
        words: the surface forms.
        heads: one head a word, 1-based, 0 = root; None = not annotated.
        relations: one dependency relation a word, next to `heads`.
        tags: one part-of-speech tag a word.
        edges: of a graph, in which a word may have several heads or none; sorted by dependent, head and label, none
            twice; None = not annotated.
        spans: the constituents of a tree, without its tags; top-down, those further left first, and of several over
            the same words the outermost first; None = not annotated.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...] | None = None
    relations: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    edges: tuple[Edge, ...] | None = None
    spans: tuple[Constituent, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("heads", "relations", "tags"):
            column = getattr(self, name)
            assert column is None or len(column) == len(self.words), f"{len(self.words)} words but {len(column)} {name}"
        if self.edges is not None:
            order = [(dependent, head, label) for head, dependent, label in self.edges]
            assert order == sorted(order), "edges are sorted by dependent, head and label (depgen.trees.graph)"
        if self.spans is not None:
            places = [(start, -end) for start, end, _ in self.spans]
            assert places == sorted(places), "constituents are in top-down order"

    def with_heads(self, heads: Sequence[int]) -> "Sentence":
        """The sentence with another tree, whose relations are `root` and `dep`.

        >>> Sentence(("she", "went")).with_heads([2, 0]).relations
        ('dep', 'root')
        """
        relations = tuple("root" if head == 0 else "dep" for head in heads)
        return replace(self, heads=tuple(heads), relations=relations)

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences that belong together: a story, an article, or a single line of a corpus of lines."""

    sentences: tuple[Sentence, ...]
    identifier: str

    def words(self) -> Iterator[str]:
        """All words in order."""
        for sentence in self.sentences:
            yield from sentence.words
