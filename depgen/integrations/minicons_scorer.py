"""Scores by minicons' methods: `pip install 'depgen[minicons]'`.

`DepgenScorer("dmlm_rocstories").sequence_score(["the cat ran ."])` scores a text by a run.
"""

import math
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
from minicons.scorer import LMScorer
from torch import Tensor

from depgen.evaluation.system import load

Words = list[tuple[str, float]]
"""The words of a text, each with its log-probability in nats."""


class DepgenScorer(LMScorer):  # type: ignore[misc]
    """`minicons.scorer.LMScorer` over `System.score`, for any system that gives texts a likelihood.

    minicons' tokens are words here: the scores of a word's pieces are summed. Each text begins after the end of
    sequence, as in training (`bos_token=True` of minicons). Of masked systems scores are pseudo-log-likelihoods, of
    GiLT, Pushdown, TG and DTG lower bounds. Words that the system does not read, such as punctuation, have none.

    Args:
        run: what `depgen.load` takes.
        device: cpu, cuda, …; by default a GPU where there is one.
        first_word_space: see `depgen.load`.

    Raises:
        UserError: there is no such system.
    """

    def __init__(
        self, run: str | Path | None = None, device: str | None = None, *, first_word_space: bool | None = None
    ) -> None:
        self.system = load(run, device=device, first_word_space=first_word_space)
        self.device = self.system.model.device

    def prepare_text(self, text: str | Sequence[str], *, eos_token: bool = False) -> list[Words]:
        """The words of texts with their scores, and with `eos_token` the end."""
        return self._scored([text] if isinstance(text, str) else list(text), None, with_end=eos_token)

    def prime_text(
        self,
        prefix: str | Sequence[str],
        stimuli: str | Sequence[str],
        separator: str = " ",
        *,
        eos_token: bool = False,
    ) -> list[Words]:
        """The words of stimuli with their scores after their prefixes; no sentence ends between the two."""
        own = [stimuli] if isinstance(stimuli, str) else list(stimuli)
        prefixes = repeat(prefix, len(own)) if isinstance(prefix, str) else prefix
        before = [f"{each}{separator}" for each in prefixes]
        return self._scored([*map(str.__add__, before, own)], [*map(len, before)], with_end=eos_token)

    def _scored(self, texts: list[str], begins: list[int] | None, *, with_end: bool) -> list[Words]:
        words = self.system.score([{"sentence": text} for text in texts])  # none is cut into sentences
        words = words[(words["tokens"] > 0) & (with_end | ~words["is_end"])]
        if begins is not None:
            words = words[words["start"] >= words["document"].map(dict(enumerate(begins, start=1)))]
        by_text = dict(iter(words.groupby("document")))
        return [
            list(zip(by_text[number]["word"], by_text[number]["log_prob"], strict=True)) if number in by_text else []
            for number in range(1, len(texts) + 1)
        ]

    def compute_stats(
        self,
        batch: Sequence[Words],
        *,
        prob: bool = False,
        base_two: bool = False,
        return_tensors: bool = False,
        **others: Any,  # noqa: ANN401 - of minicons: `rank` and `bow_correction`, which have no sense for words
    ) -> Sequence[Sequence[float] | Tensor]:
        """Log-probabilities of words, in nats or bits, or their probabilities."""
        scores = [[score / math.log(2) if base_two else score for _, score in words] for words in batch]
        if prob:
            scores = [[math.exp(score) for _, score in words] for words in batch]
        return [torch.tensor(row) for row in scores] if return_tensors else scores

    def token_score(
        self,
        batch: str | Sequence[str],
        surprisal: bool = False,
        prob: bool = False,
        base_two: bool = False,
        rank: bool = False,
        **text: Any,  # noqa: ANN401 - of `prepare_text`
    ) -> list[Words]:
        """Each word with its log-probability, surprisal or probability."""
        texts = self.prepare_text(batch, **text)
        scores = self.compute_stats(texts, prob=prob, base_two=base_two)
        sign = -1.0 if surprisal else 1.0
        return [
            [(word, sign * float(score)) for (word, _), score in zip(words, row, strict=True)]
            for words, row in zip(texts, scores, strict=True)
        ]
