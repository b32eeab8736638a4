"""Files of text, CoNLL-U and JSON lines as the same documents, and what is none of these."""

import gzip
import json
from dataclasses import replace

import pytest

from depgen.data.corpora import RawText
from depgen.data.documents import DocumentData
from depgen.data.steps import SingleSentences
from depgen.data.text import TextData
from depgen.evaluation.reading import Reading
from depgen.evaluation.text_documents import PROMPT, documents_of, read_documents, read_file_texts

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


def test_new_raw_text_becomes_the_sentences_that_a_run_has_learnt_from(tmp_path):
    """Of a file, a string, and a text in a row; what is called a sentence stays one, and lines of tokens do too."""
    paragraph = "who came? nobody. Mr. Lee's  dog didn't."
    expected = ["who came ?", "nobody .", "Mr. Lee 's dog did n't ."]
    for name, content in (
        ("train.txt", f"{paragraph}\n"), ("t.jsonl", json.dumps({"text": paragraph})), ("t.tsv", f"text\n{paragraph}"),
    ):  # fmt: skip
        (tmp_path / name).write_text(content, encoding="utf-8")
    corpus = RawText(str(tmp_path), steps=())
    assert words(corpus.documents("train")) == [expected]
    reading = Reading(**DocumentData(corpus).reading)
    assert Reading(**TextData(replace(corpus, steps=[SingleSentences()])).reading) == reading
    assert Reading(**TextData(corpus).reading).splitter == "lines", "it reads a paragraph as one sequence"
    for name in ("train.txt", "t.jsonl", "t.tsv"):
        assert words(read_documents(tmp_path / name, reading=reading)) == [expected]
    assert read_documents(tmp_path / "train.txt", reading=reading)[0].places == ("train.txt:1",) * 3
    (document,) = documents_of(f"\n {paragraph}", reading)
    assert words([document]) == [expected]
    assert document.string is not None
    assert words(documents_of("Cafe\u0301. Café.", reading)) == [["Café .", "Café ."]]
    spelt = [document.string[first:last] for sentence in document.spans or () for first, last in sentence]
    assert spelt == " ".join(expected).split()
    assert words(documents_of([{"text": paragraph}, {"sentence": paragraph}], reading)) == [
        expected, [" ".join(expected)]
    ]  # fmt: skip
    assert words(documents_of(paragraph, reading, "whitespace")) == [[" ".join(paragraph.split())]]
    for name, content in (("s.jsonl", json.dumps({"sentence": paragraph})), ("s.tsv", f"sentence\n{paragraph}")):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert words(read_documents(tmp_path / name, reading=reading)) == [[" ".join(expected)]]


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
        ('{"id": "x", "sentence": "Ada ran. She won."}', ["Ada ran. She won."]),
    ],
)
def test_json_lines_hold_a_text_or_sentences(tmp_path, line, read):
    path = tmp_path / "t.jsonl"
    path.write_text(f"\n{line}\n{line}\n", encoding="utf-8")
    documents = read_documents(path)
    assert words(documents) == [read, read]
    assert documents[0].identifier == "x"
    assert documents[0].places == ("x",) * len(read)
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


# -- files of a text a line ------------------------------------------------------------------------------------------

LINES = ["Ada ran .", "", 'She said " no " .']
TREES = "1\tAda\t_\t_\t_\t_\t0\troot\t_\t_\n2\tran\t_\t_\t_\t_\t1\tdep\t_\t_\n\n1\tNo\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
SDP = "#SDP 2015\n#20000281\n1\tAda\tAda\tNNP\t-\t-\t_\tARG1\n2\tran\trun\tVBD\t+\t+\t_\t_\n\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "\n".join(LINES) + "\n"),
        ("a.jsonl", "\n\n".join(json.dumps({"prompt": "x", "text": text}) for text in LINES)),
        ("a.jsonl", "\n".join(json.dumps({"text": text.split()}) for text in LINES)),
        ("a.csv", 'text,seed\nAda ran .,1\n"",2\n"She said "" no "" .",3\n'),
        ("a.tsv", 'seed\tsentence\n1\tAda ran .\n2\t\n3\tShe said " no " .\n'),
    ],
)
def test_texts_are_the_same_in_every_format(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert read_file_texts(path) == LINES


def test_of_sentences_with_structures_the_words_are_the_texts(tmp_path):
    for name, content, texts in (("a.conllu", TREES, ["Ada ran", "No"]), ("a.sdp", SDP, ["Ada ran"])):
        path = tmp_path / name
        path.write_text(content)
        assert read_file_texts(path) == texts


def test_prompts_may_be_called_so(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "b", "prompt": "a"}\n{"text": "c"}\n')
    assert read_file_texts(path, PROMPT) == ["a", "c"]
