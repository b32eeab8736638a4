"""What is refused, and what the message must name."""

import json
from pathlib import Path

import pytest

from depgen.annotation.annotate import annotate
from depgen.annotation.annotator import parser_named
from depgen.annotation.controls import GoldTrees
from depgen.annotation.spacy import SpacyAnnotator
from depgen.annotation.supar import SuparAnnotator, SuparGraphAnnotator
from depgen.annotation.training import train_parser, with_placeholders
from depgen.data.corpora import ConlluTreebank, TextLines
from depgen.errors import UserError
from depgen.trees.annotator import check_words
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.annotation.conftest import tiny_spacy, tiny_supar, toy_sentences

LINES = dict.fromkeys(("train", "valid", "test"), "lines.txt")
ONE, GONE = [Sentence(("Go",))], Sentence(("gone",), (0,))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of data, which has a cache too."""
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    write_conllu([Document(tuple(toy_sentences(1, 0)), "x")], tmp_path / "trees.conllu")
    (tmp_path / "lines.txt").write_text("a line\n")
    (tmp_path / "bare.yaml").write_text(json.dumps({"data": {"class_path": "depgen.data.text.TextData", "init_args": {
        "corpus": {"class_path": "depgen.data.corpora.TextLines", "init_args": {"folder": "."}}}}}))  # fmt: skip
    (tmp_path / "parsers/broken").mkdir(parents=True)
    (tmp_path / "parsers/broken/parser.json").write_text("[1]")
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    return tmp_path


def treebank(name):
    return ConlluTreebank("", train=name, valid=name, test=name)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: train_parser(treebank("a.conllu"), "ud", tiny_spacy()), "universaldependencies.*"),
        (lambda: train_parser(treebank("trees.conllu"), "x", tiny_spacy(), seed=-1), "expected a seed from 0"),
        (lambda: train_parser(treebank("trees.conllu"), "broken", tiny_spacy()), r"parser\.json.*--overwrite"),
        (lambda: train_parser(treebank("trees.conllu"), "x", tiny_supar(structure="graph")), "expected edges .*graphs"),
        (
            lambda: train_parser(TextLines("", **LINES, steps=[]), "x", tiny_supar()),
            "lines.txt:1 of .* expected heads",
        ),
        (lambda: with_placeholders(ONE[0]), "needs tags, which 'Go' has not"),
        (SuparAnnotator("nowhere").fingerprint, r"parsers/nowhere.*annotate --train experiments/parser_NAME\.yaml"),
        (lambda: SuparGraphAnnotator("ewt_graph").annotate(ONE), "No parser 'ewt_graph'"),
        (SpacyAnnotator("xx_core_news_sm").fingerprint, "installed package.*python -m spacy download"),
        (lambda: SpacyAnnotator("parsers").annotate(ONE), "No parser 'parsers'"),
        (lambda: SpacyAnnotator("./parsers").annotate(ONE), "expected a spaCy pipeline; spaCy says"),
        (lambda: SpacyAnnotator("./blank").annotate(ONE), r"spaCy pipeline with the component parser, found \[\]"),
        (lambda: check_words([ONE[0], Sentence(())]), "sentence 2: expected words to parse, found none"),
        (lambda: check_words([Sentence(("a", " ", "b"))]), "sentence 1: .*found ' ' as word 2: 'a   b'"),
        (lambda: parser_named("lines.txt"), "found a file"),
        (lambda: parser_named("."), "found a folder without them"),
        (lambda: GoldTrees().annotate([GONE, *ONE]), r"sentence 2: .* has none: 'Go'.*1 of the 2.*WithTreesOnly"),
        (lambda: annotate(Path("bare.yaml")), "names no annotator"),
        (annotate, "--config, or a parser to train by --train"),
        (lambda: annotate(train=Path("bare.yaml")), "bare.yaml: "),
        (lambda: SuparAnnotator("lines.txt").annotate(ONE), r"runs whatever code .* trust_checkpoint: true"),
    ],
)
def test_it_is_refused(folder, monkeypatch, ask, message):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)  # as in a notebook
    with pytest.raises(UserError, match=message):
        ask()


@pytest.mark.parametrize(
    ("annotator", "message"),
    [
        (SuparAnnotator, "toy: expected a SuPar biaffine parser, found .* spaCy"),
        (SpacyAnnotator, "toy_supar: expected a spaCy parser, found .* SuPar biaffine"),
        (SuparGraphAnnotator, r"toy_supar: expected a SuPar biaffine graph parser, .*\.SuparAnnotator"),
    ],
)
def test_a_parser_of_another_kind_is_named(toy_parsers, own_cache, annotator, message):
    with pytest.raises(UserError, match=message):
        annotator(message.partition(":")[0]).annotate(ONE)
