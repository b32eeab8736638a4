"""What a run knows about its data: name, sizes and content of a corpus, as its `run.json` keeps them."""

import json as json_library
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from depgen.data.corpus import SPLITS, Corpus, CorpusOfSteps, Split, Step, WithSteps
from depgen.data.steps import HELD_OUT, FirstDocuments, Rewrite, SingleSentences, text_of
from depgen.errors import MissingDataError, UserError
from depgen.locations import cache_root, json_object, lines_sha256, made_once, write_atomically
from depgen.training.runs import read_record, update_record

if TYPE_CHECKING:
    import lightning as L

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DataSource:
    """What a system was trained on.

    Attributes:
        corpus: the corpus's name.
        reduced: whether its files hold fewer documents than published, or training has but the first of them.
        train_documents: documents in the training split; None where nobody counted.
        fingerprint: digest of every split's text, and of the limit on training documents where there is one.
    """

    corpus: str
    reduced: bool
    train_documents: int | None = None
    fingerprint: str | None = None


def source_of(corpus: Corpus, *, max_documents: int | None = None) -> DataSource:
    """The corpus by name, size and content, with a limit on training documents."""
    limited = _limited(corpus, max_documents)
    counts = split_counts(limited)
    return DataSource(corpus.name, counts["reduced"], counts["train"], fingerprint_of(limited))


def fingerprint_of(corpus: Corpus, *, max_documents: int | None = None) -> str:
    """A digest of every split's text, whether it is read by documents or by sentences."""
    limited = _limited(corpus, max_documents)
    return lines_sha256(_text_of_split(limited, split).fingerprint(split) for split in SPLITS)


def _text_of_split(corpus: Corpus, split: Split) -> Corpus:
    """The corpus without steps that cut documents alone, but before one that takes or leaves whole documents."""
    if not isinstance(corpus, CorpusOfSteps):
        return corpus
    steps: list[Step] = []
    for step in reversed(corpus.steps or ()):
        by_sentence = all(isinstance(later, Rewrite | SingleSentences) or not later.changes(split) for later in steps)
        if not (step == SingleSentences() and by_sentence):
            steps.insert(0, step)
    return replace(corpus, steps=steps)


def _limited(corpus: Corpus, max_documents: int | None) -> Corpus:
    """The corpus with a limit on training documents as its last step."""
    limit = () if max_documents is None else (FirstDocuments(max_documents),)
    if limit and isinstance(corpus, CorpusOfSteps):
        return replace(corpus, steps=(*(corpus.steps or ()), *limit))
    return WithSteps(corpus, steps=limit) if limit else corpus


def split_counts(corpus: Corpus) -> dict[str, Any]:
    """Training documents, what of the splits is equal, and whether the corpus is reduced; counted once, cached."""
    key = lines_sha256(["2", *map(corpus.fingerprint, SPLITS), str(dict(corpus.published))])
    path = cache_root() / "documents" / f"{key}.json"
    made_once(path.with_suffix(""), partial(_count_into, corpus, path), is_made=path.is_file)
    return json_object(path, remedy=f"Delete {path}.")


def _count_into(corpus: Corpus, path: Path) -> None:
    train, held_out = _texts(corpus, "train"), list[_Texts]()
    for split in HELD_OUT:
        with suppress(MissingDataError):  # training may have no need of them
            held_out.append(_texts(corpus, split))
    read, whole = corpus.documents, train.documents.total()
    if isinstance(corpus, CorpusOfSteps):
        read, steps = corpus.read, [step for step in corpus.steps or () if not isinstance(step, FirstDocuments)]
        if len(steps) < len(corpus.steps or ()):
            whole = sum(1 for _ in replace(corpus, steps=steps).documents("train"))
    reduced = train.documents.total() < whole or any(
        sum(1 for _ in read(split)) < (published.documents or 0) for split, published in corpus.published.items()
    )
    counts = {
        "corpus": corpus.name,
        "train": train.documents.total(),
        "train_sentences": train.sentences.total(),
        "equal": _common(train.documents, sum((texts.documents for texts in held_out), Counter[str]())),
        "equal_sentences": _common(train.sentences, sum((texts.sentences for texts in held_out), Counter[str]())),
        "equal_held_out": _common(*(texts.documents for texts in held_out)) if len(held_out) == 2 else 0,
        "reduced": reduced,
    }
    write_atomically(path, json_library.dumps(counts) + "\n")


class _Texts(NamedTuple):
    """How often each document and each sentence of a split occurs, as words without blanks; and each word."""

    documents: Counter[str]
    sentences: Counter[str]
    words: Counter[str]
    longest: int
    """Words of the longest document."""


def _texts(corpus: Corpus, split: Split) -> _Texts:
    documents, sentences, words, longest = Counter[str](), Counter[str](), Counter[str](), 0
    for document in corpus.documents(split):
        documents[text_of(document)] += 1
        sentences.update("".join("".join(sentence.words).split()) for sentence in document.sentences)
        own = list(document.words())
        words.update(own)
        longest = max(longest, len(own))
    return _Texts(documents, sentences, words, longest)


def _common(texts: Counter[str], others: Counter[str]) -> int:
    """How many of the texts are among the others."""
    return sum(count for text, count in texts.items() if text in others)


# -- a run's record ---------------------------------------------------------------------------------------------------


def record_data(run: Path, trainer: "L.Trainer", model: "L.LightningModule") -> None:
    """Write into a fresh run's `run.json` what it is trained on, once the data are ready.

    These are `data` (a `DataSource`), `equal_documents` and `equal_sentences` (how many of training equal one of
    validation or test), `equal_held_out` (how many documents of validation equal one of the test), which the log says
    too, `tokens_per_epoch` (with the ends of sequences) and `trees` (their scheme, if the system learns from
    them). A data module without a corpus leaves nothing. A split that can't be read, which training may have no need
    of, is warned of.
    """
    from depgen.training.weights_and_biases import noted

    data: Any = getattr(trainer, "datamodule", None)
    if not trainer.is_global_zero or not hasattr(data, "corpus"):
        return
    try:
        counts = split_counts(data.corpus)
        logger.info(
            "%s: %d of %d training documents and %d of %d training sentences equal one of validation or test but for "
            "blanks; %d documents of validation equal one of the test.", data.corpus.name, counts["equal"],
            counts["train"], counts["equal_sentences"], counts["train_sentences"], counts["equal_held_out"],
        )  # fmt: skip
        record = {
            "data": asdict(source_of(data.corpus, max_documents=getattr(data, "max_documents", None))),
            "equal_documents": counts["equal"],
            **{name: counts[name] for name in ("equal_sentences", "equal_held_out")},
            "tokens_per_epoch": int(data.target_counts().sum()),
            "trees": data.annotator.scheme if _learns_from_trees(model, data) else None,
        }
    except UserError as error:
        logger.warning("%s does not say what it is trained on, so no later change is noticed: %s", run, error)
        return
    update_record(run, record)
    for each in trainer.loggers:
        each.log_hyperparams({"run": noted(run)})


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


# -- sizes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Sizes of one split as measured.

    Attributes:
        tokens: words, and one end of sequence a document, as is published for the Penn Treebank.
        types: different tokens, the end of sequence being one.
        mean_length: words a document.
        max_length: words of the longest document.
        mean_sentences: sentences a document.
        in_training: documents that equal one of training but for blanks; None for training itself, or where it was not
            measured.
        unknown: share of words that training lacks; None likewise.
    """

    documents: int
    sentences: int
    tokens: int
    types: int
    mean_length: float
    max_length: int
    mean_sentences: float
    in_training: int | None = None
    unknown: float | None = None


def measure(corpus: Corpus, splits: Sequence[Split] = SPLITS) -> dict[Split, Sizes]:
    """The sizes of splits; the others are compared with training where it is among them."""
    measured: dict[Split, Sizes] = {}
    train: _Texts | None = None
    for split in sorted(splits, key=SPLITS.index):
        texts = _texts(corpus, split)
        number, words, sentences = texts.documents.total(), texts.words.total(), texts.sentences.total()
        in_training = unknown = None
        if train is not None:
            in_training = _common(texts.documents, train.documents)
            unknown = (words - _common(texts.words, train.words)) / max(words, 1)
        measured[split] = Sizes(
            number, sentences, words + number, len(texts.words) + 1,
            words / max(number, 1), texts.longest, sentences / max(number, 1), in_training, unknown,
        )  # fmt: skip
        train = texts if split == "train" else train
    return measured
