"""Models made on the spot: a pretrained one with random weights, and a run of a system that parses."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.cli import main
from tests.fixtures.kinds import named

END = "<|endoftext|>"


def configured(vocabulary_size: int, *, settings: Mapping[str, Any], **sizes: Any) -> PretrainedTransformer:
    """A network from scratch with settings of the library's configuration that are no arguments of ours."""
    with torch.device("meta"):
        found = PretrainedTransformer(vocabulary_size, **sizes).arguments_found["architecture"]
    return PretrainedTransformer(vocabulary_size, architecture=json.dumps({**json.loads(found), **settings}))


def write_gpt2(
    folder: Path,
    texts: Sequence[str] = ("the cat sat on the mat again",) * 4,
    *,
    pieces: int = 290,
    width: int = 16,
    layers: int = 2,
    attention_heads: int = 2,
) -> None:
    """A GPT-2 with random weights; its byte-level tokenizer learns from the texts and ends texts as GPT-2's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=pieces, initial_alphabet=alphabet, special_tokens=[END], show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    torch.manual_seed(0)
    sizes = {"n_embd": width, "n_layer": layers, "n_head": attention_heads, "n_positions": 1024}
    config = GPT2Config(vocab_size=bpe.get_vocab_size(), bos_token_id=0, eos_token_id=0, **sizes)
    GPT2LMHeadModel(config).save_pretrained(folder)
    bpe.save(str(folder / "tokenizer.json"))


def write_bert(folder: Path, words: Sequence[str], *, length: int = 128) -> None:
    """A BERT of three layers over whole words, with random weights, for texts of at most `length` tokens."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5 + len(words), hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=length, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=length).save_pretrained(folder)


def write_udgn_run(folder: Path, *, corpus: dict[str, object], experiment: str = "udgn") -> Path:
    """The folder of a run of a UDGN of a few thousand parameters, trained for some steps, under `folder`."""
    settings = {
        "trainer": {"max_epochs": 1, "accelerator": "cpu"},
        "model": named("models.udgn.UDGN", width=16, layers=1, attention_heads=2, head_size=4, parser_layers=1),
        "data": named(
            "data.text.TextData", corpus=corpus, vocabulary=named("data.vocabulary.WordVocabulary", masks=True)
        ),
    }
    return _trained(folder, settings, experiment)


def write_other_seed(run: Path, copy: Path, loss: float | None = None, *, seed: int = 1) -> Path:
    """A copy of a run of UDGN with other weights of its parser and this validation loss; None for none."""
    shutil.copytree(run, copy)
    content = torch.load(copy / "checkpoints/best.ckpt", weights_only=True)
    generator = torch.Generator().manual_seed(seed)
    for name, weights in content["state_dict"].items():
        if name.startswith("parser."):
            weights.normal_(std=0.5, generator=generator)
    content["callbacks"] = {} if loss is None else {"Phases": {"best": loss}}
    torch.save(content, copy / "checkpoints/best.ckpt")
    return copy


def without_reading(run: Path) -> None:
    """Leave out of a run's checkpoint how its data gives texts to its system, so that its settings say it."""
    path = run / "checkpoints/best.ckpt"
    content = torch.load(path, weights_only=True)
    for state in content.values():
        if isinstance(state, dict):
            state.pop("reading", None)
    torch.save(content, path)


def write_gpt2_run(folder: Path, *, corpus: dict[str, object], experiment: str = "gpt2", graphs: bool = False) -> Path:
    """The folder of a run of a GPT-2, or GiLT with `graphs`, of a few thousand parameters over pieces it learns."""
    sizes = {"layers": 2, "width": 16, "attention_heads": 2, "max_length": 256, "dropout": 0.1}
    backbone = named("backbones.pretrained.PretrainedTransformer", **sizes)
    vocabulary = named("data.vocabulary.SubwordPieces", size=300)
    data = {"corpus": corpus, "vocabulary": vocabulary}
    model = named("models.causal_lm.CausalLM", backbone=backbone)
    if graphs:
        options = {"backbone": backbone, "feature_size": 4, "beam_size": 2, "tape_layers": 1}
        model = named("models.gilt.GiLT", **options)
        data["annotator"] = {"class_path": "depgen.annotation.controls.LeftChain"}
    settings = {
        "trainer": {"max_epochs": 1, "accelerator": "cpu"},
        "model": model,
        "data": named("data.text.TextData", **data),
    }
    return _trained(folder, settings, experiment)


def _trained(folder: Path, settings: dict[str, object], experiment: str) -> Path:
    """The folder of a new run of these settings, under `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / f"{experiment}.yaml"
    config.write_text(yaml.safe_dump(settings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_RUNS", str(folder))
        assert main(["fit", "--config", str(config)]) == 0
    (run,) = (folder / experiment).iterdir()
    return run
