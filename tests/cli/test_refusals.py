"""What is wrong on a command line or in a run folder: exit code 2, a message that names it, and nothing is changed."""

import shlex
import shutil
from pathlib import Path

import pytest

from depgen.cli import main
from depgen.cli.requests import Request
from depgen.errors import UserError
from depgen.training.runs import locked_run

FIT, TEST, RESUME = "fit --config tiny.yaml", "test --config tiny.yaml", "fit --config tiny.yaml --resume"
PAIRS = "evaluate minimal-pairs --pairs a.txt"
COMMANDS = [
    ("tets", "There is no verb 'tets'. Did you mean 'test'?"),
    ("test", "depgen fit --config"),
    ("test --run=", "name of a run, found an empty one"),
    ("fit --resume ''", "name of a run, found an empty one"),
    ("score a.txt --run ''", "--run: expected a name, found an empty one"),
    ("score a.txt --output a.txt", "--output a.txt would overwrite the file that is read"),
    ("parse --input=a.txt --output ./a.txt", "--output a.txt would overwrite the file that is read"),
    ("generate --prompts a.txt --output=link.txt", "--output link.txt would overwrite the file"),
    (f"{PAIRS} --item_output a.txt", "--item_output a.txt would overwrite the file"),
    (f"{PAIRS} --output b --item_output b", "expected another file than that of --output"),
    ("fit --config none.yaml", "none.yaml"),
    ("fit --config {experiments}/transformer_controlled.yaml --size small", "has no size 'small'"),
    ("table demo --size paper --output {experiments}/transformer_controlled.yaml/table.md", "Choose another place"),
    (f"{FIT} --run x", "--run"),
    (f"{FIT} --model.widht 3", "widht"),
    (f"{FIT} --model.width many", "many"),
    (f"{FIT} --model tests.training.tiny.Missing", "tests.training.tiny.Missing"),
    (f"{FIT} --trainer.max_epoch 3", "--trainer.max_epoch 3"),
    (f"{FIT} --trainer.max_epochs 1", "trainer.max_epochs: expected 2 or more"),
    (f"{FIT} --trainer.accelerator abacus", "abacus"),
    (f"{FIT} --trainer.gradient_clip_val -1", "gradient_clip_val: expected a norm, at least 0, found -1"),
    (f"{FIT} --trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor=val/loss", "PhaseEarlyStopping"),
    (f"{FIT} --resume_every_n_steps 0", "resume_every_n_steps"),
]


def said_of(command, capsys):
    """What is said of a command that is refused."""
    presets = Path(__file__).parents[2] / "experiments"
    assert main(shlex.split(command.format(experiments=presets))) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert len(error.splitlines()) < 15
    return error


@pytest.mark.parametrize(("command", "named"), COMMANDS)
def test_a_command(tiny, tmp_path, capsys, command, named):
    (tmp_path / "a.txt").write_text("a b\n")
    (tmp_path / "link.txt").symlink_to("a.txt")
    assert named in said_of(command, capsys)
    assert (tmp_path / "a.txt").read_text() == "a b\n"


def nothing(run):
    """Leave the run as it is."""


def without_vocabulary(run):
    (run / "vocabulary.json").unlink()


def of_another_encoding(run):
    (run / "config.yaml").write_bytes("name: café".encode("latin-1"))


def cut(run):
    path = run / "checkpoints/best.ckpt"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


def named_in_yaml(name):
    return lambda run: Path("other.yaml").write_text(f"{name}: {run}\n")


RUNS = [
    (nothing, "predict", "TinyModel has nothing to predict"),
    (nothing, f"{RESUME} --model.width 16", "model.init_args.width: 16 given, 8 in the checkpoint"),
    (nothing, f"{RESUME} --trainer.max_epochs=1", "trainer.max_epochs: 1 given, 2 in the checkpoint"),
    (nothing, f"{RESUME} --trainer.precision=64-true", "None in the checkpoint"),
    (nothing, f"{RESUME} --trainer.gradient_clip_val=0.5", "None in the checkpoint"),
    (nothing, f"{RESUME} --trainer.accumulate_grad_batches=2", "1 in the checkpoint"),
    (nothing, f"{RESUME} tiny --config {{experiments}}/presets/early_stopping.yaml", "trainer.early_stopping."),
    (without_vocabulary, "test", "No vocabulary at"),
    (without_vocabulary, "fit --resume tiny", "No vocabulary at"),
    (of_another_encoding, TEST, "config.yaml: expected UTF-8"),
    (cut, "test", "best.ckpt can't be read"),
    (lambda run: shutil.copy(run / "checkpoints/best.ckpt", "b"), f"{TEST} --ckpt_path b", "in no run folder"),
    *(
        (named_in_yaml(name), f"{command} --config tiny.yaml --config other.yaml", name)
        for name in ("run", "resume", "ckpt_path")
        for command in ("fit", "test --run tiny")
    ),
]


@pytest.mark.parametrize(("prepare", "command", "named"), RUNS)
def test_a_run(run, tiny, tmp_path, capsys, prepare, command, named):
    prepare(run)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert named in said_of(command, capsys)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_run_that_another_process_trains(run, capsys):
    with locked_run(run):
        assert "is being trained by another process" in said_of(f"fit --resume {run} --trainer.max_epochs 3", capsys)
    assert main(["fit", "--resume", str(run)]) == 0


def test_a_folder_of_runs_that_cannot_be_written(tiny, tmp_path, capsys):
    (tmp_path / "runs").write_text("in the way")
    assert f"{tmp_path / 'runs'}: File exists." in said_of(FIT, capsys)


def test_a_size_without_an_experiment():
    with pytest.raises(UserError, match=r"--size small: .*--config"):
        Request.of("test", ["--size", "small", "--run", "x"])
