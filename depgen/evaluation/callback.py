"""What a Trainer calls: a measure of a system while it is trained, and the writer of `depgen predict`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor

from depgen.data.module import CorpusData
from depgen.decoding.heads import decoded_heads
from depgen.errors import UserError, check_at_least
from depgen.evaluation.measure import measure_function, options_class, takes_system
from depgen.evaluation.reading import Reading
from depgen.language_models.masked import HeadNetwork
from depgen.locations import write_atomically
from depgen.trees.annotator import check_words
from depgen.trees.conllu import write_conllu
from depgen.trees.constituency import bracketing_of_distances, format_bracketing
from depgen.trees.sentence import Document
from depgen.yaml_files import made_as

# -- a measure while a system is trained ------------------------------------------------------------------------------


class Evaluate(L.Callback):
    """Logs the numbers of a measure's last row as `MEASURE/COLUMN` after validations of `fit`: a curve, in W&B too.

    The main process measures. The trained weights are the same as without it: the system is in evaluation mode after a
    validation, and the state of the random generators is put back.

    Args:
        measure: its name, as in `depgen evaluate`.
        options: of the measure, as in its dataclass.
        every_n_epochs: how often.
    """

    def __init__(self, measure: str, options: Mapping[str, Any] | None = None, every_n_epochs: int = 1) -> None:
        check_at_least(1, every_n_epochs=every_n_epochs)
        self.measure, self.every_n_epochs = measure, every_n_epochs
        self.function = measure_function(measure)
        self.options = made_as(options_class(self.function), options or {})

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Measure, and log."""
        due = trainer.state.fn == "fit" and not trainer.sanity_checking
        if not due or not trainer.is_global_zero or (trainer.current_epoch + 1) % self.every_n_epochs:
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        run = Path(trainer.default_root_dir)
        with isolate_rng():
            if takes_system(self.function):
                from depgen.evaluation.system import System  # `depgen fit` needs it here alone

                system = System(pl_module, data.vocabulary, run, run / "in training", Reading(**data.reading))  # type: ignore[arg-type]
                measured = self.function(system, self.options)
            else:
                measured = self.function(self.options)
        row = measured.rows.iloc[-1].to_dict()
        numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float | np.number)}
        for logger in trainer.loggers:
            logger.log_metrics(
                {f"{self.measure}/{name}": value for name, value in numbers.items()}, trainer.global_step
            )


# -- `depgen predict` -------------------------------------------------------------------------------------------------

TEST_TREES = Path("trees") / "test.conllu"
"""Trees of the test split, in the run folder."""
BRACKETINGS = Path("bracketings")
"""Bracketings of the test split, in the run folder."""

Row = tuple[int, Any]
"""An item's place in the split; and its heads, or its words with their distances in each layer."""


class PredictionWriter(BasePredictionWriter):
    """Writes what a system predicts of the test split: trees where it parses (`HeadNetwork`), else bracketings.

    Args:
        folder: the run folder.
        data: whose test split it is.

    Attributes:
        written: the kind and the path of what was written last, on the first device.
    """

    def __init__(self, folder: Path, data: CorpusData) -> None:
        super().__init__("batch_and_epoch")
        self.folder, self.data = folder, data
        self.written: tuple[str, Path] | None = None
        self._documents: list[Document] = []
        self._rows: list[Row] = []

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Forget an earlier prediction."""
        self._rows.clear()
        if isinstance(pl_module, HeadNetwork):
            self._documents = list(self.data.corpus.documents("test"))
            check_words([sentence for document in self._documents for sentence in document.sentences])

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Tensor,
        batch_indices: object,
        batch: Any,  # noqa: ANN401, the system's own
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Keep the heads of each sentence, of the best tree with a single root; or words and distances of each text."""
        items, lengths = batch.items.tolist(), batch.lengths.tolist()
        if isinstance(pl_module, HeadNetwork):
            trees = decoded_heads(prediction.cpu().numpy(), batch.lengths.cpu().numpy(), "tree")
            for item, heads, length in zip(items, trees, lengths, strict=True):
                self._rows.append((item, heads[:length].tolist()))
            return
        distances = prediction.cpu().double().numpy()
        for row, (item, length) in enumerate(zip(items, lengths, strict=True)):
            tokens = batch.inputs[row, 1:length].tolist()
            words = [self.data.vocabulary.decode([token]) or "_" for token in tokens]
            self._rows.append((item, (words, distances[:, row, : length - 1])))

    def write_on_epoch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, predictions: object, batch_indices: object
    ) -> None:
        """Write the predictions of all devices."""
        rows = self._rows
        if trainer.world_size > 1:
            shares: list[list[Row]] = [[]] * trainer.world_size
            torch.distributed.all_gather_object(shares, rows)
            rows = [row for share in shares for row in share]
        if not trainer.is_global_zero or not rows:
            return
        predicted = [prediction for _, prediction in sorted(rows, key=lambda row: row[0])]
        if isinstance(pl_module, HeadNetwork):
            self._write_trees(predicted, self.folder / TEST_TREES)
            self.written = "trees", self.folder / TEST_TREES
        else:
            self._write_bracketings(predicted, self.folder / BRACKETINGS)
            self.written = "bracketings", self.folder / BRACKETINGS

    def _write_trees(self, trees: Sequence[Sequence[int]], path: Path) -> None:
        """Write CoNLL-U; words and tags are those of the corpus, its own trees are not."""
        sentences = sum(len(document.sentences) for document in self._documents)
        if len(trees) != sentences:
            raise UserError(
                f"Expected trees of all {sentences} sentences of the test split, found {len(trees)}: leave "
                "trainer.limit_predict_batches and trainer.fast_dev_run out."
            )
        heads = iter(trees)
        parsed = (
            Document(tuple(sentence.with_heads(next(heads)) for sentence in document.sentences), document.identifier)
            for document in self._documents
        )
        write_conllu(parsed, path)

    def _write_bracketings(self, texts: Sequence[tuple[Sequence[str], np.ndarray]], folder: Path) -> None:
        """Write `layer-<k>.txt`, in which each line is a text as `(a (b c))`, in the order of the split.

        A document of several sentences has one tree.
        """
        for layer in range(len(texts[0][1])):
            lines = [format_bracketing(words, bracketing_of_distances(distances[layer])) for words, distances in texts]
            write_atomically(folder / f"layer-{layer}.txt", "\n".join(lines) + "\n")
