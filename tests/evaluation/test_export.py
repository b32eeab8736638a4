"""A run begun from a pretrained model: it needs that model no more, and what it has learnt goes back to the library."""

import json
import shutil

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.data.vocabulary import encode
from depgen.evaluation.trained import load_trained
from tests.fixtures.kinds import named
from tests.invented_models import END, write_gpt2

WORDS = ["the", "cat", "sat", "on", "the", "mat", "again"]


def experiment():
    phases = {"dependency_modeling_share": 0.5}
    backbone = named("backbones.pretrained.PretrainedTransformer", pretrained="gpt2")
    corpus = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])
    pieces = named("data.vocabulary.SubwordPieces", tokenizer="gpt2", eos_token=END)
    data = {"corpus": corpus, "annotator": "depgen.annotation.controls.GoldTrees", "vocabulary": pieces}
    return {
        "seed_everything": 1,
        "trainer": {"accelerator": "cpu", "max_epochs": 2},
        "model": named("models.dmlm.DMLM", backbone=backbone, **phases),
        "data": named("data.text.TextData", **data, tokens_per_batch=1024),
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose pretrained model has since been deleted, and so have corpus tables and caches."""
    place = tmp_path_factory.mktemp("place")
    write_gpt2(place / "models" / "gpt2")
    (place / "x.yaml").write_text(yaml.safe_dump(experiment()))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MODELS", "RUNS", "CACHE"):
            patch.setenv(f"DEPGEN_{name}", str(place / name.lower()))
        assert main(["fit", "--config", str(place / "x.yaml")]) == 0
        shutil.rmtree(place / "models")
        yield next((place / "runs" / "x").iterdir())


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
