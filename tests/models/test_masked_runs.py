"""A run of a masked Transformer parses by the attention head that is named."""

from pathlib import Path

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.evaluation.induced import InducedTrees
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Sentence
from tests.invented_data import write_corpora
from tests.models.encoders import SHAPE

pytestmark = pytest.mark.slow

INIT = {"init": "depgen.backbones.transformer.StructFormerInit"}
BACKBONE = {
    "class_path": "depgen.backbones.transformer.Transformer",
    "init_args": {"layers": 2, "width": 16, "attention_heads": 2, "feedforward": 32, "max_length": 60, **SHAPE, **INIT},
}
DATA = {
    "class_path": "depgen.data.text.TextData",
    "init_args": {
        "corpus": {
            "class_path": "depgen.data.corpora.Ptb",
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


@pytest.fixture
def run(place):
    model = {"class_path": "depgen.models.masked_transformer.MaskedTransformer", "init_args": {"backbone": BACKBONE}}
    trainer = {"accelerator": "cpu", "max_epochs": 1, "precision": "bf16-mixed", "gradient_clip_val": 0.25}
    (place / "tiny.yaml").write_text(yaml.safe_dump({"model": model, "data": DATA, "trainer": trainer}))
    assert main(["fit", "--config", "tiny.yaml"]) == 0
    return next((place / "runs" / "tiny").iterdir())


def test_a_masked_transformer_parses_by_the_attention_head_that_is_named(run, place, capsys):
    (place / "text.txt").write_text("the market fell\nno one saw it\n")
    parse = ["parse", "--input", "text.txt", "--run", str(run), "--form", "as_is"]
    assert main(parse) == 2
    assert "take --attention_head [layer,head]" in capsys.readouterr().err
    assert main([*parse, "--attention_head", "[2,0]"]) == 2
    assert "expected [layer, head] below [2, 2] and not negative, found [2, 0]" in capsys.readouterr().err
    fingerprints = set()
    sentences = [Sentence(tuple(line.split())) for line in (place / "text.txt").read_text().splitlines()]
    for layer in range(2):
        assert main([*parse, "--attention_head", f"[{layer},1]", "--output", f"{layer}.conllu"]) == 0
        trees = InducedTrees(str(run), form="as_is", attention_head=(layer, 1))
        fingerprints.add(trees.fingerprint())
        parsed = [each.heads for document in read_conllu(Path(f"{layer}.conllu")) for each in document.sentences]
        assert parsed == [sentence.heads for sentence in trees.annotate(sentences)]
        network = trees.trained.model
        network.parse_by((layer, 1))
        probabilities = network.head_probabilities(torch.tensor([[5, 6, 7]]), torch.tensor([3]))
        read = network.encode(torch.tensor([[5, 6, 7]]), torch.tensor([3]), attention=True)
        weights = read.attention[layer].after[:, 1]
        assert torch.equal(probabilities, weights.masked_fill(torch.eye(3).bool(), 0))
        assert trees.scheme.endswith(f"(tree, layer {layer} head 1)")
    assert len(fingerprints) == 2
