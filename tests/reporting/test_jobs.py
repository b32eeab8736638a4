"""The trainings and tests of a row, each made once, and the run that a row has."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from depgen.errors import UserError
from depgen.evaluation.text_measures import TextOptions
from depgen.reporting.jobs import Job, chosen_run, finished_run, fit
from depgen.reporting.reproduce import needs_of
from depgen.reporting.table import load_definition
from depgen.training.evaluated import kept_test
from depgen.training.experiment_runs import measure_test
from depgen.training.runs import update_record


@pytest.fixture
def job(project):
    definition = load_definition("toy")
    return Job(definition, definition.row("DM-Base"), "small", 2)


@pytest.fixture
def trained(job, depgen):
    """The finished run of the job; nothing was called yet."""
    found = fit(job, depgen)
    depgen.calls.clear()
    return found


@pytest.fixture
def tested(job, depgen, trained):
    """The same with what its test gives."""
    measure_test(job.training, trained.run, depgen)
    depgen.calls.clear()
    return trained


def test_a_fit_takes_the_experiment_its_size_and_the_seed_and_is_not_repeated(job, depgen):
    trained = fit(job, depgen)
    assert fit(job, depgen) == trained
    ((arguments, environment),) = depgen.calls
    assert arguments == [
        "fit", "--config", "experiments/dm_toy.yaml", "--size", "small", "--seed_everything", "2",
        "--name", "dm_toy/small/seed2",
    ]  # fmt: skip
    assert Path(environment["DEPGEN_RUNS"]) == Path("runs").absolute()
    assert trained.run.parent == Path("runs/dm_toy/small/seed2")


def test_an_unfinished_fit_is_resumed_and_one_without_a_checkpoint_repeated(job, depgen):
    depgen.stops_in = "fit"
    with pytest.raises(UserError, match="killed"):
        fit(job, depgen)
    (begun,) = job.training.runs()
    depgen.stops_in = None
    assert fit(job, depgen).run == begun
    assert depgen.calls[1][0][-2:] == ["--resume", str(begun)]
    update_record(begun, {"finished": None})
    (begun / "checkpoints/resume.ckpt").unlink()
    assert fit(job, depgen).run != begun
    assert "--resume" not in depgen.calls[2][0]


def test_a_changed_experiment_makes_a_new_run_next_to_the_old_one(job, depgen):
    before = job.config.file.read_text()
    first = fit(job, depgen).run
    job.config.file.write_text(f"{before}# a comment\n")
    assert fit(job, depgen).run == first
    job.config.file.write_text(before.replace("max_epochs: 2", "max_epochs: 3"))
    assert finished_run(job) is None
    second = fit(job, depgen).run
    assert first.parent == second.parent
    assert first != second
    assert finished_run(job) == second
    job.config.file.write_text(before)
    assert finished_run(job) == first
    assert depgen.verbs == ["fit", "fit"]


def test_options_make_a_run_of_another_place(job, depgen):
    row = job.row.model_copy(update={"options": {"model.init_args.backbone.init_args.width": 4}})
    other = dataclasses.replace(job, row=row)
    assert fit(other, depgen).run.parts[1].startswith("dm_toy--width-4-")
    assert "--model.init_args.backbone.init_args.width=4" in depgen.calls[0][0]
    fit(job, depgen)
    assert len(depgen.calls) == 2
    assert {finished_run(each).parts[1] for each in (job, other)} == {"dm_toy", other.training.place.split("/")[0]}


def test_rows_of_two_tables_share_the_run_of_one_experiment(job, depgen, trained, project):
    path = project / "experiments/tables/toy.yaml"
    (project / "experiments/tables/other.yaml").write_text(path.read_text().replace("table: toy", "table: other"))
    definition = load_definition("other")
    assert fit(Job(definition, definition.row("DM-Base"), "small", 2), depgen) == trained
    assert depgen.calls == []


def test_the_test_split_is_measured_once(job, depgen, trained):
    found = [measure_test(job.training, trained.run, depgen) for _ in range(2)]
    assert depgen.calls[0][0] == ["test", "--run", str(trained.run)]
    assert len(depgen.calls) == 1
    written = json.loads((trained.run / "test.json").read_text())["metrics"]
    for each in found:
        assert {f"test/{name}": value for name, value in each.metrics.items()} == written
        total = (each.item_nll * each.item_tokens).sum() / each.item_tokens.sum()
        assert np.exp(total) == pytest.approx(each.metrics["perplexity"])
        assert each.item_tokens.tolist() == each.item_words.tolist()


def tampered(path, **changes):
    """Change what a test has left."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def items_of(run):
    with np.load(run / "test_items.npz") as arrays:
        return dict(arrays)


def test_items_have_the_order_of_the_split_and_count_once(job, depgen, tested):
    """As where two devices have scored the first item, and nobody the second."""
    expected = measure_test(job.training, tested.run, depgen)
    arrays, order = items_of(tested.run), [2, 0, 1, 2]
    per_item = {name: arrays[name][order] for name in ("items", "nll", "tokens", "words")}
    per_item["items"] = np.array([0, 3, 2, 0])
    np.savez(tested.run / "test_items.npz", **per_item)
    found = measure_test(job.training, tested.run, depgen)
    places = [2, 1, 0]  # of items 0, 2 and 3
    np.testing.assert_allclose(found.item_nll, [*expected.item_nll[[2]], np.nan, *expected.item_nll[[1, 0]]])
    assert found.item_tokens[[0, 2, 3]].tolist() == expected.item_tokens[places].tolist()
    assert found.item_tokens[1] == 0
    assert depgen.calls == []


@pytest.mark.slow
def test_numbers_of_another_checkpoint_are_not_taken(job, depgen, tested):
    before = measure_test(job.training, tested.run, depgen).metrics
    tampered(tested.run / "test.json", checkpoint_sha256="0" * 64, metrics={"test/perplexity": 1.0})
    assert measure_test(job.training, tested.run, depgen).metrics == before
    other = fit(dataclasses.replace(job, seed=1), depgen).run
    shutil.copy(other / "checkpoints/best.ckpt", tested.run / "checkpoints/best.ckpt")
    with pytest.raises(UserError, match=f"depgen test --run {tested.run}"):
        kept_test(tested.run)
    after = measure_test(job.training, tested.run, depgen).metrics
    assert after != before
    assert kept_test(tested.run).metrics == after
    assert depgen.verbs == ["test", "fit", "test"]


FINE = """
table: fine
caption: Invented numbers
source: an invented paper, Table 5
columns: [{key: perplexity, header: PPL, higher_better: false}]
rows: [{name: Parsed, experiment: parsed_toy}]
"""
PARSER = "depgen.evaluation.induced.InducedTrees"


@pytest.fixture
def parsed(project):
    """A row whose trees come from a run of `dm_toy`."""
    (project / "experiments/tables/fine.yaml").write_text(FINE)
    settings = yaml.safe_load((project / "experiments/dm_toy.yaml").read_text())
    settings["data"]["init_args"]["annotator"] = {"class_path": PARSER, "init_args": {"run": "dm_toy"}}
    (project / "experiments/parsed_toy.yaml").write_text(yaml.safe_dump(settings))
    definition = load_definition("fine")
    return Job(definition, definition.row("Parsed"), "small", 2)


def test_the_run_that_an_experiment_loads_is_trained_first_and_once(job, parsed, depgen):
    def parser_only(arguments, environment):
        depgen.calls.append((arguments, environment))
        if "experiments/dm_toy.yaml" not in arguments:
            raise UserError("not trained here")
        depgen(arguments, environment)
        depgen.calls.pop()

    for _ in range(2):
        with pytest.raises(UserError, match="not trained here"):
            fit(parsed, parser_only)
    parser, digest = finished_run(job), parsed.training.digest
    assert [arguments[2] for arguments, _ in depgen.calls] == [
        "experiments/dm_toy.yaml", "experiments/parsed_toy.yaml", "experiments/parsed_toy.yaml",
    ]  # fmt: skip
    option = "--data.init_args.annotator.init_args.run"
    assert f"{option}={parser.relative_to('runs')}" in depgen.calls[1][0]
    assert parsed.training.place == "parsed_toy/small/seed2"
    parser.rename(parser.with_name("2026-01-05"))
    assert parsed.training.digest != digest, "its trees come from another run"


def test_runs_are_trained_in_the_order_in_which_they_are_loaded(job, parsed, project, depgen):
    settings = yaml.safe_load(parsed.config.file.read_text())
    settings["data"]["init_args"]["annotator"]["init_args"]["run"] = "parsed_toy/small"
    (project / "experiments/third_toy.yaml").write_text(yaml.safe_dump(settings))
    (project / "experiments/tables/fine.yaml").write_text(FINE.replace("parsed_toy", "third_toy"))
    definition = load_definition("fine")
    third = Job(definition, definition.row("Parsed"), "small", 2)
    places = [f"{name}_toy/small/seed2" for name in ("dm", "parsed", "third")]
    assert [each.place for each in third.trainings()] == places
    calls = []

    def quick(arguments, environment):
        """Train what loads no run, and let the others be that very run with another configuration."""
        calls.append(arguments)
        if arguments[2] == "experiments/dm_toy.yaml":
            return depgen(arguments, environment)
        if arguments[2] == "experiments/third_toy.yaml":
            raise UserError("not trained here")
        root = project / "runs" / "parsed_toy" / "small" / "seed2"
        shutil.copytree(finished_run(job), root / "2026-01-05")
        wanted = [*third.trainings()][1]
        options = {**wanted.experiment.options, **wanted.needs}
        settings = dataclasses.replace(wanted.experiment, options=options).settings
        (root / "2026-01-05/config.yaml").write_text(yaml.safe_dump(settings))
        return None

    with pytest.raises(UserError, match="not trained here"):
        fit(third, quick)
    option = "--data.init_args.annotator.init_args.run"
    assert [arguments[2] for arguments in calls] == [
        f"experiments/{name}_toy.yaml" for name in ("dm", "parsed", "third")
    ]
    assert f"{option}={finished_run(job).relative_to('runs')}" in calls[1]
    assert f"{option}=parsed_toy/small/seed2/2026-01-05" in calls[2]


def test_a_row_whose_options_name_trees_of_another_experiment_needs_its_run():
    definition = load_definition("gilt_table1")
    job = Job(definition, definition.row("GiLT, trees induced by UDGN"), "small", 3)
    assert job.config.settings["data"]["init_args"]["annotator"]["init_args"]["run"] == "udgn_wikinews"
    needed, _ = job.trainings()
    assert needed.place == "udgn_wikinews/small/seed3"
    assert [*needs_of([job], TextOptions())] == []  # not the parser of graphs that the experiment names
    assert needed.experiment.settings["model"]["class_path"] == "depgen.models.udgn.UDGN"


def test_the_run_of_a_row_is_that_of_the_first_seed_of_the_table_that_has_one(job, depgen):
    def run():
        return chosen_run(None, "toy", row="DM-Base", size="small", usual="Base")

    with pytest.raises(UserError, match=r"DM-Base of toy .*depgen reproduce toy --rows DM-Base --size small"):
        run()
    fit(job, depgen)
    assert run().split("/")[3] == "seed2"
