"""The same texts out of files of every format, and what holds none."""

import json

import pytest

from depgen.errors import UserError
from depgen.evaluation.file_texts import PROMPT, read_file_texts

TEXTS = ["Ada ran .", "", 'She said " no " .']
CONLLU = "1\tAda\t_\t_\t_\t_\t0\troot\t_\t_\n2\tran\t_\t_\t_\t_\t1\tdep\t_\t_\n\n1\tNo\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
SDP = "#SDP 2015\n#20000281\n1\tAda\tAda\tNNP\t-\t-\t_\tARG1\n2\tran\trun\tVBD\t+\t+\t_\t_\n\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "\n".join(TEXTS) + "\n"),
        ("a.jsonl", "\n\n".join(json.dumps({"prompt": "x", "text": text}) for text in TEXTS)),
        ("a.jsonl", "\n".join(json.dumps({"text": text.split()}) for text in TEXTS)),
        ("a.csv", 'text,seed\nAda ran .,1\n"",2\n"She said "" no "" .",3\n'),
        ("a.tsv", 'seed\tsentence\n1\tAda ran .\n2\t\n3\tShe said " no " .\n'),
    ],
)
def test_texts_are_the_same_in_every_format(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert read_file_texts(path) == TEXTS


def test_of_sentences_with_structures_the_words_are_the_texts(tmp_path):
    for name, content, texts in (("a.conllu", CONLLU, ["Ada ran", "No"]), ("a.sdp", SDP, ["Ada ran"])):
        path = tmp_path / name
        path.write_text(content)
        assert read_file_texts(path) == texts


def test_prompts_may_be_called_so(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "b", "prompt": "a"}\n{"text": "c"}\n')
    assert read_file_texts(path, PROMPT) == ["a", "c"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"story": "b"}\n', r"a\.jsonl:1: expected a field text or sentence, found story"),
        ("a.jsonl", '{"text": "b"}\n[]\n', r"a\.jsonl:2: expected a JSON object, found a list"),
        ("a.jsonl", '{"text": 3}\n', r"a\.jsonl:1: expected a text or a list of sentences, found 3"),
        ("a.jsonl", "Ada ran .\n", r"a\.jsonl:1: expected JSON"),
        ("a.csv", "item;sentence\n1;b\n", r"a\.csv:2: expected a column text or sentence, found item;sentence"),
        ("a.json", "[]", r"\.json: convert"),
    ],
)
def test_what_holds_no_texts_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_file_texts(path)
