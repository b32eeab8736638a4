"""What attacks are made on: small runs, one of them of a class of one's own, and modules that leave a mark."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from depgen.cli import main
from tests.fixtures.kinds import ADAM, DOCUMENT_WORDS, MASKED_WORDS, WORDS, Settings, experiment, named

STORIES = named("data.generated.GeneratedLanguage", train=4, valid=2, test=2, sentences=[5, 5])
SENTENCES = named("data.corpus.WithSteps", corpus=STORIES, steps=[named("data.steps.SingleSentences")])
TRANSFORMER = named("backbones.transformer.Transformer", layers=1, width=8, attention_heads=2, feedforward=8)
CONTEXT = named("models.dclm.AttentionContext", size=8)
LM = named("models.causal_lm.CausalLM", backbone=TRANSFORMER, optimizer=ADAM)
SIZES = {"layers": 1, "width": 8, "attention_heads": 2, "head_size": 4, "parser_layers": 1, "tags": 2}
UDGN = named("models.udgn.UDGN", optimizer=ADAM, evaluation_masks=1, **SIZES)
DCLM = named("models.dclm.DCLM", embedding_size=8, optimizer=ADAM, context=CONTEXT)


def text(vocabulary: Settings = WORDS, corpus: Settings = STORIES) -> Settings:
    """Stories, or their sentences, in batches of some 200 tokens."""
    return named("data.text.TextData", corpus=corpus, vocabulary=vocabulary, tokens_per_batch=200)


DOCUMENTS = named("data.documents.DocumentData", corpus=STORIES, vocabulary=DOCUMENT_WORDS, sentences_per_segment=5)
EXPERIMENTS = {
    "lm": experiment(LM, text(), 1),
    "udgn": experiment(UDGN, text(MASKED_WORDS, SENTENCES), 1),
    "dclm": experiment(DCLM, DOCUMENTS, 1),
    "own": experiment({**LM, "class_path": "own_systems.OwnLM"}, text(), 1),
}
OWN_SYSTEMS = "from depgen.models.causal_lm import CausalLM\n\n\nclass OwnLM(CausalLM):\n    pass\n"
HOSTILE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n\n\nclass Hostile:\n    pass\n"
SENTENCE = "Anna had a cat .\n"


def make_home(home: Path) -> None:
    """A folder with all that the attacks begin from: two runs, experiments, a text, modules."""
    (home / "own_systems.py").write_text(OWN_SYSTEMS)
    (home / "hostile.py").write_text(HOSTILE)
    (home / "text.txt").write_text(SENTENCE)
    (home / "text.conllu").write_text("1\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    for name, settings in EXPERIMENTS.items():
        (home / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    for name in ("lm", "udgn", "own"):
        assert main(["fit", "--config", str(home / f"{name}.yaml")]) == 0
        (run,) = (home / "runs" / name).iterdir()
        run.rename(home / "runs" / name / "run")


@dataclass(frozen=True)
class Place:
    """A copy of that folder, to be damaged."""

    home: Path

    def run(self, name: str = "lm") -> Path:
        """A run folder."""
        return self.home / "runs" / name / "run"

    def best(self, name: str = "lm") -> Path:
        """Its best checkpoint."""
        return self.run(name) / "checkpoints" / "best.ckpt"

    def settings(self, name: str = "lm") -> Any:
        """The content of its configuration."""
        return yaml.safe_load((self.run(name) / "config.yaml").read_text())

    def configure(self, settings: Any, name: str = "lm") -> None:
        """Edit its configuration."""
        (self.run(name) / "config.yaml").write_text(yaml.safe_dump(settings))

    def record(self, **entries: Any) -> None:
        """Edit `run.json` of the run of `lm`."""
        path = self.run() / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))

    def checkpoint(self, change: Any, name: str = "lm", file: str = "best.ckpt") -> None:
        """Change the content of a checkpoint."""
        path = self.run(name) / "checkpoints" / file
        content = torch.load(path, weights_only=True)
        change(content)
        path.unlink()
        torch.save(content, path)

    def experiment(self, settings: Any) -> str:
        """The path of an experiment of one's own."""
        path = self.home / "mine.yaml"
        path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
        return str(path)

    @property
    def ran(self) -> bool:
        """Whether the hostile module was imported, or a hostile pickle loaded."""
        return bool(list(self.home.rglob("*.ran")))


def copied(source: Path, target: Path) -> Place:
    """A copy of a folder of `make_home`."""
    shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
    return Place(target)
