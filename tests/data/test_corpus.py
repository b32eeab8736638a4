"""Corpora as files, a format and steps: draws, fingerprints, names, and the form that users' text is read in."""

import json
import shutil
from dataclasses import replace
from importlib import metadata

import pytest

from depgen.data import tokenization
from depgen.data.corpora import (
    Brown,
    ConlluTreebank,
    DocumentLines,
    EmnlpNews,
    Ewt,
    JsonDocuments,
    PennTreebank,
    Ptb,
    RawText,
    RocStories,
    TextLines,
    Wikinews,
    WikiText2,
    WsjSample,
)
from depgen.data.corpus import (
    SPLITS,
    Corpus,
    SeededSplits,
    Step,
    WithSteps,
    drawn_documents,
    form_of,
    splitter_of,
    tokens_of,
)
from depgen.data.formats import JsonLines, Lines
from depgen.data.generated import GeneratedLanguage
from depgen.data.hub_corpus import HubCorpus
from depgen.data.record import measure
from depgen.data.steps import (
    BareWords,
    FirstDocuments,
    Lowercase,
    MoreTraining,
    Normalized,
    PlaceholdersForNames,
    Retokenized,
    SingleSentences,
    WithoutHeldOut,
)
from depgen.data.tasks import GluePrompts, SimilarityTasks
from depgen.data.text import TextData
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FORMS
from tests.invented_glue import write_glue
from tests.invented_similarity import write_similarity

STORIES = GeneratedLanguage(train=4, valid=2, test=2, sentences=(5, 5))


@pytest.fixture
def news(tmp_path, monkeypatch):
    """A folder of lines; the cache is its neighbour."""
    for name in ("data", "cache"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    folder = tmp_path / "data" / "news"
    folder.mkdir(parents=True)
    for split, lines in {"train": "A cat sat .\nhe left .\n", "valid": "he left.\n", "test": "it rained .\n"}.items():
        (folder / f"{split}.txt").write_text(lines)
    return folder


def texts(corpus, split="train"):
    return [" ".join(document.words()) for document in corpus.documents(split)]


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_files_of_patterns_are_read_by_path_each_once(tmp_path):
    for name in ("00/b.mrg", "00/a.mrg", "01/a.mrg", "23/a.mrg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"( (S (VB Go) (RB {name[:2]})) )\n")
    corpus = PennTreebank(str(tmp_path), train=["01/a.mrg", "0?/*.mrg"], test="2?/*.mrg")
    assert [document.identifier for document in corpus.documents("train")] == ["01/a.mrg", "00/a.mrg", "00/b.mrg"]
    assert [document.identifier for document in corpus.documents("test")] == ["23/a.mrg"]


@pytest.fixture
def sample(tmp_path):
    """A corpus of ten files, one a document, of which two are drawn to validate and three to test."""
    for number in range(10):
        (tmp_path / f"wsj_{number}.dp").write_text(f"Dog{number}\tNN\t2\nbarks\tVBZ\t0\n\nYes\tUH\t0\n")
    (tmp_path / "README").write_text("no document\n")
    return lambda seed=0, **options: WsjSample(str(tmp_path), draw=SeededSplits(2, 3, seed), **options)


@pytest.fixture
def single_file(tmp_path, monkeypatch):
    """A corpus of twelve documents in one file, of which three are drawn to validate and two to test."""
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    rows = (json.dumps({"id": f"d{n}", "text": f"Document {n} . It ends ."}) for n in range(12))
    (tmp_path / "all.jsonl").write_text("\n".join(rows) + "\n")
    files = {"train": "all.jsonl", "steps": []}
    return lambda seed=0, **options: JsonDocuments(str(tmp_path), draw=SeededSplits(3, 2, seed), **{**files, **options})


@pytest.mark.parametrize(
    ("fixture", "sizes", "names"),
    [
        ("sample", [5, 2, 3], [f"wsj_{n}.dp" for n in range(10)]),
        ("single_file", [7, 3, 2], [f"d{n}" for n in range(12)]),
    ],
)
def test_each_document_is_in_one_split_in_the_corpuss_order(request, fixture, sizes, names):
    drawn = request.getfixturevalue(fixture)
    corpus, others = drawn(), [drawn(seed) for seed in range(1, 6)]
    found = {split: [document.identifier for document in corpus.documents(split)] for split in SPLITS}
    assert found == drawn_documents(corpus) == drawn_documents(drawn(steps=[SingleSentences()]))
    assert found == drawn_documents(WithSteps(corpus, steps=[SingleSentences()]))
    assert [len(found[split]) for split in SPLITS] == sizes
    assert sorted((name for part in found.values() for name in part), key=names.index) == names
    assert all(part == sorted(part, key=names.index) for part in found.values())
    assert any([document.identifier for document in each.documents("test")] != found["test"] for each in others)
    assert len({each.fingerprint("train") for each in (corpus, *others)}) == 6
    assert len({corpus.fingerprint(split) for split in SPLITS}) == 3
    assert drawn().fingerprint("test") == corpus.fingerprint("test")


def test_a_document_more_moves_no_other(single_file, tmp_path):
    before = drawn_documents(single_file())
    with (tmp_path / "all.jsonl").open("a") as stream:
        stream.write('{"id": "late", "text": "One more ."}\n')
    after = drawn_documents(single_file())
    moved = set(before["test"]) ^ set(after["test"]) | set(before["valid"]) ^ set(after["valid"])
    assert len(moved - {"late"}) <= 2, "at most one falls out of each of the two splits"


def documents_named(names):
    return lambda split: iter([Document((Sentence(("a",)),), name) for name in names])


def test_a_draw_ranks_names_by_their_digests():
    """By `sha256sum`, those of "0:a" to "0:e" begin with 9df3, e021, be08, 7d98, e078: d and a are first, then c."""
    expected = {"train": ["e", "b"], "valid": ["c"], "test": ["d", "a"]}
    assert SeededSplits(valid=1, test=2).drawn(documents_named("edcba")) == expected


def test_a_run_folder_says_which_document_is_where(sample, news, tmp_path):
    corpus = sample(steps=[SingleSentences()])
    TextData(corpus).save_into(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "splits.json").read_text()) == drawn_documents(corpus)
    assert (tmp_path / "run" / "vocabulary.json").is_file()
    TextData(TextLines("news")).save_into(tmp_path / "official")
    assert not (tmp_path / "official" / "splits.json").exists(), "official splits are the files' own"


# -- fingerprints -----------------------------------------------------------------------------------------------------


def test_fingerprints_follow_content_options_steps_and_names_of_files_but_not_folders(news, tmp_path):
    before = TextLines("news").fingerprint("train")
    shutil.copytree(news, tmp_path / "copy")
    assert TextLines(str(tmp_path / "copy"), name="other").fingerprint("train") == before
    others = [
        TextLines("news", steps=[]),
        TextLines("news", steps=[Lowercase(), WithoutHeldOut()]),
        TextLines("news", steps=[WithoutHeldOut(), Lowercase()]),
        TextLines("news", Lines("rules")),
        TextLines("news", Lines(tokens="rules")),
        TextLines("news", train="valid.txt"),
        TextLines("news", train=["train.txt", "valid.txt"]),
    ]
    assert len({before, *(each.fingerprint("train") for each in others)}) == 8
    (news / "train.txt").rename(news / "other.txt")
    assert TextLines("news", train="other.txt").fingerprint("train") != before, "identifiers hold the name"
    (news / "train.txt").write_text("A cat sat down .\nhe left .\n")
    assert TextLines("news").fingerprint("train") != before


def test_a_corpus_within_a_step_counts_by_its_content_wherever_it_lies(news, tmp_path):
    shutil.copytree(news, tmp_path / "copy")
    here, there = TextLines("news"), TextLines(str(tmp_path / "copy"), name="other")
    for step in (Normalized, WithoutHeldOut, lambda corpus: MoreTraining([corpus])):
        assert len({TextLines("news", steps=[step(each)]).fingerprint("train") for each in (here, there)}) == 1
        other = TextLines("news", steps=[step(TextLines("news", train="valid.txt"))])
        assert other.fingerprint("train") != TextLines("news", steps=[step(here)]).fingerprint("train")


VERSIONED = {
    "format": (Lines, "version", lambda: TextLines("news")),
    "step": (WithoutHeldOut, "version", lambda: TextLines("news")),
    "dataset": (HubCorpus, "version", lambda: HubCorpus("news")),
    "prompts": (GluePrompts, "version", lambda: GluePrompts("rte")),
    "similarity": (SimilarityTasks, "version", SimilarityTasks),
    "tokens": (tokenization, "TOKENS_VERSION", lambda: TextLines("news", Lines(tokens="rules"))),
    "sentences": (tokenization, "SENTENCES_VERSION", lambda: TextLines("news", Lines("rules"))),
    "tokens of a step": (tokenization, "TOKENS_VERSION", lambda: TextLines("news", steps=[Retokenized()])),
    "tokens of stories": (tokenization, "TOKENS_VERSION", lambda: TextLines("news", steps=[PlaceholdersForNames()])),
    "tokens of a dataset": (tokenization, "TOKENS_VERSION", lambda: HubCorpus("news", tokens="rules")),
    "tokens of pairs": (tokenization, "TOKENS_VERSION", SimilarityTasks),
    "sentencizer": (metadata, "version", lambda: TextLines("news", Lines("sentencizer"))),
    "list of names": (metadata, "version", lambda: TextLines("news", steps=[PlaceholdersForNames()])),
}


@pytest.mark.parametrize("versioned", VERSIONED.values(), ids=VERSIONED)
def test_a_version_that_rises_is_another_fingerprint(news, monkeypatch, versioned):
    owner, name, corpus = versioned
    write_glue(news.parent / "glue")
    write_similarity(news.parent / "sts")
    before = corpus().fingerprint("train")
    assert corpus().fingerprint("train") == before
    monkeypatch.setattr(owner, name, (lambda library: "99") if name == "version" and owner is metadata else 99)
    assert corpus().fingerprint("train") != before


def test_no_version_of_rules_counts_where_none_cuts(news, monkeypatch):
    lines, cut = TextLines("news"), TextLines("news", Lines("rules"))
    before = [corpus.fingerprint("train") for corpus in (lines, cut)]
    monkeypatch.setattr(tokenization, "TOKENS_VERSION", 99)
    assert [corpus.fingerprint("train") for corpus in (lines, cut)] == before
    monkeypatch.setattr(tokenization, "SENTENCES_VERSION", 99)
    assert lines.fingerprint("train") == before[0]


# -- names and forms --------------------------------------------------------------------------------------------------


def test_corpora_have_names(news):
    assert [each.name for each in (TextLines("my/news"), TextLines("news", name="mine"), Ptb(), WikiText2())] == [
        "news", "mine", "PTB", "WikiText-2",
    ]  # fmt: skip
    assert isinstance(TextLines("news"), Corpus)
    assert Ewt(steps=[SingleSentences(), BareWords()]).name == "UD English-EWT (bare words)"
    assert replace(Ewt(), steps=()) == Ewt()


WORDS = ["[MALE]", "Saw", "Bob", "'s", "12", "DOGS", "."]
CORPORA = {
    "as the file has them": [],
    "lower": [Lowercase()],
    "stories": [Lowercase(but_placeholders=True)],
    "bare": [SingleSentences(), BareWords()],
    "bare of lower": [Lowercase(), BareWords()],
    "retokenised": [Retokenized()],
    "retokenised stories": [Lowercase(but_placeholders=True), Retokenized()],
    "sentences": [Lowercase(), SingleSentences(), FirstDocuments(3)],
    "with more": [Lowercase(), MoreTraining([GeneratedLanguage(0, 0, 0, sentences=(5, 5))])],
    "without": [BareWords(), WithoutHeldOut(STORIES)],
}


@pytest.mark.parametrize("steps", CORPORA.values(), ids=list(CORPORA))
def test_the_form_does_to_a_text_what_the_corpus_does_to_its_own(news, steps):
    (news / "train.txt").write_text(" ".join(WORDS) + "\n")
    raw, corpus = (list(TextLines("news", steps=each).documents("train")) for each in ([], steps))
    form = FORMS[form_of(TextLines("news", steps=steps)) or "as_is"]
    words = [word for document in raw for word in document.words()]
    assert words == WORDS
    kept = form.kept(Sentence(tuple(words)))
    read = [form.spelt(word) for word, keep in zip(words, kept, strict=True) if keep]
    assert read == [word for document in corpus for word in document.words()]


def test_corpora_say_in_which_form_their_text_is(news):
    lines = TextLines("news")
    forms = {None: [lines, Ewt(), RocStories(steps=[]), STORIES], "ptb": [Ptb(), Ewt(steps=[Normalized(lines)])],
             "stories": [RocStories()], "lower": [EmnlpNews()], "bare": [Ewt(steps=[BareWords()])]}  # fmt: skip
    assert {name: [form_of(corpus) for corpus in corpora] for name, corpora in forms.items()} == {
        name: [name] * len(corpora) for name, corpora in forms.items()
    }
    bare = Ewt(steps=[BareWords()])
    assert form_of(WithSteps(bare, steps=[SingleSentences()])) == "bare"
    assert form_of(TextLines("news", steps=[WithoutHeldOut(bare)])) == "bare"
    assert form_of(TextLines("news", steps=[WithoutHeldOut(lines)])) is None


def test_what_is_held_out_is_left_out_of_text_and_kept_in_published_lines_and_treebanks():
    kinds = {
        WithoutHeldOut(): [
            RocStories(),
            EmnlpNews(),
            WikiText2(),
            TextLines("a"),
            DocumentLines("a"),
            JsonDocuments("a"),
        ],
        None: [Ptb(), Wikinews(), Brown(), Ewt(), ConlluTreebank("a"), PennTreebank(), HubCorpus("a/b")],
    }
    for step, members in kinds.items():
        assert all((step in each.steps) if step else not each.steps for each in members)


def test_steps_of_ones_own(news):
    class Reversed(Step):
        def documents(self, read, split):
            return reversed(list(read(split)))

    assert texts(TextLines("news", steps=[Reversed()])) == ["he left .", "A cat sat ."]
    assert texts(WithSteps(TextLines("news", steps=[]), steps=[Reversed()])) == ["he left .", "A cat sat ."]


def test_only_the_training_split_is_replaced_by_another_corpus(tmp_path):
    samples = tmp_path / "samples.txt"
    samples.write_text("a b .\n\nc .\n")
    others = TextLines("", train=str(samples), steps=())
    corpus = WithSteps(STORIES, steps=[FirstDocuments(0), MoreTraining([others])])
    assert texts(corpus) == ["a b .", "c ."]
    for split in ("valid", "test"):
        assert list(corpus.documents(split)) == list(STORIES.documents(split))
        assert corpus.fingerprint(split) == STORIES.fingerprint(split)
    before = corpus.fingerprint("train")
    samples.write_text("a b .\n\nd .\n")
    assert corpus.fingerprint("train") not in (before, STORIES.fingerprint("train"))


# -- published sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("corpus", "documents"),
    [
        (Ptb(), [42_068, 3_370, 3_761]),
        (WikiText2(), [600, 60, 60]),
        (Brown(), [400, 50, 50]),
        (RocStories(), [12_683, 1_000, 9_816]),
        (Wikinews(), [18_388, 300, 600]),
    ],
)
def test_corpora_have_their_published_sizes(corpus, documents):
    sizes = measure(corpus)
    assert [sizes[split].documents for split in SPLITS] == documents
    if isinstance(corpus, Ptb):
        assert [sizes[split].tokens for split in SPLITS] == [929_589, 73_760, 82_430]
        assert sizes["train"].types == 10_000


@pytest.mark.parametrize(
    ("corpus", "splitter", "tokens"),
    [
        (TextLines("a"), "lines", "whitespace"),
        (RawText("a"), "sentencizer", "rules"),
        (TextLines("a", steps=[Retokenized(), Lowercase()]), "lines", "rules"),
        (WithSteps(RawText("a"), steps=[Lowercase()]), "sentencizer", "rules"),
        (JsonDocuments("a", JsonLines(tokens="rules")), "rules", "rules"),
        (HubCorpus("a", tokens="rules", splitter="lines"), "lines", "rules"),
        (HubCorpus("a"), "rules", "whitespace"),
        (RocStories(steps=[PlaceholdersForNames()]), "lines", "rules"),
        (ConlluTreebank("a"), "lines", "whitespace"),
        (GeneratedLanguage(), "lines", "whitespace"),
    ],
)
def test_a_corpus_says_how_its_text_becomes_sentences_and_tokens(corpus, splitter, tokens):
    assert (splitter_of(corpus), tokens_of(corpus)) == (splitter, tokens)
