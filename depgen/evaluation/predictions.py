"""What `depgen predict` writes into a run folder: the trees or the bracketings of the test split."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

from depgen.data.batch import TokenBatch, WordBatch
from depgen.data.corpus import Corpus
from depgen.data.module import CorpusData
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.heads import decoded_heads
from depgen.errors import UserError
from depgen.language_models.masked import HeadNetwork
from depgen.locations import write_atomically
from depgen.trees.annotator import check_words
from depgen.trees.conllu import write_conllu
from depgen.trees.constituency import bracketing_of_distances, format_bracketing
from depgen.trees.sentence import Document

TEST_TREES = Path("trees") / "test.conllu"
"""Trees of the test split, in the run folder."""
BRACKETINGS, DISTANCES = Path("bracketings"), "distances.jsonl"
"""Bracketings of the test split, in the run folder."""

Row = tuple[int, Any]
"""An item's place in the split, and what is predicted of it."""


class Trees:
    """The best tree with a single root of each sentence, as CoNLL-U.

    Words are those of the corpus, and its tags are kept; its trees, if it has any, are not.

    Args:
        corpus: whose test split is parsed, sentence by sentence.

    Raises:
        UserError: a sentence or a word is empty.
    """

    kind, path = "trees", TEST_TREES

    def __init__(self, corpus: Corpus) -> None:
        self.documents = list(corpus.documents("test"))
        check_words(list(chain.from_iterable(document.sentences for document in self.documents)))

    def rows(self, prediction: Float[Tensor, "batch dependents heads"], batch: WordBatch) -> Iterator[Row]:
        """The heads of each sentence's words."""
        lengths = batch.lengths.cpu().numpy()
        heads = decoded_heads(prediction.cpu().numpy(), lengths, "tree")
        for item, found, length in zip(batch.items.tolist(), heads, lengths.tolist(), strict=True):
            yield item, found[:length].tolist()

    def write(self, rows: Sequence[Row], path: Path) -> None:
        """Write the documents with these trees.

        Raises:
            UserError: not every sentence has one.
        """
        sentences = sum(len(document.sentences) for document in self.documents)
        if len(rows) != sentences:
            raise UserError(
                f"Expected trees of all {sentences} sentences of the test split, found {len(rows)}: leave "
                "trainer.limit_predict_batches and trainer.fast_dev_run out."
            )
        trees = (heads for _, heads in rows)
        write_conllu(
            (
                Document(tuple(each.with_heads(next(trees)) for each in document.sentences), document.identifier)
                for document in self.documents
            ),
            path,
        )


class Bracketings:
    """One text a line in the order of the split: `layer-<k>.txt` as `(a (b c))`, and `distances.jsonl`.

    A line of the latter holds `item` (place in the split), `words` and `distances`, a list a layer. Leaves are the
    vocabulary's tokens; a document of several sentences has one tree.

    Args:
        vocabulary: that the texts are encoded by.
    """

    kind, path = "bracketings", BRACKETINGS

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def rows(self, prediction: Float[Tensor, "layers batch words"], batch: TokenBatch) -> Iterator[Row]:
        """The words of each text and their distances."""
        distances = prediction.cpu().double().numpy()
        for row, (item, length) in enumerate(zip(batch.items.tolist(), batch.lengths.tolist(), strict=True)):
            words = [self.vocabulary.decode([token]) or "_" for token in batch.inputs[row, 1:length].tolist()]
            yield item, (words, distances[:, row, : length - 1])

    def write(self, rows: Sequence[Row], path: Path) -> None:
        """Write a file for each layer, and one with the distances."""
        texts: list[tuple[list[str], np.ndarray]] = [text for _, text in rows]
        for layer in range(texts[0][1].shape[0]):
            lines = [format_bracketing(words, bracketing_of_distances(found[layer])) for words, found in texts]
            write_atomically(path / f"layer-{layer}.txt", "\n".join(lines) + "\n")
        kept = [
            json.dumps({"item": item, "words": words, "distances": found.round(6).tolist()}, ensure_ascii=False)
            for item, (words, found) in rows
        ]
        write_atomically(path / DISTANCES, "\n".join(kept) + "\n")


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
        self._rows: list[Row] = []

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Forget an earlier prediction."""
        parses = isinstance(pl_module, HeadNetwork)
        self._predictions: Trees | Bracketings = (
            Trees(self.data.corpus) if parses else Bracketings(self.data.vocabulary)
        )
        self._rows.clear()

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
        """Keep a batch's predictions."""
        self._rows.extend(self._predictions.rows(prediction, batch))

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
        path = self.folder / self._predictions.path
        self._predictions.write(sorted(rows, key=lambda row: row[0]), path)
        self.written = self._predictions.kind, path
