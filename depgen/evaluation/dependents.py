"""Where a model's loss lies: on tokens that are future dependents of an earlier position, and on the others.

Dependency modelling (Eq. 1 of Yang & Wan, 2022) only ever predicts future dependents. What it teaches shows on them;
what it leaves to the second phase shows on the others.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from depgen.data.experiment import data_of
from depgen.data.module import CorpusData
from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError
from depgen.evaluation.measure import Measured
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import sequence_losses
from depgen.models.dmlm import future_dependents

SPLIT = "valid"
"""Test splits have no trees."""


@dataclass(frozen=True)
class DependentOptions:
    """The options of `dependent-loss`.

    Attributes:
        config: the experiment whose trees and corpus are used, such as that of a system which learns from trees; by
            default the run's own. The vocabulary is the run's.
    """

    config: Path | None = None


def dependent_loss(system: Trained, options: DependentOptions = DependentOptions()) -> Measured:
    """A run's loss on the validation split, in nats a token, by the kind of token.

    An item is a token of a document: its `nll`, whether it is `covered` (a future dependent of some earlier position),
    and whether it is the `end` of its text. Each document is read alone, in the experiments of streams too.
    """
    config = options.config or system.run / "config.yaml"
    data = data_of(config)
    if not isinstance(data, CorpusData) or data.annotator is None or SPLIT not in data.trees_for:
        raise UserError(
            f"{config} gives its {SPLIT} split no trees: name an experiment by --config that has an annotator under "
            "data.init_args.annotator."
        )
    data.use_vocabulary(system.run / VOCABULARY_FILE)
    split = data.split(SPLIT)
    documents = [split[number] for number in range(len(split))]
    nll = sequence_losses(system, [document.ids for document in documents])
    covered = np.concatenate([covered_targets(document.heads) for document in documents])  # type: ignore[arg-type]
    lengths = list(map(len, nll))
    items = pd.DataFrame(
        {
            "document": np.repeat(np.arange(1, len(nll) + 1), lengths),
            "token": np.concatenate([np.arange(1, length + 1) for length in lengths]),
            "nll": np.concatenate(nll),
            "covered": covered,
        }
    )
    items["end"] = ~items["document"].duplicated(keep="last")
    chosen = {
        "future dependents": covered & ~items["end"],
        "other words": ~covered & ~items["end"],
        "<eos>": items["end"],
        "all": np.ones(len(items), dtype=bool),
    }
    rows = [
        {"level": "overall" if name == "all" else "kind", "name": name, "tokens": int(own.sum()), "share": own.mean(),
         "nats": items.loc[own, "nll"].mean()}
        for name, own in chosen.items()
    ]  # fmt: skip
    return Measured(items, pd.DataFrame(rows))


def covered_targets(heads: Int[np.ndarray, " words"]) -> Bool[np.ndarray, " targets"]:
    """Whether each target (the words and `<eos>`) is in Z of some earlier position.

    >>> covered_targets(np.array([2, 0, 2])).tolist()
    [False, True, True, True]
    """
    _, targets = future_dependents(heads)
    covered = np.zeros(len(heads) + 1, dtype=bool)
    covered[targets - 1] = True
    return covered
