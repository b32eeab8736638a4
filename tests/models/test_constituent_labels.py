"""A vocabulary with the labels of constituents: the pieces are those without them."""

import pytest

from depgen.data.generated import GeneratedLanguage
from depgen.data.vocabulary import SubwordPieces, WordVocabulary
from depgen.models.tg import LABELS, ConstituentLabels
from depgen.trees.sentence import Document, Sentence

DOCUMENTS = [
    Document((Sentence(("a", "b"), spans=((0, 2, "S"), (0, 1, "NP"))), Sentence(("c",), spans=((0, 1, "TOP"),))), "1"),
    Document((Sentence(("d", "a"), spans=((0, 2, "FRAG"),)), Sentence(("e",))), "2"),
]


def test_labels_are_sorted_after_the_one_of_constituents_without_label():
    found = ConstituentLabels().build(iter(DOCUMENTS))
    assert found.tables[LABELS] == ["TOP", "FRAG", "NP", "S"]
    assert found.size == 2 + len("abcde")
    assert ConstituentLabels().reads_trees


class TakesNone:
    """Builds on no document, as a ready tokenizer."""

    def build(self, documents):
        return WordVocabulary().build([])

    def fingerprint(self):
        return "none"


def test_labels_are_those_of_all_documents_whatever_the_builder_reads():
    assert ConstituentLabels(TakesNone()).build(DOCUMENTS).tables[LABELS] == ["TOP", "FRAG", "NP", "S"]


@pytest.mark.parametrize("builder", [WordVocabulary(min_count=2), SubwordPieces(size=300)])
def test_token_types_are_those_of_the_builder(builder):
    documents = list(GeneratedLanguage(train=6, valid=1, test=1, sentences=(5, 5)).documents("train"))
    alone, labelled = builder.build(documents), ConstituentLabels(builder).build(documents)
    assert labelled.types == alone.types
    assert builder.fingerprint() in ConstituentLabels(builder).fingerprint()
