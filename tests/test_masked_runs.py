"""UDGN through the command line: killed and gone on with, two processes as one, trees that change nothing, plateaus."""

import csv
import multiprocessing
import signal

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint

DROPOUTS = ("dropout", "attention_dropout", "parser_dropout")


def experiment(**model):
    sizes = {"width": 16, "layers": 2, "attention_heads": 2, "head_size": 8, "parser_layers": 1, "tags": 2}
    plateau = {"factor": 0.5, "patience": 0, "threshold": 10.0, "threshold_mode": "abs"}  # never that much better
    settings = {
        "optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-3, "weight_decay": 1e-6}},
        "scheduler": {"class_path": "torch.optim.lr_scheduler.ReduceLROnPlateau", "init_args": plateau},
        "evaluation_masks": 2,
    }
    corpus = {"class_path": "depgen.data.generated.GeneratedStories", "init_args": {"train": 24, "valid": 8, "test": 8}}
    words = {"class_path": "depgen.data.vocabulary.WordVocabulary", "init_args": {"masks": True}}
    data = {"corpus": corpus, "vocabulary": words, "tokens_per_batch": 400}
    return {
        "seed_everything": 1,
        "trainer": {"max_epochs": 3, "accelerator": "cpu", "gradient_clip_val": 0.25},
        "model": {"class_path": "depgen.models.udgn.UDGN", "init_args": {**sizes, **settings, **model}},
        "data": {"class_path": "depgen.data.text.TextData", "init_args": data},
    }


def fit(folder, content, *more):
    """Train in `folder`; its checkpoints."""
    path = folder / "udgn.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert main(["fit", "--config", str(path), *more]) == 0
    return checkpoints_in(folder)


def checkpoints_in(folder):
    (found,) = (folder / "runs").glob("*/*/checkpoints")
    return found


def losses(checkpoints):
    with (checkpoints.parent / "metrics.csv").open(newline="") as stream:
        return [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to train in, by name."""

    def at(name):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / name / "runs"))
        return tmp_path / name

    return at


def killed(folder, step):
    kill = ["--trainer.callbacks+=tests.cli.test_resume.KillMyself", f"--trainer.callbacks.step={step}"]
    fit(folder, experiment(), "--resume_every_n_steps", "1", *kill)


def same(one, other, name):
    whole, found = (load_checkpoint(each / name)["state_dict"] for each in (one, other))
    return whole.keys() == found.keys() and all(torch.equal(found[key], value) for key, value in whole.items())


def test_kill_9_and_resume(place):
    whole = fit(place("whole"), experiment())
    checkpoint = load_checkpoint(whole / "resume.ckpt")
    assert checkpoint["global_step"] == 12
    (optimizer,) = checkpoint["optimizer_states"]
    assert optimizer["param_groups"][0]["lr"] == 1e-3 * 0.5**2, "a plateau of the loss, lower being better"
    folder = place("killed")
    process = multiprocessing.get_context("fork").Process(target=killed, args=(folder, 6))  # in the second epoch
    process.start()
    process.join(180)
    assert process.exitcode == -signal.SIGKILL
    broken = fit(folder, experiment(), "--resume")
    assert same(whole, broken, "best.ckpt")
    assert same(whole, broken, "resume.ckpt")
    assert losses(broken) == losses(whole)


def test_trees_in_the_data_change_neither_weights_nor_selection(place):
    plain = fit(place("plain"), experiment())
    content = experiment()
    content["data"]["init_args"] |= {
        "annotator": {"class_path": "depgen.annotation.trivial.GoldTrees"}, "trees_for": ["train", "valid", "test"],
    }  # fmt: skip
    other = fit(place("gold"), content)
    assert losses(other) == losses(plain)
    assert same(plain, other, "best.ckpt")
    assert same(plain, other, "resume.ckpt")


def test_two_processes_see_the_loss_of_one(place):
    """Processes draw masks by themselves, so that all words are masked here; Adam would make steps of rounding."""
    content = experiment(**dict.fromkeys(DROPOUTS, 0.0), mask_rate=1.0)
    content["model"]["init_args"]["optimizer"] = {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0}}
    one, two = (
        losses(
            fit(place(f"on{n}"), content, *([] if n == 1 else ["--trainer.strategy=ddp_fork", "--trainer.devices=2"]))
        )
        for n in (1, 2)
    )
    assert len(one) == 3
    assert two == pytest.approx(one, abs=1e-4)
