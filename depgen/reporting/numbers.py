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
        """The same with other measures under some names, whose intervals go; what was not measured is not there.

        >>> Numbers({"mean": 2.0, "mean_low": 1.5, "mean_unseen": 1.0}).read_by({"mean": "mean_unseen"}).metrics
        {'mean_unseen': 1.0, 'mean': 1.0}
        """
        found = self.without([f"{name}{end}" for name in sources for end in ("", "_low", "_high")])
        found.metrics.update({name: self.metrics[each] for name, each in sources.items() if each in self.metrics})
        found.items.update({name: self.items[each] for name, each in sources.items() if each in self.items})
        return found
