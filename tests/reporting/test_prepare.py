"""What rows need is named before anything is trained, and made first, once."""

import pytest
import yaml

from depgen.cli import main
from depgen.data.record import DataSource
from depgen.errors import MissingDataError, UserError
from depgen.locations import cache_root
from depgen.reporting import reproduce
from depgen.reporting.jobs import Job, fit
from depgen.reporting.prepare import plan_of
from depgen.reporting.table import load_definition
from tests.evaluation.oracles_of_stories import write_experiment
from tests.reporting.conftest import make_result

TAGGER = "depgen.annotation.spacy.SpacyTagger"
STORIES = {"class_path": "depgen.data.corpora.RocStories"}


@pytest.fixture
def needy(project, depgen, monkeypatch):
    """The row DM-Base has trees of a parser, and the table columns of UNION and of an oracle."""
    monkeypatch.setenv("DEPGEN_CACHE", str(project / "cache"))
    folder = project / "experiments"
    table = yaml.safe_load((folder / "tables/toy.yaml").read_text())
    for key in ("union", "oracle_perplexity"):
        table["columns"].append({"key": key, "header": key, "higher_better": True})
    table["oracle"] = "oracle_toy"
    (folder / "tables/toy.yaml").write_text(yaml.safe_dump(table))
    write_experiment(folder / "oracle_toy.yaml")
    union = {"encoder": str(project), "data": {"corpus": STORIES, "tagger": TAGGER}}
    (folder / "union_rocstories.yaml").write_text(yaml.safe_dump(union))
    settings = yaml.safe_load((folder / "dm_toy.yaml").read_text())
    settings["data"]["init_args"]["annotator"] = "depgen.annotation.spacy.SpacyAnnotator"
    (folder / "dm_toy.yaml").write_text(yaml.safe_dump(settings))
    (folder / "parser_ewt_lowercased.yaml").touch()
    return project


class Maker:
    """Leaves where they are looked for: a parser, UNION, and raw stories of another form. Nothing is trained."""

    def __init__(self):
        self.calls = []

    def __call__(self, arguments, environment):
        self.calls.append((list(arguments), dict(environment)))
        if arguments[0] == "annotate":
            (cache_root() / "parsers/ewt_lowercased").mkdir(parents=True)
        elif arguments[0] == "train-union":
            (cache_root() / "union/rocstories").mkdir(parents=True)
            (cache_root() / "union/rocstories/union.json").touch()

    @property
    def verbs(self):
        return [arguments[0] for arguments, _ in self.calls]


def jobs_of(*rows):
    definition = load_definition("toy")
    return [Job(definition, definition.row(row), "small", 1) for row in rows]


def test_parsers_come_first_then_union_then_the_oracle(needy):
    plan, maker = plan_of(jobs_of("Base", "DM-Base"), jobs_of("Base", "DM-Base"), None), Maker()
    names = ["parser ewt_lowercased", "UNION", "oracle oracle_toy_small"]
    assert [each.name for each in plan.preparations] == names
    plan.make(maker)
    assert [arguments[:3] for arguments, _ in maker.calls] == [
        ["annotate", "--train", "experiments/parser_ewt_lowercased.yaml"],
        ["train-union", "--config=experiments/union_rocstories.yaml"],
        ["train-oracle", "--config", "experiments/oracle_toy.yaml"],
    ]
    plan.make(maker)
    assert maker.verbs[3:] == ["train-oracle"], "the others are at hand"


def test_what_is_made_depends_on_the_rows(needy):
    for encoder, union in ((needy, ["UNION"]), (needy / "absent", [])):
        (needy / "experiments/union_rocstories.yaml").write_text(yaml.safe_dump({"encoder": str(encoder), "data": {}}))
        names = [each.name for each in plan_of(jobs_of("Base"), jobs_of("Base"), None).preparations]
        assert names == [*union, "oracle oracle_toy_small"], "Base has no trees"
    path = needy / "experiments/tables/toy.yaml"
    other = {"temperatures": [1.0], "other_parser": {"class_path": "depgen.annotation.spacy.SpacyAnnotator"}}
    measures = [{"class_path": "depgen.reporting.measures.samples.GeneratedTrees", "init_args": other}]
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"measures": measures}))
    first = plan_of(jobs_of("Base"), jobs_of("Base"), None).preparations[0]
    assert first.name == "parser ewt_lowercased", "a measure loads it"


def test_a_parser_that_nothing_trains_is_named(needy):
    (needy / "experiments/parser_ewt_lowercased.yaml").unlink()
    with pytest.raises(UserError, match=r"'ewt_lowercased'.*annotate --train"):
        str(plan_of(jobs_of("DM-Base"), jobs_of("DM-Base"), None))


@pytest.fixture
def maker(needy, monkeypatch):
    maker = Maker()
    monkeypatch.setattr(reproduce, "run_depgen", maker)
    return maker


@pytest.mark.slow
def test_the_check_says_what_is_at_hand_and_runs_nothing(maker, depgen, store):
    store("Base", 2, {"bleu1": 1.0}, clock=((10.0, 60.0), (20.0, 240.0)))
    fit(jobs_of("Base")[0], depgen)
    text = reproduce.reproduce("toy", check=True)
    assert maker.calls == []
    assert text.startswith("toy, size small: 1 of 6 results are at hand.\n  corpus generated: at hand\n")
    assert "  parser ewt_lowercased: is made first by `depgen annotate --train " in text
    assert "Base, seed 1: trained already\n" in text
    assert "DM-Base, seeds 1, 2: of unknown length\n" in text
    partly = reproduce.reproduce("toy", row="Base", seeds=[1, 3], check=True)
    assert "  measure   Base, seed 1: trained already\n  train     Base, seed 3: about 4 min\n" in partly
    assert text.endswith("Nothing is known of how long this takes.")
    store("DM-Base", 3, {"bleu1": 1.0}, clock=((20.0, 5040.0),))
    assert "About 2 h 48 min, by the trainings that are recorded for 2 of 4 trainings" in reproduce.reproduce(
        "toy", check=True
    )


def test_the_rows_that_can_be_made_are_listed(maker):
    assert reproduce.reproduce("toy", list=True) == "Base\nDM-Base\nDM-Base-left-chain"


def test_what_rows_need_is_made_before_them_and_alone_if_wanted(maker, caplog):
    caplog.set_level("INFO")
    assert "parser ewt_lowercased: at hand" in reproduce.reproduce("toy", row="DM-Base", seeds=[1], prepare=True)
    assert maker.verbs == ["annotate", "train-union", "train-oracle"]
    assert "parser ewt_lowercased: is made first" in caplog.text


def test_a_plan_with_nothing_to_make_is_said_once(maker, caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setattr("depgen.reporting.prepare.preparations", lambda *_: ())
    assert "Base, seed 1: of unknown length" in reproduce.reproduce("toy", row="Base", seeds=[1], prepare=True)
    assert "of unknown length" not in caplog.text


def test_a_missing_corpus_ends_it_before_anything_runs(maker, needy, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_DATA", str(needy / "nowhere"))
    settings = yaml.safe_load((needy / "experiments/base_toy.yaml").read_text())
    settings["data"]["init_args"]["corpus"] = STORIES
    (needy / "experiments/base_toy.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(MissingDataError, match=r"No corpus at .*nowhere.*Set DEPGEN_DATA.* by Base\.$"):
        reproduce.reproduce("toy")
    with pytest.raises(MissingDataError, match="by all rows"):
        reproduce.reproduce("toy", row="Base")
    assert maker.calls == []
    assert main(["reproduce", "toy", "--check"]) == 2
    assert "DM-Base" not in capsys.readouterr().err
    assert main(["reproduce", "toy", "--row", "DM-Base", "--check"]) == 0


def test_a_row_that_is_done_needs_nothing(maker, store):
    assert make_result("DM-Base", 1, {}).size == "small"
    digest = load_definition("toy").row("DM-Base").experiment_at("small").digest
    for seed in (1, 2):
        store("DM-Base", seed, {"bleu1": 1.0}, config_sha256=digest, data=DataSource("Stories", reduced=True))
    assert reproduce.reproduce("toy", row="DM-Base", check=True) == (
        "toy, size small: 2 of 2 results are at hand.\nNothing is to be trained."
    )


def test_the_runs_that_rows_load_are_trained_first_and_said(maker, depgen, needy):
    settings = yaml.safe_load((needy / "experiments/base_toy.yaml").read_text())
    parser = {"class_path": "depgen.evaluation.trees.induced_trees.InducedTrees", "init_args": {"run": "chain_toy"}}
    settings["data"]["init_args"]["annotator"] = parser
    (needy / "experiments/base_toy.yaml").write_text(yaml.safe_dump(settings))
    first = "train     chain_toy, small, seed 1, whose run other rows load"
    assert first in reproduce.reproduce("toy", row="Base", check=True)
    fit(jobs_of("DM-Base-left-chain")[0], depgen)
    assert first not in reproduce.reproduce("toy", row="Base", check=True)
