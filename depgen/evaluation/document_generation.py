"""Documents continued sentence by sentence, drawn from the very distribution that scores them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.documents import whole_documents
from depgen.data.vocabulary import AnyVocabulary
from depgen.decoding.generation import generate
from depgen.decoding.sampling import Sampling
from depgen.document_language_model import DocumentLanguageModel
from depgen.evaluation.likelihood import DocumentIds
from depgen.nn.vocabulary import log_softmax_over_vocabulary


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

    The system reads the whole document again for each new word.

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
    written: list[list[list[int]]] = [[] for _ in documents]

    def step(tokens: Tensor, padding: Tensor | None, state: _Unfinished) -> tuple[Tensor, _Unfinished]:
        state = state.followed_by(tokens)
        return next_word_log_probs(model, state.whole(), vocabulary=vocabulary), state

    for sentence in range(sentences):
        before = [[*document, *new] for document, new in zip(documents, written, strict=True)]

        def begin(places: Sequence[int], before: Sequence[DocumentIds] = before) -> _Unfinished:
            return _Unfinished([before[place] for place in places], None)

        texts = generate(
            step,
            [[vocabulary.start]] * len(documents),
            eos=vocabulary.eos,
            sampling=sampling,
            seeds=[sentence_seed(seed, sentence) for seed in seeds],
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            device=model.device,
            progress=progress,
            begin=begin,
        )
        for new, text in zip(written, texts, strict=True):
            new.append(text)
    return written


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


def sentence_seed(seed: int, sentence: int) -> int:
    """The seed of one of a text's sentences, of 63 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed} sentence {sentence}".encode()).digest()[:8]) >> 1


@dataclass(frozen=True)
class _Unfinished:
    """Documents, and for each the beginning of its next sentence: `<s>` and words."""

    documents: Sequence[DocumentIds]
    tokens: Int[Tensor, "documents length"] | None

    def followed_by(self, tokens: Int[Tensor, "documents new"]) -> "_Unfinished":
        return _Unfinished(self.documents, tokens if self.tokens is None else torch.cat((self.tokens, tokens), 1))

    def whole(self) -> list[DocumentIds]:
        assert self.tokens is not None
        return [[*before, ids[1:]] for before, ids in zip(self.documents, self.tokens.tolist(), strict=True)]

    def select(self, rows: Int[Tensor, " kept"]) -> "_Unfinished":
        """Those documents alone, in the order given."""
        assert self.tokens is not None
        return _Unfinished([self.documents[row] for row in rows.tolist()], self.tokens[rows])
