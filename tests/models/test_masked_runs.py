"""Runs of masked language models: they are tested, and what a checkpoint holds parses by itself."""

from pathlib import Path

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.evaluation.trees.induced_trees import InducedTrees
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
SYSTEMS = {
    "udgn.UDGN": {"width": 16, "layers": 2, "attention_heads": 2, "head_size": 8, "parser_layers": 1, "tags": 2},
    "structformer.StructFormer": {"backbone": BACKBONE, "calibration": "batch"},
    "masked_transformer.MaskedTransformer": {"backbone": BACKBONE, "parses_by": [1, 0]},
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


def fit(system, options, place):
    settings = {
        "seed_everything": 1,
        "model": {"class_path": f"depgen.models.{system}", "init_args": options},
        "data": DATA,
        "trainer": {"accelerator": "cpu", "max_epochs": 1, "precision": "bf16-mixed", "gradient_clip_val": 0.25},
    }
    (place / "tiny.yaml").write_text(yaml.safe_dump(settings))
    return main(["fit", "--config", "tiny.yaml"])


def run_of(system, options, place):
    assert fit(system, options, place) == 0
    (run,) = (place / "runs" / "tiny").iterdir()
    return run


def test_a_masked_transformer_parses_by_the_attention_head_that_is_named(place, capsys):
    run = run_of("masked_transformer.MaskedTransformer", {"backbone": BACKBONE}, place)
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
    draw = ["draw", "0.conllu", "--run", str(run), "--attention_head", "[0,1]"]
    assert main([*draw, "--form", "as_is", "--output", "trees.html"]) == 0
    assert "3 of 3 heads right" in (place / "trees.html").read_text()
    assert main(["draw", "0.conllu", "1.conllu", "--attention_head", "[0,1]"]) == 2
    assert "name one by --run" in capsys.readouterr().err


def with_positions(system, number):
    if system == "udgn.UDGN":
        return {**SYSTEMS[system], "positions": True, "relative_bias": False, "max_length": number}
    causal = system == "causal_lm.CausalLM"
    own = {**BACKBONE["init_args"], "positions": "learned", "max_length": number + causal, "causal": causal}
    return {"backbone": {**BACKBONE, "init_args": own}}


@pytest.mark.parametrize("system", ["udgn.UDGN", "masked_transformer.MaskedTransformer", "causal_lm.CausalLM"])
def test_a_text_that_does_not_fit_is_named_before_anything_is_trained(system, place, capsys):
    texts = [(place / "data" / "ptb" / f"ptb.{split}.txt").read_text() for split in ("train", "valid")]
    longest = max(len(line.split()) for text in texts for line in text.splitlines())
    assert fit(system, with_positions(system, longest), place) == 0
    assert fit(system, with_positions(system, longest - 1), place) == 2
    message = capsys.readouterr().err
    assert f"expected at most {longest - 1} tokens, as many as this {system.partition('.')[2]} reads" in message
    assert f"found {longest}; " in message
