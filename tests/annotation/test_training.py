"""Training parsers into the cache: once, with scores, refusing to replace another silently."""

import dataclasses
import json
from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from depgen.annotation.annotator import lowercase
from depgen.annotation.spacy import SpacyAnnotator
from depgen.annotation.training import (
    CorpusTreebank,
    ParserTraining,
    Treebank,
    replace_names,
    train_parser,
    training_fingerprint,
)
from depgen.data.corpora import ConlluTreebank
from depgen.data.corpus import FileCorpus
from depgen.data.formats import Conllu, DependencyColumns
from depgen.data.steps import WithTreesOnly
from depgen.errors import UserError
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS
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


@pytest.mark.parametrize("content", ["{", '{"scheme": "x", "valid": {"uas": "high"}}'])
def test_damaged_scores_are_named(toy_parsers, own_cache, toy_treebank, content):
    path = own_cache / "parsers/toy/scores.json"
    before = path.read_bytes()
    path.write_text(content)
    with pytest.raises(UserError, match=r"toy/scores\.json does not read as a parser's scores .*--overwrite"):
        train_parser(toy_treebank, "toy", parser=Never(tiny_spacy().options()))
    path.write_bytes(before)


def test_a_parser_that_was_trained_otherwise_is_not_replaced_unasked(toy_parsers, own_cache, toy_treebank):
    with pytest.raises(UserError, match=r"trained otherwise.*--overwrite"):
        train_parser(toy_treebank, "toy", parser=tiny_spacy(steps=61))


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


# -- names in treebanks -------------------------------------------------------------------------------------------


def sentence(*rows):
    words, heads, relations, tags = zip(*rows, strict=True)
    return Sentence(words, heads, relations, tags)


def test_flat_names_subjects_and_possessors_become_placeholders_and_places_stay():
    tree = sentence(
        ("Ada", 3, "obl", "NNP"), ("Lovelace", 1, "flat", "NNP"), ("met", 0, "root", "VBD"),
        ("Paris", 3, "obj", "NNP"), ("Mary", 6, "nmod:poss", "NNP"), ("aunt", 3, "obj", "NN"),
    )  # fmt: skip
    replaced = replace_names(tree)
    assert [word in PLACEHOLDERS for word in replaced.words] == [True, False, False, False, True, False]
    assert (replaced.heads, replaced.relations, replaced.tags) == (tree.heads, tree.relations, tree.tags)


def test_a_subject_with_a_determiner_or_in_capitals_is_no_name():
    tree = sentence(
        ("The", 2, "det", "DT"), ("Senate", 3, "nsubj", "NNP"), ("met", 0, "root", "VBD"), ("IBM", 3, "nsubj", "NNP"),
    )  # fmt: skip
    assert replace_names(tree) == tree


def test_a_name_always_becomes_the_same_placeholder_and_names_meet_all_three():
    def replaced(name):
        return replace_names(sentence((name, 2, "nsubj", "PROPN"), ("ran", 0, "root", "VERB"))).words[0]

    names = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo"]
    assert {replaced(name) for name in names} == set(PLACEHOLDERS)
    assert all(replaced(name) == replaced(name) for name in names)


def test_lower_case_leaves_placeholders():
    assert lowercase(Sentence(("[MALE]", "Ran", "USA"))).words == ("[MALE]", "ran", "usa")
