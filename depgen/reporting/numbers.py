"""What is measured of a row, before it becomes a result."""

from collections.abc import Collection
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
