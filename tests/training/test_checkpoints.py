import os
import pickle
from pathlib import Path

import pytest
import torch

from depgen.errors import UserError
from depgen.training.checkpoints import CheckpointWriter, link_or_copy, load_checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "x.ckpt"
    CheckpointWriter().save_checkpoint(
        {"state_dict": {"w": torch.arange(2000.0)}, "hyper_parameters": {"width": 3}}, path
    )
    return path


def test_what_is_written_is_read(checkpoint):
    content = load_checkpoint(checkpoint)
    assert torch.equal(content["state_dict"]["w"], torch.arange(2000.0))
    assert load_checkpoint(checkpoint, mmap=True)["hyper_parameters"] == {"width": 3}
    assert [path.name for path in checkpoint.parent.iterdir()] == ["x.ckpt"]


@pytest.mark.parametrize("fraction", [0.0, 0.0003, 0.02, 0.5, 0.97, 0.9995])
@pytest.mark.parametrize("mmap", [False, True])
def test_a_cut_file_is_refused_by_name(checkpoint, fraction, mmap):
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(UserError, match=r"x\.ckpt is cut short or damaged \([\d,]+ bytes\)"):
        load_checkpoint(checkpoint, mmap=mmap)


def test_a_missing_file_and_a_file_without_weights_are_named(tmp_path):
    with pytest.raises(UserError, match=r"No checkpoint at .*y\.ckpt"):
        load_checkpoint(tmp_path / "y.ckpt")
    torch.save({"other": 1}, tmp_path / "z.ckpt")
    with pytest.raises(UserError, match=r"z\.ckpt is no checkpoint"):
        load_checkpoint(tmp_path / "z.ckpt")


class Malicious:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("variable", [None, "1"])
def test_code_in_a_file_is_never_run(tmp_path, monkeypatch, zipped, variable):
    path, proof = tmp_path / "m.ckpt", tmp_path / "proof"
    content = {"state_dict": {}, "extra": Malicious(proof)}
    if zipped:
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    if variable:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", variable)
    with pytest.raises(UserError, match=r"m\.ckpt holds objects .* running code"):
        load_checkpoint(path)
    assert not proof.exists()


def test_the_malicious_file_would_run_without_the_explicit_refusal(tmp_path, monkeypatch):
    path, proof = tmp_path / "m.ckpt", tmp_path / "proof"
    torch.save({"extra": Malicious(proof)}, path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.load(path)
    assert proof.exists()


def test_a_write_that_fails_leaves_the_old_file(checkpoint, monkeypatch):
    before = checkpoint.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"x\.ckpt can't be written .*No space left.*untouched"):
        CheckpointWriter().save_checkpoint({"state_dict": {}}, checkpoint)
    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == ["x.ckpt"]


def test_settings_that_could_not_be_read_back_are_refused_by_name(tmp_path):
    content = {
        "state_dict": {},
        "hyper_parameters": {"width": 3, "optimizer": lambda p: p, "net": torch.nn.Linear(1, 1)},
    }
    with pytest.raises(UserError, match="hyper_parameters can't be saved without code: optimizer, net"):
        CheckpointWriter().save_checkpoint(content, tmp_path / "x.ckpt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("linkable", [True, False])
def test_link_or_copy(tmp_path, monkeypatch, linkable):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("new")
    target.write_text("old")
    if not linkable:
        monkeypatch.setattr(os, "link", lambda *args: (_ for _ in ()).throw(OSError("no links here")))
    link_or_copy(source, target)
    assert target.read_text() == "new"
    assert source.samefile(target) == linkable
