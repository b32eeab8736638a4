"""A tiny oracle of generated stories, trained in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from depgen.cli import main
from depgen.data.generated import GeneratedLanguage

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
    backbone = {
        "class_path": "depgen.backbones.awd_lstm.AWDLSTM",
        "init_args": {
            "layers": 1, "embedding_size": 48, "hidden_size": 48, **{f"{k}_dropout": v for k, v in off.items()}
        },
    }  # fmt: skip
    stop = {"class_path": "depgen.training.phases.PhaseEarlyStopping", "init_args": {"patience": 1}}
    settings = {
        "seed_everything": 3,
        "trainer": {
            "max_epochs": 4,
            "enable_progress_bar": False,
            "accelerator": "cpu",
            "gradient_clip_val": 10.0,
            "callbacks": [stop],
        },
        "model": {
            "class_path": "depgen.models.causal_lm.CausalLM",
            "init_args": {
                "backbone": backbone,
                "optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.01}},
            },
        },
        "data": {
            "class_path": "depgen.data.text.TextData",
            "init_args": {
                "corpus": {"class_path": "depgen.data.generated.GeneratedLanguage", "init_args": SIZES},
                "tokens_per_batch": 512,
            },
        },
    }
    path.write_text(yaml.safe_dump(settings))
    return path
