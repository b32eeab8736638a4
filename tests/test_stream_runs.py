"""A DM-LSTM on a stream through the command line: killed while it carries a state and an average, and gone on with."""

import csv
import multiprocessing
import signal

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint

pytestmark = pytest.mark.slow

LSTM = {"layers": 2, "embedding_size": 12, "hidden_size": 16}


def experiment(**backbone):
    return {
        "seed_everything": 3,
        "trainer": {"max_epochs": 6, "accelerator": "cpu", "gradient_clip_val": 0.25},
        "model": {
            "class_path": "depgen.models.dmlm.DMLM",
            "init_args": {
                "backbone": {
                    "class_path": "depgen.backbones.awd_lstm.AWDLSTM", "init_args": {**LSTM, **backbone}
                },
                "attention": "depgen.models.dmlm.QueryKeyAttention",
                "window": 4,
                "dependency_modeling_share": 1 / 6,
                "regularizer": {"class_path": "depgen.training.activation.ActivationRegularizer"},
                # so large that the validation loss soon rises, which the average waits for
                "optimizer": {"class_path": "depgen.training.nt_asgd.NTASGD", "init_args": {"lr": 60, "patience": 1}},
            },
        },
        "data": {
            "class_path": "depgen.data.stream.StreamData",
            "init_args": {
                "corpus": {
                    "class_path": "depgen.data.generated.GeneratedLanguage",
                    "init_args": {"train": 16, "valid": 4, "test": 4, "sentences": [5, 5]},
                },
                "annotator": {"class_path": "depgen.annotation.controls.LeftChain"},
                "columns": 4,
                "bptt": 25,
            },
        },
    }  # fmt: skip


def fit(place, *more, **backbone):
    path = place / "stream.yaml"
    path.write_text(yaml.safe_dump(experiment(**backbone)))
    return main(["fit", "--config", str(path), *more])


def kill_and_resume(place, step, *more, every=1):
    """Train in a process that kills itself after a step, and go on."""
    kill = ["--trainer.callbacks+=tests.cli.test_resume.KillMyself", f"--trainer.callbacks.step={step}"]
    options = (place, "--resume_every_n_steps", str(every), *kill, *more)
    process = multiprocessing.get_context("fork").Process(target=fit, args=options)
    process.start()
    process.join(180)
    assert process.exitcode == -signal.SIGKILL
    assert fit(place, *more, "--resume") == 0


def result(folder):
    """The curve of validation, and the checkpoint to go on from, of the run in a folder of runs."""
    (run,) = folder.glob("*/*")
    with (run / "metrics.csv").open(newline="") as stream:
        curve = [(int(row["step"]), float(row["val/loss"])) for row in csv.DictReader(stream) if row["val/loss"]]
    return curve, load_checkpoint(run / "checkpoints" / "resume.ckpt")


def optimizer_of(content):
    (optimizer,) = content["optimizer_states"]
    return optimizer["param_groups"][0]


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))


def test_kill_9_and_resume_while_the_average_is_validated_and_kept(tmp_path, monkeypatch):
    """Killed in the first phase, where dependents are learnt from a stream.

    The best checkpoint holds the average where that is better: not the weights that training went on from.
    """
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "unbroken"))
    assert fit(tmp_path) == 0
    curve, content = result(tmp_path / "unbroken")
    losses = [loss for _, loss in curve]
    assert 0 < optimizer_of(content)["averaged_steps"] < content["global_step"]
    assert losses.index(min(losses)) == len(losses) - 1, losses
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    kill_and_resume(tmp_path, content["global_step"] - 40)
    expected, resumed = ((next((tmp_path / name).glob("*/*")) / "checkpoints") for name in ("unbroken", "runs"))
    for name in ("dependency_modeling-best.ckpt", "best.ckpt", "resume.ckpt"):
        whole, weights = (load_checkpoint(place / name)["state_dict"] for place in (expected, resumed))
        assert all(torch.equal(weights[key], value) for key, value in whole.items()), name
    assert optimizer_of(result(tmp_path / "runs")[1])["averaged_steps"] == optimizer_of(content)["averaged_steps"]


def test_validations_within_an_epoch_are_neither_lost_nor_repeated(tmp_path, monkeypatch):
    """Saves fall on the very steps that a validation follows, and the average begins by the number of validations."""
    often = ["--trainer.val_check_interval=3", "--data.init_args.vary_bptt=false"]  # epochs of eight steps
    assert fit(tmp_path, *often) == 0
    curve, content = result(tmp_path / "runs")
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "resumed"))
    kill_and_resume(tmp_path, 31, *often, every=3)
    resumed_curve, resumed = result(tmp_path / "resumed")
    assert resumed_curve == curve
    assert optimizer_of(resumed)["losses"] == optimizer_of(content)["losses"]
    assert len(optimizer_of(content)["losses"]) > 5
    assert all(torch.equal(resumed["state_dict"][name], value) for name, value in content["state_dict"].items())


def test_two_processes_see_the_loss_of_one(tmp_path, monkeypatch):
    losses = {}
    undropped = dict.fromkeys([f"{n}_dropout" for n in ("embedding", "input", "hidden", "output", "weight")], 0.0)
    gentle = "--model.init_args.optimizer.init_args.lr=2"  # large steps would blow rounding up
    for devices, spread in ((1, []), (2, ["--trainer.strategy=ddp_fork", "--trainer.devices=2"])):
        monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / f"runs{devices}"))
        assert fit(tmp_path, gentle, *spread, **undropped) == 0
        losses[devices] = [loss for _, loss in result(tmp_path / f"runs{devices}")[0]]
    assert losses[2] == pytest.approx(losses[1], abs=1e-4)


def test_a_plateau_schedule_is_stepped_at_every_validation_before_the_checkpoint_to_go_on_from(tmp_path):
    """No loss falls by ten nats, so that the rate is halved at every validation but each phase's first."""
    schedule = {"factor": 0.5, "patience": 0, "threshold": 10.0, "threshold_mode": "abs"}
    content = experiment()
    content["model"]["init_args"] |= {
        "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0}},
        "scheduler": {"class_path": "torch.optim.lr_scheduler.ReduceLROnPlateau", "init_args": schedule},
    }
    path = tmp_path / "plateau.yaml"
    path.write_text(yaml.safe_dump(content))
    assert main(["fit", "--config", str(path)]) == 0
    assert optimizer_of(result(tmp_path / "runs")[1])["lr"] == 0.5**4  # five epochs of the second phase
