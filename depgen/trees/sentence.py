"""What every corpus reader yields: sentences with whatever structure is known of them, in documents; what is a tree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from depgen.errors import UserError

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


def check_tree(
    heads: Sequence[int],
    where: str | Callable[[int], str],
    *,
    single_root: bool = False,
    words: Sequence[str] | None = None,
) -> None:
    """Raises UserError unless every word has one head (1-based, 0 = root) and is reached from a root. O(n).

    Args:
        heads: one head a word.
        where: the sentence's place, or a function from a 1-based token to its place, such as `corpus.conllu:1042`.
        single_root: whether a second root is refused too.
        words: forms to name in messages.

    Raises:
        UserError: a head out of range, a word that is its own head, no root, several roots (if refused) or a cycle.

    >>> check_tree([2, 0, 2], "here")
    >>> check_tree([2, 3, 1, 0], "here:7", words="a b c d".split())
    Traceback (most recent call last):
    depgen.errors.UserError: here:7: tokens 1 (a) -> 2 (b) -> 3 (c) -> 1 (a) head one another in a cycle
    """

    def refuse(token: int, complaint: str) -> UserError:
        return UserError(f"{where if isinstance(where, str) else where(token)}: {complaint}")

    for token, head in enumerate(heads, start=1):
        if not 0 <= head <= len(heads):
            raise refuse(token, f"token {token} has head {head}, but the sentence has {len(heads)} words")
        if head == token:
            raise refuse(token, f"token {token} is its own head")
    roots = [token for token, head in enumerate(heads, start=1) if head == 0]
    if heads and not roots:
        raise refuse(1, "the sentence has no root: no token has head 0")
    if single_root and len(roots) > 1:
        raise refuse(roots[1], f"tokens {' and '.join(map(str, roots))} have head 0, but one root is allowed")
    if cycle := find_cycle(heads):
        names = [f"{token} ({words[token - 1]})" if words else str(token) for token in [*cycle, cycle[0]]]
        raise refuse(cycle[0], f"tokens {' -> '.join(names)} head one another in a cycle")


def find_cycle(heads: Sequence[int]) -> list[int]:
    """The 1-based tokens of one cycle, each followed by its head; empty if there is none. O(n).

    >>> find_cycle([2, 0, 2]), find_cycle([0, 3, 2])
    ([], [2, 3])
    """
    seen_from = [0] * (len(heads) + 1)  # the start of the walk upwards that first met a token
    for start in range(1, len(heads) + 1):
        token = start
        while token > 0 and not seen_from[token]:
            seen_from[token] = start
            token = heads[token - 1]
        if token > 0 and seen_from[token] == start:
            cycle = [token]
            while heads[cycle[-1] - 1] != token:
                cycle.append(heads[cycle[-1] - 1])
            return cycle
    return []
