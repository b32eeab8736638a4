"""The verb `push`: a run as a folder of plain files with a model card, for a colleague, the hub, or `transformers`."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from depgen import __version__
from depgen.backbones.pretrained import PretrainedTransformer
from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError
from depgen.evaluation.over_trees import ScoresTrees
from depgen.evaluation.trained import Trained, load_trained
from depgen.hub import TOKENIZER_FILE, one_line
from depgen.language_models.left_to_right import LeftToRight
from depgen.locations import folder_written_whole
from depgen.models.causal_lm import CausalLM
from depgen.training.checkpoints import load_checkpoint, write_weights
from depgen.training.evaluated import NUMBERS, read_numbers
from depgen.training.runs import WEIGHTS, read_record, update_record

logger = logging.getLogger(__name__)

Form = Literal["run", "transformers"]
_OWN = ("command", "hardware")
"""What of `run.json` concerns the user's machine, and stays there."""
_CARD = """---
library_name: depgen
tags: [{tags}]
# license: name the licence that you choose; weights of licensed text may not be yours to share
---
# {name}

A `{system}`, trained by depgen {version}.

## Use

```python
import depgen

system = depgen.load({place!r})
{example}
```

`depgen test --run FOLDER`, `depgen score` and the other verbs read the folder as they read a run. Weights
(`{weights}`) hold tensors and text, no code.

## Training

| | |
|---|---|
{training}

`config.yaml` holds all settings.

## Measures

{measures}
"""


_SCORE = 'print(system.score("a sentence of words"))'
_WRITE = "print(system.generate(number=1, max_new_tokens=20).text[0])"
"""What systems do that give no probability to a text without its tree."""


def push(
    run: str | None = None, *, to: Path, form: Form = "run", repo: str | None = None, private: bool = False
) -> str:
    """Write a run's best weights, settings, vocabulary and a model card into a folder, and upload it to `--repo`.

    `depgen.load(FOLDER)` loads what is written. The card names no licence: add the one that you choose.

    Args:
        run: a run folder or an experiment; by default the newest run.
        to: the folder to write, which must be empty if it exists.
        form: what is written: a `run` for depgen, with a model card; or, for `transformers`, its backbone and tokenizer
            alone, which `AutoModelForCausalLM.from_pretrained(FOLDER)` loads.
        repo: `owner/name` on the Hugging Face hub to upload the folder to; needs a token (`hf auth login`, HF_TOKEN).
        private: make the repository private where it does not exist yet.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UserError(f"{to.absolute()} holds something already: name a folder that is empty or not there yet.")
    trained = load_trained(run, device="cpu")
    with folder_written_whole(to.absolute()) as part:
        if form == "run":
            _write_run(trained, part, place=repo or to.name)
        else:
            _write_backbone(trained, part)
    uploaded = "" if repo is None else f"\nuploaded\t{_upload(to, repo, private=private)}"
    return f"folder\t{to.absolute()}{uploaded}"


def _write_run(trained: Trained, to: Path, *, place: str) -> None:
    source = trained.run
    for name in ("config.yaml", "run.json", VOCABULARY_FILE):
        if (source / name).is_symlink():
            raise UserError(
                f"{source / name} is a link, which may lead to what nobody wants to share: put a file there."
            )
    record = {name: value for name, value in read_record(source).items() if name not in _OWN}
    write_weights(load_checkpoint(trained.checkpoint, mmap=True), to / WEIGHTS)
    for name in ("config.yaml", VOCABULARY_FILE):
        shutil.copyfile(source / name, to / name)
    update_record(to, record)
    numbers = source / NUMBERS["test"]
    metrics = read_numbers(numbers)["metrics"] if numbers.is_file() else {}
    (to / "README.md").write_text(model_card(type(trained.model), record, metrics, place=place), encoding="utf-8")
    load_trained(to, device="cpu")  # what is written loads


def _write_backbone(trained: Trained, to: Path) -> None:
    """Write the backbone and the tokenizer of a run in the library's own form."""
    model, vocabulary = trained.model, trained.vocabulary
    backbone = getattr(model, "backbone", model)
    if not isinstance(backbone, PretrainedTransformer):
        kind = type(backbone).__name__
        raise UserError(f"{trained.checkpoint} is a {kind}, which transformers can't load: only its own networks are.")
    if not isinstance(model, CausalLM):
        logger.warning(
            "What %s adds to its backbone is left out: transformers has no such model.", type(model).__name__
        )
    backbone.save(to, eos=vocabulary.eos)
    (to / TOKENIZER_FILE).write_text(vocabulary.tokenizer, encoding="utf-8")
    if vocabulary.splits_words:
        from transformers import PreTrainedTokenizerFast

        end, unknown = vocabulary.specials["eos"], vocabulary.specials.get("unk")
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(to / TOKENIZER_FILE), bos_token=end, eos_token=end, unk_token=unknown
        )
        tokenizer.save_pretrained(to)


def model_card(system: type, record: Mapping[str, Any], metrics: Mapping[str, float], *, place: str) -> str:
    """The README of a pushed run: Markdown with the hub's YAML above it, in which the licence is left to the user.

    Args:
        system: its class.
        record: of `run.json`.
        metrics: on the test split; none where the run was not tested.
        place: what `depgen.load` is called with.
    """
    data = record.get("data") or {}
    reduced = ", fewer than published" if data.get("reduced") else ""
    facts = {
        "System": f"`{system.__module__}.{system.__qualname__}`",
        "Data": f"{data.get('corpus')}, {data.get('train_documents')} training documents{reduced}",
        "Fingerprint of the data": str(data.get("fingerprint"))[:16],
        "Dependency trees": record.get("trees") or "none",
        "Parameters": record.get("parameters"),
        "Seed": record.get("seed"),
        "Optimiser steps": record.get("steps"),
        "depgen, commit": f"{__version__}, {str(record.get('commit'))[:12]}",
    }
    measured = [f"| {name.removeprefix('test/')} | {value:.6g} |" for name, value in metrics.items()]
    tags = ["depgen", "dependency-grammar", system.__name__]
    return _CARD.format(
        tags=", ".join([*tags, "text-generation"] if issubclass(system, LeftToRight) else tags),
        name=record.get("experiment") or system.__name__,
        system=system.__name__,
        version=__version__,
        place=place,
        weights=WEIGHTS,
        example=_WRITE if issubclass(system, ScoresTrees) else _SCORE,
        training="\n".join(f"| {name} | {value} |" for name, value in facts.items() if value is not None),
        measures="\n".join(["On the whole test split.", "", "| measure | value |", "|---|---|", *measured])
        if measured
        else "None yet: `depgen test` measures a run on its test split.",
    )


def _upload(folder: Path, repo: str, *, private: bool) -> str:
    """The address of the repository that now holds the folder."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    api = HfApi(token=True)
    try:
        address = api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message=f"Add a run of depgen {__version__}")
    except (HTTPError, OSError, ValueError) as error:  # an OSError without a token, a ValueError of a name
        raise UserError(f"{folder} is written, but not uploaded to {repo}: {one_line(error)}") from error
    return str(address)
