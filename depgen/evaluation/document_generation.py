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

from depgen.data.documents import whole_documents
from depgen.data.vocabulary import AnyVocabulary
from depgen.decoding.generation import generate
from depgen.decoding.sampling import Sampling
from depgen.document_language_model import DocumentLanguageModel, ReadsOn
from depgen.evaluation.likelihood import DocumentIds
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from depgen.seeds import seed_of


@torch.inference_mode()
def continue_documents(
    model: DocumentLanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: AnyVocabulary,
    sampling: Sampling,
    seeds: Sequence[int],
    sentences: int,
    max_new_tokens: int,
    batch_size: int = 64,
    progress: bool = False,
) -> list[list[list[int]]]:
    """New sentences of each document, without their ends; document k depends on its sentences and seed k alone.

    For each new word a system that reads on reads the sentence again, any other one the whole document.

    Args:
        model: a system in evaluation mode.
        documents: what stands before; may have no sentence.
        vocabulary: that it was trained with.
        sampling: how a token is drawn from the distribution.
        seeds: one a document.
        sentences: how many new ones.
        max_new_tokens: where a sentence is cut; the next one follows all the same. How many were is logged.
        batch_size: documents written at once.
        progress: show a progress bar for each sentence.
    """
    reader = _Left(model, vocabulary) if isinstance(model, ReadsOn) else _Whole(model, vocabulary)
    before = [reader.read(document, None) for document in documents]
    written: list[list[list[int]]] = [[] for _ in documents]
    for sentence in range(sentences):
        begun = [place for place, each in enumerate(before) if each is not None]
        others = [place for place, each in enumerate(before) if each is None]
        for places in filter(None, (begun, others)):  # a batch begins its documents or goes on with them
            texts = generate(
                reader.step,
                [[vocabulary.start]] * len(places),
                eos=vocabulary.eos,
                sampling=sampling,
                seeds=[sentence_seed(seeds[place], sentence) for place in places],
                max_new_tokens=max_new_tokens,
                batch_size=batch_size,
                device=model.device,
                progress=progress,
                begin=partial(_begin, [before[place] for place in places]),
            )
            for place, text in zip(places, texts, strict=True):
                written[place].append(text)
        before = [reader.read(text[-1:], left) for text, left in zip(written, before, strict=True)]
    return written


def sentence_seed(seed: int, sentence: int) -> int:
    """The seed of one of a text's sentences."""
    return seed_of(f"{seed} sentence {sentence}")


@dataclass(frozen=True)
class _Sentence:
    """The beginnings of one sentence in each of several documents.

    Attributes:
        before: what stands before it, a document each; as a reader has left it.
        tokens: `<s>` and words; None before the first step.
    """

    before: Sequence[Any]
    tokens: Int[Tensor, "documents length"] | None = None

    def followed_by(self, tokens: Int[Tensor, "documents new"]) -> "_Sentence":
        return _Sentence(self.before, tokens if self.tokens is None else torch.cat((self.tokens, tokens), 1))

    def select(self, rows: Int[Tensor, " kept"]) -> "_Sentence":
        """Those documents alone, in the order given."""
        assert self.tokens is not None
        return _Sentence([self.before[row] for row in rows.tolist()], self.tokens[rows])


def _begin(before: Sequence[Any], chosen: Sequence[int]) -> _Sentence:
    return _Sentence([before[place] for place in chosen])


@dataclass(frozen=True)
class _Whole:
    """Reads whole documents again: what every system that reads documents can do."""

    model: DocumentLanguageModel
    vocabulary: AnyVocabulary

    def read(self, sentences: DocumentIds, before: DocumentIds | None) -> DocumentIds | None:
        """The document with these sentences behind it."""
        return [*(before or ()), *sentences] or None

    def step(self, tokens: Tensor, padding: Tensor | None, state: _Sentence) -> tuple[Tensor, _Sentence]:
        """Log-probabilities of the next word."""
        state = state.followed_by(tokens)
        assert state.tokens is not None
        sentences = state.tokens[:, 1:].tolist()
        documents = [[*(before or ()), ids] for before, ids in zip(state.before, sentences, strict=True)]
        return _drawable(next_word_log_probs(self.model, documents, vocabulary=self.vocabulary), self.vocabulary), state


@dataclass(frozen=True)
class _Left:
    """Reads on from what the sentence before has left."""

    model: Any  # a document language model that reads on
    vocabulary: AnyVocabulary

    def read(self, sentences: DocumentIds, before: Any) -> Any:  # noqa: ANN401
        """What these sentences leave."""
        for ids in sentences:
            inputs = torch.tensor([[self.vocabulary.start, *ids]], device=self.model.device)
            _, before = self.model.read_on(inputs, before)
        return before

    def step(self, tokens: Tensor, padding: Tensor | None, state: _Sentence) -> tuple[Tensor, _Sentence]:
        """Log-probabilities of the next word."""
        state = state.followed_by(tokens)
        before = None if state.before[0] is None else stacked(state.before)
        features, _ = self.model.read_on(state.tokens, before)
        weight, bias = self.model.output_weight, self.model.output_bias
        return _drawable(log_softmax_over_vocabulary(features[:, -1], weight, bias), self.vocabulary), state


def _drawable(
    log_probs: Float[Tensor, "documents vocab"], vocabulary: AnyVocabulary
) -> Float[Tensor, "documents vocab"]:
    """The same without `<s>`; no longer normalised."""
    if vocabulary.start == vocabulary.eos:
        return log_probs
    return log_probs.index_fill(1, torch.tensor([vocabulary.start], device=log_probs.device), -torch.inf)


def stacked(states: Sequence[Any]) -> Any:  # noqa: ANN401
    """States of a row each as one; where they are of unequal length, zeros fill up the second axis.

    >>> stacked([(torch.ones(1, 2),), (torch.ones(1, 3),)])[0].tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    first = states[0]
    if isinstance(first, Tensor):
        longest = max(state.shape[1] for state in states)
        spare = [(0, 0) * (state.dim() - 2) + (0, longest - state.shape[1]) for state in states]
        return torch.cat([F.pad(state, pad) for state, pad in zip(states, spare, strict=True)])
    parts = [stacked(each) for each in zip(*states, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


@torch.inference_mode()
def next_word_log_probs(
    model: DocumentLanguageModel, documents: Sequence[DocumentIds], *, vocabulary: AnyVocabulary
) -> Float[Tensor, "documents vocab"]:
    """Log-probabilities (nats) of what follows the last word of each document; its last sentence may have none yet."""
    batch = whole_documents(documents, vocabulary).to(model.device)
    rows = torch.arange(len(documents), device=model.device)
    last = torch.tensor([len(document) - 1 for document in documents], device=model.device)
    features = model.read(batch).features[rows, last, batch.lengths[rows, last] - 1]
    return log_softmax_over_vocabulary(features, model.output_weight, model.output_bias)
