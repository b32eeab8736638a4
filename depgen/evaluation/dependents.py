"""Where a model's loss lies: on tokens that are future dependents of an earlier position, and on the others.

Dependency modelling (Eq. 1 of Yang & Wan, 2022) only ever predicts future dependents. What it teaches shows on them;
what it leaves to the second phase shows on the others.
"""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from depgen.data.batch import collate_tokens
from depgen.data.experiment import data_of
from depgen.data.sampler import TokenBudgetBatches
from depgen.data.text import CorpusData, EncodedSplit
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.left_to_right import LeftToRight
from depgen.training.runs import newest_run
from depgen.trees.future_dependents import future_dependents

SPLIT = "valid"
"""Test splits have no trees."""
TOKENS_PER_BATCH = 8192
"""How many are scored at once; no number depends on it."""


def dependent_loss(*, config: Path, run: str | None = None, device: str | None = None) -> str:
    """A run's loss on the validation split, in nats a token, by the kind of token; tab-separated.

    Kinds: future dependents of some earlier position under the experiment's trees, apart those of the position just
    before; the other words; the end of a text; all. Each document is read alone, in the experiments of streams too.

    Args:
        config: the experiment whose trees and corpus are used; its vocabulary is the run's.
        run: a run folder (its best checkpoint) or a checkpoint file; by default the experiment's newest run.
        device: cpu, cuda, …; by default a GPU where there is one.

    Raises:
        UserError: no such run or experiment, an experiment without trees, or a system that does not score words.
    """
    data = data_of(config)
    if not isinstance(data, CorpusData) or data.annotator is None or SPLIT not in data.trees_for:
        raise UserError(f"{config} gives its {SPLIT} split no trees: name an annotator under data.init_args.annotator.")
    trained = load_trained(run or newest_run(config.stem), device=device)
    if not isinstance(trained.model, LeftToRight):
        raise UserError(f"{trained.checkpoint} holds a {type(trained.model).__name__}, which gives words no scores.")
    data.use_vocabulary(trained.run / "vocabulary")
    split = data.split(SPLIT)
    assert split.heads is not None
    nll = token_losses(trained.model, split, tokens_per_batch=TOKENS_PER_BATCH)
    kinds = [future_dependent_targets(split[item].heads) for item in range(len(split))]  # type: ignore[arg-type]
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


def token_losses(model: LeftToRight, split: EncodedSplit, *, tokens_per_batch: int) -> list[Float[np.ndarray, " _"]]:
    """The negative log-likelihood (nats) of each target of each item, in full precision."""
    found: list[np.ndarray] = [np.empty(0)] * len(split)
    batches = TokenBudgetBatches(split.lengths, tokens_per_batch=tokens_per_batch, seed=0, epoch=0, shuffle=False)
    with torch.inference_mode():
        for share in batches:
            batch = collate_tokens(split.__getitems__(share)).to(model.device)
            nll = -model.log_probs(batch).double().cpu().numpy()
            for row, item in enumerate(batch.items.tolist()):
                found[item] = nll[row, : split.lengths[item]]
    return found
