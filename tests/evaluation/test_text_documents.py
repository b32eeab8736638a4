"""Files of text, CoNLL-U and JSON lines as the same documents, and what is none of these."""

import gzip

import pytest

from depgen.errors import UserError
from depgen.evaluation.text_documents import read_documents

CONLLU = """# sent_id = a
1\tAda\t_\t_\tNNP\t_\t_\t_\t_\t_
2\tran\t_\t_\tVBD\t_\t_\t_\t_\t_

# newdoc id = two
# sent_id = b
1\tNo\t_\t_\tUH\t_\t7\t_\t_\t_
2\t!\t_\t_\t.\t_\t_\t_\t_\t_

1\tYes\t_\t_\tUH\t_\t_\t_\t_\t_

# newdoc
1\tWell\t_\t_\tUH\t_\t_\t_\t_\t_
"""


def words(documents):
    return [[" ".join(sentence.words) for sentence in document.sentences] for document in documents]


def test_blank_lines_part_documents_however_many_they_are(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("\n\n  Ada ran\tfast . \n= She won =\n \n\n\r\nNobody knew .\n\n", encoding="utf-8")
    documents = read_documents(path)
    assert words(documents) == [["Ada ran fast .", "= She won ="], ["Nobody knew ."]]
    assert [document.places for document in documents] == [("t.txt:3", "t.txt:4"), ("t.txt:8",)]
    assert [document.identifier for document in documents] == ["t.txt:3", "t.txt:8"]


def test_text_is_cut_by_rules_if_asked_and_unpacked(tmp_path):
    path = tmp_path / "t.txt.gz"
    path.write_bytes(gzip.compress(b"Ada didn't run.\n"))
    assert words(read_documents(path)) == [["Ada didn't run."]]
    assert words(read_documents(path, tokens="rules")) == [["Ada did n't run ."]]


def test_documents_of_conllu_begin_at_newdoc_and_trees_are_not_looked_at(tmp_path):
    path = tmp_path / "t.conllu"
    path.write_text(f"{CONLLU.split('# newdoc')[0]}{CONLLU}", encoding="utf-8")
    documents = read_documents(path)
    assert words(documents) == [["Ada ran"], ["Ada ran"], ["No !", "Yes"], ["Well"]]
    assert [document.identifier for document in documents] == ["t.conllu:2", "t.conllu:6", "two", "t.conllu:17"]
    assert documents[2].places == ("t.conllu:11", "t.conllu:14")
    assert documents[2].sentences[0].tags == ("UH", ".")
    assert [document.sentence_ids for document in documents] == [("a",), ("a",), ("b", None), ()]
    path.rename(tmp_path / "t.parsed")
    assert words(read_documents(tmp_path / "t.parsed", input_format="conllu")) == words(documents)


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ('{"id": "x", "text": "Ada ran. She won."}', ["Ada ran.", "She won."]),
        ('{"id": "x", "sentences": ["Ada ran .", "", ["She", "won"]]}', ["Ada ran .", "She won"]),
        ('{"id": "x", "text": ["Ada ran .", "She won"]}', ["Ada ran .", "She won"]),
        ('{"id": "x", "sentence": "Ada ran. She won."}', ["Ada ran.", "She won."]),
    ],
)
def test_json_lines_hold_a_text_or_sentences(tmp_path, line, read):
    path = tmp_path / "t.jsonl"
    path.write_text(f"\n{line}\n{line}\n", encoding="utf-8")
    documents = read_documents(path)
    assert words(documents) == [read, read]
    assert documents[0].identifier == "x"
    assert documents[0].places == ("x",) * 2
    assert documents[0].fields == {"id": "x"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", 'item,sentence\n1,"Ada , who ran . Won ."\n2,"She said ""No"" ."\n'),
        ("t.tsv", 'item\tsentence\n1\tAda , who ran . Won .\n2\tShe said "No" .\n'),
    ],
)
def test_rows_of_tables_are_documents_with_fields(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    documents = read_documents(path)
    assert words(documents) == [["Ada , who ran . Won ."], ['She said "No" .']]
    assert [document.fields for document in documents] == [{"item": "1"}, {"item": "2"}]
    assert [document.places for document in documents] == [(f"{name}:2",), (f"{name}:3",)]
    path.write_text(content.replace("item", "text"), encoding="utf-8")
    assert [document.fields["sentence"][:3] for document in read_documents(path)] == ["Ada", "She"]
    path.write_text(content, encoding="utf-8")
    assert words(read_documents(path, tokens="rules"))[1] == ['She said " No " .']
    as_text = read_documents(path, input_format="text")
    assert len(as_text) == 1
    assert len(as_text[0].sentences) == 3
    path.write_text(content.replace("sentence", "text"), encoding="utf-8")
    assert words(read_documents(path)) == [["Ada , who ran .", "Won ."], ['She said "No" .']]


def test_of_sdp_words_and_tags_are_read(tmp_path):
    path = tmp_path / "t.sdp"
    rows = "1\tAda\tAda\tNNP\t-\t-\t_\tARG1\n2\tran\trun\tVBD\t+\t+\t_\t_\n\n"
    path.write_text(f"#SDP 2015\n#20000281\n{rows}#20000282\n{rows}")
    documents = read_documents(path)
    assert words(documents) == [["Ada ran"]] * 2
    assert [document.identifier for document in documents] == ["20000281", "20000282"]
    assert documents[0].sentences[0].tags == ("NNP", "VBD")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "t.conllu",
            {"tokens": "rules"},
            r"tokens: rules is for text, but .*t\.conllu is read as conllu.*leave it out",
        ),
        ("t.sdp", {"tokens": "whitespace"}, "tokens: whitespace"),
        ("t.txt", {"tags": "upos"}, r"tags: upos is a column of CoNLL-U, but .*read as text"),
    ],
)
def test_an_option_that_does_nothing_is_refused(tmp_path, name, options, message):
    with pytest.raises(UserError, match=message):
        read_documents(tmp_path / name, **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"item,words\n1,a\n", r"t\.csv:2: expected a column text or sentence, found item, words"),
        ("t.csv", b"item,text\n1,\n", r"t\.csv:2: expected a sentence, found an empty cell"),
        ("t.tsv", b"item\ttext\n", r"t\.tsv: expected a sentence in each row, found none"),
        ("t.txt", None, "No file at"),
        ("t.txt", b"", "is empty"),
        ("t.txt", b"\n \n\n", r"t\.txt: expected a sentence on each line, found only blank lines"),
        ("t.txt", b"fine\n\xff\n", r"t\.txt:2: expected UTF-8"),
        ("t.conllu", b"# nothing\n", "expected sentences in CoNLL-U, found none"),
        ("t.conllu", b"1\tAda\n", r"t\.conllu:1: expected 10 columns"),
        ("t.jsonl", b"Ada ran .\n", r"t\.jsonl:1: expected JSON"),
        ("t.jsonl", b'\n{"words": 3}\n', r"t\.jsonl:2: expected the field 'text' .* found 'words': rename the field"),
        ("t.jsonl", b'{"text": "a"}\n{"words": 3}\n', r"t\.jsonl:2: expected the column 'text'"),
    ],
)
def test_what_holds_no_documents_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_documents(path)
