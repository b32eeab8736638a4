"""The verb `train-union`: a UNION scorer trained on a corpus of stories, once, into the cache."""

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import lightning as L

from depgen.data.corpus import Split
from depgen.errors import UserError
from depgen.evaluation.pretrained import ModelWithTokenizer
from depgen.evaluation.union.encoders import EncoderSource
from depgen.evaluation.union.network import ENCODER
from depgen.evaluation.union.scoring import DESCRIPTION, UnionScorer, areas, find_scorer, read_scorer, scorer_folder
from depgen.evaluation.union.stories import UnionData, text_of
from depgen.evaluation.union.training import UnionModule, UnionTraining, fit
from depgen.locations import folder_written_whole, lines_sha256, made_once, write_atomically
from depgen.seeds import checked_seed

HELD_OUT: tuple[Split, ...] = ("valid", "test")

logger = logging.getLogger(__name__)


def train_union(
    data: UnionData,
    encoder: EncoderSource,
    training: UnionTraining,
    name: str,
    seed: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> str:
    """Train a UNION scorer into `$DEPGEN_CACHE/union/<name>`, unless it lies there; what it can do, ready to print.

    The same command continues a training that was stopped.

    Args:
        data: the stories, and how they are corrupted.
        encoder: what is trained: a pretrained encoder, or a small one from scratch.
        training: how.
        name: of the folder; `evaluate-text --union` and tables name the scorer by it.
        seed: of weights, batches and the training's negative samples.
        overwrite: replace a scorer of that name that was trained otherwise.
        progress: whether a bar shows on a terminal how far an epoch has come.

    Raises:
        UserError: no corpus, tagger or encoder; another scorer has that name; a seed out of range.
        KeyboardInterrupt: stopped by Ctrl-C; the state is kept.
    """
    folder = scorer_folder(name)
    fingerprint = training_fingerprint(data, encoder, training, checked_seed(seed))

    def train() -> None:
        work = folder.with_name(f".{folder.name}.{fingerprint[:12]}")
        L.seed_everything(seed, verbose=False)
        texts = [text_of(story) for story in data.stories("train")]
        built = encoder.build(texts, max_length=data.max_length)
        data.tokenizer = built.tokenizer
        module = UnionModule(built, training)
        logger.info("%s; %s parameters", built.name, f"{sum(each.numel() for each in module.network.parameters()):,}")
        description = {
            "encoder": built.name, "corpus": data.corpus.name, "train_stories": len(texts),
            "tagger": data.tagger.method, "pooling": training.pooling, "max_length": data.max_length, "seed": seed,
            "encoder_options": encoder.options(), "training": training.options(), "fingerprint": fingerprint,
        }  # fmt: skip
        seconds = fit(module, data, work, seed=seed, progress=progress and sys.stderr.isatty())
        description["training_seconds"] = round(seconds, 1)
        save_scorer(folder, module, built, data, description)
        shutil.rmtree(work)

    made = made_once(folder, train, is_made=lambda: not overwrite and _is_trained(folder, fingerprint))
    return report(folder) if made else f"{folder} is up to date.\n{report(folder)}"


def _is_trained(folder: Path, fingerprint: str) -> bool:
    """Whether the scorer lies there.

    Raises:
        UserError: one that was trained otherwise does.
    """
    if find_scorer(str(folder.absolute())) is None:
        return False
    if read_scorer(folder).get("fingerprint") != fingerprint:
        raise UserError(
            f"{folder} holds a scorer that was trained otherwise (other stories, encoder, options or seed). "
            "Choose another --name, or replace it by --overwrite."
        )
    return True


def training_fingerprint(data: UnionData, encoder: EncoderSource, training: UnionTraining, seed: int) -> str:
    """A digest of the stories, of how they are corrupted, of the encoder, the options and the seed."""
    options = [type(encoder).__name__, encoder.options(), training.options(), seed]
    return lines_sha256([data.fingerprint(), json.dumps(options, sort_keys=True)])


def save_scorer(
    folder: Path, module: UnionModule, encoder: ModelWithTokenizer, data: UnionData, description: dict[str, Any]
) -> None:
    """Test the scorer and write it with what it can do; the folder appears, or is replaced, all at once."""
    with folder_written_whole(folder) as part:
        module.network.save(part)
        encoder.tokenizer.save_pretrained(part / ENCODER)
        scorer = UnionScorer(module.network.eval(), encoder.tokenizer, data.max_length, str(module.device))
        found = {split: areas(scorer, data.pairs(split)) for split in HELD_OUT}
        write_atomically(part / DESCRIPTION, json.dumps({**description, "auc": found}, indent=2) + "\n")


def report(folder: Path) -> str:
    """What is known of a scorer: encoder, data, and the areas under the curve by what was done to a story."""
    found = read_scorer(folder)
    areas_of = found["auc"]
    width = max(len(kind) for split in areas_of.values() for kind in split)
    lines = [
        f"{found['encoder']}, {found['corpus']} ({found['train_stories']:,} stories): {folder}",
        f"{'AUC, human against':<{width}}{''.join(f'{split:>8}' for split in areas_of)}",
    ]
    for kind in dict.fromkeys(kind for split in areas_of.values() for kind in split):
        cells = "".join(f"{split[kind]:>8.4f}" if kind in split else f"{'none':>8}" for split in areas_of.values())
        lines.append(f"{kind:<{width}}{cells}")
    lines.append(f"trained in {found['training_seconds']:,.0f} s")
    return "\n".join(lines)
