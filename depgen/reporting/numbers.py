"""What is measured of a row, before it becomes a result."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Numbers:
    """Numbers by column key, per-item ones, what gave them, and why others are not there; as in `Result`."""

    metrics: dict[str, float] = field(default_factory=dict)
    items: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Numbers") -> None:
        """Take another's in; of a name that both have, the other's."""
        self.metrics.update(other.metrics)
        self.items.update(other.items)
        self.settings.update(other.settings)
        self.not_computed.update(other.not_computed)

    def without(self, names: Collection[str]) -> "Numbers":
        """The same less the numbers of these names and their items."""
        return Numbers(
            {name: value for name, value in self.metrics.items() if name not in names},
            {name: values for name, values in self.items.items() if name not in names},
            dict(self.settings),
            dict(self.not_computed),
        )

    def read_by(self, sources: Mapping[str, str]) -> "Numbers":
        """The same with other measures, and all that is named after them, under some names in place of what was there.

        >>> Numbers({"mean": 2.0, "mean_low": 1.5, "unseen": 1.0}).read_by({"mean": "unseen"}).metrics
        {'unseen': 1.0, 'mean': 1.0}
        """
        found = Numbers()
        for kept, given in zip(vars(found).values(), vars(self).values(), strict=True):
            kept.update(
                {key: value for key, value in given.items() if not any(_belongs(key, name) for name in sources)}
            )
            for name, source in sources.items():
                kept.update({name + key[len(source) :]: v for key, v in given.items() if _belongs(key, source)})
        missing = [name for name, source in sources.items() if source not in {**self.metrics, **self.not_computed}]
        found.not_computed.update(dict.fromkeys(missing, "the run's test gave no such figure"))
        return found


def _belongs(key: str, name: str) -> bool:
    """Whether a key is a measure's name, or is named after it, as `bleu1_low` and `bleu1_documents` are."""
    return key == name or key.startswith(f"{name}_")
