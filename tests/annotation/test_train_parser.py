"""Training parsers into the cache: once, with scores, refusing to replace another silently."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml
from jsonargparse import ArgumentParser

from depgen.annotation.spacy import SpacyAnnotator
from depgen.annotation.training import CorpusTreebank, ParserTraining, Treebank, train_parser, training_fingerprint
from depgen.data.corpora import ConlluTreebank, TextLines
from depgen.data.corpus import FileCorpus
from depgen.data.formats import Conllu, DependencyColumns
from depgen.data.steps import WithTreesOnly
from depgen.errors import UserError
from depgen.trees.sentence import Sentence
from tests.annotation.conftest import tiny_spacy, tiny_supar, toy_sentences

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_both_kinds_learn_the_toy_treebank_and_report_it(toy_parsers, own_cache):
    for name, kind in (("toy", "spaCy"), ("toy_supar", "SuPar biaffine")):
        scores = json.loads((own_cache / "parsers" / name / "scores.json").read_text())
        assert scores["scheme"] == f"Toy, {kind}"
        assert scores["test"]["uas"] >= 95
        assert scores["test"]["sentences"] == 10
        assert "words/s" in toy_parsers[name]
        assert f"UAS {scores['test']['uas']:.2f}, LAS {scores['test']['las']:.2f}" in toy_parsers[name]


class Never(ParserTraining):
    """Would be noticed if it trained."""

    kind = "spaCy"

    def __init__(self, options):
        self._options = options

    def options(self):
        return self._options

    def train(self, train, valid, *, seed):
        raise AssertionError("trained again")


def test_a_parser_that_is_there_is_not_trained_again(toy_parsers, own_cache, toy_treebank):
    before = (own_cache / "parsers/toy/scores.json").read_bytes()
    report = train_parser(toy_treebank, "toy", parser=Never(tiny_spacy().options()))
    assert "up to date" in report
    assert (own_cache / "parsers/toy/scores.json").read_bytes() == before


def test_a_parser_is_found_in_a_cache_that_cannot_be_written(toy_parsers, own_cache, toy_treebank, tmp_path):
    lock = (own_cache / "parsers/toy.lock").rename(tmp_path / "toy.lock")
    (own_cache / "parsers/toy.lock").mkdir()
    try:
        assert "up to date" in train_parser(toy_treebank, "toy", parser=Never(tiny_spacy().options()))
        with pytest.raises(OSError, match=r"toy\.lock"):
            train_parser(toy_treebank, "toy", parser=Never(tiny_spacy().options()), overwrite=True)
    finally:
        (own_cache / "parsers/toy.lock").rmdir()
        lock.rename(own_cache / "parsers/toy.lock")


@pytest.mark.parametrize("content", ["{", "[]", '{"scheme": "x"}', '{"scheme": "x", "valid": {"uas": "high"}}', None])
def test_damaged_scores_are_named(toy_parsers, own_cache, toy_treebank, content):
    path = own_cache / "parsers/toy/scores.json"
    before = path.read_bytes()
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(UserError, match=r"toy/scores\.json does not read as a parser's scores .*--overwrite"):
        train_parser(toy_treebank, "toy", parser=Never(tiny_spacy().options()))
    path.write_bytes(before)


def test_a_seed_is_no_negative_number(own_cache, toy_treebank):
    with pytest.raises(UserError, match="seed: expected a seed from 0"):
        train_parser(toy_treebank, "unseeded", parser=Never({}), seed=-1)


def test_a_parser_that_was_trained_otherwise_is_not_replaced_unasked(toy_parsers, own_cache, toy_treebank):
    with pytest.raises(UserError, match=r"trained otherwise.*--overwrite"):
        train_parser(toy_treebank, "toy", parser=tiny_spacy(steps=61))


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_broken_description_is_named(tmp_path, monkeypatch, toy_treebank, content):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    (tmp_path / "parsers/toy").mkdir(parents=True)
    (tmp_path / "parsers/toy/parser.json").write_text(content)
    with pytest.raises(UserError, match=r"parser\.json: expected .*JSON.*--overwrite"):
        train_parser(toy_treebank, "toy", parser=Never({}))


def test_a_folder_in_place_of_a_treebank_is_named(tmp_path):
    with pytest.raises(UserError, match="expected a file, found a folder"):
        Treebank("Folder", *[str(tmp_path)] * 3).fingerprint()


@pytest.mark.parametrize("number", [0, -5])
def test_sizes_of_nothing_are_refused(toy_treebank, number):
    with pytest.raises(UserError, match=f"max_sentences: expected at least 1, found {number}"):
        dataclasses.replace(toy_treebank, max_sentences=number)
    for name, training in (("steps", tiny_spacy), ("evaluate_every", tiny_spacy), ("steps", tiny_supar)):
        with pytest.raises(UserError, match=f"{name}: expected at least 1, found {number}"):
            training(**{name: number})


@pytest.mark.slow
def test_overwriting_replaces_it(tmp_path, monkeypatch, toy_treebank):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    lowered = dataclasses.replace(toy_treebank, lowercase=True, replace_names=True)
    train_parser(toy_treebank, "toy", parser=tiny_spacy(steps=2, evaluate_every=2))
    cased = SpacyAnnotator("toy").fingerprint()
    assert "lower-cased" in train_parser(lowered, "toy", parser=tiny_spacy(steps=2, evaluate_every=2), overwrite=True)
    lower = SpacyAnnotator("toy")
    assert lower.scheme == "Toy (lower-cased, names replaced), spaCy"
    assert lower.fingerprint() != cased
    loud, quiet = lower.annotate([Sentence(("ADA", "SEES", "her", "CAT")), Sentence(("ada", "sees", "her", "cat"))])
    assert (loud.words[0], loud.heads) == ("ADA", quiet.heads)
    assert sorted(path.name for path in (tmp_path / "parsers").iterdir()) == ["toy", "toy.lock"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_parser(toy_treebank, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    options = tiny_spacy(steps=6, evaluate_every=3)
    for name in ("one", "two"):
        train_parser(toy_treebank, name, parser=options)
    one, two = (tmp_path / "parsers" / name / "parser" / "model" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_the_fingerprint_follows_text_options_and_seed(toy_treebank, tmp_path):
    base = training_fingerprint(toy_treebank, tiny_spacy(), 1)
    assert base == training_fingerprint(toy_treebank, tiny_spacy(), 1)
    changed = tmp_path / "train.conllu"
    with open(toy_treebank.train) as stream:
        changed.write_text(stream.read().replace("horse", "mouse"))
    others = [
        training_fingerprint(dataclasses.replace(toy_treebank, train=str(changed)), tiny_spacy(), 1),
        training_fingerprint(dataclasses.replace(toy_treebank, lowercase=True), tiny_spacy(), 1),
        training_fingerprint(toy_treebank, tiny_spacy(steps=61), 1),
        training_fingerprint(toy_treebank, tiny_spacy(), 2),
        training_fingerprint(toy_treebank, tiny_supar(), 1),
    ]
    assert len({base, *others}) == 6


def test_names_cannot_be_replaced_without_tags(tmp_path):
    path = tmp_path / "bare.conllu"
    path.write_text("1\tAda\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tran\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    treebank = Treebank("Bare", *[str(path)] * 3, replace_names=True)
    with pytest.raises(UserError, match="sentence 1 has none in column xpos"):
        treebank.sentences("train")


def test_a_treebank_without_trees_is_refused(tmp_path):
    path = tmp_path / "bare.conllu"
    path.write_text("1\tAda\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    with pytest.raises(UserError, match="expected HEAD and DEPREL"):
        Treebank("Bare", *[str(path)] * 3).sentences("train")


@pytest.mark.parametrize("structure", ["tree", "graph"])
def test_a_treebank_of_which_some_sentences_have_no_tree(tmp_path, structure):
    rows = "1\tUp\t_\t_\t_\t_\t{}\troot\t{}\t_\n\n"
    (tmp_path / "some.conllu").write_text(rows.format("0", "0:root") + rows.format("_", "_"))
    with pytest.raises(UserError, match=r"1 of 2 have none, sentence 2 first.*WithTreesOnly"):
        Treebank("Some", *[str(tmp_path / "some.conllu")] * 3).sentences("train")
    files = {"folder": str(tmp_path), "format": Conllu(graphs=structure == "graph"), "train": "some.conllu"}
    only = WithTreesOnly("edges" if structure == "graph" else "heads")
    with pytest.raises(UserError, match=r"1 of 2 sentences have none.*WithTreesOnly"):
        CorpusTreebank(ConlluTreebank(**files)).sentences("train", structure)
    assert len(CorpusTreebank(ConlluTreebank(**files, steps=[only])).sentences("train", structure)) == 1


def test_a_missing_treebank_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"universaldependencies.org.*DEPGEN_DATA"):
        train_parser(Treebank("UD", "a.conllu", "b.conllu", "c.conllu"), "ud", parser=tiny_spacy())


@pytest.fixture
def columns(tmp_path):
    """A treebank of heads without relations, one document a split."""
    files = {split: [f"{split}.dp"] for split in ("train", "valid", "test")}
    for seed, (name,) in enumerate(files.values()):
        rows = (zip(s.words, s.tags, s.heads, strict=True) for s in toy_sentences(20, seed))
        text = "\n".join("".join(f"{word}\t{tag}\t{head}\n" for word, tag, head in row) for row in rows)
        (tmp_path / name).write_text(text)
    return FileCorpus(str(tmp_path), DependencyColumns(), **files)


@pytest.mark.slow
def test_a_corpus_of_bare_heads_trains_a_parser_whose_labelled_scores_are_the_unlabelled(
    columns, tmp_path, monkeypatch
):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    treebank = CorpusTreebank(columns)
    assert treebank.sentences("train")[0].relations.count("root") == 1
    train_parser(treebank, "bare", parser=tiny_spacy())
    scores = json.loads((tmp_path / "parsers/bare/scores.json").read_text())
    assert scores["scheme"] == f"{tmp_path.name}, spaCy"
    assert scores["test"]["uas"] == scores["test"]["las"] > 90
    before = training_fingerprint(treebank, tiny_spacy(), 1)
    (tmp_path / "train.dp").write_text("Go\tVB\t0\n")
    assert training_fingerprint(treebank, tiny_spacy(), 1) != before


def test_a_corpus_without_trees_trains_no_parser(tmp_path):
    (tmp_path / "train.txt").write_text("a line\n")
    with pytest.raises(UserError, match=r"train.txt:1 of lines: expected heads of every sentence, found none"):
        CorpusTreebank(TextLines(str(tmp_path), name="lines")).sentences("train")


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("parser_*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_names_its_own_parser(path):
    parser = ArgumentParser()
    parser.add_argument("--config", action="config")
    parser.add_function_arguments(train_parser)
    arguments = parser.instantiate(parser.parse_args(["--config", str(path)]))
    assert path.stem == f"parser_{arguments.name}"
    assert isinstance(arguments.parser, ParserTraining)
    assert isinstance(arguments.treebank, Treebank | CorpusTreebank)
    assert not arguments.overwrite


def test_the_lower_cased_experiment_differs_in_the_treebanks_words_only():
    cased = yaml.safe_load((EXPERIMENTS / "parser_ewt.yaml").read_text())
    lower = yaml.safe_load((EXPERIMENTS / "parser_ewt_lowercased.yaml").read_text())
    for change in ("lowercase", "replace_names"):
        assert (lower["treebank"].pop(change), cased["treebank"].pop(change)) == (True, False)
    assert {**lower, "name": "ewt"} == cased
