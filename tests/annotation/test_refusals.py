"""What is refused, and what the message must name."""

import json
from pathlib import Path

import pytest

from depgen.annotation.annotate import annotate
from depgen.annotation.controls import GoldTrees, GraphsOfOtherSentences, KnownTrees, LeftChain
from depgen.annotation.spacy import SpacyAnnotator
from depgen.annotation.supar import SuparAnnotator, SuparConstituencyAnnotator, SuparGraphAnnotator
from depgen.annotation.training import CorpusTreebank, Treebank, train_parser
from depgen.data.corpora import ConlluTreebank, TextLines
from depgen.errors import UserError
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.annotation.conftest import tiny_spacy, tiny_supar, toy_sentences

GRAPHS = GoldTrees(structure="graph")
ONE = [Sentence(("Go",))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of data, which has a cache too."""
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    write_conllu([Document(tuple(toy_sentences(1, 0)), "x")], tmp_path / "trees.conllu")
    (tmp_path / "none.conllu").write_text("1\tAda\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    (tmp_path / "untagged.conllu").write_text("1\tAda\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "lines.txt").write_text("a line\n")
    (tmp_path / "bare.yaml").write_text(json.dumps({"data": {"class_path": "depgen.data.text.TextData", "init_args": {
        "corpus": {"class_path": "depgen.data.corpora.TextLines", "init_args": {"folder": "."}}}}}))  # fmt: skip
    (tmp_path / "parsers/broken").mkdir(parents=True)
    (tmp_path / "parsers/broken/parser.json").write_text("[1]")
    return tmp_path


def treebank(name, **options):
    return Treebank(name, *[name] * 3, **options)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: treebank("parsers").fingerprint(), "expected a file, found a folder"),
        (lambda: train_parser(treebank("a.conllu"), "ud", parser=tiny_spacy()), "universaldependencies.*DEPGEN_DATA"),
        (lambda: treebank("trees.conllu", max_sentences=0), "max_sentences: expected at least 1, found 0"),
        (lambda: tiny_spacy(steps=0), "steps: expected at least 1, found 0"),
        (lambda: tiny_spacy(evaluate_every=-5), "evaluate_every: expected at least 1, found -5"),
        (lambda: tiny_supar(steps=0), "steps: expected at least 1, found 0"),
        (lambda: train_parser(treebank("trees.conllu"), "x", parser=tiny_spacy(), seed=-1), "expected a seed from 0"),
        (lambda: train_parser(treebank("trees.conllu"), "broken", parser=tiny_spacy()), r"parser\.json.*--overwrite"),
        (lambda: treebank("none.conllu").sentences("train"), "expected HEAD and DEPREL"),
        (lambda: treebank("untagged.conllu", replace_names=True).sentences("train"), "has none in column xpos"),
        (lambda: treebank("trees.conllu").sentences("train", "graph"), "sentence 1: expected a graph .*graphs: true"),
        (lambda: treebank("trees.conllu").sentences("train", "constituency"), "expected constituents .*Brackets"),
        (
            lambda: CorpusTreebank(TextLines("", train="lines.txt", name="lines")).sentences("train"),
            "lines.txt:1 of lines: expected heads of every sentence, found none",
        ),
        (
            lambda: CorpusTreebank(ConlluTreebank("", train="trees.conllu")).sentences("train", "graph"),
            "x of .*: expected a graph .*a parser of trees",
        ),
        (lambda: tiny_supar(structure="graph").train(*[[Sentence(("a",), edges=())]] * 2, seed=1), "with edges"),
        (SuparAnnotator("nowhere").fingerprint, r"experiments/parser_ewt_supar\.yaml --name nowhere"),
        (SuparConstituencyAnnotator("nowhere").fingerprint, r"parser_wsj_constituency\.yaml --name nowhere"),
        (lambda: SuparGraphAnnotator("ewt_graph").annotate(ONE), r"No parser 'ewt_graph'.*parser_ewt_graph\.yaml"),
        (SpacyAnnotator("ewt").fingerprint, "Train it by `depgen annotate --train experiments/parser_ewt.yaml`"),
        (SpacyAnnotator("en_core_web_xx").fingerprint, "--name en_core_web_xx"),
        (SpacyAnnotator("xx_core_news_sm").fingerprint, "python -m spacy download xx_core_news_sm"),
        (lambda: annotate(Path("bare.yaml")), "names no annotator"),
        (lambda: GraphsOfOtherSentences(LeftChain()), "gives trees .left chain.. Name another"),
        (lambda: GraphsOfOtherSentences(GRAPHS, seed=-1), "seed: expected a seed from 0"),
        (lambda: KnownTrees(TextLines("lines"), LeftChain(), leave_unknown=True), "give otherwise or leave_unknown"),
        (lambda: KnownTrees(TextLines("lines"), LeftChain(), structure="graph"), "graph needs .* gives a tree"),
    ],
)
def test_it_is_refused(folder, monkeypatch, ask, message):
    monkeypatch.chdir(folder)
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
