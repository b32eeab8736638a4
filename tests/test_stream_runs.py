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
                "annotator": {"class_path": "depgen.annotation.trivial.LeftChain"},
                "columns": 4,
                "bptt": 25,
            },
        },
    }  # fmt: skip


def fit(place, *more, **backbone):
    path = place / "stream.yaml"
    path.write_text(yaml.safe_dump(experiment(**backbone)))
    return main(["fit", "--config", str(path), *more])


def killed(place, step, *more, every=1):
    kill = ["--trainer.callbacks+=tests.cli.test_resume.KillMyself", f"--trainer.callbacks.step={step}"]
    fit(place, "--resume_every_n_steps", str(every), *kill, *more)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        assert fit(folder) == 0
        (run,) = (folder / "runs").glob("*/*")
        yield run


def averaged_steps(checkpoints):
    (optimizer,) = load_checkpoint(checkpoints / "resume.ckpt")["optimizer_states"]
    return optimizer["param_groups"][0]["averaged_steps"]


def test_the_average_was_validated_and_kept(unbroken):
    """The best checkpoint holds the average where that is better: not the weights that training went on from."""
    steps = load_checkpoint(unbroken / "checkpoints" / "resume.ckpt")["global_step"]
    assert 0 < averaged_steps(unbroken / "checkpoints") < steps
    with (unbroken / "metrics.csv").open(newline="") as stream:
        curve = [(int(row["step"]), float(row["val/loss"])) for row in csv.DictReader(stream) if row["val/loss"]]
    losses = [loss for _, loss in curve]
    assert losses.index(min(losses)) == len(losses) - 1, losses


def test_kill_9_and_resume(unbroken, tmp_path, monkeypatch):
    """In the first phase, where dependents are learnt from a stream."""
    expected = unbroken / "checkpoints"
    steps = load_checkpoint(expected / "resume.ckpt")["global_step"]
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    process = multiprocessing.get_context("fork").Process(target=killed, args=(tmp_path, steps - 40))
    process.start()
    process.join(180)
    assert process.exitcode == -signal.SIGKILL
    assert fit(tmp_path, "--resume") == 0
    (found,) = (tmp_path / "runs").glob("*/*/checkpoints")
    for name in ("dependency_modeling-best.ckpt", "best.ckpt", "resume.ckpt"):
        whole, resumed = (load_checkpoint(place / name)["state_dict"] for place in (expected, found))
        assert all(torch.equal(resumed[key], value) for key, value in whole.items()), name
    assert averaged_steps(found) == averaged_steps(expected)


def test_validations_within_an_epoch_are_neither_lost_nor_repeated(tmp_path, monkeypatch):
    """Saves fall on the very steps that a validation follows, and the average begins by the number of validations."""
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    often = ["--trainer.val_check_interval=3", "--data.init_args.vary_bptt=false"]  # epochs of eight steps
    found = {}
    for name in ("unbroken", "resumed"):
        monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / name))
        if name == "unbroken":
            assert fit(tmp_path, *often) == 0
        else:
            process = multiprocessing.get_context("fork").Process(
                target=killed, args=(tmp_path, 31, *often), kwargs={"every": 3}
            )
            process.start()
            process.join(180)
            assert process.exitcode == -signal.SIGKILL
            assert fit(tmp_path, *often, "--resume") == 0
        (run,) = (tmp_path / name).glob("*/*")
        with (run / "metrics.csv").open(newline="") as stream:
            curve = [(row["step"], row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]
        content = load_checkpoint(run / "checkpoints" / "resume.ckpt")
        found[name] = curve, content["optimizer_states"][0]["param_groups"][0]["losses"], content["state_dict"]
    (curve, losses, weights), (resumed_curve, resumed_losses, resumed_weights) = found["unbroken"], found["resumed"]
    assert resumed_curve == curve
    assert resumed_losses == losses
    assert len(losses) > 5
    assert all(torch.equal(resumed_weights[name], value) for name, value in weights.items())


def test_two_processes_see_the_loss_of_one(tmp_path, monkeypatch):
    found = {}
    undropped = dict.fromkeys([f"{n}_dropout" for n in ("embedding", "input", "hidden", "output", "weight")], 0.0)
    for devices in (1, 2):
        monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / f"runs{devices}"))
        monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
        spread = ["--trainer.strategy=ddp_fork", "--trainer.devices=2"] if devices == 2 else []
        gentle = "--model.init_args.optimizer.init_args.lr=2"  # large steps would blow rounding up
        assert fit(tmp_path, gentle, *spread, **undropped) == 0
        (run,) = (tmp_path / f"runs{devices}").glob("*/*")
        with (run / "metrics.csv").open(newline="") as stream:
            found[devices] = [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]
    assert found[2] == pytest.approx(found[1], abs=1e-4)


def test_a_plateau_schedule_is_stepped_at_every_validation_before_the_checkpoint_to_go_on_from(tmp_path, monkeypatch):
    """No loss falls by ten nats, so that the rate is halved at every validation but each phase's first."""
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    schedule = {"factor": 0.5, "patience": 0, "threshold": 10.0, "threshold_mode": "abs"}
    content = experiment()
    content["model"]["init_args"] |= {
        "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0}},
        "scheduler": {"class_path": "torch.optim.lr_scheduler.ReduceLROnPlateau", "init_args": schedule},
    }
    path = tmp_path / "plateau.yaml"
    path.write_text(yaml.safe_dump(content))
    assert main(["fit", "--config", str(path)]) == 0
    (checkpoints,) = (tmp_path / "runs").glob("*/*/checkpoints")
    (optimizer,) = load_checkpoint(checkpoints / "resume.ckpt")["optimizer_states"]
    assert optimizer["param_groups"][0]["lr"] == 0.5**4  # five epochs of the second phase
