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

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from depgen.data.vocabulary import VOCABULARY_FILE, encode, load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text.outcome import TextScore, mean_score
from depgen.evaluation.trained import load_trained
from depgen.evaluation.unit_scores import sequence_losses
from depgen.locations import file_sha256
from depgen.training.experiment import PAPER, Experiment, sizes_of
from depgen.training.experiment_runs import Depgen, Training, fit, run_depgen
from depgen.training.runs import best_checkpoint, experiment_name, find_run

logger = logging.getLogger(__name__)

Average = Literal["texts", "tokens"]
TOKENS_PER_BATCH = 8192


def lm_score(oracle: str, losses: pd.DataFrame, average: Average) -> TextScore:
    """Nats per token (D1) of texts or sentences, by an oracle of that name; the mean of items is the figure either way.

    Args:
        oracle: as settings call it.
        losses: `nll` and `tokens`, an item a row.
        average: over items or over all tokens.
    """
    nll, tokens = losses["nll"], losses["tokens"]
    means = "mean over texts" if average == "texts" else "over all tokens"
    shared = tokens if average == "texts" else tokens[nll.notna()].mean()
    return mean_score((nll / shared).to_numpy(), f"{oracle}, nats per token, <eos> counted, {means}")


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


def text_losses(texts: Sequence[str], oracle: Path, *, device: str | None = None) -> pd.DataFrame:
    """What texts cost the oracle of a run folder, a row each.

    `nll` is in nats, `<eos>` counted, NaN for a text without a word (D2); `tokens` are as many, `words` those of the
    text, and `unknown` those of them that are read as `<unk>` (D4).

    Args:
        texts: one string an item, tokens separated by white space.
        oracle: its run folder.
        device: where it reads; by default a GPU where there is one.

    Raises:
        UserError: the run holds no system with an exact likelihood.
    """
    vocabulary = load_vocabulary(oracle / VOCABULARY_FILE)
    ids = [encode(vocabulary, text.split()).ids for text in texts]
    filled = [own for own in ids if len(own)]
    costs = iter(sequence_losses(load_trained(oracle, device=device), filled, tokens_per_batch=TOKENS_PER_BATCH))
    rows = [
        (cost.sum(), len(cost), len(own), int((own == vocabulary.unk).sum()))
        for own in ids
        for cost in [next(costs) if len(own) else np.array([np.nan])]
    ]
    losses = pd.DataFrame(rows, columns=["nll", "tokens", "words", "unknown"])
    if unknown := losses["unknown"].sum():
        said = "%d of the texts' %d words are unknown to the oracle and read as <unk>."
        logger.info(said, unknown, losses["words"].sum())
    if wordless := losses["nll"].isna().sum():
        logger.warning("%d of %d texts have no word and are left out of the oracle's scores.", wordless, len(texts))
    return losses


def description_of(oracle: Path) -> str:
    """What settings call an oracle: its experiment and the beginning of its weights' digest."""
    return f"oracle {experiment_name(oracle)} ({file_sha256(best_checkpoint(oracle))[:8]})"
