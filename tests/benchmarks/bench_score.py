"""Scoring 2,000 sentences: against the network alone, and against minicons. Writes results/bench/score.json.

A GPT-2 of four layers, 256 wide, with 10,000 pieces and random weights. The sentences are those of the story grammar.
"""

from itertools import chain
from random import Random
from statistics import median
from string import ascii_lowercase

import pytest
import torch
import torch.nn.functional as F
from minicons.scorer import IncrementalLMScorer
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

import depgen
from depgen.data.generated import GeneratedLanguage
from depgen.evaluation.score import score
from tests.benchmarks.figures import figure, seconds, write_figures
from tests.invented_models import END, write_gpt2

SENTENCES, PIECES, ROUNDS, GOAL = 2000, 10_000, 5, 1.25
BATCH_OF_MINICONS = 32
BUDGETS = (512, 1024, 2048)
"""Tokens of a batch of the network alone; the fastest counts."""


def sentences():
    """Of 4 to 18 words, 9.6 in the mean."""
    stories = GeneratedLanguage(train=SENTENCES // 5, sentences=(5, 5)).documents("train")
    return [" ".join(sentence.words) for story in stories for sentence in story.sentences]


def write_model(folder, texts):
    """A model whose tokenizer knows the words of the texts, and invented ones that make up its size."""
    draw = Random(0)
    invented = ["".join(draw.choices(ascii_lowercase, k=9)) for _ in range(PIECES // 5)]
    write_gpt2(folder, [*texts * 10, " ".join(invented)], pieces=PIECES, width=256, layers=4, attention_heads=4)


class NetworkAlone:
    """Sums the log-probabilities of token sequences that lie in batches of one length each: nothing is padding."""

    def __init__(self, backbone, sequences, *, budget):
        self.backbone = backbone
        of_length = {}
        for ids in sequences:
            of_length.setdefault(len(ids), []).append(ids)
        rows = {length: max(1, budget // (length - 1)) for length in of_length}
        self.batches = [each for length, ids in of_length.items() for each in torch.tensor(ids).split(rows[length])]

    @torch.inference_mode()
    def __call__(self):
        total = 0.0
        for batch in self.batches:
            hidden = self.backbone(batch[:, :-1]).hidden.flatten(0, 1)
            logits = F.linear(hidden, self.backbone.output_weight, self.backbone.output_bias)
            words = logits.gather(1, batch[:, 1:].reshape(-1, 1))[:, 0]
            total += (words - logits.logsumexp(-1)).sum().item()
        return total


def fastest_alone(system, texts):
    tokenizer, sequences = system.vocabulary, []
    for first, *rest in map(str.split, texts):
        pieces = [tokenizer.pieces(first, space=False), *map(tokenizer.pieces, rest)]
        sequences.append([tokenizer.eos, *chain.from_iterable(pieces), tokenizer.eos])
    every = [NetworkAlone(system.model.backbone, sequences, budget=budget) for budget in BUDGETS]
    every[0]()
    return min(every, key=seconds)


def minicons_scorer(folder):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), bos_token=END, eos_token=END, pad_token=END
    )
    return IncrementalLMScorer(GPT2LMHeadModel.from_pretrained(folder).eval(), "cpu", tokenizer=tokenizer)


def test_score(tmp_path):
    texts, folder, file = sentences(), tmp_path / "gpt2", tmp_path / "sentences.txt"
    write_model(folder, texts)
    file.write_text("\n".join(texts), encoding="utf-8")
    system, scorer = depgen.load(folder, device="cpu"), minicons_scorer(folder)
    alone = fastest_alone(system, texts)

    def by_minicons():
        for first in range(0, SENTENCES, BATCH_OF_MINICONS):
            scorer.token_score(texts[first : first + BATCH_OF_MINICONS], bos_token=True)

    actions = {
        "System.score": lambda: system.score(texts),
        "depgen score, loading included": lambda: "".join(score(file, run=str(folder), device="cpu") or ()),
        "minicons": by_minicons,
    }
    assert system.score(texts)["log_prob"].sum() == pytest.approx(alone(), abs=1e-5 * SENTENCES)
    ratios = {name: [] for name in actions}
    for _ in range(ROUNDS):
        base = seconds(alone)
        for name, action in actions.items():
            ratios[name].append(seconds(action) / base)
    against_us = [one / two for one, two in zip(ratios["minicons"], ratios["System.score"], strict=True)]
    figures = {f"{name} / network alone": figure(median(each), "x", at_most=GOAL) for name, each in ratios.items()}
    figures["minicons / network alone"] = figure(median(ratios["minicons"]), "x")
    write_figures("score", figures | {"minicons / System.score": figure(median(against_us), "x")})
