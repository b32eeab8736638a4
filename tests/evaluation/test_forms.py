"""Corpora that are not written as a run's text is: brought into its form, or named in the log."""

import logging

import pytest
import yaml

from depgen.cli import main
from depgen.data.bare_words import BareWords
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank
from depgen.evaluation.forms import BroughtIntoForm, form_of_run, in_form_of_run, warn_of_another_form
from depgen.trees.sentence import Document, Sentence

PTB = TextLines("ptb", published="ptb", name="lines")


class Shelf:
    """A corpus of one document in memory."""

    name = "shelf"

    def __init__(self, *sentences):
        self.sentences, self.published = sentences, {}

    def documents(self, split):
        return iter([Document(self.sentences, split)])

    def fingerprint(self, split):
        return str(self.sentences)


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.slow
def test_a_corpus_in_another_form_is_named_with_the_remedy(parsing_run, caplog):
    assert form_of_run(parsing_run) == "bare"
    warn_of_another_form(parsing_run, BareWords(ConlluTreebank()))
    assert not warnings(caplog)
    warn_of_another_form(parsing_run, PTB)
    warn_of_another_form(parsing_run, ConlluTreebank(name="raw"))
    other, unsaid = warnings(caplog)
    assert "has learnt from text in the form `bare`, but lines is in the form `ptb`" in other
    assert "but raw does not say that it is in it" in unsaid
    assert "depgen.data.bare_words.BareWords brings a corpus into that form" in other


def test_a_run_that_does_not_say_its_form_is_not_compared(tmp_path, caplog):
    assert form_of_run(tmp_path) is None
    lines = {"class_path": "depgen.data.text_lines.TextLines", "init_args": {"folder": "ptb"}}
    data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": lines}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    warn_of_another_form(tmp_path, PTB)
    assert not warnings(caplog)
    lines["init_args"]["published"] = "ptb"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    warn_of_another_form(tmp_path, BareWords(ConlluTreebank(), name="words"))
    (warning,) = warnings(caplog)
    assert "in the form `ptb`, but words is in the form `bare`" in warning
    assert "depgen.data.normalized.NormalizedTreebank brings" in warning


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["parsing-scores", "head-correlations", "heat-map"])
def test_verbs_bring_a_treebank_into_the_form_of_the_run(parsing_run, tmp_path, capsys, verb):
    """The raw treebank and the one in bare words give the same, and read as it is another figure."""
    output = ["--output", str(tmp_path / "a.png")] if verb == "heat-map" else []

    def said(*corpus):
        assert main([verb, "--run", "udgn", *corpus, *output]) == 0
        return capsys.readouterr().out

    raw = ("--corpus", "depgen.data.treebank.ConlluTreebank")
    brought = said(*raw)
    assert brought.count("UD English-EWT (brought into the form `bare`)") == 1
    bare = said("--corpus", "depgen.data.bare_words.BareWords", "--corpus.corpus", raw[1])
    assert bare.replace("UD English-EWT (bare words)", "UD English-EWT (brought into the form `bare`)") == brought
    as_is = said(*raw, "--form", "as_is")
    assert "brought" not in as_is
    assert as_is != bare.replace(" (bare words)", ""), "punctuation is read too"


def test_trees_are_closed_over_the_words_that_go():
    tree = Sentence(("``", "Ada", "sold", "5", "."), (2, 5, 2, 3, 0), ("a", "b", "c", "d", "root"))
    corpus = Shelf(tree, Sentence((".",), (0,), ("root",)))
    for form, words, heads, relations in (
        ("bare", ("ada", "sold", "N"), (0, 1, 2), ("b", "c", "d")),
        ("ptb", ("ada", "sold", "N"), (0, 1, 2), ("root", "c", "d")),
        ("lower", ("``", "ada", "sold", "5", "."), tree.heads, tree.relations),
    ):
        (document,) = BroughtIntoForm(corpus, form).documents("test")
        assert document.sentences[0] == Sentence(words, heads, relations)
        assert len(document.sentences) == 1 + (form == "lower")
    assert BroughtIntoForm(corpus, "bare").fingerprint("test") != BroughtIntoForm(corpus, "ptb").fingerprint("test")


def test_a_corpus_is_left_as_it_is_where_nothing_is_known_or_to_be_done(parsing_run, tmp_path, caplog):
    raw, bare = ConlluTreebank(), BareWords(ConlluTreebank())
    assert in_form_of_run(parsing_run, bare) is bare
    assert in_form_of_run(parsing_run, raw, "as_is") is raw
    assert in_form_of_run(tmp_path, raw, "lower").form == "lower"
    assert not warnings(caplog)
    assert in_form_of_run(tmp_path, raw) is raw
    (warning,) = warnings(caplog)
    assert "does not say in which form its text is, so UD English-EWT is read as it is" in warning


def test_a_run_on_lower_case_is_warned_too(tmp_path, caplog):
    lowered = {"class_path": "depgen.data.tagged.TaggedDocuments", "init_args": {"lowercase": True}}
    data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": lowered}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    warn_of_another_form(tmp_path, ConlluTreebank(lowercase=True))
    assert not warnings(caplog)
    warn_of_another_form(tmp_path, ConlluTreebank())
    (warning,) = warnings(caplog)
    assert "in the form `lower`" in warning
    assert "an option `lowercase: true`" in warning
