import gzip
import json
import logging

import pytest
from depgen.data.json_documents import JsonDocuments

from depgen.data.corpus import Corpus
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


def write(path, *objects):
    path.write_bytes(gzip.compress("".join(json.dumps(value) + "\n" for value in objects).encode()))


def test_text_and_sentences(tmp_path, caplog):
    write(tmp_path / "train.jsonl.gz", {"id": 7, "text": "He left. She didn't."}, {"text": " "}, {"text": "One\nTwo."})
    corpus = JsonDocuments(str(tmp_path), name="json")
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        assert list(corpus.documents("train")) == [
            Document((Sentence(("He", "left.")), Sentence(("She", "didn't."))), "7"),
            Document((Sentence(("One",)), Sentence(("Two.",))), "train.jsonl.gz:3"),
        ]
    assert caplog.messages == ["json, train: left out 1 documents without a token."]
    options = {"tokens": "rules", "sentence_splitter": "lines", "lowercase": True}
    ruled = JsonDocuments(str(tmp_path), **options)
    assert next(ruled.documents("train")).sentences[0].words == ("he", "left", ".", "she", "did", "n't", ".")
    assert ruled.fingerprint("train") != corpus.fingerprint("train")


def test_lists_of_sentences(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"name": "x", "s": ["He left .", ["She", "stayed"]]}\n\n')
    corpus = JsonDocuments(str(tmp_path), test="a.jsonl", sentences_field="s", identifier_field="name")
    assert list(corpus.documents("test")) == [
        Document((Sentence(("He", "left", ".")), Sentence(("She", "stayed"))), "x")
    ]


def test_blank_sentences_are_counted_and_null_is_no_identifier(tmp_path, caplog):
    (tmp_path / "a.jsonl").write_text('{"id": null, "s": ["He left .", " ", []]}\n')
    corpus = JsonDocuments(str(tmp_path), test="a.jsonl", sentences_field="s", name="json")
    with caplog.at_level(logging.WARNING):
        assert list(corpus.documents("test")) == [Document((Sentence(("He", "left", ".")),), "a.jsonl:1")]
    assert caplog.messages == ["json, test: left out 2 sentences without a token."]


@pytest.mark.parametrize("sentence", ["{}", "null", "7", '["a", 7]', '["a", " "]'])
def test_a_sentence_is_a_string_or_a_list_of_strings(tmp_path, sentence):
    (tmp_path / "a.jsonl").write_text('{"s": ["He left .", ' + sentence + "]}\n")
    with pytest.raises(UserError, match=r"a\.jsonl:1: expected each sentence of 's' as a string"):
        list(JsonDocuments(str(tmp_path), test="a.jsonl", sentences_field="s").documents("test"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "a.jsonl:1: expected JSON, found: "),
        ("[1]", "a.jsonl:1: expected a JSON object, found a list"),
        (
            '{"id": 1, "body": "x"}',
            "a.jsonl:1: expected the field 'text' with a string, found the fields id (int), body",
        ),
        ('{"text": ["x"]}', "expected the field 'text' with a string, found the fields text (list)"),
        ('{"text": ""}', "a.jsonl: expected documents, found none with a token"),
    ],
)
def test_errors(tmp_path, line, message):
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(UserError) as error:
        list(JsonDocuments(str(tmp_path), test="a.jsonl").documents("test"))
    assert message in str(error.value)
