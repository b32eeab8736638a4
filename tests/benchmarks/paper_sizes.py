"""A training step of every system at its paper's size against its base's: time, tokens a second, memory, share of peak.

The text is random, of 10,000 words; all else is the experiment's, but that AdamW updates every system. Where there is
no GPU, batches are small and steps few: that only shows that all of it runs.
"""

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel

from depgen.training.experiment import Experiment
from depgen.training.hyper_parameters import build
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.benchmarks.figures import figure, paired_ratio, seconds, step_memory, write_figures

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
PAIRS, TOKENS = (6, None) if ON_GPU else (1, 300)
"""How often a system and its base are timed in turn; the tokens of a batch; None: the experiment's."""
WORDS, DOCUMENTS, SENTENCES, LENGTH = 10_000, 400, 5, 25
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Operations a second in bf16, as NVIDIA states them for dense matrices."""
BASES = {
    "dmlm_rocstories": "transformer_rocstories",
    "dmlm_rocstories_lstm": "awd_lstm_rocstories",
    "udgn_ptb": "masked_transformer_ptb",
    "structformer_ptb": "masked_transformer_ptb",
    "adclm_brown": "drnnlm_brown",
    "codclm_brown": "drnnlm_brown",
    "ccdclm_brown": "drnnlm_brown",
    "gilt_wikinews": "txl_wikinews",
    "pushdown_wikinews": "txl_wikinews",
    "tg_wikinews": "txl_wikinews",
    "dtg_wikinews": "txl_wikinews",
    "txl_treereg_wikinews": "txl_wikinews",
    "itexp_news": "transformer_itexp_news",
}


def named(path, **arguments):
    return {"class_path": f"depgen.{path}", "init_args": arguments}


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """Random documents with random trees; in the first ones, every word."""
    folder, generator = tmp_path_factory.mktemp("random"), np.random.default_rng(0)
    words = np.concatenate([generator.permutation(WORDS), generator.integers(0, WORDS, DOCUMENTS * SENTENCES * LENGTH)])
    texts = words[: DOCUMENTS * SENTENCES * LENGTH].reshape(DOCUMENTS, SENTENCES, LENGTH)
    heads = tuple(range(LENGTH))  # each word's head is the word before
    relations = ("root", *["dep"] * (LENGTH - 1))
    documents = [
        Document(tuple(Sentence(tuple(f"w{word}" for word in row), heads, relations) for row in text), str(number))
        for number, text in enumerate(texts)
    ]
    write_conllu(documents, folder / "random.conllu")
    return folder


def experiment(name, folder):
    """An experiment on the random treebank."""
    file = Path("experiments") / f"{name}.yaml"
    settings = Experiment(file).settings["data"]
    by_document = "documents" in settings["class_path"] or "rocstories" in name
    steps = [] if by_document else ["depgen.data.steps.SingleSentences"]
    files = dict.fromkeys(("train", "valid", "test"), "random.conllu")
    options = {"data.init_args.corpus": named("data.corpora.ConlluTreebank", folder=str(folder), steps=steps, **files)}
    arguments = settings["init_args"]
    if "annotator" in arguments:
        constituents = "Constituency" in str(arguments["annotator"])
        annotator = "annotation.controls.Branching" if constituents else "annotation.controls.GoldTrees"
        options["data.init_args.annotator"] = named(annotator)
    if "ConstituentLabels" in str(arguments["vocabulary"]):
        options["data.init_args.vocabulary"] = named("models.tg.ConstituentLabels")
    elif "SubwordPieces" in str(arguments["vocabulary"]):
        options["data.init_args.vocabulary"] = named("data.vocabulary.WordVocabulary", min_count=1)
    if TOKENS and "tokens_per_batch" in arguments:
        options["data.init_args.tokens_per_batch"] = TOKENS
    if TOKENS and "columns" in arguments:
        options["data.init_args.columns"] = 2
    return Experiment(file, options=options)


class Step:
    """A training step of an experiment's system: loss, gradients, update."""

    def __init__(self, experiment, phase=-1):
        torch.manual_seed(0)
        data = build(experiment.settings["data"])
        tables = data.vocabulary.tables
        sizes = {name: len(tables[name]) for name in ("expansions", "placeholders", "labels") if name in tables}
        self.model = build(experiment.settings["model"], vocabulary_size=data.vocabulary_size, **sizes)
        data.collate = getattr(self.model, "collate", data.plain_collate)
        data.setup("fit")
        self.model.configure_model()
        self.model.to(DEVICE).train()
        self.model.enter_phase(range(len(self.model.phases))[phase])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-6, fused=True)
        batch = next(iter(data.train_dataloader()))
        self.tokens = int(batch.lengths.sum())
        self.batch = batch.to(DEVICE)

    def __call__(self):
        self.optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16) if ON_GPU else contextlib.nullcontext():
            loss = self.model.training_step(self.batch, 0)
        loss.backward()
        self.optimizer.step()


class Peer:
    """A training step of transformers' GPT-2, as deep and wide as the Transformer of ROCStories, on as many tokens."""

    def __init__(self, tokens, length=55):
        config = GPT2Config(vocab_size=WORDS, n_layer=6, n_embd=512, n_head=8, n_inner=2048)
        self.model = GPT2LMHeadModel(config).to(DEVICE).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-6, fused=True)
        self.ids = torch.randint(WORDS, (max(tokens // length, 1), length), device=DEVICE)
        self.tokens = self.ids.numel()

    def __call__(self):
        self.optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16) if ON_GPU else contextlib.nullcontext():
            loss = self.model(self.ids, labels=self.ids).loss
        loss.backward()
        self.optimizer.step()


def measured(step):
    """Tokens a second, memory and share of peak of a step."""
    step()
    took = min(seconds(step) for _ in range(PAIRS))
    figures = {"speed": figure(step.tokens / took, "tokens/s"), "memory": figure(step_memory(step) / 2**30, "GiB")}
    peak = next((peak for card, peak in PEAKS.items() if ON_GPU and card in torch.cuda.get_device_name()), None)
    if peak is not None:
        with FlopCounterMode(display=False) as counter:
            step()
        figures["share of peak"] = figure(100 * counter.get_total_flops() / took / peak, "%")
    return figures


@pytest.mark.parametrize("name", BASES)
def test_a_system_beside_its_base(name, treebank, monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    system, base = experiment(name, treebank), Step(experiment(BASES[name], treebank))
    figures = {f"{BASES[name]}, {each}": entry for each, entry in measured(base).items()}
    phases = Step(system).model.phases
    for phase in range(len(phases)):
        step = Step(system, phase)
        label = f"{name}, {phases[phase].name}"
        figures |= {f"{label}, {each}": entry for each, entry in measured(step).items()}
        ratio = paired_ratio(base, step, pairs=PAIRS) * base.tokens / step.tokens
        figures[f"{label}, time of a token / base"] = figure(ratio, "x")
    write_figures(f"paper_sizes_{name}", figures)
    assert all(np.isfinite(entry["value"]) for entry in figures.values())


def test_the_transformer_beside_that_of_transformers(treebank, monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    ours = Step(experiment("transformer_rocstories", treebank))
    theirs = Peer(ours.tokens)
    figures = {f"GPT-2 of transformers, {each}": entry for each, entry in measured(theirs).items()}
    figures |= {f"Transformer, {each}": entry for each, entry in measured(ours).items()}
    ratio = paired_ratio(theirs, ours, pairs=PAIRS) * theirs.tokens / ours.tokens
    figures["Transformer, time of a token / GPT-2 of transformers"] = figure(ratio, "x")
    write_figures("paper_sizes_peer", figures)
    assert ours.tokens > 0
