"""What every corpus says of its text: users' text is read in the form that the corpus reads its own in."""

import inspect
import json
import pkgutil
from functools import partial
from importlib import import_module

import pytest

import depgen.data
from depgen.data.bare_words import BareWords
from depgen.data.bracketed import BracketedTreebank
from depgen.data.corpus import form_in, form_of
from depgen.data.document_lines import DocumentLines
from depgen.data.exclusion import WithoutSentences
from depgen.data.generated import GeneratedStories
from depgen.data.hub_corpus import HubCorpus
from depgen.data.json_documents import JsonDocuments
from depgen.data.mixed import Retokenized, WithMoreTraining
from depgen.data.normalized import NormalizedTreebank
from depgen.data.rocstories import RocStories
from depgen.data.sampled_training import SampledTraining
from depgen.data.seeded import SeededSplits
from depgen.data.sentences import SingleSentences
from depgen.data.tagged import TaggedDocuments
from depgen.data.tasks import GluePrompts, SimilarityTasks
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank, DependencyColumns, SdpTreebank
from depgen.data.wikitext import WikiText
from depgen.errors import UserError
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS

WORDS = ["[MALE]", "Saw", "Bob", "'s", "12", "DOGS", "."]
TEXT = " ".join(WORDS)
FOUR = ("a b", "c d", "e f", "g h")
SDP = "#SDP 2015\n#20000001\n" + "".join(f"{i}\t{w}\t_\tNN\t-\t-\t_\n" for i, w in enumerate(WORDS, start=1)) + "\n"
COLUMNS = "".join(f"{w}\tNN\t{i}\n" for i, w in enumerate(WORDS))
FILES = {
    "lines/train.txt": f"{TEXT}\n",
    "rocstories/train.csv": "sentence1,sentence2,sentence3,sentence4,sentence5\n" + ",".join([TEXT, *FOUR]) + "\n",
    "tagged/ca01": " ".join(f"{word}/nn" for word in WORDS) + "\n",
    "json/train.jsonl": json.dumps({"sentences": [WORDS]}) + "\n",
    "wiki/train.txt": f"\n = Title = \n\n {TEXT} \n",
    "hub/train.jsonl": json.dumps({"tokens": WORDS}) + "\n",
    "conllu/train.conllu": "".join(f"{i}\t{w}\t_\t_\t_\t_\t{i - 1}\tx\t_\t_\n" for i, w in enumerate(WORDS, 1)) + "\n",
    "sdp/train.sdp": SDP,
    "dp/a.dp": COLUMNS,
    "mrg/a.mrg": "( (S " + " ".join(f"(NN {word})" for word in WORDS) + ") )\n",
}
READERS = {
    TextLines: {"folder": "lines"},
    DocumentLines: {"folder": "lines"},
    RocStories: {},
    TaggedDocuments: {"folder": "tagged", "valid_documents": 0, "test_documents": 0},
    JsonDocuments: {"folder": "json", "train": "train.jsonl", "sentences_field": "sentences"},
    WikiText: {"folder": "wiki", "train": "train.txt"},
    HubCorpus: {"dataset": "hub"},
    ConlluTreebank: {"folder": "conllu", "train": ["train.conllu"]},
    SdpTreebank: {"folder": "sdp", "train": ["train.sdp"], "valid": [], "test": []},
    DependencyColumns: {"folder": "dp", "train": ["a.dp"], "valid": [], "test": []},
    BracketedTreebank: {"folder": "mrg", "train": ["a.mrg"]},
}
WRAPPERS = {
    SingleSentences: {},
    SeededSplits: {"valid_documents": 0, "test_documents": 0},
    WithMoreTraining: {"more": [GeneratedStories(0, 0, 0)]},
    WithoutSentences: {"excluded": NormalizedTreebank(GeneratedStories(1, 1, 1), words_of=GeneratedStories(1, 1, 1))},
    Retokenized: {},
    BareWords: {},
    partial(BareWords, lowercase=False): {},
}
NO_TEXT_OF_USERS = {GeneratedStories, GluePrompts, SimilarityTasks, SampledTraining, NormalizedTreebank}
"""Nobody's text, tasks, a system's samples; and one that goes by tags, which a user's text has not."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)


def words_in(corpus):
    return [
        word for document in corpus.documents("train") for sentence in document.sentences for word in sentence.words
    ]


def in_its_form(words, corpus):
    """The words as a run on the corpus reads them in a text of its user."""
    form = FORMS[form_in(corpus) or "as_is"]
    kept = form.kept(Sentence(tuple(words)))
    return [form.spelt(word) for word, keep in zip(words, kept, strict=True) if keep]


def test_every_corpus_is_checked():
    modules = [import_module(f"depgen.data.{each.name}") for each in pkgutil.iter_modules(depgen.data.__path__)]
    classes = {
        each
        for module in modules
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__.startswith("depgen.data.") and not inspect.isabstract(each)
        and hasattr(each, "fingerprint") and inspect.isfunction(getattr(each, "documents", None))
        and not getattr(each, "_is_protocol", False)
    }  # fmt: skip
    wrappers = {each for each in WRAPPERS if inspect.isclass(each)}
    assert {*READERS, *wrappers, *NO_TEXT_OF_USERS} == {each for each in classes if hasattr(each, "published")}


@pytest.mark.parametrize("reader", READERS)
def test_the_form_does_to_a_text_what_the_corpus_does_to_its_own(files, reader):
    raw, lowered = (reader(**READERS[reader], lowercase=lowercase) for lowercase in (False, True))
    words = words_in(raw)
    assert words[: len(WORDS)] == WORDS, "as the file has them"
    assert in_its_form(words, raw) == words
    assert in_its_form(words, lowered) == words_in(lowered) != words


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("reader", [TextLines, RocStories])
@pytest.mark.parametrize("lowercase", [False, True])
def test_and_so_does_that_of_a_corpus_made_from_another(files, reader, wrapper, lowercase):
    words = words_in(reader(**READERS[reader], lowercase=False))
    if isinstance(wrapper, partial) and lowercase:
        with pytest.raises(UserError, match="lowercase: false keeps capitals"):
            wrapper(reader(**READERS[reader], lowercase=True))
        return
    made = wrapper(reader(**READERS[reader], lowercase=lowercase), **WRAPPERS[wrapper])
    if wrapper is WithoutSentences and not lowercase:
        return  # sentences of `excluded` are only there in its form, so the corpus is taken to be in it
    assert in_its_form(words, made) == words_in(made)


def test_corpora_say_in_which_form_their_text_is():
    lines, ptb, trees = TextLines("news"), TextLines("ptb", published="ptb"), ConlluTreebank()
    normalized = NormalizedTreebank(trees, words_of=lines)
    assert [form_of(each) for each in (lines, trees, ptb, normalized, BareWords(trees))] == [
        None, None, "ptb", "ptb", "bare",
    ]  # fmt: skip


def test_wrappers_pass_it_on():
    lines, bare = TextLines("news"), BareWords(ConlluTreebank())
    assert form_of(SingleSentences(bare)) == "bare"
    assert form_of(WithoutSentences(bare, excluded=lines)) == "bare"
    assert form_of(WithoutSentences(lines, excluded=bare)) == "bare"
    assert form_of(WithoutSentences(lines, excluded=lines)) is None
