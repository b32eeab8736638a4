"""Corpora that are not written as a run's text is: brought into its form, or named in the log."""

import logging

import pytest
import yaml

from depgen.cli import main
from depgen.data.corpora import Ewt, Ptb
from depgen.data.corpus import WithSteps
from depgen.data.steps import BareWords, SingleSentences
from depgen.evaluation.reading import IntoForm, Reading, in_form, reading_of_run, warn_of_another_form
from depgen.trees.sentence import Document, Sentence
from tests.shelves import Shelf

PTB = Ptb(name="lines")
SINGLE, WORDS = "depgen.data.steps.SingleSentences", "depgen.data.steps.BareWords"
BARE = Ewt(steps=[SingleSentences(), BareWords()])


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.slow
def test_a_corpus_in_another_form_is_named_with_the_remedy(parsing_run, caplog):
    form = reading_of_run(parsing_run).form
    assert form == "bare"
    warn_of_another_form(form, BARE)
    assert not warnings(caplog)
    warn_of_another_form(form, PTB)
    warn_of_another_form(form, Ewt(name="raw"))
    other, unsaid = warnings(caplog)
    assert "The run has learnt from text in the form `bare`, but lines is in the form `ptb`" in other
    assert "but raw does not say that it is in it" in unsaid


def test_a_run_that_does_not_say_its_form_is_not_compared(tmp_path, caplog):
    assert reading_of_run(tmp_path) == Reading()
    lines = {"class_path": "depgen.data.corpora.TextLines", "init_args": {"folder": "ptb"}}
    data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": lines}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    warn_of_another_form(reading_of_run(tmp_path).form, PTB)
    assert not warnings(caplog)
    lines["class_path"] = "depgen.data.corpora.Ptb"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    warn_of_another_form(reading_of_run(tmp_path).form, Ewt(steps=BARE.steps, name="words"))
    (warning,) = warnings(caplog)
    assert "in the form `ptb`, but words is in the form `bare`" in warning


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate parsing", "evaluate correlations", "plot heat-map"])
def test_verbs_bring_a_treebank_into_the_form_of_the_run(parsing_run, tmp_path, capsys, verb):
    """The raw treebank and the one in bare words give the same, and read as it is another figure."""
    output = ["--output", str(tmp_path / "a.png")] if verb == "plot heat-map" else []

    def said(*corpus):
        assert main([*verb.split(), "--run", "udgn", *corpus, *output]) == 0
        return capsys.readouterr().out

    raw = ("--corpus", "depgen.data.corpora.Ewt")
    brought = said(*raw)
    assert "UD English-EWT (brought into the form `bare`)" in brought
    bare = said(*raw, "--corpus.steps", f"[{SINGLE}, {WORDS}]")
    assert bare.replace("UD English-EWT (bare words)", "UD English-EWT (brought into the form `bare`)") == brought
    as_is = said(*raw, "--form", "as_is")
    assert "brought" not in as_is
    assert as_is != bare.replace(" (bare words)", ""), "punctuation is read too"


def test_trees_are_closed_over_the_words_that_go():
    tree = Sentence(("``", "Ada", "sold", "5", "."), (2, 5, 2, 3, 0), ("a", "b", "c", "d", "root"))
    corpus = Shelf([Document((tree, Sentence((".",), (0,), ("root",))), "d")])
    for form, words, heads, relations in (
        ("bare", ("ada", "sold", "N"), (0, 1, 2), ("b", "c", "d")),
        ("ptb", ("ada", "sold", "N"), (0, 1, 2), ("root", "c", "d")),
        ("lower", ("``", "ada", "sold", "5", "."), tree.heads, tree.relations),
    ):
        (document,) = WithSteps(corpus, steps=[IntoForm(form)]).documents("test")
        assert document.sentences[0] == Sentence(words, heads, relations)
        assert len(document.sentences) == 1 + (form == "lower")
    assert IntoForm("bare").fingerprint(corpus.fingerprint, "test") != IntoForm("ptb").fingerprint(
        corpus.fingerprint, "test"
    )


def test_a_corpus_is_left_as_it_is_where_nothing_is_known_or_to_be_done(caplog):
    raw, bare = Ewt(), BARE
    assert in_form(bare, Reading("bare")) is bare
    assert in_form(raw, Reading("as_is")) is raw
    assert in_form(raw, Reading("lower")).form == "lower"
    assert not warnings(caplog)
    assert in_form(raw, Reading()) is raw
    (warning,) = warnings(caplog)
    assert "does not say in which form its text is, so UD English-EWT is read as it is" in warning
