"""Trees, sentences and documents for hypothesis to draw, and SDP files."""

from itertools import pairwise

from hypothesis import strategies as st

from depgen.trees.graph import sorted_edges
from depgen.trees.sdp import HEADER, format_sdp
from depgen.trees.sentence import Document, Sentence


def write_sdp(documents, path, *, release="2015"):
    """Write documents as SDP; the sentences of one of several are numbered by three digits after its identifier."""
    parts = [f"{HEADER}\n"] if release == "2015" else []
    for document in documents:
        for number, sentence in enumerate(document.sentences, start=1):
            suffix = f"{number:03d}" if len(document.sentences) > 1 else ""
            parts.append(f"{format_sdp(sentence, document.identifier + suffix, release=release)}\n")
    path.write_text("".join(parts))


@st.composite
def head_lists(draw, min_size=1, max_size=12, single_root=False):
    """Any forest under root 0: words enter in a drawn order, each under one that is in already."""
    count = draw(st.integers(min_size, max_size))
    order = draw(st.permutations(range(1, count + 1)))
    heads = [0] * count
    for index, word in enumerate(order):
        candidates = order[:index] if single_root and index else [0, *order[:index]]
        heads[word - 1] = draw(st.sampled_from(candidates))
    return heads


@st.composite
def projective_heads(draw, min_size=1, max_size=12):
    """A projective tree with one root: each part of the sentence gets a first word, and the words at both of its sides
    are cut into parts that depend on it."""
    heads = [0] * draw(st.integers(min_size, max_size))
    parts = [(1, len(heads) + 1, 0)]
    while parts:
        first, stop, head = parts.pop()
        word = draw(st.integers(first, stop - 1))
        heads[word - 1] = head
        for start, end in ((first, word), (word + 1, stop)):
            cuts = sorted(draw(st.sets(st.integers(start + 1, end - 1)))) if end - start > 1 else []
            bounds = [start, *cuts, end] if end > start else []
            parts += [(begin, until, word) for begin, until in pairwise(bounds)]
    return heads


FORMS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=5).filter(
    lambda form: form.strip() and form != "_"
)


@st.composite
def sentences(draw):
    heads = draw(head_lists())
    column = st.lists(FORMS, min_size=len(heads), max_size=len(heads)).map(tuple)
    return Sentence(
        draw(column),
        draw(st.none() | st.just(tuple(heads))),
        draw(st.none() | column),
        draw(st.none() | column),
    )


@st.composite
def documents(draw):
    identifier = draw(st.text("abcdef0123456789-_.", min_size=1))
    return Document(tuple(draw(st.lists(sentences(), min_size=1, max_size=3))), identifier)


@st.composite
def graphs(draw, length, max_edges=12):
    """Edges over so many words: any heads, no self-loops, none twice."""
    ends = st.tuples(st.integers(0, length), st.integers(1, length)).filter(lambda pair: pair[0] != pair[1])
    labels = st.sampled_from(["ARG1", "ARG2", "top", "conj:and"])
    edges = draw(st.lists(st.tuples(ends, labels), max_size=max_edges if length else 0, unique=True))
    return sorted_edges((head, dependent, label) for (head, dependent), label in edges)


@st.composite
def constituents(draw, length):
    """The constituents of a tree over some words, some of them over the same words; maybe none."""
    found, pending = [], [(0, length)]
    while pending:
        start, end = pending.pop()
        found += [(start, end, label) for label in draw(st.lists(st.sampled_from(["S", "NP", "VP"]), max_size=2))]
        if end - start > 1:
            cut = draw(st.integers(start + 1, end - 1))
            pending += [(start, cut), (cut, end)]
    return tuple(sorted(found, key=lambda each: (each[0], -each[1])))
