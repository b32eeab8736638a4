"""What `depgen predict` leaves of a network with syntactic distances: its bracketings of the test split."""

import json
from pathlib import Path

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

from depgen.data.batch import TokenBatch
from depgen.data.vocabulary import Vocabulary
from depgen.locations import write_atomically
from depgen.trees.constituency import bracketing_of_distances, format_bracketing

FOLDER, DISTANCES = "bracketings", "distances.jsonl"
Row = tuple[int, list[str], np.ndarray]


class WrittenBracketings(BasePredictionWriter):
    """Writes one text a line in the order of the split: `layer-<k>.txt` as `(a (b c))`, and `distances.jsonl`.

    A line of the latter holds `item` (place in the split), `words` and `distances`, a list a layer. Leaves are the
    vocabulary's tokens; a document of several sentences has one tree.
    """

    def __init__(self, folder: Path, vocabulary: Vocabulary) -> None:
        """Write into `folder`, in the words of `vocabulary`."""
        super().__init__("batch_and_epoch")
        self.folder, self.vocabulary = folder, vocabulary
        self.rows: list[Row] = []

    def on_predict_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Forget an earlier prediction."""
        self.rows.clear()

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Float[Tensor, "layers batch words"],
        batch_indices: object,
        batch: TokenBatch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Take a batch's distances."""
        distances = prediction.double().cpu().numpy()
        for row, (item, length) in enumerate(zip(batch.items.tolist(), batch.lengths.tolist(), strict=True)):
            words = [self.vocabulary.decode([token]) or "_" for token in batch.inputs[row, 1:length].tolist()]
            self.rows.append((item, words, distances[:, row, : length - 1]))

    def write_on_epoch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, predictions: object, batch_indices: object
    ) -> None:
        """Write what all devices have found."""
        rows = self.rows
        if trainer.world_size > 1:
            shares: list[list[Row]] = [[]] * trainer.world_size
            torch.distributed.all_gather_object(shares, rows)
            rows = [row for share in shares for row in share]
        if not trainer.is_global_zero or not rows:
            return
        rows = sorted(rows, key=lambda row: row[0])
        for layer in range(rows[0][2].shape[0]):
            lines = [format_bracketing(words, bracketing_of_distances(found[layer])) for _, words, found in rows]
            write_atomically(self.folder / f"layer-{layer}.txt", "\n".join(lines) + "\n")
        kept = [
            json.dumps({"item": item, "words": words, "distances": found.round(6).tolist()}, ensure_ascii=False)
            for item, words, found in rows
        ]
        write_atomically(self.folder / DISTANCES, "\n".join(kept) + "\n")
