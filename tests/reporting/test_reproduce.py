"""Rows of a table made, each step once; what is needed for them, and what is said of results that are there already."""

import csv
import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from filelock import FileLock

from depgen.cli import main
from depgen.data.experiment import data_of
from depgen.errors import MissingDataError, UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.locations import cache_root, file_sha256, runs_root
from depgen.reporting import reproduce
from depgen.reporting.jobs import Job, finished_run, fit
from depgen.reporting.measures.texts import texts_of
from depgen.reporting.prepare import needs_of
from depgen.reporting.results import Budget, read_result, read_results
from depgen.reporting.table import load_definition
from depgen.training.evaluated import kept_test
from depgen.training.runs import read_record
from tests.evaluation.oracles_of_stories import write_experiment
from tests.reporting.conftest import EXPERIMENT


@pytest.fixture
def depgen(depgen, monkeypatch):
    monkeypatch.setattr(reproduce, "run_depgen", depgen)
    return depgen


@pytest.fixture
def job(project):
    return job_of("DM-Base")


def job_of(row, seed=2):
    definition = load_definition("toy")
    return Job(definition, definition.row(row), "small", seed)


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


# -- rows made --------------------------------------------------------------------------------------------------------


def test_a_row_is_fitted_tested_generated_and_measured(depgen, job):
    line = reproduce.make(job)
    assert line == "DM-Base, small, seed 2: done, results/toy/DM-Base/small-seed2.json"
    assert depgen.verbs == ["fit", "test"]
    result, run = read_result(job.result), finished_run(job)
    assert result.metrics["perplexity"] == kept_test(run).metrics["perplexity"]
    assert result.scores("perplexity").tolist() == kept_test(run).item_nll.astype(np.float32).tolist()
    assert {"bleu1", "selfbleu2"} <= set(result.metrics)
    assert {"bleu1", "selfbleu2", "tokens"} <= set(result.items)
    assert (result.data.corpus, result.data.train_documents, result.trees) == ("generated", 6, None)
    record = read_record(run)
    tokens = record["tokens_per_epoch"]
    assert (result.parameters, result.budget) == (record["parameters"], Budget(2, 2 * tokens))
    assert result.commit.startswith(record["commit"][:12])
    assert result.hardware.startswith("CPU (")
    assert [place for place, _ in result.curve] == [tokens, 2 * tokens]
    last = list(csv.DictReader((run / "metrics.csv").open()))[-1]
    assert result.curve[1][1] == pytest.approx(float(last["val/perplexity"]))
    assert (result.beginning, result.precision) == (None, None)
    assert (result.run, result.generation) == (str(run.relative_to("runs")), job.definition.generation)
    texts = list(texts_of(result)["text"])
    assert (result.metrics["texts"], result.metrics["empty"]) == (3, texts.count(""))
    assert result.measured_commit


@pytest.mark.slow
def test_another_precision_is_trained_in_and_kept(depgen, made):
    text = reproduce.reproduce("toy", rows=["DM-Base"], size="small", seeds=[1], precision="32-true")
    assert depgen.calls[0][0][-4:-2] == ["--trainer.precision", "32-true"]
    assert text.count("32-true") == 1


@pytest.mark.slow
def test_a_result_of_other_weights_than_the_runs_is_measured_again(depgen, made):
    run, other = finished_run(made), fit(dataclasses.replace(made, seed=1), depgen).run
    shutil.copy(other / "checkpoints/best.ckpt", run / "checkpoints/best.ckpt")
    reproduce.make(made, remeasure=True)
    assert read_result(made.result).weights_sha256 == file_sha256(run / "checkpoints/best.ckpt")
    assert depgen.verbs == ["fit", "test"]


def test_what_is_done_is_not_done_again_but_may_be_measured_again(depgen, made):
    before = read_result(made.result)
    assert reproduce.make_all([made]) == [f"DM-Base, small, seed 2: at hand, {made.result}"]
    assert depgen.calls == []
    made.result.write_text("{}")
    (finished_run(made) / "test_items.npz").unlink()
    assert "done" in reproduce.make(made, remeasure=True)
    assert depgen.verbs == ["test"], "for the items that an older test did not keep"
    assert dataclasses.replace(read_result(made.result), date=before.date) == before
    made.config.file.write_text(made.config.file.read_text().replace("max_epochs: 2", "max_epochs: 9"))
    changed = "made before experiments/dm_toy.yaml (size small) was changed; --redo makes it again"
    assert changed in reproduce.make(made)


@pytest.mark.slow
def test_redo_puts_the_old_aside_and_trains_a_run_that_rows_share_once(depgen, made):
    path = Path("experiments/tables/toy.yaml")
    path.write_text(path.read_text() + "  - {name: Part, experiment: dm_toy}\n")
    jobs = [job_of(name) for name in ("DM-Base", "Part")]
    reproduce.make_all(jobs)
    assert depgen.calls == []
    reproduce.put_aside(jobs)
    reproduce.make_all(jobs)
    assert depgen.verbs == ["fit", "test"]
    assert made.result.with_name("replaced-1-small-seed2.json").is_file()
    assert Path("runs/dm_toy/small/replaced-1-seed2").is_dir()
    assert len(read_results("toy", "DM-Base", size="small")) == 1


def test_what_another_process_works_on_is_left_to_it(job, monkeypatch):
    jobs = [job_of(name) for name in ("Base", "DM-Base")]
    jobs[0].result.parent.mkdir(parents=True)
    monkeypatch.setattr(reproduce, "make", lambda job, **options: f"{job.name}: done")
    with FileLock(jobs[0].result.with_name(".small-seed2.lock")):
        lines = reproduce.make_all(jobs)
    assert lines == ["Base, small, seed 2: another process works on it", "DM-Base, small, seed 2: done"]
    assert reproduce.make_all(jobs)[0] == "Base, small, seed 2: done"


def test_missing_measures_have_a_reason(depgen, project, monkeypatch):
    change(project / "experiments/tables/toy.yaml", measures=[])
    numbers = {"bleu1": 1.0, "perplexity": math.inf}
    monkeypatch.setattr("depgen.reporting.measurement.measure_test", lambda *_, **__: kept_as(numbers))
    job = job_of("DM-Base")
    reproduce.make(job)
    assert read_result(job.result).metrics == {"bleu1": 1.0}
    assert read_result(job.result).not_computed == {"perplexity": "it came out as inf"}


def kept_as(numbers):
    from depgen.training.evaluated import SplitNumbers

    return SplitNumbers(numbers)


def test_a_table_of_perplexities_keeps_both_splits_and_the_size_and_writes_nothing(depgen, project):
    path = project / "experiments/tables/toy.yaml"
    keys = {"parameters": None, "epoch_tokens": None, "dev_perplexity": False, "perplexity": False}
    columns = [{"key": key, "header": key, "higher_better": better} for key, better in keys.items()]
    rows = [{**row, "values": {}, "stars": []} for row in yaml.safe_load(path.read_text())["rows"]]
    change(path, columns=columns, rows=rows, measures=[])
    job = job_of("Base", 1)
    reproduce.make(job)
    assert depgen.verbs == ["fit", "test", "validate"]
    result, run = read_result(job.result), finished_run(job)
    record, tested = read_record(run), kept_test(run).metrics
    validated = json.loads((run / "validate.json").read_text())["metrics"]
    assert result.metrics == pytest.approx({
        **tested, **{f"dev_{name.removeprefix('val/')}": value for name, value in validated.items()},
        "parameters": record["parameters"] / 1e6, "epoch_tokens": record["tokens_per_epoch"] / 1e6,
    })  # fmt: skip
    assert not (run / "texts").exists()
    job.result.unlink()
    reproduce.make(job)
    assert depgen.verbs == ["fit", "test", "validate"]


@pytest.mark.slow
def test_the_floor_of_a_generated_corpus_is_stored_under_one_seed(project, monkeypatch):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    monkeypatch.setattr(reproduce, "run_depgen", lambda arguments, environment: pytest.fail(f"{arguments} was called"))
    reproduce.reproduce("toy", rows=["Floor"], size="small", seeds=[7, 8])
    assert [path.name for path in (project / "results/toy/Floor").glob("*.json")] == ["small-seed1.json"]
    job = job_of("Floor", 1)
    floor = data_of(job.config).corpus.floor()
    assert read_result(job.result).metrics["perplexity"] == pytest.approx(math.exp(floor))
    path.write_text(path.read_text().replace("seeds: [1, 2]", "seeds: {small: [4, 5], paper: [1]}"))
    reproduce.reproduce("toy", rows=["Floor"], size="small")
    assert (project / "results/toy/Floor/small-seed4.json").is_file()


# -- whole tables -----------------------------------------------------------------------------------------------------


@pytest.fixture
def jobs_made(depgen, monkeypatch):
    """The jobs that would be made."""
    jobs = []
    monkeypatch.setattr(reproduce, "make", lambda job, **options: jobs.append(job) or f"{job.name}: done")
    return jobs


def names(jobs):
    return [(job.row.name, job.size, job.seed) for job in jobs]


def test_the_whole_table_or_some_rows(jobs_made, project, monkeypatch):
    text = reproduce.reproduce("toy")
    assert text.startswith("Base, small, seed 1: done\n")
    rows = ("Base", "DM-Base", "DM-Base, left chain")
    assert names(jobs_made) == [(row, "small", seed) for row in rows for seed in (1, 2)]
    assert "│ System" in text or "┃ System" in text
    reproduce.reproduce("toy", rows=["DM-Base-left-chain"], seeds=[7], size="paper")
    assert names(jobs_made[6:]) == [("DM-Base, left chain", "paper", 7)]
    path = project / "experiments/tables/toy.yaml"
    change(path, seeds={"small": [1], "paper": [1, 2, 3]}, pictures=["curves --against steps", "series"])
    drawn = []
    monkeypatch.setattr(reproduce, "run_depgen", lambda arguments, environment: drawn.append(arguments))
    reproduce.reproduce("toy", rows=["DM-Base"], size="paper")
    assert (names(jobs_made[7:]), drawn) == ([("DM-Base", "paper", seed) for seed in (1, 2, 3)], [])
    reproduce.reproduce("toy")
    assert drawn == [["plot", kind, "toy", *more, "--size", "small"] for kind, more in (
        ("curves", ["--against", "steps"]), ("series", []),
    )]  # fmt: skip


def test_a_table_by_its_path_finds_its_experiments_next_to_it(jobs_made, project):
    content = yaml.safe_load((project / "experiments/tables/toy.yaml").read_text())
    (project / "my").mkdir()
    for row in content["rows"]:
        if "experiment" in row:
            shutil.copy(project / f"experiments/{row['experiment']}.yaml", project / "my")
            row["experiment"] += ".yaml"
    (project / "my/table.yaml").write_text(yaml.safe_dump({**content, "table": "mine", "sizes": ["paper"]}))
    text = reproduce.reproduce("my/table.yaml", seeds=[1])
    assert [job.config.file for job in jobs_made] == [
        Path("my", f"{name}_toy.yaml") for name in ("base", "dm", "chain")
    ]
    assert "depgen reproduce my/table.yaml" in " ".join(text.split())
    change(Path("my/table.yaml"), table="toy")
    with pytest.raises(UserError, match=r"my/table\.yaml: table: .*toy\.yaml has the same name"):
        reproduce.reproduce("my/table.yaml", seeds=[1])


def test_a_row_without_an_experiment_of_the_size_is_passed_over(jobs_made, project):
    for name in ("base_toy", "chain_toy"):
        (project / f"experiments/{name}.yaml").write_text(EXPERIMENT)
    reproduce.reproduce("toy", size="small", seeds=[1])
    assert names(jobs_made) == [("DM-Base", "small", 1)]
    (project / "experiments/dm_toy.yaml").write_text(EXPERIMENT)
    for rows, named in (([], "every row"), (["Later"], "Later")):
        with pytest.raises(UserError, match=rf"toy: no experiment of size small makes {named}\..*sizes: \[paper\]"):
            reproduce.reproduce("toy", rows=rows, size="small")


def test_a_case_study_makes_its_rows_first(jobs_made, project, monkeypatch):
    (project / "experiments/case_studies").mkdir()
    study = {"study": "texts", "caption": "", "source": "", "table": "toy", "rows": ["DM-Base", "Later"], "seed": 1}
    (project / "experiments/case_studies/texts.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.setattr(reproduce, "case_study", lambda name, size: f"texts of {name}, {size}")
    assert reproduce.reproduce("texts").endswith("DM-Base, small, seed 1: done\n\ntexts of texts, small")
    assert names(jobs_made) == [("DM-Base", "small", 1)]


def test_trainings_are_logged_in_a_group_of_the_table(project, monkeypatch):
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)

    def refuse(arguments, environment):
        assert arguments[arguments.index("--wandb") + 1] == "offline"
        assert environment["WANDB_RUN_GROUP"] == "toy"
        raise UserError("not trained here")

    monkeypatch.setattr(reproduce, "run_depgen", refuse)
    with pytest.raises(UserError, match="not trained here"):
        reproduce.reproduce("toy", rows=["DM-Base"], size="small", seeds=[1], wandb="offline")


# -- what rows need ---------------------------------------------------------------------------------------------------

STORIES = {"class_path": "depgen.data.corpora.RocStories"}


@pytest.fixture
def needy(project, monkeypatch):
    """The row DM-Base has trees of a parser, and the table columns of UNION and of an oracle."""
    monkeypatch.setenv("DEPGEN_CACHE", str(project / "cache"))
    folder = project / "experiments"
    columns = yaml.safe_load((folder / "tables/toy.yaml").read_text())["columns"]
    columns += [{"key": key, "header": key, "higher_better": True} for key in ("union", "oracle_perplexity")]
    change(folder / "tables/toy.yaml", columns=columns, oracle="oracle_toy")
    change(write_experiment(folder / "oracle_toy.yaml"), small={})
    options = {"corpus": STORIES, "tagger": "depgen.annotation.spacy.SpacyTagger"}
    union = {
        "seed_everything": 1,
        "model": {"class_path": "depgen.evaluation.union.UNION", "init_args": {"encoder": str(project)}},
        "data": {"class_path": "depgen.evaluation.union.UnionData", "init_args": options},
        "small": {},
    }
    (folder / "union_rocstories.yaml").write_text(yaml.safe_dump(union))
    data = yaml.safe_load((folder / "dm_toy.yaml").read_text())["data"]
    data["init_args"]["annotator"] = "depgen.annotation.spacy.SpacyAnnotator"
    change(folder / "dm_toy.yaml", data=data)
    (folder / "parser_ewt_lowercased.yaml").touch()
    return project


@pytest.fixture
def maker(needy, monkeypatch):
    """Leaves a parser and UNION where they are looked for; nothing is trained."""
    calls = []

    def make(arguments, environment):
        calls.append(arguments)
        if arguments[0] == "annotate":
            (cache_root() / "parsers/ewt_lowercased").mkdir(parents=True)
        elif "experiments/union_rocstories.yaml" in arguments:
            run = runs_root() / "union_rocstories/small/seed1/one"
            run.mkdir(parents=True)
            (run / "run.json").write_text('{"finished": "2026-01-01"}')

    monkeypatch.setattr(reproduce, "run_depgen", make)
    monkeypatch.setattr(reproduce, "make", lambda job, **options: job.name)
    return calls


def test_parsers_come_first_then_union_then_the_oracle(maker):
    reproduce.reproduce("toy", rows=["Base", "DM-Base"])
    assert [[*arguments[:5]] for arguments in maker] == [
        ["annotate", "--train", "experiments/parser_ewt_lowercased.yaml"],
        ["fit", "--config", "experiments/union_rocstories.yaml", "--size", "small"],
        ["fit", "--config", "experiments/oracle_toy.yaml", "--size", "small"],
    ]
    reproduce.reproduce("toy", rows=["DM-Base"])
    assert [arguments[0] for arguments in maker[3:]] == ["fit"], "the others are at hand"


def test_what_is_made_depends_on_the_rows(needy):
    def needs(row):
        return [need.name for need in needs_of([job_of(row)], TextOptions())]

    assert needs("Base") == ["parser ewt_lowercased", "UNION", "oracle oracle_toy_small"], "UNION tags names"
    union = yaml.safe_load((needy / "experiments/union_rocstories.yaml").read_text())["model"]
    union["init_args"]["encoder"] = "absent"
    change(needy / "experiments/union_rocstories.yaml", model=union)
    assert needs("DM-Base") == ["parser ewt_lowercased", "oracle oracle_toy_small"]
    assert needs("Base") == ["oracle oracle_toy_small"]
    other = {"temperatures": [1.0], "other_parser": {"class_path": "depgen.annotation.spacy.SpacyAnnotator"}}
    measures = [{"class_path": "depgen.reporting.measures.samples.GeneratedTrees", "init_args": other}]
    change(needy / "experiments/tables/toy.yaml", measures=measures)
    assert needs("Base")[0] == "parser ewt_lowercased", "a measure loads it"
    (needy / "experiments/parser_ewt_lowercased.yaml").unlink()
    with pytest.raises(UserError, match=r"'ewt_lowercased'.*annotate --train"):
        next(needs_of([job_of("Base")], TextOptions())).is_made()


def test_the_check_says_what_is_at_hand_and_runs_nothing(maker, depgen, store, monkeypatch):
    store("Base", 2, {"bleu1": 1.0})
    base = yaml.safe_load(Path("experiments/base_toy.yaml").read_text())
    parser = {"class_path": "depgen.evaluation.induced.InducedTrees", "init_args": {"run": "chain_toy"}}
    base["data"]["init_args"]["annotator"] = parser
    Path("experiments/base_toy.yaml").write_text(yaml.safe_dump(base))
    monkeypatch.setattr(reproduce, "run_depgen", lambda arguments, environment: pytest.fail(f"{arguments} was called"))
    text = reproduce.reproduce("toy", check=True)
    assert text.startswith("toy, size small: 1 of 6 results are at hand.\n")
    assert "  parser ewt_lowercased: made first by `depgen annotate --train " in text
    assert "  train chain_toy_small, seed 1, then base_toy_small, seed 1, for Base, small, seed 1\n" in text
    fit(job_of("DM-Base, left chain", 1), depgen)
    assert "  train base_toy_small, seed 1, for Base, small, seed 1\n" in reproduce.reproduce("toy", check=True)
    assert "  test DM-Base, left chain, small, seed 1\n" in reproduce.reproduce("toy", check=True)


def test_a_missing_corpus_ends_it_before_anything_runs(maker, needy, monkeypatch):
    monkeypatch.setenv("DEPGEN_DATA", str(needy / "nowhere"))
    settings = yaml.safe_load((needy / "experiments/base_toy.yaml").read_text())
    settings["data"]["init_args"]["corpus"] = STORIES
    (needy / "experiments/base_toy.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(MissingDataError, match=r"No corpus at .*nowhere.*Set DEPGEN_DATA"):
        reproduce.reproduce("toy")
    assert maker == []
    assert main(["reproduce", "toy", "--rows", "DM-Base", "--check"]) == 0
