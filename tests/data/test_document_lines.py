"""Documents of a sentence a line."""

import os

import pytest
from depgen.data.document_lines import DocumentLines

from depgen.data.corpus import Corpus
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


def corpus(folder, **options):
    return DocumentLines(os.fspath(folder), **options)


@pytest.mark.parametrize("between", ["\n", "=\n", "==========\n", " \n\n=\n", " = Title = \n", "== Title ==\n"])
def test_blank_lines_or_equality_signs_part_documents(tmp_path, between):
    (tmp_path / "train.txt").write_text(f"{between}The cat sat .\n a = b \n{between}It left .\n")
    found = corpus(tmp_path)
    assert isinstance(found, Corpus)
    first = between.count("\n") + 1
    assert list(found.documents("train")) == [
        Document((Sentence(("The", "cat", "sat", ".")), Sentence(("a", "=", "b"))), f"train.txt:{first}"),
        Document((Sentence(("It", "left", ".")),), f"train.txt:{2 * first + 1}"),
    ]


def test_a_sentence_that_begins_with_an_equality_sign_is_one(tmp_path):
    (tmp_path / "train.txt").write_text("One hour\n= 60 minutes .\n=\nx =\n")
    documents = [
        [" ".join(each.words) for each in document.sentences] for document in corpus(tmp_path).documents("train")
    ]
    assert documents == [["One hour", "= 60 minutes ."], ["x ="]]


def test_lower_case_is_another_corpus(tmp_path):
    (tmp_path / "train.txt").write_text("The cat\n")
    (document,) = corpus(tmp_path, lowercase=True).documents("train")
    assert document.sentences[0].words == ("the", "cat")
    assert corpus(tmp_path).fingerprint("train") != corpus(tmp_path, lowercase=True).fingerprint("train")


def test_a_file_without_sentences_is_refused(tmp_path):
    (tmp_path / "train.txt").write_text("\n===\n\n")
    with pytest.raises(UserError, match=r"train\.txt: expected documents, a sentence a line"):
        list(corpus(tmp_path).documents("train"))
    with pytest.raises(UserError, match="a blank line between documents"):
        list(corpus(tmp_path).documents("test"))
