"""A stand-in for the command line: leaves the files that `depgen fit` and `depgen test` leave, and texts."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.locations import file_sha256
from depgen.training.experiment import Experiment


class Stub:
    """Remembers every call; `dies_in` names the verb that stops halfway, `items` what `test` keeps of each item."""

    def __init__(self, dies_in: str | None = None) -> None:
        self.calls: list[tuple[list[str], dict[str, str]]] = []
        self.written: list[dict[str, object]] = []
        self.dies_in = dies_in
        self.items: dict[str, list[float]] | None = None

    def __call__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.calls.append((list(arguments), dict(environment)))
        verb, options = arguments[0], options_in(arguments[1:])
        getattr(self, verb)(options, environment)
        if verb == self.dies_in:
            raise UserError(f"{verb} was killed")

    @property
    def verbs(self) -> list[str]:
        return [arguments[0] for arguments, _ in self.calls]

    def fit(self, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
        config, root = Path(options["--config"]), Path(environment["DEPGEN_RUNS"]).relative_to(Path.cwd())
        changed = {
            name[2:]: yaml.safe_load(value)
            for name, value in options.items()
            if name.startswith(("--model.", "--data."))
        }
        experiment = Experiment(config, options.get("--size", "paper"), changed)
        folder = root / options.get("--name", "")
        number = len(list(folder.glob("*/run.json")))
        run = Path(options.get("--resume", folder / f"2026-01-0{number + 1}"))
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        record = {
            "started": f"2026-01-0{number + 1}", "finished": None if self.dies_in == "fit" else "now", "seed": 2,
            "commit": "f" * 40, "parameters": 123, "hardware": {"gpus": [], "cpus": 2, "threads": 1, "machine": "x"},
        }  # fmt: skip
        (run / "run.json").write_text(json.dumps(record))
        (run / "config.yaml").write_text(yaml.safe_dump(experiment.settings))
        if "--trainer.precision" in options:
            change(run / "config.yaml", trainer={"precision": options["--trainer.precision"]})
        Vocabulary.of_words(["the", "."]).save(run / "vocabulary")
        (run / "metrics.csv").write_text(
            "step,epoch,train/loss,val/perplexity\n1,0,3.0,\n2,0,,90.0\n3,1,2.0,\n4,1,,80.0\n5,2,,\n"
        )
        for name in ("best.ckpt", "resume.ckpt"):
            (run / "checkpoints" / name).write_bytes(b"")

    def validate(self, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
        run = Path(options["--run"])
        leave_numbers(run / "validate.json", {"val/perplexity": 40.0})

    def test(self, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
        run = Path(options["--run"])
        perplexity = 42.0
        if self.items is not None:
            np.savez(run / "test_items.npz", **{name: np.asarray(values) for name, values in self.items.items()})
            perplexity = math.exp(sum(self.items["nll"]) / sum(self.items["tokens"]))
        leave_numbers(run / "test.json", {"test/perplexity": perplexity})

    def generate(self, *, prompts: Path | None, number: int, output: Path, **options: object) -> None:
        """Stands in for the function behind `depgen generate`."""
        self.written.append(options)
        count = number if prompts is None else len(prompts.read_text().splitlines())
        texts = [f"text {index}" if index % 2 == 0 else "" for index in range(count)]
        output.write_text("".join(f"{text}\n" for text in texts))


def options_in(arguments: Sequence[str]) -> dict[str, str]:
    """The values of options that are given as `--name value` or `--name=value`."""
    found, rest = {}, list(arguments)
    while rest:
        name, separator, value = rest.pop(0).partition("=")
        found[name] = value if separator else rest.pop(0)
    return found


def leave_numbers(path: Path, metrics: Mapping[str, float]) -> None:
    """Leave what `depgen validate` or `depgen test` writes of a run's best checkpoint."""
    best = path.parent / "checkpoints" / "best.ckpt"
    content = {"checkpoint": str(best), "checkpoint_sha256": file_sha256(best), "metrics": metrics}
    path.write_text(json.dumps(content))


def change(path: Path, **entries: object) -> None:
    """Change top-level entries of a YAML file."""
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | entries))
