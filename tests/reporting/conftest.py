"""A project folder with one invented table and its experiments, and results to put into it."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from depgen.locations import runs_root, write_atomically
from depgen.reporting.measures.texts import FOLDER
from depgen.reporting.results import (
    Budget,
    DataSource,
    Result,
    Results,
    load_results,
    packed,
    result_path,
    write_result,
)
from depgen.reporting.table import Generation, TableDefinition, load_definition
from tests.reporting.commands import Commands

ORDER_COLUMN = {"key": "order", "header": "Accuracy", "higher_better": True, "test": "paired_bootstrap"}
"""How often a document is likelier than its shuffles, as tables of coherence have it."""
TABLE = """
table: toy
caption: Invented numbers
source: an invented paper, Table 1
seeds: [1, 2]
generation: {prompt_sentences: 4, seed: 10}
measures: [depgen.reporting.measures.texts.Texts]
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
  - {name: "DM-Base, left chain", group: b, in_paper: false, core_hours: {small: 0.5},
     experiment: chain_toy, note: no syntax}
  - {name: Later, group: b, values: {bleu1: 11.0}}
"""
EXPERIMENT = """
seed_everything: 1
trainer: {max_epochs: 2, accelerator: cpu, enable_progress_bar: false}
model:
  class_path: depgen.models.causal_lm.CausalLM
  init_args:
    backbone:
      class_path: depgen.backbones.transformer.Transformer
      init_args: {layers: 1, width: 8, attention_heads: 2, feedforward: 8}
data:
  class_path: depgen.data.text.TextData
  init_args:
    corpus:
      class_path: depgen.data.generated.GeneratedLanguage
      init_args: {train: 6, valid: 2, test: 3, sentences: [5, 5]}
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
        (tmp_path / "experiments" / f"{name}.yaml").write_text(f"{EXPERIMENT}small: {{seed_everything: 3}}\n")
    return tmp_path


@pytest.fixture(scope="session")
def kept(shared_folder: Path) -> Path:
    """Where a session keeps what it has trained and tested, one folder for all its processes."""
    folder = shared_folder / "kept"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def depgen(project: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Runs commands in the project, with the session's cache."""
    monkeypatch.setenv("DEPGEN_CACHE", str(kept / "cache"))
    return Commands(kept)


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


Store = Callable[..., Result]


@pytest.fixture
def store(project: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Writes a result, with per-item scores, where `depgen reproduce` would; never called out of date."""
    monkeypatch.setattr("depgen.reporting.pages._is_outdated", lambda definition, run: False)

    def write(
        row: str,
        seed: int,
        metrics: dict[str, float],
        items: dict[str, Sequence[float]] | None = None,
        **changes: object,
    ) -> Result:
        slug = row.replace(", ", "-").replace(" ", "-")
        held = {name: packed(np.asarray(scores, dtype=np.float64)) for name, scores in (items or {}).items()}
        result = make_result(row, seed, metrics, items=held, **changes)
        write_result(result, result_path("toy", slug, size="small", seed=seed))
        return result

    return write


def toy_results(definition: TableDefinition | None = None, *, local: bool = True) -> Results:
    """All results of the toy table at the small size, or of a changed one."""
    return load_results(definition or load_definition("toy"), size="small", local=local)


def first_column(**changes: object) -> TableDefinition:
    """The toy table with its first column alone, changed."""
    definition = load_definition("toy")
    return definition.model_copy(update={"columns": (definition.columns[0].model_copy(update=changes),)})


@pytest.fixture
def change(project: Path) -> Callable[[str, str], None]:
    """Changes the text of the toy table's file."""
    path = project / "experiments/tables/toy.yaml"

    def changed(old: str, new: str) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return changed


GENERATION = Generation(seed=10)
"""How texts of the toy table are made."""


def store_texts(
    result: Result,
    texts: Sequence[str],
    prompts: Sequence[str],
    *,
    generation: Generation = GENERATION,
    trees: Sequence[object] = (),
    **how: object,
) -> Path:
    """Writes a result that was measured on texts, with these texts of other settings in its run."""
    slug = result.row.replace(", ", "-").replace(" ", "-")
    result = dataclasses.replace(
        result, generation=generation, run=f"{slug}/{result.size}/seed{result.seed}/2026-01-01", weights_sha256="0" * 64
    )
    write_result(result, result_path(result.table, slug, size=result.size, seed=result.seed))
    name = dataclasses.replace(generation, **how).file_of(training_seed=result.seed, weights="0" * 64)
    file = runs_root() / result.run / FOLDER / name
    lines = [
        json.dumps({"prompt": prompt, "text": text, **({"structure": trees[place]} if trees else {})})
        for place, (prompt, text) in enumerate(zip(prompts, texts, strict=True))
    ]
    write_atomically(file, "".join(f"{line}\n" for line in lines))
    return file
