"""Samples of a tiny run of iterative expansion: curves, trees and styles, from real runs."""

import dataclasses
import json

import numpy as np
import pytest
import yaml

from depgen.annotation.controls import LeftChain
from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation.text_measures import TextOptions, moses_texts, sample_scores
from depgen.metrics.bleu import ReferencePool
from depgen.reporting.jobs import Job, fit
from depgen.reporting.measures import TrainedRow
from depgen.reporting.measures.samples import (
    CHOSEN,
    TREES,
    BoostedRelation,
    GeneratedTrees,
    SampledBleu,
    TextShapes,
    agreement,
    at_diversity,
    levels_per_token,
    nearest,
    relations_per_sentence,
    reparsed,
    sentence_of,
)
from depgen.reporting.reproduce import floor
from depgen.reporting.table import Generation, load_definition
from depgen.training.experiment_runs import measure_test
from depgen.trees.binarization import depths, written_tree
from depgen.trees.punctuation import is_punctuation
from depgen.trees.sentence import Sentence
from tests.fixtures.kinds import EXPERIMENTS, SENTENCES, text

HOW = Generation(samples=12, top_p=0.9, seed=5, max_new_tokens=12)
CHAINS = {"class_path": "depgen.annotation.controls.LeftChain"}
TABLE = """
table: levels
caption: Invented
source: nobody's
seeds: [1]
columns: [{key: perplexity, header: PPL, higher_better: false}]
rows:
  - {name: ITEXP, experiment: levels_toy, in_paper: false}
  - {name: Plain, experiment: plain_toy, in_paper: false}
  - name: Chains
    experiment: levels_toy
    options: {data.init_args.annotator: {class_path: depgen.annotation.controls.RightChain}}
    in_paper: false
  - {name: Test sentences, experiment: levels_toy, floor: test, in_paper: false}
  - {name: Sizes, experiment: levels_toy, floor: corpus, in_paper: false}
"""


@pytest.fixture
def row(project, depgen):
    """A trained row, measured by a measure."""
    (project / "experiments/tables/levels.yaml").write_text(TABLE)
    plain = {**EXPERIMENTS["transformer"], "data": text(corpus=SENTENCES)}
    for name, settings in (("levels", EXPERIMENTS["itexp"]), ("plain", plain)):
        (project / f"experiments/{name}_toy.yaml").write_text(yaml.safe_dump(settings))

    def measured(measure, name="ITEXP"):
        definition = load_definition("levels").model_copy(update={"generation": HOW})
        job = Job(definition, definition.row(name), "paper", 1)
        trained, corpus = fit(job, depgen), data_of(job.config).corpus
        found = TrainedRow(
            job=job, corpus=corpus, options=TextOptions(device="cpu"), depgen=depgen, trained=trained, facts=None
        )
        return measure.measure(found), trained.run, corpus

    return measured


def texts_of(run, *, temperature=1.0, options=None):
    (file,) = [
        path
        for path in (run / "texts").iterdir()
        if f"temperature-{temperature}_" in path.name and ("_boost" in path.name) is bool(options)
    ]
    return [json.loads(line) for line in file.read_text().splitlines()]


def sentences_of(corpus, split):
    return [" ".join(sentence.words) for document in corpus.documents(split) for sentence in document.sentences]


@pytest.mark.slow
def test_curves_are_those_of_the_texts_kept_at_each_temperature(row):
    measure = SampledBleu(temperatures=[0.5, 2.0], per_sample=4)
    found, run, corpus = row(measure)
    pools = {f"{split}_bleu": ReferencePool(moses_texts(sentences_of(corpus, split))) for split in ("valid", "test")}
    for temperature in (0.5, 2.0):
        texts = moses_texts(each["text"] for each in texts_of(run, temperature=temperature))
        scores = sample_scores(texts, pools, per_sample=4)
        assert len(scores) == 3
        expected = {name: np.mean(scores[name]) for name in scores}
        expected |= {f"{name}_sd": np.std(scores[name], ddof=1) for name in scores}
        assert {name: found.metrics[f"{name}_{temperature}"] for name in expected} == pytest.approx(expected)
    assert ("test_bleu_matched" in found.metrics) != ("test_bleu_matched" in found.not_computed)
    chosen = found.metrics[CHOSEN]
    assert chosen in (0.5, 2.0)
    assert {name: found.metrics[name] for name in expected} == {
        name: found.metrics[f"{name}_{chosen}"] for name in expected
    }


def test_quality_is_read_off_between_two_temperatures_or_not_at_all():
    curve = [(20.0, 40.0), (10.0, 30.0), (5.0, 10.0)]
    assert [at_diversity(curve, diversity) for diversity in (4.9, 7.5, 20.0, 20.1)] == [None, 20.0, 40.0, None]


def test_the_published_temperatures_are_nearest_to_training_sentences_against_the_test_split():
    rows = [row for row in load_definition("itexp_table1").rows if not row.is_floor]
    assert len(rows) == 6
    for row in rows:
        points = {
            tau: (row.values[f"valid_bleu_{tau}"], row.values[f"self_bleu_{tau}"])
            for tau in (0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
        }
        assert nearest(points, (21.5, 6.6)) == row.values["temperature"]


@pytest.fixture
def of_floor(row, depgen):
    """The result of a row without training."""

    def found(measure, name, **how):
        generation = dataclasses.replace(HOW, **how)
        definition = load_definition("levels").model_copy(update={"measures": (measure,), "generation": generation})
        return floor(Job(definition, definition.row(name), "paper", 1), depgen, TextOptions(device="cpu"))

    return found


@pytest.mark.slow
def test_a_judge_reads_each_sentence_with_its_end(of_floor, depgen):
    judges = {"judge": "Plain"}
    measure = SampledBleu(judges=judges, temperatures=[1.0], per_sample=2)
    found = of_floor(measure, "Test sentences", samples=100)
    definition = load_definition("levels")
    plain = Job(definition, definition.row("Plain"), "paper", 1).training
    expected = measure_test(plain, plain.finished(), depgen).metrics["perplexity"]  # of the same sentences
    assert found.metrics["judge"] == pytest.approx(expected, rel=1e-5)
    assert found.metrics["judge_unk_rate"] >= 0
    assert "own references" in found.not_computed["test_bleu"]
    assert {"valid_bleu", "self_bleu"} <= {*found.metrics}
    assert "gpt2" in found.not_computed["gpt2_perplexity"]


@pytest.mark.slow
def test_shapes_of_texts_and_of_sentences(row, of_floor):
    found, run, corpus = row(TextShapes())
    trees = [sentence_of(each["text"], each["structure"]) for each in texts_of(run) if each["text"]]
    assert found.items["length"].tolist() == [len(each) for each in trees]
    assert found.items["depth"].tolist() == [depths(each.heads).max() for each in trees]
    assert found.metrics["steps_binarized"] == pytest.approx(levels_per_token(trees, "none"))
    assert {*found.metrics} == {*found.items}
    real = of_floor(TextShapes(), "Test sentences", samples=100)
    sentences = [each for document in corpus.documents("test") for each in document.sentences]
    assert real.metrics["length"] == pytest.approx(np.mean([len(each) for each in sentences]))
    assert real.metrics["steps_tree"] == pytest.approx(levels_per_token(sentences, "none"))
    assert real.metrics["steps_tree"] <= real.metrics["steps_binarized"]
    plain, *_ = row(TextShapes(), "Plain")
    assert {*plain.metrics} == {"length"}
    assert {*plain.not_computed} == {*found.metrics} - {"length"}


def test_floors_of_a_split_need_a_measure_of_sentences(of_floor):
    measure = BoostedRelation(relation="obj", factors=[1.0], tagger={})
    with pytest.raises(UserError, match="Test sentences: floor: BoostedRelation"):
        of_floor(measure, "Test sentences")


@pytest.mark.slow
def test_sizes_of_data_with_levels(row, of_floor):
    *_, corpus = row(TextShapes())
    found = of_floor(TextShapes(), "Sizes").metrics
    for name, split in (("train", "train"), ("dev", "valid"), ("test", "test")):
        trees = [each for document in corpus.documents(split) for each in document.sentences]
        levels = [depths(written_tree(each.heads, each.relations, "left-right")[0]).max() for each in trees]
        assert found[f"{name}_levels"] == sum(levels)
        assert found[f"{name}_documents"] == len(trees)
    assert found["types"] > found["expansions"] > 3


@pytest.mark.slow
def test_trees_are_compared_with_the_parsers_own_words_and_another_parser(row):
    measure = GeneratedTrees(temperatures=[1.0], other_parser=CHAINS)
    found, run, corpus = row(measure, "Chains")
    trees = [sentence_of(each["text"], each["structure"]) for each in texts_of(run) if each["text"]]
    written = [written_tree(each.heads, each.relations, "left-right")[0] for each in trees]
    words = [~np.array(is_punctuation(each, "form")) for each in trees]
    for name, chain in (("", right_chain), ("other_", left_chain)):
        same = [(heads == chain(len(heads)))[counted] for heads, counted in zip(written, words, strict=True)]
        assert found.metrics[f"{name}uas_1.0"] == pytest.approx(100 * np.concatenate(same).mean())
    assert found.metrics["levels_per_token_1.0"] == pytest.approx(levels_per_token(trees, "none"))
    real = next(iter(corpus.documents("test"))).sentences[0]
    assert len(real) > 2
    assert found.metrics["parsers_las_real"] < 50
    names = [each.removesuffix("_*") for each in TREES]
    assert {*found.metrics} <= {f"{name}_{end}" for name in names for end in ("1.0", "real")}


def left_chain(words):
    return np.arange(words)


def right_chain(words):
    return np.append(np.arange(2, words + 1), 0)


@pytest.mark.parametrize(
    ("name", "reason"), [("ITEXP", "keeps a corpus's own trees"), ("Plain", "it writes texts without trees")]
)
def test_trees_that_cannot_be_had_have_a_reason(row, name, reason):
    found, *_ = row(GeneratedTrees(temperatures=[1.0], other_parser=CHAINS), name)
    assert not found.metrics
    assert reason in {*found.not_computed.values()}.pop()


@pytest.mark.slow
def test_a_boosted_relation_is_counted_in_texts_of_their_own(row):
    tagger = {"class_path": "tests.evaluation.taggers.SuffixTagger"}
    measure = BoostedRelation(relation="obj", factors=[1.0, 50.0], tagger=tagger, per_sample=4)
    found, run, _ = row(measure)
    for factor, options in ((1, None), (50, "boost")):
        rows = texts_of(run, options=options)
        counts = [sum(each == "obj" for each in one["structure"]["relations"]) for one in rows]
        assert found.metrics[f"relations_{factor}"] == pytest.approx(np.mean(counts))
    assert found.metrics["relations_50"] > found.metrics["relations_1"]


# -- trees that came with texts ---------------------------------------------------------------------------------------

GENERATED = Sentence(("my", "dog", "also", "ran", "."), (2, 4, 2, 0, 4), ("poss", "nsubj", "advmod", "root", "punct"))
ONE = Sentence(("a",), (0,), ("root",))
PARSED = Sentence(("my", "dog", "also", "ran", "."), (2, 4, 4, 0, 4), ("det", "nsubj", "advmod", "root", "punct"))


def test_parsers_trees_are_binarised_and_punctuation_does_not_count():
    found = agreement([GENERATED], [PARSED], "left-right")
    assert (found["uas"], found["las"]) == (100.0, 75.0)  # also hangs on dog in the binarised tree
    assert agreement([GENERATED], [PARSED], "none")["uas"] == 75.0
    assert np.isnan(agreement([], [], "left-right")["las"])


def test_sums_are_over_words_and_not_sentences():
    one, two = Sentence(("a",), (0,), ("root",)), Sentence(("a", "b", "c"), (0, 1, 2), ("root", "x", "x"))
    other = Sentence(("a", "b", "c"), (3, 3, 0), ("x", "x", "root"))
    assert agreement([one, two], [one, other], "none")["uas"] == 25.0


def test_texts_come_with_trees_over_their_words():
    found = sentence_of("a b", {"heads": [2, 0], "relations": ["det", "root"]})
    assert found == Sentence(("a", "b"), (2, 0), ("det", "root"))
    with pytest.raises(UserError, match="tree over their words"):
        sentence_of("a b", {"heads": [2, 3, 0], "relations": ["det", "subword", "root"]})
    assert reparsed([found], LeftChain())[0].heads == (0, 1)


def test_levels_and_relations_are_means_over_sentences():
    assert levels_per_token([GENERATED, ONE], "left-right") == pytest.approx((3 / 5 + 1) / 2)
    flat = Sentence(("a", "b", "c"), (0, 1, 1), ("root", "x", "y"))
    assert levels_per_token([flat], "left-right") == pytest.approx(3 / 3)
    assert levels_per_token([flat], "none") == pytest.approx(2 / 3)
    tagged = Sentence(("a", "b", "c"), (3, 3, 0), ("amod", "amod:x", "root"))
    assert relations_per_sentence([tagged, GENERATED], "amod") == 1.0
    assert np.isnan(relations_per_sentence([], "amod"))
