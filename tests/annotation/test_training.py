"""Training parsers into the cache: once, with scores, refusing to replace another silently."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from depgen.annotation.annotate import annotate
from depgen.annotation.annotator import lowercased
from depgen.annotation.spacy import SpacyAnnotator
from depgen.annotation.training import (
    ParserTraining,
    scores_of,
    sentences_to_learn,
    summary_of,
    train_parser,
    with_placeholders,
)
from depgen.data.corpus import FileCorpus
from depgen.data.formats import DependencyColumns
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
        assert f"UAS {scores['test']['uas']:.2f}, LAS {scores['test']['las']:.2f}" in toy_parsers[name]
        assert f"{scores['test']['words_per_second']:,.0f} words/s" in toy_parsers[name]


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
    report = train_parser(toy_treebank, "toy", Never(tiny_spacy().options()))
    assert "up to date" in report
    assert (own_cache / "parsers/toy/scores.json").read_bytes() == before


def test_a_parser_that_was_trained_otherwise_is_not_replaced_unasked(toy_parsers, own_cache, toy_treebank, tmp_path):
    (tmp_path / "train.conllu").write_text(
        (Path(toy_treebank.folder) / "train.conllu").read_text().replace("horse", "mouse")
    )
    files = {split: f"{toy_treebank.folder}/{split}.conllu" for split in ("valid", "test")}
    others = [
        (replace(toy_treebank, train=str(tmp_path / "train.conllu"), **files), tiny_spacy(), {}),
        (toy_treebank, tiny_spacy(), {"lowercase": True}), (toy_treebank, tiny_spacy(), {"replace_names": True}),
        (toy_treebank, tiny_spacy(steps=61), {}), (toy_treebank, tiny_spacy(), {"seed": 2}),
        (toy_treebank, tiny_supar(), {}),
    ]  # fmt: skip
    for treebank, training, options in others:
        with pytest.raises(UserError, match=r"trained otherwise.*--overwrite"):
            train_parser(treebank, "toy", training, **options)


@pytest.mark.slow
def test_overwriting_replaces_it(tmp_path, monkeypatch, toy_treebank):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    few = tiny_spacy(steps=2, evaluate_every=2)
    train_parser(toy_treebank, "toy", few)
    cased = SpacyAnnotator("toy").fingerprint()
    options = {"lowercase": True, "replace_names": True, "overwrite": True}
    assert "lower-cased" in train_parser(toy_treebank, "toy", few, **options)
    lower = SpacyAnnotator("toy")
    assert lower.scheme == "Toy (lower-cased, names replaced), spaCy"
    assert lower.fingerprint() != cased
    loud, quiet = lower.annotate([Sentence(("ADA", "SEES", "her", "CAT")), Sentence(("ada", "sees", "her", "cat"))])
    assert (loud.words[0], loud.heads) == ("ADA", quiet.heads)
    assert sorted(path.name for path in (tmp_path / "parsers").iterdir()) == ["toy", "toy.lock"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_parser(toy_treebank, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    for name in ("one", "two"):
        train_parser(toy_treebank, name, tiny_spacy(steps=6, evaluate_every=3))
    one, two = (tmp_path / "parsers" / name / "parser" / "model" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_sentences_without_a_tree_are_refused_or_left_out(tmp_path):
    (tmp_path / "train.dp").write_text("Go\tVB\t0\n")
    columns = FileCorpus(str(tmp_path), DependencyColumns(), train="train.dp")
    assert sentences_to_learn(columns, "train", "tree") == [Sentence(("Go",), (0,), ("root",), ("VB",))]
    with pytest.raises(UserError, match=r"expected edges of every sentence, found none: 1 of 1 .*WithTreesOnly"):
        sentences_to_learn(columns, "train", "graph")
    with pytest.raises(UserError, match="nothing but 1 sentences without edges"):
        sentences_to_learn(replace(columns, steps=[WithTreesOnly("edges")]), "train", "graph")


@pytest.mark.slow
def test_a_corpus_of_bare_heads_trains_a_parser_whose_labelled_scores_are_the_unlabelled(tmp_path, monkeypatch):
    files = {split: f"{split}.dp" for split in ("train", "valid", "test")}
    for seed, name in enumerate(files.values()):
        rows = (zip(s.words, s.tags, s.heads, strict=True) for s in toy_sentences(20, seed))
        text = "\n".join("".join(f"{word}\t{tag}\t{head}\n" for word, tag, head in row) for row in rows)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    train_parser(FileCorpus(str(tmp_path), DependencyColumns(), **files), "bare", tiny_spacy())
    scores = json.loads((tmp_path / "parsers/bare/scores.json").read_text())
    assert scores["scheme"] == f"{tmp_path.name}, spaCy"
    assert scores["test"]["uas"] == scores["test"]["las"] > 90


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("parser_*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_names_its_own_parser(path, monkeypatch):
    calls = []
    monkeypatch.setattr("depgen.annotation.annotate.train_parser", train_parser)
    monkeypatch.setattr("depgen.annotation.training.made_once", lambda folder, *_, **__: calls.append(folder))
    monkeypatch.setattr("depgen.annotation.training.SPLITS", ())
    monkeypatch.setattr("depgen.annotation.training._report", lambda folder: "")
    annotate(train=path)
    assert [f"parser_{folder.name}" for folder in calls] == [path.stem]


# -- names in treebanks -------------------------------------------------------------------------------------------


def sentence(*rows):
    words, heads, relations, tags = zip(*rows, strict=True)
    return Sentence(words, heads, relations, tags)


def test_flat_names_subjects_and_possessors_become_placeholders_and_places_stay():
    tree = sentence(
        ("Ada", 3, "obl", "NNP"), ("Lovelace", 1, "flat", "NNP"), ("met", 0, "root", "VBD"),
        ("Paris", 3, "obj", "NNP"), ("Mary", 6, "nmod:poss", "NNP"), ("aunt", 3, "obj", "NN"),
    )  # fmt: skip
    replaced = with_placeholders(tree)
    assert [word in PLACEHOLDERS for word in replaced.words] == [True, False, False, False, True, False]
    assert (replaced.heads, replaced.relations, replaced.tags) == (tree.heads, tree.relations, tree.tags)


def test_a_subject_with_a_determiner_or_in_capitals_is_no_name():
    tree = sentence(
        ("The", 2, "det", "DT"), ("Senate", 3, "nsubj", "NNP"), ("met", 0, "root", "VBD"), ("IBM", 3, "nsubj", "NNP"),
    )  # fmt: skip
    assert with_placeholders(tree) == tree


def test_a_name_always_becomes_the_same_placeholder_and_names_meet_all_three():
    def replaced(name):
        return with_placeholders(sentence((name, 2, "nsubj", "PROPN"), ("ran", 0, "root", "VERB"))).words[0]

    names = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo"]
    assert {replaced(name) for name in names} == set(PLACEHOLDERS)
    assert all(replaced(name) == replaced(name) for name in names)


def test_lower_case_leaves_placeholders():
    assert lowercased(Sentence(("[MALE]", "Ran", "USA"))).words == ("[MALE]", "ran", "usa")


# -- scores -----------------------------------------------------------------------------------------------------------


class Giving:
    """A parser that gives the sentences that it holds."""

    def __init__(self, *sentences):
        self.sentences = list(sentences)

    def parse(self, sentences):
        return self.sentences


def test_attachment_is_counted_by_hand_and_subtypes_count():
    gold = [
        Sentence(("she", "sang", "."), (2, 0, 2), ("nsubj", "root", "punct")),
        Sentence(("her", "home"), (2, 0), ("nmod:poss", "root")),
    ]
    parsed = (
        Sentence(("she", "sang", "."), (2, 0, 1), ("obj", "root", "punct")),
        Sentence(("her", "home"), (2, 0), ("nmod", "root")),
    )
    scores = scores_of(Giving(*parsed), gold)
    assert (scores["uas"], scores["las"]) == pytest.approx((80, 40))
    assert (scores["uas_without_punctuation"], scores["las_without_punctuation"]) == pytest.approx((100, 50))
    assert (scores["words"], scores["sentences"]) == (5, 2)


def test_edges_and_constituents_are_scored_with_their_labels():
    gold = [Sentence(("a", "b"), edges=((2, 1, "x"), (0, 2, "root")), spans=((0, 2, "S"),))]
    found = Giving(Sentence(("a", "b"), edges=((2, 1, "y"), (0, 2, "root")), spans=((0, 2, "S"), (0, 1, "NP"))))
    assert scores_of(found, gold, "graph")["labelled_f1"] == 50
    assert scores_of(found, gold, "constituency")["labelled_precision"] == 50
    said = summary_of(scores_of(found, gold, "graph"))
    assert "unlabelled F1 100.00 (precision 100.00, recall 100.00), labelled F1 50.00" in said
