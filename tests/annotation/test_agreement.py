"""Agreement of two annotators against a case worked by hand."""

from dataclasses import replace
from typing import ClassVar

import pytest

from depgen.annotation.agreement import agreement, parser_agreement
from depgen.annotation.scores import attachment_scores
from depgen.annotation.trivial import GoldTrees, LeftChain, RightChain
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


class Stories:
    name = "stories"
    published: ClassVar = {}

    def __init__(self, documents):
        self._documents = documents

    def documents(self, split):
        return iter(self._documents)

    def fingerprint(self, split):
        return "0"


STORIES = Stories(
    [
        Document((Sentence(("she", "sang", "."), (2, 0, 2), ("dep", "root", "dep")),), "one"),
        Document((Sentence(("go", "!"), (0, 1), ("root", "punct")),), "two"),
    ]
)


def test_counts_by_hand():
    found = agreement(STORIES, "valid", GoldTrees("gold"), LeftChain(), punctuation="form")
    # heads (2, 0, 2), (0, 1) against (0, 1, 2), (0, 1)
    assert found.heads == pytest.approx(100 * 3 / 5)
    assert found.heads_and_relations == pytest.approx(100 * 2 / 5)
    assert found.heads_without_punctuation == pytest.approx(100 * 1 / 3)
    assert found.heads_and_relations_without_punctuation == pytest.approx(100 * 1 / 3)
    assert found.arcs == pytest.approx(100 * 4 / 5)
    assert found.trees == 50
    assert (found.words, found.sentences, found.documents) == (5, 2, 2)


def test_it_is_symmetric():
    one = agreement(STORIES, "valid", LeftChain(), RightChain(), punctuation="form")
    other = agreement(STORIES, "valid", RightChain(), LeftChain(), punctuation="form")
    assert replace(one, first=other.first, second=other.second) == other


class Trees(LeftChain):
    """An annotator that gives the trees of a list."""

    def __init__(self, trees):
        self.trees = trees

    def annotate(self, sentences):
        return self.trees


@pytest.mark.parametrize("punctuation", ["relation", "form"])
def test_punctuation_is_the_same_to_agreement_and_parsers_scores(punctuation):
    gold = [sentence for document in STORIES.documents("valid") for sentence in document.sentences]
    found = [replace(sentence, heads=tuple(range(len(sentence)))) for sentence in gold]
    agreed = agreement(STORIES, "valid", Trees(gold), Trees(found), punctuation=punctuation)
    scores = attachment_scores(gold, found, punctuation=punctuation)
    assert agreed.heads_without_punctuation == pytest.approx(scores.uas_without_punctuation)
    assert agreed.heads_and_relations_without_punctuation == pytest.approx(scores.las_without_punctuation)
    expected = {"relation": 2 / 4, "form": 1 / 3}  # the first sentence's `.` is no punct
    assert scores.uas_without_punctuation == pytest.approx(100 * expected[punctuation])


def test_punctuation_by_relation_needs_relations():
    bare = [replace(each, relations=None) for document in STORIES.documents("valid") for each in document.sentences]
    with pytest.raises(UserError, match="found a tree without them: take punctuation: form"):
        agreement(STORIES, "valid", Trees(bare), Trees(bare))
    assert agreement(STORIES, "valid", Trees(bare), GoldTrees("gold")).heads == 100


def test_fewer_than_one_document_are_refused():
    for documents in (0, -1):
        with pytest.raises(UserError, match=f"documents: expected at least 1, found {documents}"):
            parser_agreement(STORIES, GoldTrees("gold"), LeftChain(), documents=documents)


def test_only_the_first_documents_count():
    assert agreement(STORIES, "valid", LeftChain(), LeftChain(), documents=1).words == 3
    report = parser_agreement(STORIES, LeftChain(), RightChain(), documents=1)
    assert "left chain / right chain on 1 documents, 1 sentences, 3 words" in report


def test_annotators_of_graphs_are_refused():
    for pair in ((LeftChain(), GoldTrees("own graphs", "graph")), (GoldTrees("own graphs", "graph"), LeftChain())):
        with pytest.raises(UserError, match=r"own graphs: expected an annotator that gives trees.*graph"):
            agreement(STORIES, "valid", *pair)
