"""A language model of our own as the judge of texts: LM score, oracle perplexity and reverse LM score.

Table 4 of Yang & Wan (2022) takes the LM score of Caccia et al. (2020), "Language GANs Falling Short": a language model
trained on real sentences, the oracle, reads the samples; what it needs, in nats per token, says how good they are. It
punishes bad samples, not samples that are all alike: the reverse LM score does that. Neither oracle nor scores of the
paper are public, so that figures compare under one and the same oracle only. The oracle perplexity is the mean of the
texts' own perplexities, computed as Table 5 computes GPT-2's; it is used where GPT-2's weights are not at hand.

An oracle is an ordinary experiment (`experiments/oracle_news.yaml`: LSTM of 2 x 512, dropout 0.5, Adam 1e-3, batches of
about 128 sentences, clip 10, as theirs), trained by `depgen fit`.

For the reverse LM score the oracle's own experiment is trained again with the samples in the place of the real training
sentences, from the same seed and with the vocabulary of the real ones, and tested on the real test split. Samples that
are bad or all alike teach it little. The real training sentences themselves come to what the real test sentences cost
the oracle, to the last digit.

Deviations
    D1. Both scores are the mean over texts of each text's nats per token, as in the code of Caccia et al. The `<eos>`
        that ends a text counts as a token, one that was cut at its longest length included.
    D2. A text without a word has no score: it is left out, counted and logged. Their code would divide by zero. Empty
        samples are left out of the reverse score's training.
    D3. The perplexity of a text counts all its tokens and `<eos>`, given its beginning; GPT-2's leaves out the first
        word and knows no end.
    D4. Words outside the oracle's vocabulary, and `<unk>`, are read as `<unk>`, learnt from words seen once. It is
        cheap, so that texts full of it score well: their share is kept with the scores.
    D5. Training stops when the validation loss has not fallen once; how long theirs is trained is not said. For the
        reverse score their network learns for at most 30 epochs, and ours as the oracle's YAML says (its small twin: at
        most 8, which few or short samples may not be enough for); what is scored are the weights before the loss rose.
    D6. The reverse score is over the test split alone; the loop of Caccia et al. also adds to the validation losses.
"""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from depgen.data.experiment import data_of
from depgen.data.vocabulary import VOCABULARY_FILE, encode, load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text_judges import TextScore, mean_score
from depgen.evaluation.trained import load_trained
from depgen.evaluation.unit_scores import sequence_losses
from depgen.locations import cache_root, file_sha256, lines_sha256, made_once, write_atomically
from depgen.training.evaluated import TEST_ITEMS
from depgen.training.experiment import PAPER, Experiment, sizes_of
from depgen.training.experiment_runs import Depgen, Training, fit, measure_test, run_depgen
from depgen.training.runs import best_checkpoint, experiment_name, find_run
from depgen.yaml_files import read_settings

logger = logging.getLogger(__name__)


def lm_score(oracle: str, losses: pd.DataFrame) -> TextScore:
    """Nats per token (D1) of texts or sentences, by an oracle of that name.

    Args:
        oracle: as settings call it.
        losses: `nll` and `tokens`, an item a row.
    """
    settings = f"{oracle}, nats per token, <eos> counted, mean over texts"
    return mean_score((losses["nll"] / losses["tokens"]).to_numpy(), settings)


def trained_oracle(config: Path, *, size: str = PAPER, depgen: Depgen = run_depgen) -> Path:
    """The run folder of an experiment's oracle: found, resumed, or trained; two processes train it once."""
    return fit(oracle_training(config, size), depgen).run


def oracle_training(config: Path, size: str = PAPER) -> Training:
    """The training of an experiment as an oracle, of which every finished run of this configuration is one."""
    experiment = Experiment(config, size)
    seed = experiment.settings.get("seed_everything")
    return Training(f"The oracle of {experiment}", experiment, int(seed or 0), config.stem)


def find_oracle(reference: str | Path) -> Path:
    """The run folder of an oracle: the newest of an experiment's YAML, the paper's size first, or a run folder."""
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
    """
    vocabulary = load_vocabulary(oracle / VOCABULARY_FILE)
    ids = [encode(vocabulary, text.split()).ids for text in texts]
    filled = [own for own in ids if len(own)]
    costs = iter(sequence_losses(load_trained(oracle, device=device), filled))
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


# -- reverse LM score -------------------------------------------------------------------------------------------------


def reverse_lm_score(texts: Sequence[str], oracle: Path, *, depgen: Depgen = run_depgen) -> TextScore:
    """Nats per token of the real test split after training on texts; one item a *test sentence*, in its order.

    Trained once for the same texts and oracle, then kept in the cache.

    Args:
        texts: the samples, as many as there are real training sentences, where figures are to compare with the paper's.
        oracle: the run folder whose experiment is trained.
        depgen: runs a command.
    """
    samples = [text for text in texts if text.strip()]
    if not samples:
        raise UserError("A reverse LM score is trained on the texts, and none of them has a word.")
    settings = read_settings(oracle / "config.yaml")
    corpus = data_of(oracle / "config.yaml").corpus
    real = [corpus.fingerprint(split) for split in ("valid", "test")]
    course = {name: settings.get(name) for name in ("seed_everything", "model", "data", "trainer")}
    vocabulary = file_sha256(oracle / VOCABULARY_FILE)
    parts = [yaml.safe_dump(course), vocabulary, *real, *samples]
    folder = cache_root() / "reverse_lm" / lines_sha256(parts)[:32]
    kept = folder.with_suffix(".npz")
    made_once(folder, lambda: _train(folder, kept, samples, settings, oracle, depgen), is_made=kept.is_file)
    with np.load(kept, allow_pickle=False) as arrays:
        losses = pd.DataFrame({"nll": arrays["nll"], "tokens": arrays["tokens"]})
    name = f"{description_of(oracle)}, trained again on {len(texts):,} samples but for empty ones"
    return lm_score(f"{name}, on the real test split", losses)


def _train(
    folder: Path, kept: Path, samples: Sequence[str], settings: dict[str, Any], oracle: Path, depgen: Depgen
) -> None:
    """Train on the samples in `folder`, keep what each test sentence costs, and remove the folder."""
    path, config = folder / "samples.txt", folder / "reverse_lm.yaml"
    write_atomically(path, "".join(f"{' '.join(text.split())}\n" for text in samples))
    write_atomically(config, yaml.safe_dump(on_samples(settings, path, oracle), sort_keys=False))
    seed = int(settings.get("seed_everything") or 0)
    training = Training("The reverse LM score", Experiment(config), seed, "runs", base=folder)
    run = fit(training, depgen).run
    measure_test(training, run, depgen)
    write_atomically(kept, (run / TEST_ITEMS).read_bytes())
    shutil.rmtree(folder)


def on_samples(settings: dict[str, Any], samples: Path, oracle: Path) -> dict[str, Any]:
    """An oracle's settings with samples for its training sentences, all of them, and its own vocabulary."""
    data = settings["data"]
    lines = {"folder": "", "train": str(samples.absolute()), "steps": []}
    texts = {"class_path": "depgen.data.corpora.TextLines", "init_args": lines}
    steps = [
        {"class_path": "depgen.data.steps.FirstDocuments", "init_args": {"most": 0}},
        {"class_path": "depgen.data.steps.MoreTraining", "init_args": {"corpora": [texts]}},
    ]
    real = {"corpus": data["init_args"]["corpus"], "steps": steps}
    corpus = {"class_path": "depgen.data.corpus.WithSteps", "init_args": real}
    vocabulary = {
        "class_path": "depgen.data.vocabulary.ReadyVocabulary",
        "init_args": {"file": str((oracle / VOCABULARY_FILE).absolute())},
    }
    arguments = {**data["init_args"], "corpus": corpus, "vocabulary": vocabulary}
    if "max_documents" in arguments:
        arguments["max_documents"] = None  # a limit on the oracle's own sentences would cut the samples
    kept = {name: value for name, value in settings.items() if name in ("seed_everything", "model", "trainer")}
    return {**kept, "data": {**data, "init_args": arguments}}
