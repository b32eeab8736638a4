"""Likelihoods of arrangements are those of reading each by itself, by whichever way they come."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch

from depgen.data.vocabulary import Vocabulary, encode
from depgen.evaluation.coherence import scoring
from depgen.evaluation.coherence.arrangements import CoherenceOptions, trials
from depgen.evaluation.coherence.scoring import score_trials
from depgen.evaluation.reading import Reading
from depgen.models.dclm import (
    DCLM,
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)
from tests.evaluation.coherence.toys import Listed, Toy, blind

VOCABULARY = Vocabulary.of_words(list("abcdefgh"), specials=["start"])
CORPUS = Listed([["a b c", "d", "e f g h", "h a"], ["b b"], ["c z", "c y", "a"], ["g f", "e"]])  # z and y are unknown
TASKS = [
    CoherenceOptions(shuffles=5),
    CoherenceOptions(task="insertion", insertions=None),
    CoherenceOptions(task="ending", distractors=2),
]
CONTEXTS = [NoContext, CarriedState, HierarchicalContext, AttentionContext, ContextToContext, ContextToOutput]


def model(context, dtype=torch.float64):
    torch.manual_seed(0)
    found = DCLM(VOCABULARY.size, context=lambda size: context(size, size=5), embedding_size=4)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return found.to(dtype).eval()


def read_alone(found, trial, *, twice=False, at_once=None):
    """The log-likelihood of each arrangement, each in a batch of its own."""
    result = []
    for order in trial.arrangements:
        words = [trial.sentences[place].words for place in order]
        ids = [encode(VOCABULARY, [*each, each[-1]] if twice else each).ids.tolist() for each in words]
        parts = [ids[first : first + (at_once or len(ids))] for first in range(0, len(ids), at_once or len(ids))]
        scores = [each for part in parts for each in found.sentence_log_probs([part], vocabulary=VOCABULARY)[0]]
        result.append(sum(map(np.sum, scores)))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task)
@pytest.mark.parametrize("context", CONTEXTS)
def test_each_arrangement_has_the_likelihood_of_reading_it(context, task):
    found, asked = model(context), trials(task, CORPUS)
    for twice, at_once in ((False, None), (True, None), (False, 2)):
        reading = Reading(final_word_twice=twice, longest=at_once)
        scores = score_trials(found, asked, vocabulary=VOCABULARY, reading=reading)
        for trial, own in zip(asked, scores, strict=True):
            expected = read_alone(found, trial, twice=twice, at_once=at_once)
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task)
@pytest.mark.parametrize("context", [NoContext, ContextToContext, ContextToOutput])
def test_documents_are_read_in_the_form_of_the_runs_text(context, task):
    """`B` and `, b` are `b`, and a sentence of a comma is none."""
    found = model(context)
    corpus = Listed([["A b", ",", "a", ", b", "C"], [",", "h", ";"], ["f", "G", "!"], ["!", "?"], ["d", "e"]])
    reading = Reading("bare")
    for trial, own in zip(
        asked := trials(task, corpus), score_trials(found, asked, vocabulary=VOCABULARY, reading=reading), strict=True
    ):
        for order, score in zip(trial.arrangements, own, strict=True):
            words = [reading.words(trial.sentences[place]) for place in order]
            ids = [encode(VOCABULARY, each).ids.tolist() for each in words if each]
            expected = found.sentence_log_probs([ids], vocabulary=VOCABULARY)[0] if ids else []
            assert score == pytest.approx(sum(map(np.sum, expected)), abs=1e-10)
    marks = [own for trial, own in zip(asked, score_trials(found, asked, vocabulary=VOCABULARY, reading=reading),
             strict=True) if trial.name == "d3"]  # fmt: skip
    assert task.task == "ending" or marks[0].tolist() == [0.0] * len(marks[0])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task)
def test_the_table_of_pairs_is_as_good_as_reading(monkeypatch, task):
    found, asked = model(ContextToOutput), trials(task, CORPUS)
    looked_up = score_trials(found, asked, vocabulary=VOCABULARY)
    monkeypatch.setattr(found, "sentence_log_probs", None)  # nothing was read, and nothing is
    score_trials(found, asked, vocabulary=VOCABULARY)
    monkeypatch.undo()
    monkeypatch.setattr(found, "sentence_context", "document")
    for first, second in zip(looked_up, score_trials(found, asked, vocabulary=VOCABULARY), strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-10)


@pytest.mark.parametrize("context", [CarriedState, ContextToContext, ContextToOutput])
def test_batches_do_not_matter(monkeypatch, context):
    found, asked = model(context), trials(TASKS[1], CORPUS)
    whole = score_trials(found, asked, vocabulary=VOCABULARY)
    monkeypatch.setattr(scoring, "TOKENS_AT_A_TIME", 1)
    for budget in (1, 30):
        for first, second in zip(
            whole, score_trials(found, asked, vocabulary=VOCABULARY, tokens_per_batch=budget), strict=True
        ):
            np.testing.assert_allclose(first, second, rtol=0, atol=1e-10)


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_a_vocabulary_can_not_tell_apart_is_as_likely_to_the_last_bit(context):
    found = model(context, torch.float32)
    (trial,) = trials(CoherenceOptions(shuffles=30), Listed([["c z", "c y", "a"]]))  # both are c <unk>
    assert len(trial.arrangements) == 6
    (scores,) = score_trials(found, [trial], vocabulary=VOCABULARY, tokens_per_batch=1)
    by_text = {}
    for order, score in zip(trial.arrangements.tolist(), scores, strict=True):
        by_text.setdefault(tuple("a" if trial.sentences[each].words == ("a",) else "c" for each in order), set()).add(
            score
        )
    assert [len(each) for each in by_text.values()] == [1, 1, 1]
    assert len(set(scores)) == (1 if context is NoContext else 3)


def test_sentences_that_stand_alone_are_read_once_each():
    alone, asked = Toy(blind, sentence_context="none"), trials(CoherenceOptions(shuffles=24), CORPUS)
    scores = score_trials(alone, asked, vocabulary=VOCABULARY)
    assert alone.documents_read == 9, "of ten sentences two are the same to the vocabulary"
    reading = Toy(blind)
    for first, second in zip(scores, score_trials(reading, asked, vocabulary=VOCABULARY), strict=True):
        assert len(set(first)) == 1
        assert first == pytest.approx(second)
    assert reading.documents_read > 9


@pytest.mark.parametrize("context", [CarriedState, ContextToContext, ContextToOutput])
def test_shuffles_prefer_the_document_as_often_as_all_its_orders_do(context):
    found, sentences = model(context), CORPUS._documents[0].sentences
    ids = [encode(VOCABULARY, each.words).ids.tolist() for each in sentences]
    orders = list(permutations(range(4)))
    scores = [
        math.fsum(map(np.sum, found.sentence_log_probs([[ids[place] for place in order]], vocabulary=VOCABULARY)[0]))
        for order in orders
    ]
    expected = np.mean([1.0 if other < scores[0] - 1e-9 else 0.5 * (other <= scores[0] + 1e-9) for other in scores])
    assert 0 < expected < 1
    (trial,) = trials(CoherenceOptions(shuffles=4000), Listed([[" ".join(each.words) for each in sentences]]))
    (own,) = score_trials(found, [trial], vocabulary=VOCABULARY)
    values = [own[each.candidates] for each in trial.questions]
    accuracy = np.mean([(first > other) + 0.5 * (first == other) for first, other in values])
    assert accuracy == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 4000))
