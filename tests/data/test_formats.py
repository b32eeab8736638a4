"""Files of each format against what they hold, written out."""

import gzip
import json
import logging
from dataclasses import replace

import pytest

from depgen.data.formats import (
    Brackets,
    Conllu,
    DependencyColumns,
    JsonLines,
    Lines,
    Paragraphs,
    Sdp,
    SentenceColumns,
    TaggedWords,
    WikiText,
)
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import write_sdp

DOGS = Sentence(("Dogs", "bark"), (2, 0), ("nsubj", "root"), ("NNS", "VBP"))
HEADER = "sentence1,sentence2,sentence3,sentence4,sentence5\n"
STORY = '[MALE] ran .,"he fell , hard .",it hurt .,he wept .,he slept .\n'
ARTICLES = """ \n = Red crane = \n \n The crane is red . It is a <unk> . \n = Goals ; A = \n Key : P \n
 \n = = Nest = = \n
 \n It nests @-@ here . \n \n = = = Eggs = = = \n \n = 2 + 2 = 4 = \n \n = = Sums = = \n \n Nobody asked " Why ? "
 = Odd start = of a line\n \n = No title , for text follows = \n it does \n \n = Empty = \n \n = = Only this = = \n"""
TREE = "( (S (NP-SBJ (-NONE- *)) (VP (VB Go) (ADVP (RB home)) (. .))) )\n"


@pytest.fixture
def read(tmp_path, caplog):
    """The documents of a file with this content, and what the log says was left out of it."""
    caplog.set_level(logging.WARNING)

    def documents(form, content, name="a.txt"):
        caplog.clear()
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(form.read(path, name)), [message.removeprefix(f"{path}: left out ") for message in caplog.messages]

    return documents


def texts(document):
    return [" ".join(sentence.words) for sentence in document.sentences]


def test_lines(read):
    documents, _ = read(Lines(), " The <unk> sat \n\n  \nN cats\n")
    assert documents == [
        Document((Sentence(("The", "<unk>", "sat")),), "a.txt:1"), Document((Sentence(("N", "cats")),), "a.txt:4"),
    ]  # fmt: skip


def test_lines_that_are_paragraphs_are_cut_into_sentences(read):
    (paragraph, title), _ = read(Lines("rules"), " Mr. Lee left . He ran . \n\n = Title = \n")
    assert texts(paragraph) == ["Mr. Lee left .", "He ran ."]
    assert texts(title) == ["= Title ="]
    (raw,), _ = read(Lines("rules", tokens="rules"), "Mr. Lee didn't leave. He ran.")
    assert texts(raw) == ["Mr. Lee did n't leave .", "He ran ."]


@pytest.mark.parametrize("between", ["\n", "=\n", "==========\n", " \n\n=\n", " = Title = \n", "== Title ==\n"])
def test_blank_lines_or_equality_signs_part_paragraphs(read, between):
    documents, _ = read(Paragraphs(), f"{between}The cat sat .\n a = b \n{between}It left .\n")
    first = between.count("\n") + 1
    assert documents == [
        Document((Sentence(("The", "cat", "sat", ".")), Sentence(("a", "=", "b"))), f"a.txt:{first}"),
        Document((Sentence(("It", "left", ".")),), f"a.txt:{2 * first + 1}"),
    ]


def test_a_sentence_that_begins_with_an_equality_sign_is_one(read):
    documents, _ = read(Paragraphs(), "One hour\n= 60 minutes .\n=\nx =\n")
    assert list(map(texts, documents)) == [["One hour", "= 60 minutes ."], ["x ="]]


def test_columns(read):
    story = ["[MALE] ran .", "he fell , hard .", "it hurt .", "he wept .", "he slept ."]
    (document,), _ = read(SentenceColumns(), HEADER + STORY)
    assert document == Document(tuple(Sentence(tuple(text.split())) for text in story), "a.txt:2")
    (first, second), _ = read(SentenceColumns(), "style," + HEADER + "sad," + STORY + "sad," + STORY)
    assert first.sentences == second.sentences == document.sentences
    documents, left_out = read(SentenceColumns(), HEADER + STORY + "a .,b .,,d .,e .\n" + STORY)
    assert [each.identifier for each in documents] == ["a.txt:2", "a.txt:4"]
    assert left_out == ["1 rows with an empty sentence."]
    (pair,), _ = read(SentenceColumns(["b", "a"], tokens="rules"), 'a,b\nno.,"it\'s"\n')
    assert texts(pair) == ["it 's", "no ."]


def test_blank_lines_are_passed_over_and_rows_named_by_their_first_line(read):
    documents, _ = read(SentenceColumns(), HEADER + STORY.replace("it hurt .", '"it\nhurt ."') + STORY + "\n")
    assert [each.identifier for each in documents] == ["a.txt:2", "a.txt:4"]


def test_json_lines(read):
    objects = {"id": 7, "text": "He left. She didn't."}, {"text": " "}, {"id": None, "text": "One\nTwo."}
    content = gzip.compress("\n".join(json.dumps(value) + "\n" for value in objects).encode())
    documents, left_out = read(JsonLines(), content, "a.jsonl.gz")
    assert documents == [
        Document((Sentence(("He", "left.")), Sentence(("She", "didn't."))), "7"),
        Document((Sentence(("One",)), Sentence(("Two.",))), "a.jsonl.gz:5"),
    ]
    assert left_out == ["1 rows without a token."]


def test_an_article_begins_with_a_title_that_stands_alone(read):
    (crane, sums), left_out = read(WikiText(), ARTICLES)
    assert crane.identifier == "Red crane (a.txt:2)"
    assert sums.identifier.startswith("2 + 2 = 4 (")
    assert texts(crane) == ["The crane is red .", "It is a <unk> .", "= Goals ; A =", "Key : P", "It nests @-@ here ."]
    assert texts(sums) == [
        'Nobody asked " Why ? "', "= Odd start = of a line", "= No title , for text follows =", "it does",
    ]  # fmt: skip
    assert left_out == ["1 articles of nothing but headings."]
    (crane, _), _ = read(WikiText("lines"), ARTICLES)
    assert texts(crane)[0] == "The crane is red . It is a <unk> ."


def test_tagged_words_are_parted_at_the_last_slash(read):
    content = "\n\n\tThe/at Crane/np-tl no./nn 1//2/cd rose/vbd ./.\n\n\n\tUp/rp ``/`` and/or/cc away/rb\n"
    (document,), _ = read(TaggedWords(), content, "ca01")
    first, second = document.sentences
    assert (first.words, first.tags) == (
        ("The", "Crane", "no.", "1//2", "rose", "."), ("at", "np-tl", "nn", "cd", "vbd", "."),
    )  # fmt: skip
    assert (second.words, second.tags) == (("Up", "``", "and/or", "away"), ("rp", "``", "cc", "rb"))
    assert document.identifier == "ca01"


def test_conllu(read, tmp_path):
    documents = [Document((DOGS, DOGS), "one"), Document((DOGS,), "two")]
    write_conllu(documents, tmp_path / "a.conllu")
    assert read(Conllu(), None, "a.conllu")[0] == documents
    alone, _ = read(Conllu(documents_by="sentence"), None, "a.conllu")
    assert [each.identifier for each in alone] == ["one-1", "one-2", "two-1"]


def test_graphs_of_conllu_are_read_where_they_are_wanted(read, tmp_path):
    walks = replace(DOGS, edges=((2, 1, "nsubj"), (0, 2, "root")))
    path = tmp_path / "a.conllu"
    write_conllu([Document((walks,), "one")], path)
    assert read(Conllu(), None, path.name)[0][0].sentences == (DOGS,)
    path.write_text(path.read_text().rstrip("\n") + "\n2.1\tx\t_\t_\t_\t_\t_\t_\t2:conj\t_\n\n")
    assert read(Conllu(graphs=True), None, path.name)[0][0].sentences == (walks,)


def test_sdp(read, tmp_path):
    graph = Sentence(("Dogs", "bark"), tags=("NNS", "VBP"), edges=((2, 1, "ARG1"), (0, 2, "top")))
    write_sdp([Document((graph,) * 2, "20001"), Document((graph,), "20002001")], tmp_path / "dm.sdp")
    assert [each.identifier for each in read(Sdp(), None, "dm.sdp")[0]] == ["20001001", "20001002", "20002001"]


def test_dependency_columns(read):
    (document,), _ = read(DependencyColumns(), "Dog\tNN\t2\nbarks\tVBZ\t0\n\nYes\tUH\t0\n", "wsj_1.dp")
    first = Sentence(("Dog", "barks"), (2, 0), tags=("NN", "VBZ"))
    assert document == Document((first, Sentence(("Yes",), (0,), tags=("UH",))), "wsj_1.dp")


def test_brackets_without_traces(read):
    (document,), left_out = read(Brackets(), "(S1 (S (NP (-NONE- *U*))))\n" + TREE, "a.mrg")
    (sentence,) = document.sentences
    assert (sentence.words, sentence.tags, sentence.heads) == (("Go", "home", "."), ("VB", "RB", "."), None)
    assert sentence.spans == ((0, 3, "S"), (0, 3, "VP"), (1, 2, "ADVP"))
    assert left_out == ["1 sentences without words."]


@pytest.mark.parametrize(
    ("form", "content"),
    [(Conllu(), "1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n"), (Conllu(), "# newdoc\n1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n"),
     (Sdp(), "1\tGo\t_\t_\t+\t-\n")],
)  # fmt: skip
def test_documents_of_files_of_the_same_name_in_two_folders_have_different_identifiers(tmp_path, form, content):
    (tmp_path / "x").write_text(content)
    (first,), (second,) = (form.read(tmp_path / "x", f"{folder}/x") for folder in "ab")
    assert first.identifier != second.identifier
