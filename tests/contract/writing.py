"""The checks of systems that write texts."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from depgen.decoding.generation import Generated
from depgen.decoding.settings import BeamOptions, Sampling, TokenOptions
from depgen.evaluation.generation import continue_documents
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from tests.contract.batches import (
    CLOSE,
    DOCUMENTS,
    PLAIN,
    STARTING,
    Document,
    all_scores,
    batch_of,
    scores_of,
    vocabulary_of,
)
from tests.contract.systems import VOCABULARY, writes_levels

LONGEST = 4
"""Tokens of the texts that are written."""


@torch.no_grad()
def steps_of(model: LanguageModel, document: Document) -> torch.Tensor:
    """The distributions by which the system would write a document, token by token."""
    vocabulary, found = vocabulary_of(model), []
    if isinstance(model, DocumentLanguageModel):
        before = None
        for sentence in document:
            inputs = torch.tensor([[vocabulary.start, *sentence]])
            features, before = model.step(inputs, before)
            found.append(log_softmax_over_vocabulary(features[0], model.output_weight, model.output_bias))
        return torch.cat(found)
    assert isinstance(model, LeftToRight)
    inputs, state = torch.tensor([[vocabulary.eos, *np.concatenate(document).tolist()]]), None
    first = 1 + inputs.shape[1] % 2  # a text of odd length begins with a prompt of two tokens
    for part in (inputs[:, :first], *inputs[:, first:].split(1, dim=1)):
        log_probs, state = model.generation_step(part, None, state)
        found.append(log_probs)
    missing = torch.full((first - 1, VOCABULARY), torch.nan, dtype=found[0].dtype)
    return torch.cat([missing, *found])


def it_writes_by_its_scores(model: LanguageModel, folder: Path) -> None:
    """Each step of writing draws from the distribution that scores the text."""
    for document in DOCUMENTS:
        batch = batch_of(model, [document])
        (expected,) = scores_of(model, batch)
        steps = steps_of(model, document)
        drawn = ~steps[:, 0].isnan()
        found = steps.gather(1, batch.targets[batch.is_word][:, None])[:, 0]
        torch.testing.assert_close(found[drawn], expected[drawn], **CLOSE)
        torch.testing.assert_close(steps[drawn].exp().sum(1), torch.ones_like(expected[drawn]), **CLOSE)


BEGINNINGS: list[Document] = [DOCUMENTS[0][:2], DOCUMENTS[1], []]


def generated(model: LanguageModel, sampling: Sampling, *, batch_size: int = 3) -> list[Generated]:
    """A continuation of each beginning: tokens, or the words of the next sentence."""
    options = {"max_new_tokens": LONGEST, "batch_size": batch_size, "seeds": range(3)}
    if isinstance(model, DocumentLanguageModel):
        texts = continue_documents(model, BEGINNINGS, vocabulary=STARTING, sentences=1, sampling=sampling, **options)
        return [sentence for (sentence,) in texts]
    prompts = [[token for sentence in document for token in sentence] for document in beginnings_of(model)]
    own = model.generation_options(**asdict(sampling))
    return model.generate(prompts, vocabulary=vocabulary_of(model), options=own, **options)


def beginnings_of(model: LanguageModel) -> list[Document]:
    """What is continued; systems that write level by level write whole texts."""
    return [[], [], []] if writes_levels(model) else BEGINNINGS


def written(model: LanguageModel, sampling: Sampling, *, batch_size: int) -> list[tuple[list[int], Any]]:
    """The tokens of the continuations, and what is built over them."""
    return [(each.ids, each.structure) for each in generated(model, sampling, batch_size=batch_size)]


def texts_have_the_log_probs_of_their_tokens(model: LanguageModel, folder: Path) -> None:
    """What a text is generated with, whatever the filters, is what its tokens score after the prompt.

    Of a system that builds structures, what its tokens score together with their part of the structure.
    """
    compared = 0
    drawn = [Sampling(top_p=0.5), Sampling(greedy=True), *(Sampling(temperature=t) for t in (1.0, 20.0, 30.0))]
    searched: list[Sampling] = [BeamOptions(beam_size=3)] if isinstance(model, LeftToRight) else []
    if model.generation_options is TokenOptions:
        searched += [TokenOptions(min_new_tokens=2), TokenOptions(min_new_tokens=2, beam_size=3)]
    for sampling in drawn + searched:
        texts = generated(model, sampling)
        assert all(len(text.ids) >= getattr(sampling, "min_new_tokens", 0) for text in texts)
        pairs = [pair for pair in zip(beginnings_of(model), texts, strict=True) if pair[1].ids]
        wholes, given = [[*document, text.ids] for document, text in pairs], {}
        if pairs and pairs[0][1].structure is not None:  # over prompt and text as one sentence
            wholes = [[np.concatenate(whole).tolist()] for whole in wholes]
            given = {"structure": [[text.structure] for _, text in pairs]}
        scores = model.sentence_log_probs(wholes, vocabulary=vocabulary_of(model), **given) if pairs else []
        for (document, text), found in zip(pairs, scores, strict=True):
            tokens = found[-1][sum(map(len, document)) if given else 0 :]
            expected = tokens[: LONGEST if len(text.ids) == LONGEST else None].sum()
            assert abs(text.log_prob - expected) < 1e-9, f"{text.log_prob} and {expected}"
            compared += 1
    assert compared >= 3
    assert all((model.likelihood != "bound") is (text.structure is None) for text in texts)


def texts_are_written_alike_in_every_batch(model: LanguageModel, folder: Path) -> None:
    """Texts and their structures depend on no batch."""
    drawn = written(model, Sampling(top_p=0.9), batch_size=3)
    assert drawn == written(model, Sampling(top_p=0.9), batch_size=2)
    assert len({tuple(text) for text, _ in drawn}) > 1
    if isinstance(model, LeftToRight):
        beam = BeamOptions(beam_size=3)
        assert written(model, beam, batch_size=9) == written(model, beam, batch_size=1)


def a_greedy_text_takes_the_likeliest_tokens(model: LanguageModel, folder: Path) -> None:
    """At each place the token with the highest score."""
    greedy = [ids for ids, _ in written(model, Sampling(greedy=True), batch_size=3)]
    for document, text in zip(BEGINNINGS, greedy, strict=True):
        last = text or [3]  # where nothing is written, its place has the scores of the end
        best = all_scores(model, [*document, last])
        best[PLAIN.unk] = -torch.inf  # is not written unless asked for
        if isinstance(model, DocumentLanguageModel):
            best[STARTING.start] = -torch.inf  # is never written
        first, expected = best.shape[1] - len(last) - 1, [*text, PLAIN.eos][:LONGEST]
        assert best.argmax(0)[first : first + len(expected)].tolist() == expected
