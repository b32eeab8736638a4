"""Documents continued sentence by sentence, drawn from the very distribution that scores them.

Only `<s>`, where a vocabulary has one, is never drawn: no text holds it, but a softmax gives it something.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generation import Generated, generate
from depgen.decoding.settings import Sampling
from depgen.evaluation.unit_scores import DocumentIds
from depgen.language_models.document import DocumentLanguageModel
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from depgen.seeds import seed_of


@torch.inference_mode()
def continue_documents(
    model: DocumentLanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: Vocabulary,
    sampling: Sampling,
    seeds: Sequence[int],
    sentences: int,
    max_new_tokens: int,
    batch_size: int = 64,
    progress: bool = False,
) -> list[list[Generated]]:
    """New sentences of each document, without their ends; document k depends on its sentences and seed k alone.

    For each new word its sentence is encoded again, from the state after the sentences before it.

    Args:
        model: a system in evaluation mode.
        documents: the text so far; may have no sentence.
        vocabulary: that it was trained with.
        sampling: how a token is drawn from the distribution.
        seeds: one a document.
        sentences: how many new ones.
        max_new_tokens: where a sentence is cut; the next one follows all the same. How many were is logged.
        batch_size: documents written at once.
        progress: show a progress bar for each sentence.
    """
    reader = _Continuation(model, vocabulary)
    keys = [tuple(map(tuple, document)) for document in documents]
    left = {key: reader.read(key, None) for key in dict.fromkeys(keys)}  # a document that comes again is read once
    before = [left[key] for key in keys]
    written: list[list[Generated]] = [[] for _ in documents]
    for sentence in range(sentences):
        begun = [place for place, each in enumerate(before) if each is not None]
        others = [place for place, each in enumerate(before) if each is None]
        for places in filter(None, (begun, others)):  # a batch begins its documents or continues them
            texts = generate(
                reader.step,
                [[vocabulary.start]] * len(places),
                eos=vocabulary.eos,
                options=sampling,
                seeds=[sentence_seed(seeds[place], sentence) for place in places],
                max_new_tokens=max_new_tokens,
                batch_size=batch_size,
                device=model.device,
                progress=progress,
                begin=partial(_begin, [before[place] for place in places]),
            )
            for place, text in zip(places, texts, strict=True):
                written[place].append(text)
        if sentence + 1 < sentences:
            before = [reader.read([text[-1].ids], state) for text, state in zip(written, before, strict=True)]
    return written


def sentence_seed(seed: int, sentence: int) -> int:
    """The seed of one of a text's sentences."""
    return seed_of(f"{seed} sentence {sentence}")


@dataclass(frozen=True)
class _Sentence(Rows):
    """The beginnings of one sentence in each of several documents.

    Attributes:
        before: what the sentences before it have left, a document a row; None where it is the first.
        tokens: `<s>` and words; None before the first step.
    """

    before: Any
    tokens: Int[Tensor, "documents length"] | None = None


def _begin(before: Sequence[Any], chosen: Sequence[int]) -> _Sentence:
    left = [before[place] for place in chosen]
    return _Sentence(None if left[0] is None else stacked(left))


@dataclass(frozen=True)
class _Continuation:
    """Reads on from what the sentences before have left."""

    model: DocumentLanguageModel
    vocabulary: Vocabulary

    def read(self, sentences: DocumentIds, before: Any) -> Any:  # noqa: ANN401
        """What these sentences leave."""
        for ids in sentences:
            inputs = torch.tensor([[self.vocabulary.start, *ids]], device=self.model.device)
            _, before = self.model.step(inputs, before)
        return before

    def step(self, tokens: Tensor, padding: Tensor | None, state: _Sentence) -> tuple[Tensor, _Sentence]:
        """Log-probabilities of the next word."""
        so_far = tokens if state.tokens is None else torch.cat((state.tokens, tokens), 1)
        features, _ = self.model.step(so_far, state.before)
        log_probs = log_softmax_over_vocabulary(features[:, -1], self.model.output_weight, self.model.output_bias)
        return _drawable(log_probs, self.vocabulary), _Sentence(state.before, so_far)


def _drawable(log_probs: Float[Tensor, "documents vocab"], vocabulary: Vocabulary) -> Float[Tensor, "documents vocab"]:
    """The same without `<s>`; no longer normalised."""
    if vocabulary.start == vocabulary.eos:
        return log_probs
    return log_probs.index_fill(1, torch.tensor([vocabulary.start], device=log_probs.device), -torch.inf)


def stacked(states: Sequence[Any]) -> Any:  # noqa: ANN401
    """States of a row each as one; where they are of unequal length, zeros fill up the second axis.

    >>> stacked([(torch.ones(1, 2),), (torch.ones(1, 3),)])[0].tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    if isinstance(states[0], Tensor):
        longest = max(state.shape[1] for state in states)
        spare = [(0, 0) * (state.dim() - 2) + (0, longest - state.shape[1]) for state in states]
        return torch.cat([F.pad(state, pad) for state, pad in zip(states, spare, strict=True)])
    return _like(states[0], [stacked(each) for each in zip(*states, strict=True)])


def _like(state: Any, parts: Sequence[Any]) -> Any:  # noqa: ANN401
    """A tuple of other parts, with the same names."""
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
