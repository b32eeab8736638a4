"""Articles of WikiText: where one ends and the next begins, and what is no title."""

import os

import pytest
from depgen.data.wikitext import WikiText

from depgen.data.corpus import Corpus
from depgen.data.statistics import compare, measure
from depgen.errors import UserError

TEXT = """ \n = Red crane = \n \n The crane is red . It is a <unk> . \n = Goals ; A = \n Key : P \n \n = = Nest = = \n
 \n It nests @-@ here . \n \n = = = Eggs = = = \n \n = 2 + 2 = 4 = \n \n = = Sums = = \n \n Nobody asked " Why ? "
 = Odd start = of a line\n \n = No title , for text follows = \n it does \n \n = Empty = \n \n = = Only this = = \n"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "wiki.train.tokens").write_text(TEXT)
    return tmp_path


def corpus(folder, **options):
    return WikiText(os.fspath(folder), **options)


def texts(document):
    return [" ".join(sentence.words) for sentence in document.sentences]


def test_an_article_begins_with_a_title_that_stands_alone(folder, caplog):
    found = corpus(folder)
    assert isinstance(found, Corpus)
    crane, sums = found.documents("train")
    assert crane.identifier == "Red crane (wiki.train.tokens:2)"
    assert sums.identifier.startswith("2 + 2 = 4 (")
    assert texts(crane) == ["The crane is red .", "It is a <unk> .", "= Goals ; A =", "Key : P", "It nests @-@ here ."]
    assert texts(sums) == [
        'Nobody asked " Why ? "', "= Odd start = of a line", "= No title , for text follows =", "it does",
    ]  # fmt: skip
    assert caplog.messages == ["WikiText-2, train: left out 1 articles of nothing but headings."]


def test_headings_are_sentences_where_they_are_asked_for(folder):
    crane, sums, empty = corpus(folder, headings=True).documents("train")
    assert texts(crane)[0] == "Red crane"
    assert texts(crane)[5:] == ["Nest", "It nests @-@ here .", "Eggs"]
    assert texts(sums)[:2] == ["2 + 2 = 4", "Sums"]
    assert texts(empty) == ["Empty", "Only this"]


def test_reading_options_make_another_corpus(folder):
    options = ({}, {"headings": True}, {"lowercase": True}, {"sentence_splitter": "lines"})
    assert len({corpus(folder, **each).fingerprint("train") for each in options}) == len(options)
    (crane, _) = corpus(folder, sentence_splitter="lines", lowercase=True).documents("train")
    assert texts(crane)[0] == "the crane is red . it is a <unk> ."


def test_text_without_a_title_is_refused(folder):
    (folder / "wiki.train.tokens").write_text(" \n Nobody . \n")
    with pytest.raises(UserError, match=r"train\.tokens:2: expected an article's title"):
        list(corpus(folder).documents("train"))
    with pytest.raises(UserError, match="wikitext-2-v1"):
        list(corpus(folder).documents("test"))


@pytest.mark.real_data
def test_wikitext_2_has_the_published_articles():
    found = WikiText()
    sizes = measure(found)
    assert [sizes[split].documents for split in ("train", "valid", "test")] == [600, 60, 60]
    assert {compare(sizes[split], found.published[split]) for split in sizes} == {"as published"}
