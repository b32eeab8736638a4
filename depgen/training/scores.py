"""What a test on a whole split leaves in its run folder: the scores of every item."""

import io
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np

from depgen.locations import write_atomically


def takes_everything(trainer: L.Trainer, verb: str) -> bool:
    """Whether a trainer sees the whole split that `test` or `validate` goes over."""
    limit = trainer.limit_test_batches if verb == "test" else trainer.limit_val_batches
    return not trainer.fast_dev_run and isinstance(limit, float) and limit == 1.0  # type: ignore[attr-defined]


class ItemScoreWriter(L.Callback):
    """Writes `items` (places in the split), `nll` (nats), `tokens` and `words` of each, by the model's `test_scores()`.

    Where the data module has a corpus, `data` is the digest of its test split. `test_scores` gathers over processes, so
    all of them call it. A model without it, or whose scores are None, leaves no file.
    """

    def __init__(self, path: Path) -> None:
        """Write the arrays to `path`, an .npz file."""
        self.path = path

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write, unless only a part of the split was tested."""
        scores = getattr(pl_module, "test_scores", None)
        if scores is None or not takes_everything(trainer, "test"):
            return
        kept = scores()
        if kept is None or not trainer.is_global_zero:
            return
        items, nll, tokens, words = kept
        stream = io.BytesIO()
        np.savez(
            stream,
            items=np.asarray(items, dtype=np.int64),
            nll=np.asarray(nll, dtype=np.float64),
            tokens=np.asarray(tokens, dtype=np.int64),
            words=np.asarray(words, dtype=np.int64),
            **_digest_of_split(trainer),
        )
        write_atomically(self.path, stream.getvalue())


def _digest_of_split(trainer: L.Trainer) -> dict[str, Any]:
    """The digest of the test split under `data`; nothing where no corpus is known."""
    corpus = getattr(getattr(trainer, "datamodule", None), "corpus", None)
    return {} if corpus is None else {"data": np.asarray(corpus.fingerprint("test"))}


def scored_items(path: Path) -> int:
    """The number of items in a file of `ItemScoreWriter`."""
    with np.load(path, allow_pickle=False) as scores:
        return len(scores["items"])
