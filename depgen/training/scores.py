"""What a test on a whole split leaves in its run folder: the scores of every item."""

import io
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np

from depgen.locations import lines_sha256, write_atomically


def takes_everything(trainer: L.Trainer, verb: str) -> bool:
    """Whether a trainer sees the whole split that `test` or `validate` goes over."""
    limit = trainer.limit_test_batches if verb == "test" else trainer.limit_val_batches
    return not trainer.fast_dev_run and isinstance(limit, float) and limit == 1.0  # type: ignore[attr-defined]


class ItemScoreWriter(L.Callback):
    """Writes `items` (places in the split), `nll` (nats), `tokens` and `words` of each, by the model's `test_scores()`.

    Where the data module has a corpus, `data` is the digest of its test split, files and reading options included, and
    `sentences` that of its sentences alone. `test_scores` gathers over processes, so all of them call it. A model
    without it, or whose scores are None, leaves no file.
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
            **_digests_of_split(trainer),
        )
        write_atomically(self.path, stream.getvalue())


def _digests_of_split(trainer: L.Trainer) -> dict[str, Any]:
    """The digests of the test split under `data` and `sentences`; nothing where no corpus is known."""
    corpus = getattr(getattr(trainer, "datamodule", None), "corpus", None)
    if corpus is None:
        return {}
    sentences = (" ".join(each.words) for document in corpus.documents("test") for each in document.sentences)
    return {"data": np.asarray(corpus.fingerprint("test")), "sentences": np.asarray(lines_sha256(sentences))}


def scored_items(path: Path) -> int:
    """The number of items in a file of `ItemScoreWriter`."""
    with np.load(path, allow_pickle=False) as scores:
        return len(scores["items"])
