"""What the verbs of a tree's command line compute from its runs, number by number."""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch

from tests.fixtures.make import MASKED, Place
from tests.guard.comparison import Found, Numbers

SENTENCE = "the old mother was very happy ."
COHERENCE = ("order", "insertion", "ending")
ALL_TASKS = ("transformer", "adclm")
"""Kinds that do every task of coherence; the others do the first."""
PREDICTED = {"on_lstm": "bracketings", "udgn": "trees"}
"""Folders that `depgen predict` writes."""
MIXTURES = ("dmlm", "dm_gpt2", "dm_lstm", "dm_gate", "dm_logit", "demo_dm_transformer")
CPU = ("--device", "cpu")
CLOCK = ("words_per_second", "training_seconds")


def numbers_of_run(place: Place, kind: str, run: Path) -> Numbers:
    """Losses, weights, scores, texts and trees of a finished run."""
    found = numbers_of_training(run) | numbers_of_test(place, run)
    if kind != "similarity":
        found |= {} if kind == "itexp" else numbers_of_scoring(place, run)  # it scores texts with their trees
        found |= numbers_of_trees(place, kind, run) if kind in MASKED else numbers_of_writing(place, kind, run)
    if kind in MIXTURES:
        picture = run / "attention.png"
        place("attention", "--run", run, "--sentence", SENTENCE, "--output", picture)
        found["attention"] = Found("exact", digest(picture.read_bytes()))
    if kind in ("dmlm", "transformer"):
        trees = place.home / "experiments" / "dmlm.yaml"
        losses = place("dependent-loss", "--config", trees, "--run", run, *CPU)
        found["dependent-loss"] = Found("exact", losses.partition("\n")[2])
    if kind in ("on_lstm", "prpn"):
        said = place("bracketing-f1", "--run", run, "--treebank", "brackets", "--seeds", "2", "--json", *CPU)
        found |= totals("bracketing-f1", said)
    if kind in PREDICTED:
        place("predict", "--run", run, "--trainer.accelerator", "cpu")
        for path in sorted((run / PREDICTED[kind]).iterdir()):
            found[f"predict/{path.name}"] = Found("exact", path.read_text())
    return {f"{kind}/{name}": value for name, value in found.items()}


def numbers_of_training(run: Path) -> Numbers:
    """Every logged loss of training, as it is written; what validation logged; the weights."""
    header, *rows = ((run / "metrics.csv").read_text()).splitlines()
    found: Numbers = {}
    for row in rows:
        values = dict(zip(header.split(","), row.split(","), strict=True))
        for name, value in values.items():
            if value and name.startswith("train/"):
                found[f"step {values['step']} {name}"] = Found("exact", value)
            if value and name.startswith("val/"):
                found[f"step {values['step']} {name}"] = Found("total", float(value))
    for file in ("best.ckpt", "resume.ckpt"):
        weights = torch.load(run / "checkpoints" / file, weights_only=True)["state_dict"]
        for name, value in weights.items():
            found[f"{file}/{name}"] = Found(
                "exact", f"{list(value.shape)} {digest(value.contiguous().numpy().tobytes())}"
            )
    return found


def numbers_of_test(place: Place, run: Path) -> Numbers:
    """The figures of the test split, and the score of each of its items."""
    place("test", "--run", run, "--trainer.accelerator", "cpu")
    metrics = json.loads((run / "test.json").read_text())["metrics"]
    found: Numbers = {name: Found("total", value) for name, value in metrics.items()}
    if (run / "test_items.npz").is_file():
        with np.load(run / "test_items.npz") as items:
            for item, nll in zip(items["items"].tolist(), items["nll"].tolist(), strict=True):
                found[f"test item {item}"] = Found("item", nll)
    return found


def numbers_of_scoring(place: Place, run: Path) -> Numbers:
    """The log-probability of each word of a text."""
    said = place("score", place.home / "text.txt", "--by", "word", "--json", "--run", run, *CPU)
    rows = enumerate(map(json.loads, said.splitlines()))
    return {f"score {number} {row['word']}": Found("item", row["log_prob"]) for number, row in rows}


def numbers_of_writing(place: Place, kind: str, run: Path) -> Numbers:
    """Sampled texts, and how often documents are likelier than other arrangements."""
    said = place("generate", "-n", "2", "--max_new_tokens", "12", "--run", run, *CPU)
    found: Numbers = {"generate": Found("exact", said)}
    tasks = COHERENCE if kind in ALL_TASKS else COHERENCE[:1]
    for task in () if kind == "itexp" else tasks:
        config, answers = place.home / "experiments" / f"{task}.yaml", run / f"{task}.json"
        place("coherence", "--config", config, "--run", run, "--output", answers, *CPU)
        found |= totals(f"coherence {task}", answers.read_text())
    return found


def numbers_of_trees(place: Place, kind: str, run: Path) -> Numbers:
    """Parses of a text, how right parses of a treebank are, and which attention head goes with which relation."""
    common, experiments = ("--run", run, *CPU), place.home / "experiments"
    heads = ("--attention_head", "[1,0]") if kind == "masked_transformer" else ()
    parse = place("parse", "--input", place.home / "text.txt", "--form", "as_is", *common, *heads)
    scores = place("parsing-scores", "--config", experiments / "parsing.yaml", "--json", *common)
    found = {"parse": Found("exact", parse)} | totals("parsing-scores", scores)
    heads_and_relations = place("head-correlations", "--config", experiments / "correlations.yaml", "--json", *common)
    return found | totals("head-correlations", heads_and_relations)


def numbers_of_parsers(place: Place) -> Numbers:
    """The scores of a spaCy parser trained here, and how often SuPar's agrees with the gold trees."""
    experiments = place.home / "experiments"
    place("train-parser", "--config", experiments / "parser_spacy.yaml")
    scores = place.home / "cache" / "parsers" / "spacy" / "scores.json"
    said = place("parser-agreement", "--config", experiments / "agreement.yaml")
    return {**totals("parsers/spacy", scores.read_text()), "parser-agreement": Found("exact", said)}


def numbers_of_texts(place: Place) -> Numbers:
    """Every measure of texts, with invented models: BLEU, BERTScore, perplexities, LM score and reverse LM score."""
    home, oracle = place.home, place.home / "experiments" / "transformer.yaml"
    tested = [line.split("\t") for line in place("train-oracle", "--config", oracle).splitlines()[1:]]
    found: Numbers = {f"train-oracle {name}": Found("total", float(value)) for name, value in tested}
    options = {
        "references": home / "references.txt", "perplexity_model": home / "models" / "gpt2", "oracle": oracle,
        "bertscore_model": home / "models" / "bert", "bertscore_layer": "2", "resamples": "50",
    }  # fmt: skip
    given = [each for name, value in options.items() for each in (f"--{name}", value)]
    said = place("evaluate-text", home / "stories.txt", *given, "--json", *CPU)
    return found | totals("evaluate-text", said)


def totals(name: str, said: str) -> Numbers:
    """The numbers of JSON, but for those of the clock."""
    numbers = flat(name, json.loads(said)).items()
    return {each: Found("total", value) for each, value in numbers if not each.endswith(CLOCK)}


def flat(name: str, value: object) -> dict[str, float]:
    """Numbers of nested lists and dictionaries, by their places."""
    if isinstance(value, dict):
        return {key: n for part, each in value.items() for key, n in flat(f"{name}/{part}", each).items()}
    if isinstance(value, list):
        return {key: n for place, each in enumerate(value) for key, n in flat(f"{name}/{place}", each).items()}
    return {name: float(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


def digest(content: bytes) -> str:
    """The beginning of a SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]
