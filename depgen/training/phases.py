"""Training in phases: one `fit` that moves from one objective to the next."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one objective, optimiser and schedule.

    Attributes:
        name: names its checkpoint, `<name>-best.ckpt`.
        epochs: its length; None = up to the trainer's `max_epochs` (only the last phase may be open-ended).
        monitor: the logged value whose minimum marks the phase's best weights.
    """

    name: str
    epochs: int | None
    monitor: str

    def __post_init__(self) -> None:
        assert self.epochs is None or self.epochs > 0, f"phase {self.name} has {self.epochs} epochs"
