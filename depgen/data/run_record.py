"""What a run's `run.json` keeps of the data that it was trained on, and whether today's are still the same."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning as L

from depgen.data.corpus import Split
from depgen.data.module import CorpusData
from depgen.data.source import DataSource, equal_documents, fingerprint_of, source_of
from depgen.errors import MissingDataError, UserError
from depgen.training.runs import read_record, update_record
from depgen.training.weights_and_biases import noted

logger = logging.getLogger(__name__)


class DataRecord(L.Callback):
    """Writes into a fresh run's `run.json` what it is trained on, as soon as the data are ready.

    These are `data` (a `DataSource`), `equal_documents` (how many of training equal one of validation or test; the log
    says it too), `tokens_per_epoch` (with the ends of sequences) and `trees` (their scheme, if the system learns from
    them). A data module without a corpus leaves nothing. A split that can't be read, which training may have no need
    of, is warned of.
    """

    def __init__(self, run: Path) -> None:
        self.run = run

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write."""
        data: Any = getattr(trainer, "datamodule", None)
        if not trainer.is_global_zero or not hasattr(data, "corpus"):
            return
        try:
            record = _record_of(data, pl_module)
            update_record(self.run, record)
            for each in trainer.loggers:
                each.log_hyperparams({"run": noted(self.run)})
        except UserError as error:
            logger.warning("%s does not say what it is trained on, so no later change is noticed: %s", self.run, error)


def _record_of(data: Any, model: Any) -> dict[str, Any]:  # noqa: ANN401 - any data module with a corpus
    limit = getattr(data, "max_documents", None)
    read: tuple[Split, ...] = ("train", "valid") if isinstance(data, CorpusData) else ()
    known = {split: data.documents(split) for split in read}
    equal = equal_documents(data.corpus)
    logger.info("%s: %d training documents equal one of validation or test but for blanks.", data.corpus.name, equal)
    return {
        "data": asdict(source_of(data.corpus, max_documents=limit, documents=known)),
        "equal_documents": equal,
        "tokens_per_epoch": int(data.target_counts().sum()),
        "trees": data.annotator.scheme if _learns_from_trees(model, data) else None,
    }


def data_tags(data: Any, model: Any) -> list[str]:  # noqa: ANN401 - any data module and system
    """What a run is to be found by: its corpus and the scheme of its trees; empty without a corpus."""
    corpus = getattr(data, "corpus", None)
    if corpus is None:
        return []
    return [corpus.name, data.annotator.scheme if _learns_from_trees(model, data) else "no trees"]


def _learns_from_trees(model: Any, data: Any) -> bool:  # noqa: ANN401 - any data module and system
    """Whether trees that the data give have a part in training, which only systems of depgen say."""
    return getattr(data, "annotator", None) is not None and bool(getattr(model, "learns_from_trees", False))


def recorded_source(run: Path) -> DataSource | None:
    """What a run was trained on, as its `run.json` says; None where it does not."""
    source = read_record(run).get("data")
    return None if source is None else DataSource(**source)


def other_data(run: Path, data: Any) -> bool:  # noqa: ANN401 - any data module
    """Whether the data at hand have another fingerprint than those that a run was trained on, as far as is known."""
    recorded = recorded_source(run)
    if recorded is None:
        return False
    try:
        return fingerprint_of(data.corpus, max_documents=getattr(data, "max_documents", None)) != recorded.fingerprint
    except MissingDataError as error:
        logger.warning("Nothing tells whether %s was trained on the data at hand: %s", run, error)
        return False
