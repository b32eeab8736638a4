"""Pairs and suites as measures of a table: systems with exact, bound and pseudo-likelihoods, made and printed."""

import numpy as np
import pytest

from depgen.reporting.compare import OTHER_JUDGE, compare
from depgen.reporting.jobs import Job
from depgen.reporting.results import load_results, read_result
from depgen.reporting.table import load_definition
from tests.fixtures.kinds import named
from tests.invented_syntax import NAMES, write_syntax
from tests.reporting.commands import tables_made

pytestmark = pytest.mark.slow

STORIES = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])
STEPS = ["depgen.data.steps.SingleSentences"]
CORPUS = named("data.corpus.WithSteps", corpus=STORIES, steps=STEPS)
SIZES = {"layers": 2, "width": 16, "attention_heads": 2, "feedforward": 16}
BACKBONE = named("backbones.transformer.Transformer", **SIZES)
CHAIN = {"class_path": "depgen.annotation.controls.LeftChain"}


def experiment(name, *, vocabulary=None, specials=(), annotator=None, **arguments):
    pieces = named("data.vocabulary.SubwordPieces", size=300, specials=[*specials])
    return {
        "trainer": {"max_epochs": 1, "accelerator": "cpu"},
        "model": named(f"models.{name}", **arguments),
        "data": named("data.text.TextData", corpus=CORPUS, vocabulary=vocabulary or pieces, annotator=annotator),
    }


EXPERIMENTS = {
    "exact": experiment("causal_lm.CausalLM", backbone=BACKBONE),
    "bound": experiment("gilt.GiLT", annotator=CHAIN, feature_size=4, max_count=3, beam_size=7, backbone=BACKBONE),
    "pseudo": experiment(
        "masked_transformer.MaskedTransformer",
        specials=["mask_id"],
        backbone={**BACKBONE, "init_args": {**SIZES, "causal": False}},
    ),
    "words": experiment(
        "causal_lm.CausalLM", backbone=BACKBONE, vocabulary={"class_path": "depgen.data.vocabulary.WordVocabulary"}
    ),
}
COMPARED = ["suites", "suites_agreement", "suites_long_distance", "blimp", "blimp_agreement", "blimp_by_token"]
FREE = ["suites_chance", "suites_unknown", "blimp_chance"]
BEAM = {"beam_size": 3}
MEASURE = "depgen.reporting.measures.syntax"
TABLE = {
    "table": "syntax",
    "caption": "Invented syntax",
    "source": "nobody's",
    "seeds": [1],
    "measures": [
        {"class_path": f"{MEASURE}.SyntacticSuites", "init_args": {"protocol": "plain"}},
        {"class_path": f"{MEASURE}.MinimalPairs"},
    ],
    "columns": [
        *({"key": key, "header": key, "higher_better": True, "test": "paired_t"} for key in ("suites", "blimp")),
        *({"key": key, "header": key, "higher_better": True} for key in COMPARED if key not in ("suites", "blimp")),
        *({"key": key, "header": key, "higher_better": None} for key in FREE),
    ],
    "rows": [
        {"name": name, "experiment": name, "in_paper": False, "against": [] if name == "exact" else ["exact"], **BEAM}
        for name in EXPERIMENTS
    ],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which the table was made."""
    folder = tmp_path_factory.mktemp("place")
    write_syntax(folder / "data")
    small = {name: {**each, "small": {}} for name, each in EXPERIMENTS.items()}
    with tables_made(folder, {"tables/syntax": TABLE, **small}, "syntax"):
        yield


def job_of(row):
    definition = load_definition("syntax")
    return Job(definition, definition.row(row), "small", 1)


def result_of(row):
    return read_result(job_of(row).result)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("row", ["exact", "bound", "pseudo"])
def test_columns_are_of_the_circuits_and_phenomena_and_items_of_pairs_and_items(row):
    result = result_of(row)
    metrics = result.metrics
    assert {*COMPARED, *FREE, "blimp_unknown"} <= metrics.keys()
    assert metrics["suites"] == pytest.approx((metrics["suites_agreement"] + metrics["suites_long_distance"]) / 2)
    assert metrics["blimp_chance"] == 50
    assert metrics["suites_chance"] == pytest.approx(50, abs=1), "by simulation"
    assert metrics["suites_unknown"] == metrics["blimp_unknown"] == 0
    pairs, items = (result.scores(key) for key in ("blimp", "suites"))
    assert len(pairs) == 4, "the first and the eleventh of each paradigm"
    assert len(items) == 3 * len(NAMES), "of all suites, those outside the circuits too"
    assert 100 * np.mean(pairs) == pytest.approx(metrics["blimp"])
    assert {*items} <= {0, 0.5, 1}
    by_suite = items.reshape(3, -1).mean(1)  # cleft, nn-nv-rpl, number_src
    wanted = [metrics["suites_long_distance"], metrics["suites_agreement"]]
    assert 100 * by_suite[[0, 2]] == pytest.approx(wanted)


@pytest.mark.usefixtures("made")
def test_settings_tell_pseudo_likelihoods_from_others_and_leave_floors_free():
    settings = {row: result_of(row).settings for row in ("exact", "bound", "pseudo")}
    for key in COMPARED:
        assert settings["exact"][key] == settings["bound"][key] != settings["pseudo"][key]
    assert not {*FREE} & {key for each in settings.values() for key in each}
    assert "protocol plain" in settings["exact"]["suites"]
    assert "protocol paper" in settings["exact"]["blimp"]


@pytest.mark.usefixtures("made")
def test_unknown_words_leave_no_accuracy_but_the_floor():
    result = result_of("words")
    assert result.metrics["suites_unknown"] == result.metrics["blimp_unknown"] == 100
    assert not {*COMPARED} & result.metrics.keys()
    assert {*COMPARED} <= result.not_computed.keys()
    assert "100.0 % of the pairs hold <unk>" in result.not_computed["blimp"]
    assert not {"blimp", "suites"} & result.items.keys()


@pytest.mark.usefixtures("made")
def test_exact_and_bound_scores_compare_and_pseudo_ones_do_not():
    comparisons = compare(load_results(load_definition("syntax"), size="small"))
    reasons = {(each.row, each.column): each.incomparable for each in comparisons if each.other == "exact"}
    assert reasons["bound", "blimp"] is None
    assert reasons["bound", "suites"] is None
    assert reasons["pseudo", "blimp"] == reasons["pseudo", "suites"] == OTHER_JUDGE
    assert not [row for row, _ in reasons if row == "words"]
