"""The base of systems that begin with the network of a trained run and learn the answers to a task."""

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from jsonargparse import ArgumentError
from torch import Tensor

from depgen.data.batch import ItemBatch
from depgen.data.tasks import TaskBatch, TaskData, collate_examples
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.metrics.similarity import PairScores, ScoredPairs
from depgen.training.checkpoints import load_checkpoint
from depgen.training.class_paths import known_classes_alone
from depgen.training.phases import Phase

log = logging.getLogger(__name__)

_NOT_OF_THE_NETWORK = ("optimizer", "scheduler", "_instantiator")


class FineTuned(LanguageModel):
    """A trained network and what a task needs beside it, fine-tuned together.

    A system says which networks it takes (`encoder_kind`), makes its own layers in `configure_model`, answers the
    examples of a batch by `forward`, and gives the figures of a split by `figures_of`. The figures are logged; no
    example has nll or tokens.

    Args:
        vocabulary_size: number of token types; linked from the data.
        selected_by: the figure (per cent) on the validation split that the best weights are chosen by.
        architecture: the encoder's class and settings as JSON. None in a new run, whose encoder comes from the run that
            `data.init_args.encoder` names; a checkpoint holds it, and needs that run no more.
        kwargs: see `LanguageModel`; the scheduler of a plateau sees one minus the figure, which falls.
    """

    encoder: LanguageModel
    encoder_kind: type[LanguageModel]

    def __init__(
        self,
        vocabulary_size: int,
        *,
        selected_by: str,
        architecture: str | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.selected_by, self.architecture = vocabulary_size, selected_by, architecture
        self.phases = (Phase("fine_tuning", monitor=f"val/one_minus_{selected_by}"),)
        self.val_answers, self.test_answers = ScoredPairs(), ScoredPairs()

    def figures_of(self, answers: PairScores, stage: Literal["val", "test"]) -> dict[str, float]:
        """The figures of a split by name, `selected_by` among those of the validation split."""
        raise NotImplementedError(f"{type(self).__name__} has no figures_of")

    # -- the network of a run -------------------------------------------------------------------------------------

    @property
    def data(self) -> TaskData:
        """The data of the trainer."""
        data: object = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, TaskData):
            raise UserError(
                f"{type(self).__name__} learns a task: set data to {TaskData.__module__}.TaskData, found "
                f"{type(data).__name__}."
            )
        return data

    def configure_model(self) -> None:
        """Build the encoder; in a new run, with the weights of the run that the data names."""
        if self.architecture is not None:
            self.encoder = self._network(self.architecture)
            return
        origin = self.data.encoder_checkpoint
        content = load_checkpoint(origin)
        settings: dict[str, Any] = content.get("hyper_parameters") or {}
        of_network = {name: value for name, value in settings.items() if not name.endswith(_NOT_OF_THE_NETWORK)}
        self.architecture = self.hparams["architecture"] = json.dumps(of_network, sort_keys=True)
        self.encoder = self._network(self.architecture, origin)
        self.encoder.load_state_dict(content["state_dict"])
        log.info("Encoder: %s", origin)

    def _network(self, architecture: str, *origin: Path) -> LanguageModel:
        """The network of an architecture, with random weights.

        Args:
            architecture: see the class.
            origin: the checkpoint that says so, for messages.
        """
        from lightning.pytorch.cli import instantiate_module

        settings = json.loads(architecture)
        try:
            with known_classes_alone(*origin):
                return instantiate_module(self.encoder_kind, settings)
        except ArgumentError as error:
            raise UserError(
                f"{''.join(f'{path}: ' for path in origin)}expected a {self.encoder_kind.__name__}, found "
                f"{settings.get('_class_path', 'another system')} ({error}). Name a run of one by "
                "data.init_args.encoder."
            ) from error

    @property
    def collate(self) -> Callable[[ItemBatch], TaskBatch]:
        """Examples as the encoder reads them, and their answers."""
        return partial(collate_examples, sequences=self.encoder.collate)

    # -- validation and test --------------------------------------------------------------------------------------

    def validation_step(self, batch: TaskBatch, batch_idx: int) -> None:
        """Keep the answers to the validation split."""
        self._keep(self.val_answers, batch)

    def test_step(self, batch: TaskBatch, batch_idx: int) -> None:
        """Keep the answers to the test split."""
        self._keep(self.test_answers, batch)

    def _keep(self, answers: ScoredPairs, batch: TaskBatch) -> None:
        """Answer without autocast, whose rounding would make ranks equal."""
        with torch.autocast(self.device.type, enabled=False):
            predicted: Float[Tensor, " batch"] = self(batch)
        answers.update(predicted, batch.answers, items=batch.items, test_sets=batch.test_sets, seen=batch.seen)

    def on_validation_epoch_end(self) -> None:
        """Log the figures of the validation split, and what the phase is judged by."""
        figures = self.figures_of(_taken(self.val_answers), "val")
        for name, value in figures.items():
            self.log(f"val/{name}", value, prog_bar=name == self.selected_by, batch_size=1)
        self.log(f"val/one_minus_{self.selected_by}", 1 - figures[self.selected_by] / 100, batch_size=1)

    def on_test_epoch_end(self) -> None:
        """Log the figures of the test split."""
        for name, value in self.figures_of(_taken(self.test_answers), "test").items():
            self.log(f"test/{name}", value, batch_size=1)

    def test_scores(self) -> None:
        """None: an example has an answer, but neither nll nor tokens."""


def _taken(answers: ScoredPairs) -> PairScores:
    """All answers that were kept, which are then forgotten."""
    taken = answers.compute()
    answers.reset()
    return taken
