"""A project folder with one invented table and its experiments, and results to put into it."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from depgen.reporting.results import Budget, DataSource, Result, result_path, row_folder, write_result

ORDER_COLUMN = {"key": "order", "header": "Accuracy", "higher_better": True, "test": "paired_bootstrap"}
"""How often a document is likelier than its shuffles, as tables of coherence have it."""
TABLE = """
table: toy
caption: Invented numbers
source: an invented paper, Table 1
seeds: [1, 2]
measures: [{class_path: depgen.reporting.measures.Texts, init_args: {prompt_sentences: 4, seed: 10}}]
columns:
  - {key: bleu1, header: B-1, higher_better: true, test: paired_t}
  - {key: selfbleu2, header: SB-2, higher_better: false, decimals: 1, test: paired_bootstrap}
  - {key: perplexity, header: PPL, higher_better: false, explanation: per token}
rows:
  - {name: Old, group: a, quoted: Someone 1999, values: {bleu1: 9.0}}
  - {name: Base, group: b, experiment: base_toy, values: {bleu1: 10.0, selfbleu2: 90.0}}
  - name: DM-Base
    group: b
    against: [Base]
    experiment: dm_toy
    values: {bleu1: 12.0, selfbleu2: 80.0}
    stars: [bleu1]
  - {name: "DM-Base, left chain", group: b, in_paper: false, experiment: chain_toy, note: no syntax}
  - {name: Later, group: b, values: {bleu1: 11.0}}
"""
EXPERIMENT = """
seed_everything: 1
model: {class_path: depgen.models.causal_lm.CausalLM}
data:
  class_path: depgen.data.text.TextData
  init_args:
    corpus: {class_path: depgen.data.generated.GeneratedStories, init_args: {train: 6, valid: 2, test: 3}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with `experiments/` and nothing made yet."""
    for variable in ("DEPGEN_RUNS", "DEPGEN_RESULTS", "DEPGEN_DATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    published = tmp_path / "experiments" / "tables"
    published.mkdir(parents=True)
    (published / "toy.yaml").write_text(TABLE)
    for name in ("base_toy", "dm_toy", "chain_toy"):
        (tmp_path / "experiments" / f"{name}.yaml").write_text(EXPERIMENT)
    small = tmp_path / "experiments" / "sizes" / "small"
    small.mkdir(parents=True)
    (small / "toy.yaml").write_text("seed_everything: 3\n")
    return tmp_path


def make_result(row: str, seed: int, metrics: dict[str, float], **changes: object) -> Result:
    """A small-size result of the toy table."""
    result = Result(
        table="toy",
        row=row,
        size="small",
        seed=seed,
        metrics=metrics,
        data=DataSource("Stories", reduced=True, train_documents=1000, fingerprint="f"),
        trees="left chain",
        parameters=2_500_000,
        budget=Budget(epochs=4, train_tokens=40_000),
        hardware="CPU (x86_64), 2 cores, 1 thread",
        date="2026-01-02",
        commit="0123456789ab",
        config_sha256="c0ffee",
        curve=((10_000.0, 90.0), (20_000.0, 70.0), (40_000.0, 75.0)),
    )
    return dataclasses.replace(result, **changes)  # type: ignore[arg-type]


OTHER_DATA = DataSource("Stories", reduced=True, train_documents=1000, fingerprint="of other files")
Store = Callable[..., Result]


@pytest.fixture
def store(project: Path) -> Store:
    """Writes a result, with per-item scores, where `depgen reproduce` would."""

    def write(
        row: str,
        seed: int,
        metrics: dict[str, float],
        items: dict[str, Sequence[float]] | None = None,
        **changes: object,
    ) -> Result:
        slug = row.replace(", ", "-").replace(" ", "-")
        paths = {}
        for name, scores in (items or {}).items():
            path = row_folder("toy", slug) / f"small-seed{seed}" / f"{name}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.asarray(scores))
            paths[name] = f"small-seed{seed}/{name}.npy"
        result = make_result(row, seed, metrics, items=paths, **changes)
        write_result(result, result_path("toy", slug, size="small", seed=seed))
        return result

    return write
