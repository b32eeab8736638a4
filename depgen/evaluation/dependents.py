"""Where a model's loss lies: on tokens that are future dependents of an earlier position, and on the others.

Dependency modelling (Eq. 1 of Yang & Wan, 2022) only ever predicts future dependents. What it teaches shows on them;
what it leaves to the second phase shows on the others.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from depgen.data.experiment import data_of
from depgen.data.module import CorpusData
from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.evaluation.unit_scores import sequence_losses
from depgen.training.experiment import PAPER, Experiment, newest_of
from depgen.trees.future_dependents import future_dependents

SPLIT = "valid"
"""Test splits have no trees."""
TOKENS_PER_BATCH = 8192
"""How many are scored at once; no number depends on it."""


def dependent_loss(*, config: Path, size: str = PAPER, run: str | None = None, device: str | None = None) -> str:
    """A run's loss on the validation split, in nats a token, by the kind of token; tab-separated.

    Kinds: future dependents of some earlier position under the experiment's trees, apart those of the position just
    before; the other words; the end of a text; all. Each document is read alone, in the experiments of streams too.

    Args:
        config: the experiment whose trees and corpus are used; its vocabulary is the run's.
        size: of the experiment: paper or small.
        run: a run folder (its best checkpoint) or a checkpoint file; by default the experiment's newest run.
        device: cpu, cuda, …; by default a GPU where there is one.

    Raises:
        UserError: no such run or experiment, an experiment without trees, or a system without an exact likelihood.
    """
    experiment = Experiment(config, size)
    data = data_of(experiment)
    if not isinstance(data, CorpusData) or data.annotator is None or SPLIT not in data.trees_for:
        raise UserError(f"{config} gives its {SPLIT} split no trees: name an annotator under data.init_args.annotator.")
    trained = load_trained(run or newest_of(experiment), device=device)
    data.use_vocabulary(trained.run / VOCABULARY_FILE)
    split = data.split(SPLIT)
    items = [split[number] for number in range(len(split))]
    nll = sequence_losses(trained, [item.ids for item in items], tokens_per_batch=TOKENS_PER_BATCH)
    kinds = [future_dependent_targets(item.heads) for item in items]  # type: ignore[arg-type]
    losses, covered, adjacent = np.concatenate(nll), *(np.concatenate(each) for each in zip(*kinds, strict=True))
    end = np.zeros(len(losses), dtype=bool)
    end[np.cumsum(split.lengths) - 1] = True
    rows = {
        "future dependents": covered & ~end,
        "  of the position just before": adjacent & ~end,
        "other words": ~covered & ~end,
        "<eos>": end,
        "all": np.ones_like(end),
    }
    lines = ["tokens\tshare\tnats a token"]
    for name, chosen in rows.items():
        mean = f"{losses[chosen].mean():.4f}" if chosen.any() else "-"
        lines.append(f"{name}\t{chosen.mean():.3f}\t{mean}")
    return "\n".join([f"run\t{trained.run}", *lines])


def future_dependent_targets(
    heads: Int[np.ndarray, " words"],
) -> tuple[Bool[np.ndarray, " targets"], Bool[np.ndarray, " targets"]]:
    """Whether each target (the words and `<eos>`) is in Z of some earlier position, and of the one just before.

    >>> [each.tolist() for each in future_dependent_targets(np.array([2, 0, 2]))]
    [[False, True, True, True], [False, True, True, True]]
    """
    offsets, targets = future_dependents(heads)
    positions = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    covered, adjacent = np.zeros((2, len(heads) + 1), dtype=bool)
    covered[targets - 1] = True
    adjacent[targets[positions == targets - 1] - 1] = True
    return covered, adjacent
