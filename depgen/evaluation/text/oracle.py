"""A language model of our own as the judge of texts: LM score and oracle perplexity.

Table 4 of Yang & Wan (2022) takes the LM score of Caccia et al. (2020), "Language GANs Falling Short": a language model
trained on real sentences, the oracle, reads the samples; what it needs, in nats per token, says how good they are. It
punishes bad samples, not samples that are all alike: the reverse score (`reverse_lm.py`) does that. Neither oracle nor
scores of the paper are public, so that figures compare under one and the same oracle only. The oracle perplexity is
the mean of the texts' own perplexities, computed as Table 5 computes GPT-2's; it is used where GPT-2's weights are
not at hand.

An oracle is an ordinary experiment (`experiments/oracle_news.yaml`: LSTM of 2 x 512, dropout 0.5, Adam 1e-3, batches of
about 128 sentences, clip 10, as theirs), trained by `depgen fit`.

Deviations
    D1. The score is the mean over texts of each text's nats per token (`average="texts"`), as in the code of Caccia et
        al.; `average="tokens"` divides all nats by all tokens, so that long texts count for more. The `<eos>` that ends
        a text counts as a token in both, one that was cut at its longest length included.
    D2. A text without a word has no score: it is left out, counted and logged. Their code would divide by zero.
    D3. The perplexity of a text counts all its tokens and `<eos>`, given its beginning; GPT-2's leaves out the first
        word and knows no end.
    D4. Words outside the oracle's vocabulary, and `<unk>`, are read as `<unk>`, learnt from words seen once. It is
        cheap, so that texts full of it score well: their share is kept with the scores.
    D5. Training stops when the validation loss has not fallen once; how long theirs is trained is not said.
"""

import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.data.vocabulary import VOCABULARY_FILE, encode, load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text.outcome import MeasuredItems
from depgen.evaluation.trained import load_trained
from depgen.evaluation.unit_scores import sequence_losses
from depgen.locations import cache_root, file_sha256, lines_sha256, write_atomically
from depgen.training.experiment import PAPER, Experiment, sizes_of
from depgen.training.experiment_runs import Depgen, Training, fit, run_depgen
from depgen.training.runs import best_checkpoint, experiment_name, find_run

logger = logging.getLogger(__name__)

Average = Literal["texts", "tokens"]
TOKENS_PER_BATCH = 8192


@dataclass(frozen=True)
class TextLosses:
    """What texts cost a language model.

    Attributes:
        nll: nats of each text, its `<eos>` counted; NaN for a text without a word.
        tokens: how many tokens those are.
        description: the model, for the notes of a table.
        unknown: the share of the texts' words that it reads as `<unk>` (D4); None where nobody counted.
    """

    nll: Float[np.ndarray, " texts"]
    tokens: Int[np.ndarray, " texts"]
    description: str
    unknown: float | None = None

    def score(self, average: Average = "texts") -> MeasuredItems:
        """Nats per token (D1); item scores are such that their mean is the figure, whichever it is."""
        defined = ~np.isnan(self.nll)
        shared = self.tokens[defined].mean() if defined.any() and average == "tokens" else self.tokens
        means = "mean over texts" if average == "texts" else "over all tokens"
        return MeasuredItems(self.nll / shared, f"{self.description}, nats per token, <eos> counted, {means}")

    def corpus_perplexity(self) -> float:
        """Exp of all nats over all tokens, those of texts without a word left out; NaN where no text has one."""
        defined = ~np.isnan(self.nll)
        return float(np.exp(self.nll[defined].sum() / self.tokens[defined].sum())) if defined.any() else float("nan")

    def perplexity(self) -> MeasuredItems:
        """The mean of the texts' perplexities (D3)."""
        what = f"{self.description}, in GPT-2's place, <eos> counted, mean of text perplexities"
        return MeasuredItems(np.exp(self.nll / self.tokens), what)


def trained_oracle(config: Path, *, size: str = PAPER, depgen: Depgen = run_depgen) -> Path:
    """The run folder of an experiment's oracle: found, resumed, or trained; two processes train it once.

    Raises:
        UserError: no such experiment, its corpus is missing, or training failed.
    """
    return fit(oracle_training(config, size), depgen).run


def oracle_training(config: Path, size: str = PAPER) -> Training:
    """The training of an experiment as an oracle, of which every finished run of this configuration is one."""
    experiment = Experiment(config, size)
    seed = experiment.settings.get("seed_everything")
    return Training(f"The oracle of {experiment}", experiment, int(seed or 0), config.stem)


def find_oracle(reference: str | Path) -> Path:
    """The run folder of an oracle: the newest of an experiment's YAML, the paper's size first, or a run folder.

    Raises:
        UserError: there is none; says how to train it.
    """
    path = Path(reference)
    if path.suffix not in (".yaml", ".yml"):
        return find_run(reference)
    for size in sizes_of(path):
        run = oracle_training(path, size).finished()
        if run is not None:
            return run
    raise UserError(f"The oracle of {path} is not trained yet: depgen fit --config {path}")


def text_losses(texts: Sequence[str], oracle: Path, *, device: str | None = None) -> TextLosses:
    """What texts cost an oracle; kept in the cache by the digests of both.

    Args:
        texts: one string an item, tokens separated by white space.
        oracle: its run folder.
        device: where it reads; by default a GPU where there is one.

    Raises:
        UserError: the run holds no system with an exact likelihood.
    """
    vocabulary = load_vocabulary(oracle / VOCABULARY_FILE)
    ids = [encode(vocabulary, text.split()).ids for text in texts]
    unknown, words = sum(int((each == vocabulary.unk).sum()) for each in ids), sum(map(len, ids))
    if unknown:
        logger.info("%d of the texts' %d words are unknown to the oracle and read as <unk>.", unknown, words)
    digest = lines_sha256([file_sha256(best_checkpoint(oracle)), *texts])
    path = cache_root() / "text_losses" / f"{digest[:32]}.npz"
    if not path.is_file():
        filled = [each for each in ids if len(each)]
        losses = iter(sequence_losses(load_trained(oracle, device=device), filled, tokens_per_batch=TOKENS_PER_BATCH))
        found = [next(losses) if len(each) else np.zeros(1) for each in ids]  # (D2)
        keep_losses(path, np.array([each.sum() for each in found]), np.array([len(each) for each in found]))
    nll, tokens = read_losses(path, texts)
    return TextLosses(nll, tokens, name_of(oracle), unknown / max(words, 1))


def name_of(oracle: Path) -> str:
    """What notes call an oracle: its experiment and the beginning of its weights' digest."""
    return f"oracle {experiment_name(oracle)} ({file_sha256(best_checkpoint(oracle))[:8]})"


def keep_losses(path: Path, nll: Float[np.ndarray, " items"], tokens: Int[np.ndarray, " items"]) -> None:
    """Write what items cost into the cache."""
    stream = io.BytesIO()
    np.savez(stream, nll=np.asarray(nll, dtype=np.float64), tokens=np.asarray(tokens, dtype=np.int64))
    write_atomically(path, stream.getvalue())


def read_losses(path: Path, texts: Sequence[str]) -> tuple[Float[np.ndarray, " texts"], Int[np.ndarray, " texts"]]:
    """What texts cost, out of the cache; those without a word cost nothing that is known (D2)."""
    with np.load(path, allow_pickle=False) as arrays:
        nll, tokens = arrays["nll"], arrays["tokens"]
    empty = np.array([not text.strip() for text in texts])
    if empty.any():
        logger.warning("%d of %d texts have no word and are left out of the oracle's scores.", empty.sum(), len(texts))
    return np.where(empty, np.nan, nll), tokens
