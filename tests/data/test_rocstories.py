import logging

import pytest
from depgen.data.rocstories import RocStories
from depgen.data.sentences import SingleSentences

from depgen.data.corpus import Corpus, form_of
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence

HEADER = "sentence1,sentence2,sentence3,sentence4,sentence5\n"
STORY = '[MALE] ran .,"he fell , hard .",it hurt .,he wept .,he slept .\n'


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    (tmp_path / "rocstories").mkdir()
    (tmp_path / "rocstories" / "train.csv").write_text(HEADER + STORY)
    (tmp_path / "rocstories" / "more.csv").write_text("style," + HEADER + "sad," + STORY + "sad," + STORY)
    return RocStories()


def test_stories(corpus):
    assert isinstance(corpus, Corpus)
    texts = ("[MALE] ran .", "he fell , hard .", "it hurt .", "he wept .", "he slept .")
    story = Document(tuple(Sentence(tuple(text.split())) for text in texts), "train.csv:2")
    assert list(corpus.documents("train")) == [story]


def test_additional_files_and_columns_in_any_place(corpus):
    larger = RocStories(additional_train=["more.csv"])
    first, *others = larger.documents("train")
    assert [story.identifier for story in others] == ["more.csv:2", "more.csv:3"]
    assert all(story.sentences == first.sentences for story in others)
    assert larger.fingerprint("train") != corpus.fingerprint("train")


def test_incomplete_stories_are_counted(corpus, tmp_path, caplog):
    with (tmp_path / "rocstories" / "train.csv").open("a") as stream:
        stream.write("a .,b .,,d .,e .\n" + STORY)
    with caplog.at_level(logging.WARNING):
        assert [story.identifier for story in corpus.documents("train")] == ["train.csv:2", "train.csv:4"]
    assert caplog.messages == ["ROCStories, train: left out 1 stories with an empty sentence."]


def test_blank_lines_are_passed_over_and_rows_named_by_their_first_line(corpus, tmp_path):
    two_lines = STORY.replace("it hurt .", '"it\nhurt ."')
    (tmp_path / "rocstories" / "train.csv").write_text(HEADER + two_lines + STORY + "\n")
    assert [story.identifier for story in corpus.documents("train")] == ["train.csv:2", "train.csv:4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"story,title\na,b\n", "train.csv:1: expected the columns sentence1, sentence2"),
        (HEADER.encode() + b"a,b,c,d\n", "train.csv:2: expected 5 fields, found 4"),
        (HEADER.encode(), "train.csv: expected stories below the header, found none"),
        (b"", "train.csv: the file is empty"),
        (HEADER.encode() + b'a,b,c,d,"e\n', "train.csv:2: expected CSV, found"),
        (HEADER.encode() + STORY.encode() + b'a,b,c,d,"e\n\nf\n', "train.csv:3: expected CSV, found"),
        (HEADER.encode() + b'a,b,"c\nd",e\n', "train.csv:2: expected 5 fields, found 4"),
        (HEADER.encode() + b"a,b,caf\xe9,d,e\n", "train.csv:2: expected UTF-8, found byte 0xe9 at byte 8"),
    ],
)
def test_errors(corpus, tmp_path, content, message):
    (tmp_path / "rocstories" / "train.csv").write_bytes(content)
    with pytest.raises(UserError) as error:
        list(corpus.documents("train"))
    assert message in str(error.value)


def test_a_missing_split_says_where_it_was_sought(corpus, tmp_path):
    with pytest.raises(UserError) as error:
        list(corpus.documents("test"))
    assert str(tmp_path / "rocstories" / "test.csv") in str(error.value)
    assert "cs.rochester.edu" in str(error.value)
    assert "DEPGEN_DATA" in str(error.value)


@pytest.mark.real_data
def test_the_test_split_is_the_published_one():
    corpus = RocStories()
    assert sum(1 for _ in corpus.documents("test")) == corpus.published["test"].documents


def test_what_the_text_looks_like_is_said():
    assert form_of(RocStories()) == form_of(SingleSentences(RocStories())) == "stories"
    assert form_of(RocStories(lowercase=False)) is None


def test_stories_are_lower_cased_but_for_placeholders_unless_capitals_are_to_stay(corpus, tmp_path):
    (tmp_path / "rocstories" / "train.csv").write_text(HEADER + STORY.replace("it hurt", "[FEMAL] Saw Bob"))
    cased = RocStories(lowercase=False)
    texts = [" ".join(next(each.documents("train")).sentences[2].words) for each in (corpus, cased)]
    assert texts == ["[FEMAL] saw bob .", "[FEMAL] Saw Bob ."]
    assert corpus.fingerprint("train") != cased.fingerprint("train")
