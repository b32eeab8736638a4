"""A run begun from a pretrained model: it needs that model no more, and what it has learnt goes back to the library."""

import json
import shutil

import pytest
import torch

from depgen.cli import main
from depgen.data.vocabulary import encode
from depgen.evaluation.trained import load_trained
from tests.fixtures.make import trained

WORDS = ["the", "cat", "sat", "on", "the", "mat", "again"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose pretrained model has since been deleted."""
    place = tmp_path_factory.mktemp("place")
    found = trained(place, "dm_gpt2")["dm_gpt2"]
    shutil.rmtree(place / "models")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MODELS", "RUNS", "CACHE"):
            patch.setenv(f"DEPGEN_{name}", str(place / name.lower()))
        yield found


@pytest.mark.slow
def test_the_run_needs_the_pretrained_model_no_more(run, tmp_path, capsys):
    for verb in (["test"], ["fit", "--resume"]):
        option = [] if verb[0] == "fit" else ["--run"]
        assert main([*verb, *option, str(run)]) == 0, capsys.readouterr().err
    said = capsys.readouterr()
    assert " given, " not in said.err
    numbers = dict(line.split("\t") for line in said.out.splitlines() if line.startswith("test/"))
    assert float(numbers["test/word_perplexity"]) > 2 * float(numbers["test/perplexity"])
    (tmp_path / "prompts.txt").write_text("the cat\nagain\n")
    prompts = ["--prompts", str(tmp_path / "prompts.txt"), "--max_new_tokens", "3"]
    assert main(["generate", "--run", str(run), *prompts]) == 0


@pytest.mark.slow
def test_the_library_loads_what_was_trained(run, tmp_path, capsys):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert main(["push", str(run), "--form", "transformers", "--to", str(tmp_path / "gpt2")]) == 0
    trained = load_trained(run, device="cpu")
    ids = encode(trained.vocabulary, WORDS).ids
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    assert tokenizer("".join(f" {word}" for word in WORDS))["input_ids"] == ids.tolist()
    assert tokenizer.eos_token_id == tokenizer.bos_token_id == trained.vocabulary.eos == 0
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "gpt2")
    assert again.config.eos_token_id == 0
    inputs = torch.tensor([[0, *ids.tolist()]])
    backbone = trained.model.backbone
    torch.testing.assert_close(again(inputs).logits, backbone(inputs).hidden @ backbone.output_weight.T)
    assert "What DMLM adds to its backbone is left out" in capsys.readouterr().err
    written = json.loads((tmp_path / "gpt2" / "config.json").read_text())
    assert written["architectures"] == ["GPT2LMHeadModel"]
