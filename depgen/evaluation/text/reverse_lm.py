"""The reverse LM score: how well a language model that has only read samples predicts real sentences.

Caccia et al. (2020), "Language GANs Falling Short"; Table 4 of Yang & Wan (2022). The oracle's own experiment is
trained again with the samples in the place of the real training sentences, from the same seed and with the vocabulary
of the real ones, and tested on the real test split. Samples that are bad or all alike teach it little. The real
training sentences themselves come to what the real test sentences cost the oracle, to the last digit.

Deviations
    D1. The figure is over the test split alone; the loop of Caccia et al. also adds to the validation losses.
    D2. Their network learns for at most 30 epochs and stops at the first rise of the validation loss; that is how the
        oracle's YAML has it (its small twin: at most 8, which few or short samples may not be enough for), and what is
        scored are the weights before that rise.
    D3. Nats per token are averaged as in the LM score, by default over sentences (`average="tokens"` is a test loss).
    D4. Empty samples are left out of training.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from depgen.data.experiment import data_of
from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError
from depgen.evaluation.text.oracle import Average, description_of, lm_score
from depgen.evaluation.text.outcome import TextScore
from depgen.locations import cache_root, file_sha256, lines_sha256, made_once, write_atomically
from depgen.training.evaluated import TEST_ITEMS
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen, Training, fit, measure_test, run_depgen
from depgen.yaml_files import read_settings


def reverse_lm_score(
    texts: Sequence[str], oracle: Path, *, average: Average = "texts", depgen: Depgen = run_depgen
) -> TextScore:
    """Nats per token of the real test split after training on texts; one item a *test sentence*, in its order.

    Trained once for the same texts and oracle, then kept in the cache.

    Args:
        texts: the samples, as many as there are real training sentences, where figures are to compare with the paper's.
        oracle: the run folder whose experiment is trained.
        average: see D3.
        depgen: runs a command.

    Raises:
        UserError: no text has a word, the real corpus is missing, or training failed.
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
    return lm_score(f"{name}, on the real test split", losses, average)


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
