"""Rows of a table made, each step once; what is said of results that are there already."""

import csv
import dataclasses
import json
import math
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from filelock import FileLock

from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.locations import file_sha256
from depgen.reporting import reproduce
from depgen.reporting.experiments import own_tables
from depgen.reporting.jobs import Job, finished_run, fit
from depgen.reporting.measures.texts import texts_of
from depgen.reporting.results import Budget, item_scores, read_result, read_results, write_result
from depgen.reporting.table import load_definition
from depgen.training.evaluated import kept_test
from depgen.training.runs import read_record
from tests.reporting.conftest import EXPERIMENT, make_result


@pytest.fixture
def depgen(depgen, monkeypatch):
    monkeypatch.setattr(reproduce, "run_depgen", depgen)
    return depgen


@pytest.fixture
def job(project):
    definition = load_definition("toy")
    return Job(definition, definition.row("DM-Base"), "small", 2)


@pytest.fixture
def made(job, depgen, kept):
    """The job, whose result is made; nothing was called since."""
    with FileLock(kept / "made.lock"):
        if not (kept / "results").is_dir():
            reproduce.make(job)
            for name in ("runs", "results"):
                shutil.copytree(name, kept / name)
            depgen.calls.clear()
        else:
            for name in ("runs", "results"):
                shutil.copytree(kept / name, name)
    return job


def change(path: Path, **entries: object) -> None:
    """Change top-level entries of a YAML file."""
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | entries))


def take_weights_of(seed: int, job: Job, depgen) -> Path:
    """Give a job's run the weights of another seed."""
    run, other = finished_run(job), fit(dataclasses.replace(job, seed=seed), depgen).run
    shutil.copy(other / "checkpoints/best.ckpt", run / "checkpoints/best.ckpt")
    return run


def test_a_row_is_fitted_tested_generated_and_measured(depgen, job):
    line = reproduce.make(job)
    assert line == "DM-Base, small, seed 2: done, results/toy/DM-Base/small-seed2.json"
    assert depgen.verbs == ["fit", "test"]
    result, run = read_result(job.result), finished_run(job)
    assert result.metrics["perplexity"] == kept_test(run).metrics["perplexity"]
    assert item_scores([result], "perplexity").tolist() == kept_test(run).item_nll.astype(np.float32).tolist()
    assert {"bleu1", "selfbleu2"} <= set(result.metrics)
    assert {"bleu1", "selfbleu2", "tokens"} <= set(result.items)
    assert (result.data.corpus, result.data.train_documents, result.trees) == ("generated", 6, None)
    record = read_record(run)
    tokens = record["tokens_per_epoch"]
    assert (result.parameters, result.budget) == (record["parameters"], Budget(2, 2 * tokens))
    assert result.commit.startswith(record["commit"][:12])
    assert result.hardware.startswith("CPU (")
    assert [place for place, _ in result.curve] == [tokens, 2 * tokens]
    assert result.curve[1][1] == pytest.approx(best_of(run))
    assert (result.beginning, result.precision) == (None, None)
    assert (result.run, result.generation) == (str(run.relative_to("runs")), job.definition.generation)
    texts = texts_of(result).texts
    assert (result.metrics["texts"], result.metrics["empty"]) == (3, texts.count(""))
    assert result.measured_commit


def best_of(run):
    """The validation perplexity of a run's last epoch."""
    return float(list(csv.DictReader((run / "metrics.csv").open()))[-1]["val/perplexity"])


@pytest.mark.slow
def test_another_precision_is_trained_in_and_kept(depgen, made):
    reproduce.reproduce("toy", row="DM-Base", size="small", seeds=[1], precision="32-true")
    assert depgen.calls[0][0][-4:-2] == ["--trainer.precision", "32-true"]
    text = reproduce.render_table("toy", size="small", format="text")
    assert text.count("32-true") == 1


@pytest.mark.slow
def test_a_result_of_other_weights_than_the_runs_is_measured_again(depgen, made):
    run = take_weights_of(1, made, depgen)
    reproduce.make(made, remeasure=True)
    assert read_result(made.result).weights_sha256 == file_sha256(run / "checkpoints/best.ckpt")
    assert depgen.verbs == ["fit", "test"]


def test_what_is_done_is_not_done_again(depgen, made, caplog):
    caplog.set_level("INFO")
    before = made.result.read_text()
    (line,) = reproduce.make_all([made])
    assert "there already" in line
    assert line not in caplog.text, "it is printed at the end"
    assert depgen.calls == []
    assert made.result.read_text() == before


@pytest.mark.parametrize("verb", ["fit", "test"])
def test_a_stop_costs_only_the_step_it_hit(depgen, project, verb):
    change(project / "experiments/tables/toy.yaml", measures=[])
    definition = load_definition("toy")
    job = Job(definition, definition.row("DM-Base"), "small", 2)
    depgen.stops_in = verb
    with pytest.raises(UserError, match=f"{verb} was killed"):
        reproduce.make(job)
    assert not job.result.exists()
    depgen.stops_in = None
    reproduce.make(job)
    assert depgen.verbs.count("fit") == (2 if verb == "fit" else 1)
    assert job.result.is_file()


def test_a_row_can_be_measured_again_without_training(depgen, made):
    before = read_result(made.result)
    made.result.write_text("{}")
    (finished_run(made) / "test_items.npz").unlink()
    assert "done" in reproduce.make(made, remeasure=True)
    assert depgen.verbs == ["test"], "for the items that an older test did not keep"
    assert dataclasses.replace(read_result(made.result), date=before.date) == before


@pytest.mark.slow
def test_redo_puts_the_old_aside_and_trains_a_run_that_rows_share_once(depgen, made):
    path = Path("experiments/tables/toy.yaml")
    path.write_text(path.read_text() + "  - {name: Part, experiment: dm_toy}\n")
    definition = load_definition("toy")
    jobs = [Job(definition, definition.row(name), "small", 2) for name in ("DM-Base", "Part")]
    reproduce.make_all(jobs)
    assert depgen.calls == []
    reproduce.put_aside(jobs)
    reproduce.make_all(jobs)
    assert depgen.verbs == ["fit", "test"]
    assert made.result.with_name("replaced-1-small-seed2.json").is_file()
    assert Path("runs/dm_toy/small/replaced-1-seed2").is_dir()
    assert len(read_results("toy", "DM-Base", size="small")) == 1


@pytest.mark.parametrize("busy", ["result", "training"])
def test_redo_renames_nothing_while_another_process_works_on_a_row(depgen, made, busy):
    first = Job(made.definition, made.definition.row("Base"), "small", 2)
    lock = made.training.lock() if busy == "training" else FileLock(made.result.with_name(".small-seed2.lock"))
    with lock, pytest.raises(UserError, match=r"DM-Base.*another process works on it, and nothing was renamed"):
        reproduce.put_aside([first, made])
    assert made.result.is_file()
    assert finished_run(made) is not None
    reproduce.put_aside([first, made])
    assert not made.result.exists()
    assert finished_run(made) is None


@pytest.mark.slow
def test_after_a_stop_the_command_without_redo_trains_the_rest(depgen, made):
    path = Path("experiments/tables/toy.yaml")
    path.write_text(path.read_text() + "  - {name: Other, experiment: base_toy}\n")
    jobs = [Job(load_definition("toy"), load_definition("toy").row(name), "small", 2) for name in ("DM-Base", "Other")]
    reproduce.make_all(jobs)
    reproduce.put_aside(jobs)
    reproduce.make_all(jobs[:1])
    depgen.calls.clear()
    reproduce.make_all(jobs)
    assert depgen.verbs == ["fit", "test"]
    assert depgen.calls[0][0][:3] == ["fit", "--config", str(jobs[1].config.file)]


def test_a_result_of_an_older_yaml_is_named(depgen, made):
    made.config.file.write_text(made.config.file.read_text().replace("max_epochs: 2", "max_epochs: 9"))
    assert "made before experiments/dm_toy.yaml (size small) was changed" in reproduce.make(made)


def test_what_another_process_works_on_comes_last(depgen, job, monkeypatch):
    """The result of the first row is locked, the training of the second: the third is made, then these."""
    change(Path("experiments/tables/toy.yaml"), measures=[])
    definition = load_definition("toy")
    jobs = [Job(definition, definition.row(name), "small", 2) for name in ("Base", "DM-Base", "DM-Base-left-chain")]
    jobs[0].result.parent.mkdir(parents=True)
    lock, training = FileLock(jobs[0].result.with_name(".small-seed2.lock")), jobs[1].training.lock()
    lock.acquire()
    training.acquire()
    made = []

    def noted(arguments, environment):
        if arguments[0] == "fit":
            made.append(arguments[2])
            lock.release()
            training.release()
        depgen(arguments, environment)

    monkeypatch.setattr(reproduce, "run_depgen", noted)
    lines = reproduce.make_all(jobs)
    assert made == [f"experiments/{name}_toy.yaml" for name in ("chain", "base", "dm")]
    assert [line.split(",")[0] for line in lines] == ["Base", "DM-Base", "DM-Base"]
    assert all(": done, " in line for line in lines)


def test_the_last_row_is_waited_for(depgen, job):
    held, made = threading.Event(), threading.Event()

    def other_process():
        with job.training.lock():
            held.set()
            assert not made.wait(0.5)

    with ThreadPoolExecutor() as pool:
        other = pool.submit(other_process)
        assert held.wait(20)
        (line,) = reproduce.make_all([job])
        made.set()
        other.result()
    assert ": done, " in line


def test_the_whole_table(depgen, monkeypatch):
    made = []

    def make(job, **options):
        made.append((job.row.name, job.size, job.seed))
        return f"{job.name}: done"

    monkeypatch.setattr(reproduce, "make", make)
    text = reproduce.reproduce("toy")
    assert text.startswith("Size small: the default")
    assert made == [(row, "small", seed) for row in ("Base", "DM-Base", "DM-Base, left chain") for seed in (1, 2)]
    assert "│ System" in text or "┃ System" in text
    text = reproduce.reproduce("toy", row="DM-Base-left-chain", seeds=[7], size="paper")
    assert made[-1] == ("DM-Base, left chain", "paper", 7)
    assert text == "Size paper: as given.\nDM-Base, left chain, paper, seed 7: done"
    path = Path("experiments/tables/toy.yaml")
    path.write_text(path.read_text().replace("seeds: [1, 2]", "seeds: {small: [1], paper: [1, 2, 3]}"))
    reproduce.reproduce("toy", row="DM-Base", size="paper")
    assert made[-3:] == [("DM-Base", "paper", seed) for seed in (1, 2, 3)]
    reproduce.reproduce("toy", row="DM-Base", size="small")
    assert made[-1] == ("DM-Base", "small", 1)


def test_after_the_table_comes_how_to_use_a_model(depgen, made, monkeypatch):
    monkeypatch.setattr(reproduce, "make", lambda job, **options: job.name)
    monkeypatch.setattr(reproduce, "render_table", lambda *names, **options: "reason\n\ntable\n")
    text = reproduce.reproduce("toy", seeds=[2])
    run = finished_run(made)  # of the paper's own system, not its ablation
    assert f"\ntable\n\nTo have DM-Base write: depgen generate --run {run}\n" in text
    assert f'depgen.load("{run}")' in text.splitlines()[-1]


def test_a_row_that_nothing_makes_is_refused(project):
    with pytest.raises(UserError, match="Row Later of toy: no experiment makes it"):
        reproduce.reproduce("toy", row="Later", size="small")


@pytest.mark.slow
def test_the_floor_of_a_generated_corpus(project, monkeypatch):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(
        path.read_text() + '  - {name: "Source (floor)", experiment: base_toy, floor: source, in_paper: false}\n'
    )
    definition = load_definition("toy")
    job = Job(definition, definition.row("Source-floor"), "small", 1)
    monkeypatch.setattr(reproduce, "run_depgen", lambda arguments, environment: pytest.fail(f"{arguments} was called"))
    reproduce.make(job)
    floor = data_of(job.config).corpus.floor()
    assert read_result(job.result).metrics["perplexity"] == pytest.approx(math.exp(floor))


def test_missing_measures_have_a_reason(project, job):
    from depgen.reporting.measurement import sift
    from depgen.reporting.numbers import Numbers

    found = Numbers({"bleu1": 1.0, "perplexity": float("inf")}, not_computed={"selfbleu2": "one text"})
    sifted = sift(found)
    assert sifted.metrics == {"bleu1": 1.0}
    assert sifted.not_computed == {"perplexity": "it came out as inf", "selfbleu2": "one text"}
    assert make_result("Base", 1, sifted.metrics).metrics == sifted.metrics


def test_a_table_by_its_path_is_rendered_by_its_path(depgen, project, monkeypatch):
    (project / "experiments/tables/toy.yaml").rename(project / "mine.yaml")
    monkeypatch.setattr(reproduce, "make", lambda job, **options: f"{job.name}: done")
    text = reproduce.reproduce("mine.yaml", size="small")
    assert "Invented numbers" in text
    assert "depgen reproduce mine.yaml." in " ".join(text.split())


def test_other_generation_settings_are_noticed(depgen, made):
    assert "generation settings" not in reproduce.make(made)
    change(Path("experiments/tables/toy.yaml"), generation={"seed": 10, "top_p": 0.9})
    changed = dataclasses.replace(made, definition=load_definition("toy"))
    assert "(made with other generation settings; --remeasure measures the texts again)" in reproduce.make(changed)
    reproduce.make(changed, remeasure=True)
    assert read_result(made.result).generation.top_p == 0.9
    assert len([*(finished_run(made) / "texts").iterdir()]) == 2
    assert depgen.calls == []


def test_options_that_come_too_late_are_named(depgen, made):
    assert reproduce.make(made, options=TextOptions()).endswith("small-seed2.json")
    assert "not used; --remeasure measures the texts again" in reproduce.make(made, options=TextOptions(empty="drop"))
    write_result(dataclasses.replace(read_result(made.result), not_computed={"selfbleu2": "no"}), made.result)
    assert "(without SB-2; --remeasure measures the texts again)" in reproduce.make(made)


@pytest.mark.slow
def test_the_floor_is_stored_under_one_seed(depgen, project, monkeypatch):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    reproduce.reproduce("toy", row="Floor", size="small", seeds=[7, 8])
    assert [path.name for path in (project / "results/toy/Floor").glob("*.json")] == ["small-seed1.json"]
    path.write_text(path.read_text().replace("seeds: [1, 2]", "seeds: {small: [4, 5], paper: [1]}"))
    reproduce.reproduce("toy", row="Floor", size="small")
    assert (project / "results/toy/Floor/small-seed4.json").is_file()


def test_a_table_of_perplexities_keeps_both_splits_and_the_size_and_writes_nothing(depgen, project):
    path = project / "experiments/tables/toy.yaml"
    columns = [
        {"key": key, "header": key, "higher_better": better}
        for key, better in (
            ("parameters", None),
            ("epoch_tokens", None),
            ("dev_perplexity", False),
            ("perplexity", False),
        )
    ]
    content = yaml.safe_load(path.read_text())
    rows = [{**row, "values": {}, "stars": []} for row in content["rows"]]
    path.write_text(yaml.safe_dump({**content, "columns": columns, "rows": rows, "measures": []}))
    definition = load_definition("toy")
    job = Job(definition, definition.row("Base"), "small", 1)
    reproduce.make(job)
    assert depgen.verbs == ["fit", "test", "validate"]
    found, run = read_result(job.result), finished_run(job)
    record, tested = read_record(run), kept_test(run).metrics
    validated = json.loads((run / "validate.json").read_text())["metrics"]
    assert found.metrics == pytest.approx({
        **tested, **{f"dev_{name.removeprefix('val/')}": value for name, value in validated.items()},
        "parameters": record["parameters"] / 1e6, "epoch_tokens": record["tokens_per_epoch"] / 1e6,
    })  # fmt: skip
    assert not (run / "texts").exists()
    job.result.unlink()
    reproduce.make(job)
    assert depgen.verbs == ["fit", "test", "validate"]


def test_a_misspelt_experiment_is_refused_before_anything_is_trained(depgen, project, monkeypatch):
    monkeypatch.setattr(reproduce, "make", lambda job, **options: pytest.fail("trained"))
    (project / "experiments/base_toy.yaml").rename(project / "experiments/base_toys.yaml")
    for options in ({}, {"check": True}, {"row": "DM-Base"}):
        with pytest.raises(UserError, match=r"row Base: .*base_toy\.yaml.*Did you mean 'base_toys'"):
            reproduce.reproduce("toy", size="small", seeds=[1], **options)


def test_a_row_without_an_experiment_of_the_size_is_passed_over_and_said(depgen, project, monkeypatch):
    made = []
    monkeypatch.setattr(reproduce, "make", lambda job, **options: made.append(job.row.name) or job.name)
    for name in ("base_toy", "chain_toy"):
        (project / f"experiments/{name}.yaml").write_text(EXPERIMENT)
    text = reproduce.reproduce("toy", size="small", seeds=[1])
    assert made == ["DM-Base"]
    assert "Base, small: left out, no base_toy at this size.\n" in text
    (project / "experiments/dm_toy.yaml").write_text(EXPERIMENT)
    with pytest.raises(UserError, match=r"sizes: \[paper\]"):
        reproduce.reproduce("toy", size="small", seeds=[1])


def own_table(project, folder, **changes):
    """A table of one's own in a folder, with its experiments next to it."""
    content = yaml.safe_load((project / "experiments/tables/toy.yaml").read_text())
    (project / folder).mkdir()
    for row in content["rows"]:
        if "experiment" in row:
            name = row["experiment"]
            shutil.copy(project / f"experiments/{name}.yaml", project / folder / f"{name}.yaml")
            row["experiment"] = f"{name}.yaml"
    path = project / folder / "table.yaml"
    path.write_text(yaml.safe_dump({**content, "table": "mine", "sizes": ["paper"], **changes}))
    return path


def test_an_own_table_finds_its_experiments_next_to_it_or_in_the_working_folder(depgen, project, monkeypatch):
    made = []
    monkeypatch.setattr(reproduce, "make", lambda job, **options: made.append(job.config.file) or job.name)
    path = own_table(project, "my")
    reproduce.reproduce(str(path), seeds=[1])
    assert made == [project / "my" / f"{name}_toy.yaml" for name in ("base", "dm", "chain")]
    shutil.copy(project / "my/dm_toy.yaml", project / "dm_toy.yaml")
    assert load_definition(str(path)).row("DM-Base").experiment == "dm_toy.yaml"
    (project / "my/base_toy.yaml").unlink()
    made.clear()
    with pytest.raises(UserError, match=r"row Base: No experiment file base_toy\.yaml.*Nothing was trained"):
        reproduce.reproduce(str(path), seeds=[1])
    assert made == []


def test_an_own_table_is_known_to_the_report_and_has_a_name_of_its_own(depgen, project, monkeypatch):
    monkeypatch.setattr(reproduce, "make", lambda job, **options: job.name)
    path = own_table(project, "my")
    reproduce.reproduce(str(path), check=True)
    assert own_tables() == []
    reproduce.reproduce("my/table.yaml", seeds=[1])
    reproduce.reproduce("experiments/tables/toy.yaml", size="small", seeds=[1])
    assert own_tables() == [str(path)]
    name = load_definition(str(path)).table
    assert load_definition(name).rows == load_definition(str(path)).rows
    with pytest.raises(UserError, match="'toy' is a table of the package"):
        reproduce.reproduce(str(own_table(project, "other", table="toy")), seeds=[1])


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1]])
def test_seeds_that_are_none_or_stand_twice_are_refused(depgen, project, seeds):
    with pytest.raises(UserError, match=r"--seeds: .*from 0, each once.*\[1,2\]"):
        reproduce.reproduce("toy", row="Base", size="small", seeds=seeds)
    assert depgen.calls == []


def test_pictures_of_a_table_are_drawn_from_its_rows(depgen, project, monkeypatch):
    path, drawn = project / "experiments/tables/toy.yaml", []
    path.write_text(path.read_text() + "pictures: [curves --against steps, series]\n")
    monkeypatch.setattr(reproduce, "make", lambda job, **options: job.name)
    monkeypatch.setattr(reproduce, "run_depgen", lambda arguments, environment: drawn.append(arguments))
    reproduce.reproduce("toy", row="Base")
    assert drawn == []
    reproduce.reproduce("toy")
    assert drawn == [
        ["plot", "curves", "toy", "--against", "steps", "--size", "small"],
        ["plot", "series", "toy", "--size", "small"],
    ]


def test_trainings_are_logged_in_a_group_of_the_table(project, monkeypatch):
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    calls = []

    def refuse(arguments, environment):
        calls.append((arguments, environment))
        raise UserError("not trained here")

    monkeypatch.setattr(reproduce, "run_depgen", refuse)
    for options, group in (({"wandb": "offline"}, "toy"), ({}, "mine")):
        with pytest.raises(UserError, match="not trained here"):
            reproduce.reproduce("toy", row="DM-Base", size="small", seeds=[1], **options)
        monkeypatch.setenv("WANDB_RUN_GROUP", "mine")
        arguments, environment = calls[-1]
        assert environment["WANDB_RUN_GROUP"] == group
        assert ("--wandb" in arguments) == bool(options)
    arguments = calls[0][0]
    assert arguments[arguments.index("--wandb") + 1] == "offline"
