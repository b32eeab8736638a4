import json
import shutil
from pathlib import Path

import pytest
import torch

from depgen.evaluation.pretrained import load_pretrained
from depgen.evaluation.text.outcome import NotComputedError


def reason(*args, **kwargs):
    with pytest.raises(NotComputedError) as refused:
        load_pretrained(*args, **kwargs)
    return str(refused.value)


def copy(folder, target):
    return Path(shutil.copytree(folder, target / folder.name))


def test_a_folder_is_loaded_in_float32_and_evaluation_mode(tiny_gpt2, tmp_path):
    from transformers import GPT2LMHeadModel

    half = copy(tiny_gpt2, tmp_path)
    GPT2LMHeadModel.from_pretrained(half).half().save_pretrained(half)
    loaded = load_pretrained(str(half), "causal")
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert not loaded.model.training
    assert loaded.name == "tiny-gpt2"


def test_reasons_for_folders(tiny_gpt2, tmp_path):
    assert "no such folder" in reason(str(tmp_path / "absent"), "causal")
    assert "no such folder" in reason("./absent", "causal")
    assert "no config.json" in reason(str(tmp_path), "causal")
    bare = copy(tiny_gpt2, tmp_path)
    (bare / "model.safetensors").unlink()
    assert reason(str(bare), "causal").startswith(f"no weights at {bare}")


def test_damaged_weights_are_a_reason(tiny_gpt2, tmp_path):
    cut = copy(tiny_gpt2, tmp_path)
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "damaged" in reason(str(cut), "causal")


@pytest.mark.parametrize(("change", "said"), [
    ({"n_embd": 8}, "config.json does not fit the weights"), ({"n_embd": "16"}, "expected int, got str"),
])  # fmt: skip
def test_a_configuration_that_does_not_fit_is_a_reason(tiny_gpt2, tmp_path, change, said):
    path = copy(tiny_gpt2, tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert said in reason(str(path.parent), "causal")


def test_weights_that_the_checkpoint_lacks_are_not_made_up(tiny_bert):
    assert "the checkpoint lacks" in reason(str(tiny_bert), "causal")


def test_a_hub_name_is_not_fetched_unasked(monkeypatch):
    monkeypatch.setattr("socket.socket.connect", None)
    found = reason("depgen-tests/no-such-model", "causal")
    assert found.startswith("no weights at depgen-tests/no-such-model")
    assert "hf download depgen-tests/no-such-model" in found
