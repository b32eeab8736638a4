import os
import pickle
from pathlib import Path

import pytest
import torch

from depgen.errors import UserError
from depgen.training.checkpoints import CheckpointWriter, load_checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "x.ckpt"
    CheckpointWriter().save_checkpoint(
        {"state_dict": {"w": torch.arange(2000.0)}, "hyper_parameters": {"width": 3}}, path
    )
    return path


@pytest.mark.parametrize("fraction", [0.0, 0.0003, 0.02, 0.5, 0.97, 0.9995])
@pytest.mark.parametrize("mmap", [False, True])
def test_a_cut_file_is_refused_by_name(checkpoint, fraction, mmap):
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(UserError, match=r"x\.ckpt can't be read"):
        load_checkpoint(checkpoint, mmap=mmap)


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
    with pytest.raises(UserError, match=r"m\.ckpt can't be read.* running code"):
        load_checkpoint(path)
    assert not proof.exists()


def test_a_write_that_fails_leaves_the_old_file(checkpoint, monkeypatch):
    before = checkpoint.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"x\.ckpt can't be written .*No space left"):
        CheckpointWriter().save_checkpoint({"state_dict": {}}, checkpoint)
    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == ["x.ckpt"]


def test_weights_that_hold_nan_leave_the_old_file(checkpoint):
    before = checkpoint.read_bytes()
    with pytest.raises(UserError, match=r"1 of 2 weights hold NaN \(w\)"):
        CheckpointWriter().save_checkpoint(
            {"state_dict": {"w": torch.tensor([1.0, float("nan")]), "n": torch.tensor(3)}}, checkpoint
        )
    assert checkpoint.read_bytes() == before
