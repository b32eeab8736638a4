"""Encoded tables against what `joined_heads` and `piece_heads` say of each document; and the cache that they lie in."""

from dataclasses import replace

import numpy as np
import pytest
from datasets import concatenate_datasets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depgen.annotation.controls import GoldTrees
from depgen.data import table as tables
from depgen.data.table import EncodedSplit
from depgen.data.text import TextData
from depgen.data.vocabulary import SubwordPieces, WordVocabulary, encode
from depgen.trees.graph import sorted_edges
from depgen.trees.pieces import piece_heads
from depgen.trees.sentence import Document, Sentence
from tests.invented_tables import split_of
from tests.oracles import joined_heads
from tests.shelves import Shelf
from tests.trees.trees import constituents, graphs, head_lists
from tests.vocabularies import NO_WORDS


@st.composite
def annotated_documents(draw):
    """A few documents of a few sentences, with trees, graphs and words that pieces cut in several."""

    def sentence():
        heads = draw(head_lists(max_size=5))
        words = draw(st.lists(st.sampled_from(["a", "bcd", "étés"]), min_size=len(heads), max_size=len(heads)))
        relations = tuple("root" if head == 0 else f"r{head}" for head in heads)
        edges, spans = draw(graphs(len(heads), max_edges=6)), draw(constituents(len(heads)))
        return Sentence(tuple(words), tuple(heads), relations, edges=edges, spans=spans)

    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    return [Document(tuple(sentence() for _ in range(count)), str(n)) for n, count in enumerate(counts)]


VOCABULARIES = {"words": WordVocabulary, "pieces": lambda: SubwordPieces(size=258)}
OPTIONS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def edges_over_pieces(document, word_of_piece, *, joining, left_dependents):
    """The edges (head, dependent, label) of a document's pieces, edge by edge: each as if it were a tree's."""
    found, start = [], 0
    for sentence in document.sentences:
        for head, dependent, label in sentence.edges:
            lone = [-1] * len(sentence)
            lone[dependent - 1] = head
            sentences = [replace(each, heads=(-1,) * len(each), relations=None) for each in document.sentences]
            place = next(n for n, each in enumerate(document.sentences) if each is sentence)
            sentences[place] = replace(sentences[place], heads=tuple(lone))
            joined = joined_heads(Document(tuple(sentences), ""), joining=joining)
            heads = piece_heads(joined, word_of_piece, left_dependents=left_dependents)
            first = word_of_piece.index(start + dependent - 1)
            found.append((heads[first], first + 1, label))
        start += len(sentence)
    later = [n for n in range(1, len(word_of_piece)) if word_of_piece[n] == word_of_piece[n - 1]]
    return sorted_edges([*found, *((n, n + 1, "") for n in later)])


@pytest.mark.slow
@pytest.mark.parametrize("attachment", ["last_piece", "first_piece"])
@pytest.mark.parametrize("kind", VOCABULARIES)
@OPTIONS
@given(documents=annotated_documents(), joining=st.sampled_from(["roots", "previous_sentence"]))
def test_items_are_what_the_plain_functions_say_of_each_document(monkeypatch, documents, joining, kind, attachment):
    monkeypatch.setattr(tables, "ROWS_PER_CHUNK", 2)  # several batches
    gold, builder = GoldTrees(structure="graph"), VOCABULARIES[kind]()
    data = TextData(Shelf(documents), annotator=gold, vocabulary=builder, joining=joining, left_dependents=attachment)
    split = data.split("train")
    assert len(split) == len(documents)
    for item, document in zip(map(split.__getitem__, range(len(split))), documents, strict=True):
        encoding = encode(data.vocabulary, list(document.words()))
        of_piece = encoding.word_of_piece.tolist()
        assert item.ids.tolist() == encoding.ids.tolist()
        joined = joined_heads(document, joining=joining)
        assert item.heads.tolist() == piece_heads(joined, of_piece, left_dependents=attachment)
        words = [relation for sentence in document.sentences for relation in sentence.relations]
        first = [n == 0 or of_piece[n - 1] != word for n, word in enumerate(of_piece)]
        expected = [words[word] if begins else "" for word, begins in zip(of_piece, first, strict=True)]
        assert item.relations.tolist() == expected
        ends = [*first[1:], True]
        assert all(ends) if item.word_ends is None else item.word_ends.tolist() == ends
        heads = zip(item.edges.heads.tolist(), item.edges.labels.tolist(), strict=True)
        dependents = np.repeat(np.arange(1, len(of_piece) + 1), np.diff(item.edges.offsets)).tolist()
        edges = [(head, dependent, label) for (head, label), dependent in zip(heads, dependents, strict=True)]
        assert len(item.edges.offsets) == len(of_piece) + 1
        assert sorted_edges(edges) == edges_over_pieces(document, of_piece, joining=joining, left_dependents=attachment)


def test_sentences_are_kept():
    documents = [Document((Sentence(("a", "b")), Sentence(("c",))), "1"), Document((Sentence(("d", "e", "f")),), "2")]
    split = TextData(Shelf(documents)).split("train")
    assert [split.sentences(document).tolist() for document in (0, 1)] == [[0, 2, 3], [0, 3]]
    assert TextData(Shelf(documents)).joined_items("train") == 1


def test_a_table_is_encoded_once(monkeypatch):
    documents = [Document((Sentence(("a", "b"), (0, 1)),), "1"), Document((Sentence(("c",), (0,)),), "2")]
    calls = []
    encode = tables.encode_documents
    monkeypatch.setattr(
        tables, "encode_documents", lambda *args, **options: calls.append(1) or encode(*args, **options)
    )

    def read(**options):
        return TextData(Shelf(documents), annotator=GoldTrees(), **options).split("train")

    first, second = read(), read()
    assert len(calls) == 1
    for one, other in zip(first, second, strict=True):
        assert (one.ids.tolist(), one.heads.tolist()) == (other.ids.tolist(), other.heads.tolist())
        assert one.ids.dtype == other.ids.dtype == np.int32
    assert not second[0].ids.flags.owndata  # a view of the file
    assert second[0].relations.tolist() == ["_", "_"]
    # another vocabulary, joining, attachment and number of documents
    for options in (
        {"vocabulary": WordVocabulary(max_size=3)}, {"joining": "previous_sentence"}, {"max_documents": 1},
        {"left_dependents": "first_piece"},
    ):  # fmt: skip
        before = len(calls)
        read(**options)
        read(**options)
        assert len(calls) == before + 1, options


def constituents_over_pieces(document, word_of_piece):
    """The constituents (first piece, piece after the last, label) of a document, one by one."""
    found, start = [], 0
    for sentence in document.sentences:
        for first, end, label in sentence.spans:
            pieces = [n for n, word in enumerate(word_of_piece) if start + first <= word < start + end]
            found.append((pieces[0], pieces[-1] + 1, label))
        start += len(sentence)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", VOCABULARIES)
@OPTIONS
@given(documents=annotated_documents())
def test_constituents_of_items_are_those_of_each_document_over_pieces(monkeypatch, documents, kind):
    monkeypatch.setattr(tables, "ROWS_PER_CHUNK", 2)  # several batches
    gold = GoldTrees(structure="constituency")
    data = TextData(Shelf(documents), annotator=gold, vocabulary=VOCABULARIES[kind]())
    split = data.split("train")
    for item, document in zip(map(split.__getitem__, range(len(split))), documents, strict=True):
        of_piece = encode(data.vocabulary, list(document.words())).word_of_piece.tolist()
        found = [(*span, label) for span, label in zip(item.spans.tolist(), item.span_labels.tolist(), strict=True)]
        assert found == constituents_over_pieces(document, of_piece)
        assert item.heads is not None
        assert item.edges is None


def items_of(structure, *documents):
    class Leaving(GoldTrees):
        leaves_out = True

        def annotate(self, sentences):
            return list(sentences)

    shelf = Shelf([Document(sentences, str(number)) for number, sentences in enumerate(documents)])
    return list(TextData(shelf, annotator=Leaving(structure=structure)).split("train"))


def test_sentences_may_lack_a_tree_edges_or_constituents():
    tree = Sentence(("a", "b"), (0, 1), ("root", "dep"), edges=())
    item, other = items_of("graph", (tree,), (Sentence(("a", "b"), edges=((2, 1, "ARG1"),)),))
    assert item.relations.tolist() == ["root", "dep"]
    assert (item.edges.heads.tolist(), item.edges.labels.tolist(), item.edges.offsets.tolist()) == ([], [], [0, 0, 0])
    assert (other.heads.tolist(), other.edges.heads.tolist()) == ([-1, -1], [2])
    (item,) = items_of("graph", (Sentence(("a", "b"), edges=((2, 1, "ARG1"),)),))
    assert (item.heads, item.relations, item.edges.offsets.tolist()) == (None, None, [0, 1, 1])
    bracketed = Sentence(("a", "b"), spans=((0, 2, "S"),))
    lacking, whole, empty = items_of(
        "constituency", (bracketed, Sentence(("c", "d"))), (bracketed,), (Sentence(("a",), spans=()),)
    )
    assert (lacking.spans, lacking.span_labels, lacking.heads) == (None, None, None)
    assert (whole.spans.tolist(), whole.span_labels.tolist()) == ([[0, 2]], ["S"])
    assert (empty.spans.shape, empty.span_labels.tolist()) == ((0, 2), [])


def test_items_are_found_in_every_part_of_a_table():
    """A table of many documents lies in several parts, and a part of a table does not begin at its file's first row."""
    sizes = [2, 1, 3, 2]
    ids, offsets = np.arange(8), np.concatenate([[0], np.cumsum(sizes)])
    whole = split_of(ids, offsets, NO_WORDS)
    parts = [whole.table.select(range(*bounds)) for bounds in ((0, 1), (1, 3), (3, 4))]
    split = EncodedSplit(concatenate_datasets(parts), NO_WORDS)
    assert [item.ids.tolist() for item in split] == [[0, 1], [2], [3, 4, 5], [6, 7]]
    assert split.lengths.tolist() == [3, 2, 4, 3]
    rest = EncodedSplit(whole.table.select(range(1, 4)), NO_WORDS)
    assert [item.ids.tolist() for item in rest] == [[2], [3, 4, 5], [6, 7]]
    assert np.concatenate([*rest.columns.values("ids")]).tolist() == list(range(2, 8))
