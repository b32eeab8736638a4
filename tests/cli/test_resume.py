"""`depgen fit --resume`: same settings, same folder, same weights; killed, locked and damaged runs."""

import csv
import multiprocessing
import os
import shutil
import signal

import lightning as L
import pytest
import torch
import yaml

from depgen.cli import main
from depgen.cli.requests import Request
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import RUN_VARIABLE, is_finished, read_record, update_record
from tests.cli.conftest import runs_of


@pytest.mark.slow
def test_a_finished_run_goes_on_to_more_epochs_as_if_it_had_been_given_them_at_once(tiny, tmp_path, capsys):
    one_phase = ["--model.first_share", "0"]
    assert main(["fit", "--config", tiny, *one_phase, "--trainer.max_epochs", "3"]) == 0
    (unbroken,) = runs_of(tmp_path)
    assert main(["fit", "--config", tiny, *one_phase]) == 0
    (longer,) = (path for path in runs_of(tmp_path) if path != unbroken)
    assert main(["fit", "--config", tiny, *one_phase, "--trainer.max_epochs", "3", "--resume", str(longer)]) == 0
    assert "Training continues to 3 epochs." in capsys.readouterr().err
    expected, found = (load_checkpoint(each / "checkpoints" / "resume.ckpt") for each in (unbroken, longer))
    assert found["global_step"] == expected["global_step"]
    assert all(torch.equal(found["state_dict"][name], each) for name, each in expected["state_dict"].items())
    assert yaml.safe_load((longer / "config.yaml").read_text())["trainer"]["max_epochs"] == 3
    assert is_finished(longer)


@pytest.mark.parametrize(
    ("options", "finished"), [(["--trainer.max_steps=2"], False), (["--trainer.max_steps=8"], True), ([], True)]
)
def test_a_run_is_finished_when_its_last_phase_is(tiny, tmp_path, capsys, options, finished):
    assert main(["fit", "--config", tiny, *options]) == 0
    (run,) = runs_of(tmp_path)
    assert is_finished(run) is finished
    assert ("Continue with: depgen fit --resume" in capsys.readouterr().err) is not finished


def test_resuming_a_finished_run_leaves_its_time(run, tiny):
    before = read_record(run)
    assert main(["fit", "--config", tiny, "--resume"]) == 0
    assert read_record(run)["finished"] == before["finished"]


def test_an_experiments_newest_run_is_resumed_even_before_its_last_phase(run, tiny, tmp_path, capsys):
    assert main(["fit", "--config", tiny, "--trainer.max_steps=1"]) == 0
    (stopped,) = (path for path in runs_of(tmp_path) if path != run)
    capsys.readouterr()
    assert main(["fit", "--resume", "tiny", "--trainer.max_steps=1"]) == 0
    assert f"Run: {stopped}" in capsys.readouterr().err


def test_another_process_works_on_the_run_that_it_was_told(run, monkeypatch):
    newer = run.parent / "2999-01-01_00-00-00"
    shutil.copytree(run, newer)
    update_record(newer, {"started": "2999-01-01"})
    assert Request.of("test", []).find()[0] == newer
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv(RUN_VARIABLE, str(run))
    assert Request.of("test", []).find() == (run, run / "checkpoints" / "best.ckpt")


def test_an_interrupted_fit_is_resumed_in_its_folder_to_the_same_weights(run, tiny, tmp_path, capsys):
    expected = load_checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]
    interrupt = ["--trainer.callbacks+=tests.training.test_resume.SendSignal", "--trainer.callbacks.step=2"]
    assert main(["fit", "--config", tiny, *interrupt]) == 130
    (folder,) = (path for path in runs_of(tmp_path) if path != run)
    assert f"depgen fit --resume {folder}" in capsys.readouterr().err
    assert main(["fit", "--config", tiny, "--resume"]) == 0
    assert sorted(runs_of(tmp_path)) == sorted([run, folder])
    resumed = load_checkpoint(folder / "checkpoints" / "best.ckpt")["state_dict"]
    assert all(torch.equal(resumed[name], expected[name]) for name in expected)
    whole, curve = (
        {row["step"]: row for row in csv.DictReader((path / "metrics.csv").open())} for path in (run, folder)
    )
    assert whole.keys() == curve.keys()
    for rows in (whole, curve):
        for clock in ("seconds", "processor_seconds"):
            times = [float(row.pop(clock)) for row in rows.values()]
            assert times == sorted(times)
            assert times[-1] > times[0] >= 0  # to the hundredth, so that the first step may take no time
    assert all(curve[step] == whole[step] for step in curve)


def _killed_fit(config, step):
    kill = ["--trainer.callbacks+=tests.cli.test_resume.KillMyself", f"--trainer.callbacks.step={step}"]
    main(["fit", "--config", config, "--resume_every_n_steps", "1", *kill])


class KillMyself(L.Callback):
    """A real SIGKILL in the midst of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_before_optimizer_step(self, trainer, *args):
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("step", [2, 7])
def test_kill_9_in_mid_epoch_and_resume_gives_the_weights_of_an_unbroken_run(run, tiny, tmp_path, step):
    process = multiprocessing.get_context("fork").Process(target=_killed_fit, args=(tiny, step))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    (folder,) = (path for path in runs_of(tmp_path) if path != run)
    assert load_checkpoint(folder / "checkpoints" / "resume.ckpt")["global_step"] == step
    assert main(["fit", "--config", tiny, "--resume"]) == 0
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


def test_a_new_run_begins_with_the_weights_and_the_vocabulary_of_another(run, tiny, tmp_path, capsys):
    held = load_checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]
    unchanged = ["--model.first_share", "0", "--trainer.limit_train_batches", "0"]
    for options in (["--config", tiny], []):
        before = set(runs_of(tmp_path))
        assert main(["fit", *options, "--init_from", "tiny", "--trainer.max_epochs", "1", *unchanged]) == 0
        (new,) = set(runs_of(tmp_path)) - before
        assert new.parent.name == "tiny"
        assert not (new / "config.yaml").read_text().count("init_from")
        assert read_record(new)["init_from"]["checkpoint"].endswith("best.ckpt")
    before = set(runs_of(tmp_path))
    assert main(["fit", "--init_from", str(run), "--data.seed", "7", "--model.dropout", "0.1"]) == 0
    (new,) = set(runs_of(tmp_path)) - before
    assert yaml.safe_load((new / "config.yaml").read_text())["data"]["init_args"]["seed"] == 7
    begun = load_checkpoint(new / "checkpoints" / "best.ckpt")["state_dict"]
    assert begun.keys() == held.keys()
    assert main(["fit", "--init_from", str(run), "--resume", str(run)]) == 2
    assert "Give only one of" in capsys.readouterr().err
    assert main(["test", "--init_from", str(run)]) == 2
    assert "--init_from" in capsys.readouterr().err
    assert main(["fit", "--init_from", str(run), "--model.width", "9"]) == 2
    assert "are of another system" in capsys.readouterr().err
