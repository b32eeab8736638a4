"""Runs of masked language models: they are tested, and what a checkpoint holds parses by itself."""

import json

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.evaluation.trained import load_trained
from depgen.masked_language_model import word_mask
from tests.invented_data import write_corpora
from tests.models.encoders import SHAPE

BACKBONE = {
    "class_path": "depgen.backbones.transformer.Transformer",
    "init_args": {"layers": 2, "width": 16, "attention_heads": 2, "feedforward": 32, "max_length": 60, **SHAPE},
}
SYSTEMS = {
    "udgn.UDGN": {"width": 16, "layers": 2, "attention_heads": 2, "head_size": 8, "parser_layers": 1, "tags": 2},
    "structformer.StructFormer": {"backbone": BACKBONE, "calibration": "batch", "parser_kernel": 3},
    "masked_transformer.MaskedTransformer": {"backbone": BACKBONE, "parses_by": [1, 0]},
}
DATA = {
    "class_path": "depgen.data.text.TextData",
    "init_args": {
        "corpus": {
            "class_path": "depgen.data.text_lines.TextLines",
            "init_args": {"folder": "ptb", **{split: f"ptb.{split}.txt" for split in ("train", "valid", "test")}},
        },
        "vocabulary": {
            "class_path": "depgen.data.vocabulary.WordVocabulary",
            "init_args": {"min_count": 1, "masks": True},
        },
        "tokens_per_batch": 64,
    },
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    write_corpora(tmp_path / "data")
    for name in ("data", "cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_checkpoint_holds_the_system_that_was_trained(system, place, capsys):
    settings = {
        "seed_everything": 1,
        "model": {"class_path": f"depgen.models.{system}", "init_args": SYSTEMS[system]},
        "data": DATA,
        "trainer": {"accelerator": "cpu", "max_epochs": 1, "precision": "bf16-mixed", "gradient_clip_val": 0.25},
    }
    (place / "tiny.yaml").write_text(yaml.safe_dump(settings))
    assert main(["fit", "--config", "tiny.yaml"]) == 0, capsys.readouterr().err
    assert main(["test"]) == 0, capsys.readouterr().err
    (run,) = (place / "runs" / "tiny").iterdir()
    metrics = json.loads((run / "test.json").read_text())["metrics"]
    assert 1 < metrics["test/perplexity"] < 1000

    trained = load_trained(run)
    for name, value in SYSTEMS[system].items():
        if name != "backbone":
            assert trained.model.hparams[name] in (value, tuple(value) if isinstance(value, list) else value)
    state = torch.load(trained.checkpoint, weights_only=True)["state_dict"]
    assert all(torch.equal(value, state[name]) for name, value in trained.model.state_dict().items() if name in state)
    tokens, lengths = torch.tensor([[5, 6, 7, 8], [9, 5, 1, 1]]), torch.tensor([4, 2])
    with torch.no_grad():
        p = trained.model.head_probabilities(tokens, lengths)
    words = word_mask(tokens, lengths)
    assert (p[~(words[:, :, None] & words[:, None, :])] == 0).all()
    assert (p.sum(2)[words] > 0).all()
    assert (p.sum(2) < 1 + 1e-5).all()
