"""`depgen fit`, `test` and their siblings on run folders, in process, with the tiny system."""

import csv
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import lightning as L
import numpy as np
import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint
from depgen.training.locks import RunLock
from tests.training.tiny import TinyModel

EXPERIMENT = {
    "model": {"class_path": "tests.training.tiny.TinyModel", "init_args": {"first": 1, "second": 1}},
    "data": {"class_path": "tests.training.tiny.TinyData", "init_args": {"items": 30}},
    "trainer": {"accelerator": "cpu", "max_epochs": 2, "log_every_n_steps": 1},
}


@pytest.fixture(autouse=True)
def _runs(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(EXPERIMENT))
    return str(path)


@pytest.fixture(scope="session")
def presets():
    """Where the presets lie, said before any test leaves the repository's root."""
    return Path(__file__).parents[1] / "experiments" / "presets"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of runs after one training, to be copied."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        assert main(["fit", "--config", str(folder / "tiny.yaml")]) == 0
    return folder / "runs"


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs")
    (folder,) = (tmp_path / "runs" / "tiny").iterdir()
    return folder


def runs_of(tmp_path, experiment="tiny"):
    return sorted((tmp_path / "runs" / experiment).iterdir())


def test_fit_leaves_a_run_folder_that_holds_everything(run):
    names = {path.name for path in (run / "checkpoints").iterdir()}
    assert names == {"first-best.ckpt", "second-best.ckpt", "best.ckpt", "resume.ckpt"}
    assert {path.name for path in run.iterdir()} == {
        "checkpoints",
        "config.yaml",
        "run.json",
        "metrics.csv",
        "vocabulary",
    }
    record = json.loads((run / "run.json").read_text())
    assert record["seed"] == 42
    assert record["finished"]
    assert record["parameters"] == 67
    assert record["versions"]["torch"] == torch.__version__
    with (run / "metrics.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert sum(bool(row["val/loss"]) for row in rows) == 1
    assert sum(bool(row["val/first"]) for row in rows) == 1
    assert len(rows) == record["steps"]


def test_test_takes_the_newest_run_and_prints_its_path(run, capsys):
    assert main(["test"]) == 0
    output, error = capsys.readouterr()
    assert f"run\t{run}" in output
    assert "test/loss\t" in output
    assert "best.ckpt" in output
    assert f"Run: {run}" in error
    saved = json.loads((run / "test.json").read_text())
    assert f"test/loss\t{saved['metrics']['test/loss']:.6g}" in output


def test_test_by_yaml_by_run_and_by_checkpoint_agree(run, tiny, capsys):
    values = []
    for arguments in (["--config", tiny], ["--run", str(run)], ["--ckpt_path", str(run / "checkpoints" / "best.ckpt")]):
        assert main(["test", *arguments]) == 0
        values.append(capsys.readouterr().out.split("test/loss\t")[1])
    assert len(set(values)) == 1


def test_test_uses_the_checkpoints_settings_and_prints_each_difference(run, tiny, capsys):
    assert main(["test", "--config", tiny, "--model.width", "16", "--data.seed", "3"]) == 0
    error = capsys.readouterr().err
    assert "model.init_args.width: 16 asked for, 8 in the checkpoint" in error
    assert "data.init_args.seed: 3 asked for, 0 in the checkpoint" in error
    assert error.count("asked for") == 2


def test_an_edited_yaml_does_not_hide_what_the_checkpoint_holds(run, capsys):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("width: 8", "width: 16"))
    assert main(["test", "--run", str(run)]) == 0
    assert "model.init_args.width: 16 asked for, 8 in the checkpoint" in capsys.readouterr().err


def test_the_runs_vocabulary_is_used_and_not_rebuilt(run, monkeypatch, capsys):
    import tests.training.tiny as tiny_module

    monkeypatch.setattr(tiny_module.TinyData, "vocabulary_size", 5)  # what the corpus would now give
    assert main(["test"]) == 0


def test_resume_refuses_other_settings(run, tiny, capsys):
    before = (run / "checkpoints" / "resume.ckpt").read_bytes()
    assert main(["fit", "--config", tiny, "--resume", "--model.width", "16"]) == 2
    assert "model.init_args.width: 16 asked for, 8 in the checkpoint" in capsys.readouterr().err
    assert (run / "checkpoints" / "resume.ckpt").read_bytes() == before
    assert not (run / "lock").exists()


@pytest.mark.parametrize(
    ("option", "value", "held"),
    [("max_epochs", "3", "2"), ("precision", "64-true", "None"), ("gradient_clip_val", "0.5", "None"),
     ("accumulate_grad_batches", "2", "1")],
)  # fmt: skip
def test_resume_refuses_another_course_of_training(run, tiny, capsys, option, value, held):
    assert main(["fit", "--config", tiny, "--resume", f"--trainer.{option}={value}"]) == 2
    error = capsys.readouterr().err
    assert f"trainer.{option}: " in error
    assert f"{held} in the checkpoint" in error


def test_fit_refuses_a_checkpoint_to_start_from(run, tiny, tmp_path, capsys):
    path = run / "checkpoints" / "resume.ckpt"
    assert main(["fit", "--config", tiny, "--ckpt_path", str(path)]) == 2
    assert f"--resume {run}" in capsys.readouterr().err
    (tmp_path / "more.yaml").write_text(f"ckpt_path: {path}\n")
    assert main(["fit", "--config", tiny, "--config", str(tmp_path / "more.yaml")]) == 2
    assert f"--resume {run}" in capsys.readouterr().err
    assert runs_of(tmp_path) == [run]


def test_a_checkpoint_outside_a_run_is_refused(run, tiny, tmp_path, capsys):
    path = shutil.copy(run / "checkpoints" / "best.ckpt", tmp_path / "best.ckpt")
    assert main(["test", "--config", tiny, "--ckpt_path", str(path)]) == 2
    assert f"{path} lies in no run folder" in capsys.readouterr().err
    assert main(["test", "--ckpt_path", str(run)]) == 2
    assert f"No checkpoint at {run}" in capsys.readouterr().err


def test_a_run_without_its_vocabulary_is_refused(run, capsys):
    shutil.rmtree(run / "vocabulary")
    for arguments in (["test"], ["fit", "--resume", str(run)]):
        assert main(arguments) == 2
        assert f"No vocabulary at {run / 'vocabulary'}" in capsys.readouterr().err


def test_settings_that_change_no_number_follow_the_command_line(run, tiny, monkeypatch, capsys):
    seen = []

    def setup(data, stage):
        seen.append(data.workers)
        data.workers = 0

    monkeypatch.setattr("tests.training.tiny.TinyData.setup", setup)
    assert main(["test", "--config", tiny, "--data.workers", "1"]) == 0
    assert main(["fit", "--config", tiny, "--resume", "--data.workers", "2"]) == 0
    assert set(seen) == {1, 2}
    assert "asked for" not in capsys.readouterr().err


def test_predict_says_that_there_is_nothing_to_predict(run, capsys):
    assert main(["predict"]) == 2
    assert "TinyModel has nothing to predict; `depgen generate` writes texts." in capsys.readouterr().err


class Scoring(TinyModel):
    """The tiny model with a score an item."""

    def on_test_epoch_start(self):
        self.places = []

    def test_step(self, batch, batch_idx):
        super().test_step(batch, batch_idx)
        self.places.extend(batch.items.tolist())

    def test_scores(self):
        items = np.sort(np.array(self.places))
        return items, items / 2, items + 1


@pytest.fixture
def scored(tiny, tmp_path):
    path = tmp_path / "scored.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                **EXPERIMENT,
                "model": {"class_path": "tests.test_cli_training.Scoring", "init_args": {"first": 1, "second": 1}},
            }
        )
    )
    assert main(["fit", "--config", str(path)]) == 0
    (folder,) = runs_of(tmp_path, "scored")
    return folder


@pytest.mark.parametrize("devices", [1, 2])
def test_a_whole_test_keeps_numbers_and_scores_with_the_checkpoint_they_are_of(scored, devices, capsys):
    spread = [] if devices == 1 else ["--trainer.strategy=ddp_fork", "--trainer.devices=2"]
    assert main(["test", *spread]) == 0
    saved = json.loads((scored / "test.json").read_text())
    content = (scored / "checkpoints" / "best.ckpt").read_bytes()
    assert saved["checkpoint_sha256"] == hashlib.sha256(content).hexdigest()
    with np.load(scored / "test_items.npz", allow_pickle=False) as scores:
        assert {name: scores[name].dtype.name for name in scores} == {
            "items": "int64",
            "nll": "float64",
            "tokens": "int64",
        }
        if devices == 1:
            assert scores["items"].tolist() == list(range(12))
            assert scores["nll"].tolist() == [each / 2 for each in range(12)]
    assert saved["items"] == (12 if devices == 1 else 6)  # this model does not gather its scores


@pytest.mark.parametrize(
    "options",
    [["--trainer.fast_dev_run=1"], ["--trainer.limit_test_batches=1"], ["--trainer.limit_test_batches=0.5"],
     ["--ckpt_path=checkpoints/first-best.ckpt"], ["--ckpt_path=checkpoints/resume.ckpt"]],
)  # fmt: skip
def test_other_tests_are_printed_only(scored, options, monkeypatch, capsys):
    monkeypatch.chdir(scored)
    assert main(["test", *options]) == 0
    output, error = capsys.readouterr()
    assert "test/loss\t" in output
    assert "Printed only" in error
    assert not [path.name for path in scored.iterdir() if path.name.startswith("test")]


def test_the_presets_work(tiny, tmp_path, presets, capsys):
    preset = presets / "early_stopping.yaml"
    flat = ["--model.flat=true", "--model.first=0", "--model.second=0", "--trainer.max_epochs=9"]
    assert main(["fit", "--config", tiny, "--config", str(preset), *flat]) == 0
    assert "Phase second stops early" in capsys.readouterr().err
    (run,) = runs_of(tmp_path)
    assert load_checkpoint(run / "checkpoints" / "resume.ckpt")["epoch"] == 3  # the first validation, and three more


def test_lightnings_early_stopping_is_refused_for_phases(tiny, tmp_path, capsys):
    stop = ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=val/loss"]
    assert main(["fit", "--config", tiny, *stop]) == 2
    assert "depgen.training.phases.PhaseEarlyStopping" in capsys.readouterr().err
    assert not list((tmp_path / "runs").iterdir())


def test_an_interrupted_fit_is_resumed_in_its_folder_to_the_same_weights(run, tiny, tmp_path, capsys):
    expected = load_checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]
    interrupt = ["--trainer.callbacks+=tests.training.test_keeping.SendSignal", "--trainer.callbacks.step=2"]
    assert main(["fit", "--config", tiny, *interrupt]) == 130
    (folder,) = (path for path in runs_of(tmp_path) if path != run)
    assert f"depgen fit --resume {folder}" in capsys.readouterr().err
    assert not (folder / "lock").exists()
    assert main(["fit", "--config", tiny, "--resume"]) == 0
    assert sorted(runs_of(tmp_path)) == sorted([run, folder])
    resumed = load_checkpoint(folder / "checkpoints" / "best.ckpt")["state_dict"]
    assert all(torch.equal(resumed[name], expected[name]) for name in expected)
    whole, curve = (
        {row["step"]: row for row in csv.DictReader((path / "metrics.csv").open())} for path in (run, folder)
    )
    assert whole.keys() - curve.keys() <= {"2"}  # Lightning logs a step's loss only after the hook in which we stop
    assert all(curve[step] == whole[step] for step in curve)


def test_resume_passes_over_runs_that_hold_nothing_and_names_them(run, tiny, capsys):
    bare = run.parent / "2999-01-01_00-00-00"
    bare.mkdir()
    (bare / "run.json").write_text('{"started": "2999-01-01"}')
    assert main(["test", "--config", tiny]) == 0
    assert f"Passing over {bare}: it holds no best.ckpt" in capsys.readouterr().err


def test_a_locked_run_is_refused(run, monkeypatch, capsys):
    monkeypatch.setattr("depgen.training.locks._alive", lambda pid: True)
    monkeypatch.setattr("depgen.training.locks._start_of", lambda pid: "1")
    RunLock(run).acquire()
    content = json.loads((run / "lock").read_text())
    (run / "lock").write_text(json.dumps({**content, "pid": 1}))
    assert main(["fit", "--resume", str(run)]) == 2
    assert "is being trained by process 1 on this host" in capsys.readouterr().err


def test_a_cut_checkpoint_is_refused_by_name(run, capsys):
    path = run / "checkpoints" / "best.ckpt"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])
    assert main(["test"]) == 2
    assert f"{path} is cut short or damaged" in capsys.readouterr().err


def test_an_unwritable_runs_folder_is_named_before_anything_is_built(tiny, tmp_path, capsys):
    (tmp_path / "runs").write_text("in the way")
    assert main(["fit", "--config", tiny]) == 2
    assert f"The folder {tmp_path / 'runs'} can't be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["--model.widht", "3"], ["widht"]),
        (["--trainer.max_epoch", "3"], ["trainer.max_epoch"]),
        (["--model", "tests.training.tiny.NoSuchModel"], ["NoSuchModel"]),
        (["--trainer.max_epochs", "x"], ["max_epochs", "x"]),
        (["--trainer.max_epochs", "3"], ["max_epochs is 3", "1 (first) + 1 (second)"]),
        (["--run", "x"], ["--resume x"]),
        (["--trainer.accelerator", "abacus"], ["abacus"]),
        (["--resume_every_n_steps", "0"], ["resume_every_n_steps"]),
    ],
)
def test_mistakes_are_named_and_leave_no_run(tiny, tmp_path, capsys, arguments, messages):
    assert main(["fit", "--config", tiny, *arguments]) == 2
    error = capsys.readouterr().err
    for message in messages:
        assert message in error
    assert "Traceback" not in error
    assert len(error.splitlines()) < 12, error


def test_an_unknown_class_in_yaml_is_named(tmp_path, capsys):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump({**EXPERIMENT, "model": {"class_path": "tests.training.tiny.Missing"}}))
    assert main(["fit", "--config", str(path)]) == 2
    assert "tests.training.tiny.Missing" in capsys.readouterr().err
    assert main(["fit", "--config", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


def test_a_fast_dev_run_leaves_no_folder(tiny, tmp_path):
    assert main(["fit", "--config", tiny, "--trainer.fast_dev_run", "2"]) == 0
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_no_run_at_all_says_how_to_train_one(capsys):
    assert main(["test"]) == 2
    assert "depgen fit --config" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--print_config"], ["--model.help", "tests.training.tiny.TinyModel"]]
)
def test_help_needs_no_run(arguments, capsys):
    assert main(["fit", *arguments]) == 0
    assert capsys.readouterr().out


def _killed_fit(config, step):
    kill = ["--trainer.callbacks+=tests.test_cli_training.KillMyself", f"--trainer.callbacks.step={step}"]
    main(["fit", "--config", config, "--resume_every_n_steps", "1", *kill])


class KillMyself(L.Callback):
    """A real SIGKILL in the midst of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_before_optimizer_step(self, trainer, *args):
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("step", [2, 7])
def test_kill_9_in_mid_epoch_and_resume_gives_the_weights_of_an_unbroken_run(run, tiny, tmp_path, capsys, step):
    process = multiprocessing.get_context("fork").Process(target=_killed_fit, args=(tiny, step))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    (folder,) = (path for path in runs_of(tmp_path) if path != run)
    assert (folder / "lock").exists()
    assert load_checkpoint(folder / "checkpoints" / "resume.ckpt")["global_step"] == step
    capsys.readouterr()
    assert main(["fit", "--config", tiny, "--resume"]) == 0
    assert "which is no more, is taken over" in capsys.readouterr().err
    for name in ("first-best.ckpt", "best.ckpt", "resume.ckpt"):
        expected, resumed = (load_checkpoint(path / "checkpoints" / name) for path in (run, folder))
        assert all(torch.equal(resumed["state_dict"][key], value) for key, value in expected["state_dict"].items()), (
            name
        )
        assert resumed["global_step"] == expected["global_step"]


def _fit(config):
    raise SystemExit(main(["fit", "--config", config]))


def test_two_runs_at_once_do_not_meet(run, tiny, tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_fit, args=(tiny,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    folders = runs_of(tmp_path)
    assert len(folders) == 3
    weights = [load_checkpoint(folder / "checkpoints" / "best.ckpt")["state_dict"] for folder in folders]
    assert all(torch.equal(each[name], weights[0][name]) for each in weights for name in weights[0])
