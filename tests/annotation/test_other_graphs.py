"""Graphs of other sentences: who gets whose, what becomes of lengths that occur once, and the tables on disk."""

import logging
import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.annotation.controls import GoldTrees, GraphsOfOtherSentences, TreesOfOtherSentences, graph_givers
from depgen.data import table as tables
from depgen.data.corpus import WithSteps
from depgen.data.generated import GeneratedLanguage
from depgen.data.rows import document_of_row
from depgen.data.steps import WithPartners
from depgen.data.table import AnnotatedSplit
from depgen.errors import UserError
from depgen.trees.annotator import Rearranger
from depgen.trees.sentence import Document, Sentence
from tests.annotation.annotators import Named, named

GOLD = GoldTrees(structure="graph")


def sentence_of(name, length):
    return Sentence((f"name{name}", *"w" * (length - 1)))


def giver_of(sentence):
    """The name of the sentence whose graph this one has."""
    (name,) = {label for *_, label in sentence.edges}
    return name


class Shelf:
    """A corpus of documents of three sentences of each of the lengths 1 to 4."""

    name, published = "shelf", {}

    def documents(self, split):
        for number in range(4):
            sentences = tuple(sentence_of(f"-{split}-{number}-{k}", 1 + (number + k) % 4) for k in range(3))
            yield Document(sentences, f"{split}-{number}")

    def fingerprint(self, split):
        return f"shelf {split}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))


def names_by_length(rows):
    """Pairs of the name of a sentence and that of the giver of its graph, by length."""
    found = defaultdict(list)
    for row in rows:
        for sentence in document_of_row(row).sentences:
            found[len(sentence)].append((sentence.words[0], giver_of(sentence)))
    return found


@given(st.lists(st.integers(1, 6), min_size=2, max_size=20), st.integers(0, 9))
def test_each_graph_of_a_length_is_used_once_and_never_by_its_own_sentence(lengths, seed):
    givers, alone = graph_givers(lengths, random.Random(seed))
    counts = Counter(lengths)
    assert alone == sum(count == 1 for count in counts.values())
    for index, giver in enumerate(givers):
        assert giver != index
        if counts[lengths[index]] == 1:
            others = {length for length in counts if length != lengths[index]}
            assert abs(lengths[giver] - lengths[index]) == min(abs(other - lengths[index]) for other in others)
            assert lengths[giver] > lengths[index] or 2 * lengths[index] - lengths[giver] not in others
    used = Counter(giver for index, giver in enumerate(givers) if counts[lengths[index]] > 1)
    assert used == Counter(index for index, length in enumerate(lengths) if counts[length] > 1)


def test_sentences_get_graphs_of_others_and_no_trees():
    sentences = [named(sentence_of(k, 3)) for k in range(20)]
    annotator = GraphsOfOtherSentences(GOLD)
    found = annotator.annotate(sentences)
    assert [each.words for each in found] == [each.words for each in sentences]
    assert sorted(each.edges for each in found) == sorted(each.edges for each in sentences)
    assert all(giver_of(each) != each.words[0] for each in found)
    assert {(each.heads, each.relations) for each in found} == {(None, None)}
    assert annotator.annotate(sentences) == found != GraphsOfOtherSentences(GOLD, seed=1).annotate(sentences)
    assert annotator.annotate([]) == []


def test_the_only_sentence_of_its_length_gets_a_part_of_the_nearest_graph(caplog):
    caplog.set_level(logging.INFO)
    sentences = [named(sentence_of(k, length)) for k, length in enumerate([3, 3, 5, 7, 6])]
    sentences[3] = replace(sentences[3], edges=((2, 1, "name3"), (7, 2, "name3"), (0, 7, "name3")))
    found = GraphsOfOtherSentences(GOLD).annotate(sentences)
    assert [giver_of(each) for each in found] == ["name1", "name0", "name4", "name4", "name3"]
    assert found[2].edges == tuple((word - 1, word, "name4") for word in range(1, 6))
    assert found[4].edges == ((2, 1, "name3"),)
    assert "of 5 sentences, 3 are the only ones of their length (3 edges left out)" in caplog.text


def test_sentences_without_a_graph_give_none():
    left = [replace(sentence_of(k, 2), edges=((2, 1, "x"),) if k else None) for k in range(3)]
    partly = GoldTrees(structure="graph")
    partly.leaves_out, partly.annotate = True, list
    annotator = GraphsOfOtherSentences(partly)
    assert annotator.leaves_out
    assert sorted(str(each.edges) for each in annotator.annotate(left)) == sorted(str(each.edges) for each in left)


def test_the_other_annotator_is_part_of_the_fingerprint(tmp_path):
    one = GraphsOfOtherSentences(Named(tmp_path / "calls"))
    assert isinstance(one, Rearranger)
    assert not isinstance(GOLD, Rearranger)
    assert (one.structure, one.leaves_out, one.self_loops) == ("graph", False, False)
    assert GraphsOfOtherSentences(GOLD).self_loops
    others = one.annotator, GraphsOfOtherSentences(one.annotator, seed=1), GraphsOfOtherSentences(GOLD)
    assert len({each.fingerprint() for each in (one, *others)}) == 4
    assert one.fingerprint() == GraphsOfOtherSentences(Named(tmp_path / "calls")).fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_split_is_rearranged_as_a_whole_from_the_other_annotators_table(tmp_path, monkeypatch, processes):
    monkeypatch.setattr(tables, "DOCUMENTS_PER_CHUNK", 1)
    log = tmp_path / "calls"
    annotator = GraphsOfOtherSentences(Named(log))
    found = names_by_length(AnnotatedSplit(Shelf(), "valid", annotator).table(processes=processes))
    assert {length: len(pairs) for length, pairs in found.items()} == {1: 3, 2: 3, 3: 3, 4: 3}
    for pairs in found.values():
        assert sorted(name for name, _ in pairs) == sorted(giver for _, giver in pairs)
        assert all(name != giver for name, giver in pairs)
    assert len(log.read_text().splitlines()) == 4
    other = names_by_length(AnnotatedSplit(Shelf(), "valid", GraphsOfOtherSentences(Named(log), seed=2)).table())
    assert other != found
    assert len(log.read_text().splitlines()) == 4, "the other annotator's table is made once"
    table = AnnotatedSplit(Shelf(), "valid", annotator).table()
    assert set(table["heads"][0]) == {-1}
    words = AnnotatedSplit(Shelf(), "valid", annotator.annotator).table()["words"]
    assert list(table["words"]) == list(words)


def test_the_first_documents_are_rearranged_by_themselves(tmp_path):
    annotator = GraphsOfOtherSentences(Named(tmp_path / "calls"))
    whole = AnnotatedSplit(Shelf(), "train", annotator).table()
    first = AnnotatedSplit(Shelf(), "train", annotator, max_documents=2).table()
    assert len(first) == 2
    of_first = {name for row in first for name in row["words"] if name.startswith("name")}
    givers = {giver for pairs in names_by_length(first).values() for _, giver in pairs}
    assert givers <= of_first
    assert not {giver for pairs in names_by_length(whole.select([0, 1])).values() for _, giver in pairs} <= of_first
    of_whole, of_two = (AnnotatedSplit(Shelf(), "train", annotator, max_documents=limit) for limit in (None, 2))
    assert of_whole.fingerprint() != of_two.fingerprint()


def test_a_single_sentence_is_named_by_its_document(tmp_path):
    class Lone(Shelf):
        def documents(self, split):
            yield Document((sentence_of("a", 3),), "only")

    with pytest.raises(UserError, match=r"only, sentence 1: expected another sentence .* Add sentences"):
        AnnotatedSplit(Lone(), "test", GraphsOfOtherSentences(Named(tmp_path / "calls"))).table()


def test_trees_of_other_sentences_are_the_same_trees_elsewhere(caplog):
    caplog.set_level(logging.INFO)
    corpus = WithSteps(GeneratedLanguage(40, 1, 1), steps=[WithPartners()])
    sentences = [document.sentences[0] for document in corpus.documents("train")]
    others = TreesOfOtherSentences(GoldTrees()).annotate(sentences)
    assert [each.words for each in others] == [each.words for each in sentences]
    assert all(one.heads != other.heads for one, other in zip(sentences, others, strict=True))
    assert Counter((each.heads, each.relations) for each in others) == Counter(
        (each.heads, each.relations) for each in sentences
    )
    pairs = zip(sentences, others, strict=True)
    same = [head == other for one, two in pairs for head, other in zip(one.heads, two.heads, strict=True)]
    assert f"{100 * sum(same) / len(same):.1f} % of the heads of {len(sentences)} sentences" in caplog.messages[-1]
