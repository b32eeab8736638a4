"""A tiny oracle of generated stories, trained in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from depgen.cli import main
from depgen.data.generated import GeneratedLanguage
from tests.fixtures.kinds import named

SIZES = {"train": 200, "valid": 30, "test": 60, "sentences": [5, 5]}
STORIES = GeneratedLanguage(**SIZES)


def in_process(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """`depgen` with these arguments, without a new process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        assert main(arguments) == 0


def texts(corpus: GeneratedLanguage, split: str) -> list[str]:
    """The stories of a split, one string each."""
    return [" ".join(document.words()) for document in corpus.documents(split)]


def write_experiment(path: Path) -> Path:
    """An oracle's experiment of a few seconds."""
    off = dict.fromkeys(("embedding", "input", "hidden", "output", "weight"), 0.0)
    backbone = named(
        "backbones.awd_lstm.AWDLSTM",
        layers=1,
        embedding_size=48,
        hidden_size=48,
        **{f"{k}_dropout": v for k, v in off.items()},
    )
    stop = named("training.phases.PhaseEarlyStopping", patience=1)
    settings = {
        "seed_everything": 3,
        "trainer": {
            "max_epochs": 4,
            "enable_progress_bar": False,
            "accelerator": "cpu",
            "gradient_clip_val": 10.0,
            "callbacks": [stop],
        },
        "model": named("models.causal_lm.CausalLM", backbone=backbone, optimizer=named("torch.optim.Adam", lr=0.01)),
        "data": named(
            "data.text.TextData", corpus=named("data.generated.GeneratedLanguage", **SIZES), tokens_per_batch=512
        ),
    }
    path.write_text(yaml.safe_dump(settings))
    return path
