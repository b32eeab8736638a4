"""How many epochs a run and its phases get: from YAML files, from the command line, from the run that is resumed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Training
from depgen.training.runs import is_finished
from tests.cli.conftest import runs_of

KILL = ["--trainer.callbacks+=tests.training.test_keeping.SendSignal", "--trainer.callbacks.step"]


def settled(run):
    """The epochs of a run's config.yaml and the phases' lengths; those in its checkpoint must be the same."""
    settings = yaml.safe_load((run / "config.yaml").read_text())
    lengths = [settings["model"]["init_args"][name] for name in ("first", "second")]
    stored = load_checkpoint(run / "checkpoints" / "resume.ckpt")["hyper_parameters"]
    assert [stored["first"], stored["second"]] == lengths
    return [settings["trainer"]["max_epochs"], *lengths]


def same_weights(left, right):
    for name in ("first-best.ckpt", "best.ckpt", "resume.ckpt"):
        expected, found = (load_checkpoint(each / "checkpoints" / name) for each in (left, right))
        assert found["global_step"] == expected["global_step"]
        assert all(torch.equal(found["state_dict"][key], each) for key, each in expected["state_dict"].items()), name


def only_new(tmp_path, *known):
    (found,) = (path for path in runs_of(tmp_path) if path not in known)
    return found


def test_epochs_are_derived_from_the_phases(tmp_path, tiny):
    assert main(["fit", "--config", tiny, "--trainer.max_epochs", "null"]) == 0
    (run,) = runs_of(tmp_path)
    assert settled(run) == [2, 1, 1]


@pytest.mark.slow
def test_max_epochs_on_the_command_line_scales_the_phases_of_a_yaml_that_gives_both(tmp_path, tiny, capsys):
    assert (
        main(["fit", "--config", tiny, "--trainer.max_epochs", "5", "--model.second", "4", "--model.first", "1"]) == 0
    )
    (given,) = runs_of(tmp_path)
    overlay = tmp_path / "four.yaml"
    overlay.write_text("model: {init_args: {second: 4}}\ntrainer: {max_epochs: 5}\n")
    assert main(["fit", "--config", tiny, "--config", str(overlay), "--trainer.max_epochs=3"]) == 0
    assert "trainer.max_epochs is 3, so the phases are scaled: 1 (first) + 2 (second)." in capsys.readouterr().err
    assert settled(given) == [5, 1, 4]
    (run,) = (path for path in (tmp_path / "runs").glob("*/*") if path != given)
    assert settled(run) == [3, 1, 2]
    assert main(["fit", "--resume", str(run)]) == 0
    assert main(["test", "--run", str(run)]) == 0
    assert "The checkpoint's setting is used" not in capsys.readouterr().err


def test_lengths_on_the_command_line_set_the_epochs_of_a_yaml(tmp_path, tiny, capsys):
    assert main(["fit", "--config", tiny, "--model.second", "2"]) == 0
    assert "The phases last 1 (first) + 2 (second), so trainer.max_epochs is 3." in capsys.readouterr().err
    (run,) = runs_of(tmp_path)
    assert settled(run) == [3, 1, 2]


def test_fewer_epochs_than_phases_are_refused(tiny, tmp_path, capsys):
    assert main(["fit", "--config", tiny, "--trainer.max_epochs", "1"]) == 2
    assert "Set it to 2 or more" in capsys.readouterr().err
    assert not list((tmp_path / "runs").glob("*/*"))


def test_a_place_that_gives_epochs_and_lengths_must_agree_with_itself(tiny, tmp_path, capsys):
    assert main(["fit", "--config", tiny, "--trainer.max_epochs", "4", "--model.second", "2"]) == 2
    assert "max_epochs is 4, but the phases last 1 (first) + 2 (second) epochs. Set it to 3" in capsys.readouterr().err
    overlay = tmp_path / "both.yaml"
    overlay.write_text("model: {init_args: {second: 4}}\ntrainer: {max_epochs: 7}\n")
    assert main(["fit", "--config", tiny, "--config", str(overlay)]) == 2
    assert "Set it to 5" in capsys.readouterr().err
    overlay.write_text("trainer: {max_epochs: 6}\n")
    assert main(["fit", "--config", tiny, "--config", str(overlay)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["--trainer.max_epochs=4"], ["--model.second=3"], ["--trainer.max_epochs=4", "--model.init_args.second=3"]],
)
def test_a_resumed_run_of_phases_trains_on_as_if_its_last_phase_had_been_that_long(
    run, tiny, tmp_path, capsys, options
):
    assert main(["fit", "--config", tiny, "--model.second", "3"]) == 0
    unbroken = only_new(tmp_path, run)
    assert main(["fit", "--resume", str(run), *options]) == 0
    assert "Training continues to 4 epochs." in capsys.readouterr().err
    same_weights(unbroken, run)
    assert settled(run) == [4, 1, 3]
    assert is_finished(run)


@pytest.mark.slow
def test_a_lengthened_run_is_interrupted_resumed_tested_and_lengthened_again(run, tiny, tmp_path, capsys):
    assert main(["fit", "--config", tiny, "--model.second", "4"]) == 0
    unbroken = only_new(tmp_path, run)
    longer = ["fit", "--resume", str(run), "--trainer.max_epochs"]
    steps = load_checkpoint(run / "checkpoints" / "resume.ckpt")["global_step"]
    assert main([*longer, "4", f"{KILL[0]}", f"{KILL[1]}={steps + 1}"]) == 130
    assert not is_finished(run)
    assert main(["fit", "--resume", str(run)]) == 0
    assert settled(run) == [4, 1, 3]
    assert main(["test", "--run", str(run)]) == 0
    assert main([*longer, "5"]) == 0
    assert settled(run) == [5, 1, 4]
    same_weights(unbroken, run)
    capsys.readouterr()
    assert main(["fit", "--config", tiny, *longer[1:], "5"]) == 0
    assert main([*longer, "3"]) == 2
    assert "trainer.max_epochs: 3 given, 5 in the checkpoint" in capsys.readouterr().err


def test_a_run_stopped_before_its_checkpoint_knew_of_more_epochs_still_gets_them(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("depgen.cli.run_cli.RunCLI.fit", lambda *args, **named: exit(1))
        assert main(["fit", "--resume", str(run), "--trainer.max_epochs", "3"]) == 1
    assert not is_finished(run)
    assert main(["fit", "--resume", str(run)]) == 0
    assert settled(run) == [3, 1, 2]


def test_lengths_that_contradict_the_epochs_are_refused_at_a_resume_too(run, capsys):
    assert main(["fit", "--resume", str(run), "--trainer.max_epochs", "5", "--model.second", "2"]) == 2
    assert "Set it to 3" in capsys.readouterr().err
    assert main(["fit", "--resume", str(run), "--model.first", "2"]) == 2
    assert "model.init_args.first: 2 given, 1 in the checkpoint" in capsys.readouterr().err
    assert is_finished(run)


def test_a_table_finds_a_run_by_the_epochs_that_it_trains(tmp_path, tiny):
    training = Training("tiny", Experiment(Path(tiny), options={"trainer.max_epochs": 3}), 1, "tiny/paper/seed1")
    assert main(training.command) == 0  # typed by hand; a killed command leaves the same folder
    (run,) = training.runs()
    assert (settled(run), training.finished()) == ([3, 1, 2], run)
    derived = replace(training, experiment=Experiment(Path(tiny), options={"model.second": 2}))
    assert derived.finished() == run  # the same lengths, given in another way
    assert main(["fit", "--resume", str(run), "--trainer.max_epochs", "4"]) == 0
    assert settled(run) == [4, 1, 3]
    assert training.runs() == []
    longer = {"trainer.max_epochs": 4, "model.first": 1, "model.second": 3}
    assert replace(training, experiment=Experiment(Path(tiny), options=longer)).finished() == run
