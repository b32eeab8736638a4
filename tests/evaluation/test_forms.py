"""Whether a corpus is written as a run's text is: said once in the log where it is not."""

import logging

import pytest
import yaml

from depgen.cli import main
from depgen.data.bare_words import BareWords
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank
from depgen.evaluation.forms import form_of_run, warn_of_another_form

PTB = TextLines("ptb", published="ptb", name="lines")


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


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


@pytest.mark.parametrize("verb", ["parsing-scores", "head-correlations", "heat-map"])
def test_verbs_that_read_a_treebank_notice(parsing_run, tmp_path, capsys, verb):
    treebank = "depgen.data.treebank.ConlluTreebank"
    output = ["--output", str(tmp_path / "a.png")] if verb == "heat-map" else []
    assert main([verb, "--run", "udgn", "--corpus", treebank, *output]) == 0
    assert capsys.readouterr().err.count("has learnt from text in the form `bare`") == 1
    words = ["--corpus", "depgen.data.bare_words.BareWords", "--corpus.corpus", treebank]
    assert main([verb, "--run", "udgn", *words, *output]) == 0
    assert "in the form" not in capsys.readouterr().err


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
