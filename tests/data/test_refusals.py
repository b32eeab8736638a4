"""What is wrong with a corpus is said with its place: input, and what the message must name."""

import pytest
import yaml

from depgen.data.corpora import Brown, Ewt, PennTreebank, Ptb, RocStories, SdpTreebank, TextLines, WikiText2
from depgen.data.corpus import FileCorpus, SeededSplits, WithSteps
from depgen.data.experiment import data_of
from depgen.data.formats import (
    Brackets,
    DependencyColumns,
    JsonLines,
    Lines,
    Paragraphs,
    SentenceColumns,
    TaggedWords,
    WikiText,
)
from depgen.data.generated import GeneratedLanguage
from depgen.data.steps import (
    MoreTraining,
    Normalized,
    WithoutHeldOut,
    WithTreesOnly,
)
from depgen.data.tasks import GluePrompts
from depgen.errors import MissingDataError, UserError

STORIES = GeneratedLanguage(train=2, valid=1, test=1, sentences=(5, 5))
HEADER = "sentence1,sentence2,sentence3,sentence4,sentence5\n"
STORY = "a .,b .,c .,d .,e .\n"


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        (Lines(), "\n \n", "a.txt: expected documents as Lines"),
        (Paragraphs(), "\n===\n\n", "a.txt: expected documents as Paragraphs"),
        (SentenceColumns(), "story,title\na,b\n", "a.txt:1: expected the columns sentence1, sentence2"),
        (SentenceColumns(), HEADER + "a,b,c,d\n", "a.txt:2: expected 5 columns, found 4"),
        (SentenceColumns(), HEADER, "a.txt: expected documents as SentenceColumns"),
        (SentenceColumns(), HEADER + STORY + 'a,b,c,d,"e\n\nf\n', "a.txt:3: expected cells whose quote marks match"),
        (JsonLines(), "{\n", "a.txt:1: expected JSON, found: "),
        (JsonLines(), "[1]\n", "a.txt:1: expected a JSON object, found a list"),
        (WikiText(), " \n Nobody . \n", "a.txt:2: expected an article's title"),
        (TaggedWords(), "The/at\nCrane\n", "a.txt:2: expected word/tag, found 'Crane'"),
        (TaggedWords(), "\n\n", "a.txt: expected documents as TaggedWords"),
        (DependencyColumns(), "Go\tVB\t0\nhome\t1\n", "a.txt:2: expected form, tag and head"),
        (DependencyColumns(), "Go\tVB\tx\n", "a.txt:1: expected form, tag and head"),
        (DependencyColumns(), "Go\tVB\t3\non\tRB\t1\n", "a.txt:1: token 1 has head 3, but the sentence has 2 words"),
        (DependencyColumns(), "\n", "a.txt: expected documents as DependencyColumns"),
        (DependencyColumns(), "_\tVB\t0\n_\tRB\t1\n", "a.txt: expected words, found nothing but `_`"),
        (Brackets(), "( (S (VB Go)\n", "a.txt:1: expected 2 closing brackets"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_named_with_its_line(tmp_path, form, content, message):
    path = tmp_path / "a.txt"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        list(FileCorpus(str(tmp_path), form, train=path.name).documents("train"))
    assert message in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("form", [Lines(), Paragraphs()])
@pytest.mark.parametrize("name", ["a.conllu", "a.TSV", "a.json"])
def test_a_file_of_another_format_is_no_plain_text(tmp_path, form, name):
    (tmp_path / name).write_text("1\tThe\n2\tcat\n")
    with pytest.raises(UserError, match=rf"{name}: expected "):
        list(form.read(tmp_path / name, name))


@pytest.mark.parametrize(
    ("corpus", "split", "message"),
    [
        (RocStories(), "test", r"rocstories.*cs\.rochester\.edu.*DEPGEN_DATA"),
        (Ptb(), "train", r"simple-examples\.tgz"),
        (WikiText2(), "test", "wikitext-2-v1"),
        (Ewt(), "valid", r"universaldependencies\.org"),
        (Brown(), "train", "NLTK"),
        (PennTreebank(), "train", "LDC99T42"),
        (SdpTreebank("sdp", train="a.sdp"), "train", "LDC2016T10"),
        (SdpTreebank("sdp", train="a.sdp"), "test", "expected files of the test split, found none named: set `test`"),
        (TextLines("here", train="*.text"), "train", r"here: expected files \*\.text, found none"),
        (TextLines("here"), "valid", r"here/valid\.txt"),
    ],
)
def test_what_is_not_there_is_named_with_how_to_get_it(tmp_path, monkeypatch, corpus, split, message):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    (tmp_path / "here").mkdir()
    with pytest.raises(MissingDataError, match=message):
        list(corpus.documents(split))
    with pytest.raises(MissingDataError, match=message):
        corpus.fingerprint(split)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: list(WithTreesOnly("edges").documents(STORIES.documents, "train")),
            "nothing but .* sentences without edges",
        ),
        (lambda: list(WithoutHeldOut().documents(lambda split: STORIES.documents("test"), "train")), "leave the step"),
        (lambda: GluePrompts("rte", verbalisers=["yes"]), "verbalisers: expected 2 words"),
        (lambda: GluePrompts("rte", max_examples=9), "max_examples: expected at least 10"),
        (lambda: SeededSplits(valid=2).drawn(STORIES.documents), "expected more than 52 documents to split, found 2"),
        (
            lambda: SeededSplits(0, 1).drawn(WithSteps(STORIES, steps=[MoreTraining([STORIES])]).documents),
            "expected a name for each document, found .* twice",
        ),
    ],
)
def test_options_that_cannot_be(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_tags_are_needed_to_normalise(tmp_path):
    (tmp_path / "a.txt").write_text("dogs bark\n")
    lines = FileCorpus(str(tmp_path), Lines(), train="a.txt")
    with pytest.raises(UserError, match=r"'dogs bark' .*expected tags"):
        list(Normalized(lines).documents(lines.documents, "train"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"data: [", "expected YAML, found: "),
        (b"data: caf\xe9", "expected UTF-8, found "),
        (b"model: 1", "expected `data`, a class and its options"),
    ],
)
def test_a_broken_experiment_is_named(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        data_of(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_what_is_refused_within_a_choice_of_classes_is_said_in_its_own_words(tmp_path):
    corpus = {"class_path": "depgen.data.generated.GeneratedLanguage", "init_args": {"train": -1}}
    data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": corpus}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({"data": data}))
    with pytest.raises(UserError, match=r"^GeneratedLanguage: sizes"):
        data_of(tmp_path / "a.yaml")
