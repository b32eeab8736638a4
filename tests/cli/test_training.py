"""`depgen fit`, `test` and their siblings on run folders, in process, with the tiny system."""

import csv
import hashlib
import json

import lightning as L
import numpy as np
import pytest
import torch
import yaml

from depgen.cli import main
from depgen.cli.settings import settings_of_run
from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.evaluated import kept_numbers
from depgen.training.runs import read_record
from tests.cli.conftest import EXPERIMENT, runs_of
from tests.training.tiny import TinyModel


def test_fit_leaves_a_run_folder_that_holds_everything(run):
    names = {path.name for path in (run / "checkpoints").iterdir()}
    assert names == {"first-best.ckpt", "best.ckpt", "resume.ckpt"}
    assert {path.name for path in run.iterdir()} == {
        "checkpoints",
        "config.yaml",
        "run.json",
        "metrics.csv",
        "vocabulary.json",
        "lock",
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


def test_a_loss_that_is_no_number_is_an_error(run, capsys):
    path = run / "checkpoints" / "best.ckpt"
    content = load_checkpoint(path)
    for weights in content["state_dict"].values():
        weights.fill_(float("nan"))
    torch.save(content, path)
    assert main(["test"]) == 2
    assert "test/loss: expected a number, found nan" in capsys.readouterr().err
    assert not (run / "test.json").exists()


def test_test_by_yaml_by_run_and_by_checkpoint_agree(run, tiny, capsys):
    values = []
    best = str(run / "checkpoints" / "best.ckpt")
    for arguments in (["--config", tiny], ["--run", str(run)], ["--run", best], ["--ckpt_path", best]):
        assert main(["test", *arguments]) == 0
        values.append(capsys.readouterr().out.split("test/loss\t")[1])
    assert len(set(values)) == 1


def test_test_uses_the_checkpoints_settings_and_prints_each_difference(run, tiny, capsys):
    assert main(["test", "--config", tiny, "--model.width", "16", "--data.seed", "3"]) == 0
    error = capsys.readouterr().err
    assert "model.init_args.width: 16 given, 8 in the checkpoint" in error
    assert "data.init_args.seed: 3 given, 0 in the checkpoint" in error
    assert error.count(" given, ") == 2


def test_an_edited_yaml_does_not_hide_what_the_checkpoint_holds(run, capsys):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("width: 8", "width: 16"))
    assert main(["test", "--run", str(run)]) == 0
    assert "model.init_args.width: 16 given, 8 in the checkpoint" in capsys.readouterr().err


def test_the_runs_vocabulary_is_used_and_not_rebuilt(run, monkeypatch, capsys):
    import tests.training.tiny as tiny_module

    monkeypatch.setattr(tiny_module.TinyData, "vocabulary_size", 5)  # what the corpus would now give
    assert main(["test"]) == 0


class Stops(L.Callback):
    """Ctrl-C where no training step is under way."""

    def on_test_start(self, trainer, pl_module):
        raise KeyboardInterrupt


def test_ctrl_c_outside_training_ends_with_130(run, tiny, tmp_path):
    stop = {"callbacks": {"class_path": "tests.cli.test_training.Stops"}}  # one callback, without a list around it
    (tmp_path / "stop.yaml").write_text(yaml.safe_dump({"trainer": stop}))
    assert main(["test", "--config", tiny, "--config", "stop.yaml", "--run", str(run)]) == 130


class Replaces(L.Callback):
    """Another process that goes on training."""

    def on_test_end(self, trainer, pl_module):
        with open(trainer.ckpt_path, "ab") as stream:
            stream.write(b"newer")


def test_numbers_of_weights_that_are_gone_are_not_taken(run):
    assert main(["test", "--trainer.callbacks+=tests.cli.test_training.Replaces"]) == 0
    with pytest.raises(UserError, match="or the run was trained further since"):
        kept_numbers(run, "test")


def test_accumulating_batches_warns_that_their_tokens_do_not_count(tiny, capsys):
    assert main(["fit", "--config", tiny, "--trainer.accumulate_grad_batches=2"]) == 0
    assert "accumulate_grad_batches=2 averages the means" in capsys.readouterr().err


def written_by_a_stranger(run, elsewhere):
    """Let a run's trainer write into a folder elsewhere by whatever of it can."""
    settings = yaml.safe_load((run / "config.yaml").read_text())
    logs, calls = "lightning.pytorch.loggers", "lightning.pytorch.callbacks"
    profiled = {"dirpath": str(elsewhere), "filename": "profile"}
    settings["trainer"] |= {
        "logger": [{"class_path": f"{logs}.CSVLogger", "init_args": {"save_dir": str(elsewhere)}}],
        "callbacks": [
            {"class_path": f"{calls}.ModelCheckpoint", "init_args": {"dirpath": str(elsewhere), "save_last": True}},
            {"class_path": "depgen.training.phases.PhaseEarlyStopping", "init_args": {"patience": 9}},
        ],
        "profiler": {"class_path": "lightning.pytorch.profilers.SimpleProfiler", "init_args": profiled},
        "default_root_dir": str(elsewhere),
    }
    (run / "config.yaml").write_text(yaml.safe_dump(settings))


@pytest.mark.parametrize("by", ["run", "yaml"])
@pytest.mark.parametrize("verb", ["test", "validate", "predict", "fit"])
def test_the_trainer_of_a_run_writes_nothing_elsewhere(run, tmp_path, monkeypatch, capsys, verb, by):
    written_by_a_stranger(run, tmp_path / "elsewhere")
    before = {path for path in tmp_path.rglob("*") if run not in path.parents}
    monkeypatch.setattr(TinyModel, "predict_step", lambda model, batch: model.net(batch))
    monkeypatch.setattr(
        "tests.training.tiny.TinyData.predict_dataloader", lambda data: torch.utils.data.DataLoader(torch.ones(5, 4))
    )
    more = ["--resume", str(run), "--trainer.max_epochs=3"] if verb == "fit" else ["--run", str(run)]
    config = ["--config", str(run / "config.yaml")] if by == "yaml" else []
    assert main([verb, *config, *more]) == 0
    assert {path for path in tmp_path.rglob("*") if run not in path.parents} == before
    if verb == "fit":
        assert load_checkpoint(run / "checkpoints" / "resume.ckpt")["global_step"] == 18
        error = capsys.readouterr().err
        assert all(f"trainer.{name}" in error for name in ("logger", "callbacks", "profiler", "default_root_dir"))


def test_of_a_runs_trainer_plain_values_and_callbacks_that_write_nothing_are_resumed(run, tmp_path):
    course = {"gradient_clip_val": 0.5, "accumulate_grad_batches": 2, "val_check_interval": 0.5, "devices": [0]}
    written_by_a_stranger(run, tmp_path / "elsewhere")
    settings = yaml.safe_load((run / "config.yaml").read_text())
    settings["trainer"] |= {"precision": "bf16-mixed", "strategy": "ddp", **course}
    (run / "config.yaml").write_text(yaml.safe_dump({**settings, "wandb": "online", "weights_only": False}))
    resumed, _ = settings_of_run(run / "config.yaml", "fit")
    assert resumed["trainer"].items() >= {"precision": "bf16-mixed", "strategy": "ddp", **course}.items()
    stop = {"class_path": "depgen.training.phases.PhaseEarlyStopping", "init_args": {"patience": 9}}
    assert resumed["trainer"]["callbacks"] == [stop]
    tested, _ = settings_of_run(run / "config.yaml", "test")
    held = {name: settings[name] for name in ("model", "data", "seed_everything")}
    assert tested == {**held, "trainer": {"precision": "bf16-mixed"}}
    own = ("resume_every_n_steps", "compile", "float32_matmul_precision")
    assert resumed == {**held, **{name: settings[name] for name in own}, "trainer": resumed["trainer"]}


def test_settings_that_change_no_number_follow_the_command_line(run, tiny, monkeypatch, capsys):
    seen = []

    def setup(data, stage):
        seen.append(data.workers)
        data.workers = 0

    monkeypatch.setattr("tests.training.tiny.TinyData.setup", setup)
    assert main(["test", "--config", tiny, "--data.workers", "1"]) == 0
    assert main(["fit", "--config", tiny, "--resume", "--data.workers", "2"]) == 0
    assert set(seen) == {1, 2}
    assert " given, " not in capsys.readouterr().err


class Scoring(TinyModel):
    """The tiny model with a score an item."""

    def on_test_epoch_start(self):
        self.places = []

    def test_step(self, batch, batch_idx):
        super().test_step(batch, batch_idx)
        self.places.extend(batch.items.tolist())

    def test_scores(self):
        items = np.sort(np.array(self.places))
        return items, items / 2, items + 1, items + 1


@pytest.fixture
def scored(tiny, tmp_path):
    path = tmp_path / "scored.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                **EXPERIMENT,
                "model": {"class_path": "tests.cli.test_training.Scoring", "init_args": {"first_share": 0.5}},
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
            "words": "int64",
        }
        if devices == 1:
            assert scores["items"].tolist() == list(range(12))
            assert scores["nll"].tolist() == [each / 2 for each in range(12)]


@pytest.mark.parametrize(
    "options",
    [["--trainer.fast_dev_run=1"], ["--trainer.limit_test_batches=1"], ["--trainer.limit_test_batches=0.5"],
     ["--ckpt_path=checkpoints/first-best.ckpt"], ["--run=checkpoints/resume.ckpt"]],
)  # fmt: skip
def test_other_tests_are_printed_only(scored, options, monkeypatch, capsys):
    monkeypatch.chdir(scored)
    assert main(["test", *options]) == 0
    output, error = capsys.readouterr()
    assert "test/loss\t" in output
    assert "printed only" in error
    assert not [path.name for path in scored.iterdir() if path.name.startswith("test")]


def test_the_presets_work(tiny, tmp_path, presets, capsys):
    preset = presets / "early_stopping.yaml"
    flat = ["--model.flat=true", "--model.first_share=0", "--trainer.max_epochs=9"]
    assert main(["fit", "--config", tiny, "--config", str(preset), *flat]) == 0
    assert "Phase second stops early" in capsys.readouterr().err
    (run,) = runs_of(tmp_path, "tiny+early_stopping")
    assert load_checkpoint(run / "checkpoints" / "resume.ckpt")["epoch"] == 3  # the first validation, and three more
    assert read_record(run)["finished"]


@pytest.mark.parametrize("experiment", ["tiny", "gilt_wikinews", "ccdclm_brown"])
def test_the_preset_for_one_gpu_composes_with_an_experiment(experiment, tiny, tmp_path, presets, capsys, monkeypatch):
    path, preset = presets.parent / f"{experiment}.yaml", str(presets / "gpu.yaml")
    chosen = {"trainer": {"accelerator": "gpu", "devices": 1, "precision": "bf16-mixed"}}
    if experiment == "tiny":  # a step, on the CPU
        precisions = []
        monkeypatch.setattr("torch.set_float32_matmul_precision", precisions.append)
        assert main(["fit", "--config", tiny, "--config", preset, "--trainer.accelerator=cpu"]) == 0
        (run,) = runs_of(tmp_path, "tiny+gpu")
        found, chosen["trainer"]["accelerator"] = yaml.safe_load((run / "config.yaml").read_text()), "cpu"
        assert read_record(run)["finished"]
        assert precisions == ["high"]
    else:
        assert main(["fit", "--config", str(path), "--config", preset, "--print_config"]) == 0
        found = yaml.safe_load(capsys.readouterr().out)
    assert found["float32_matmul_precision"] == "high"
    assert found["trainer"] | chosen["trainer"] == found["trainer"]


@pytest.mark.slow
def test_a_run_of_two_yaml_files_is_not_taken_for_one_of_the_first(run, tiny, tmp_path, capsys):
    (tmp_path / "wide.yaml").write_text("model: {init_args: {width: 9}}\n")
    assert main(["fit", "--config", tiny, "--config", "wide.yaml"]) == 0
    (both,) = runs_of(tmp_path, "tiny+wide")
    for arguments, expected in (["tiny"], run), (["tiny+wide"], both):
        capsys.readouterr()
        assert main(["test", "--run", *arguments]) == 0
        assert f"run\t{expected}\n" in capsys.readouterr().out
    assert main(["fit", "--config", tiny, "--config", "wide.yaml", "--resume"]) == 0
    assert len(runs_of(tmp_path, "tiny+wide")) == 1


def test_a_fast_dev_run_leaves_no_folder(tiny, tmp_path):
    assert main(["fit", "--config", tiny, "--trainer.fast_dev_run", "2"]) == 0
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_options_of_fit_are_read_by_other_verbs(run, tiny, capsys):
    assert main(["test", "--config", tiny, "--trainer.barebones", "false", "--compile"]) == 0
    assert "barebones: false" in (run / "config.yaml").read_text()
    assert main(["fit", "--config", tiny, "--print_config"]) == 0
    assert "default_root_dir" in capsys.readouterr().out


def test_a_run_that_is_gone_on_with_stays_whatever_fails(run, tiny, monkeypatch, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    def complain(self, stage):
        raise UserError("no parser at hand")

    monkeypatch.setattr("tests.training.tiny.TinyData.setup", complain)
    assert main(["fit", "--config", tiny, "--resume"]) == 2
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
