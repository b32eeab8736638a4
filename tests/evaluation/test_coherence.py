"""Coherence asked of systems whose answers are known; questions against all orders of short documents; likelihoods of
arrangements against reading each by itself."""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
import torch
import yaml
from scipy import stats

from depgen.cli import main
from depgen.data.vocabulary import Vocabulary, encode
from depgen.errors import UserError
from depgen.evaluation import coherence as module
from depgen.evaluation.coherence import (
    CoherenceOptions,
    coherence,
    credit,
    expected_distance,
    inserted,
    resampled_means,
    score_trials,
    shuffled,
    trials,
)
from depgen.evaluation.reading import Reading, reading_of_run
from depgen.evaluation.trained import Trained
from depgen.language_models.base import LanguageModel
from depgen.models.dclm import (
    DCLM,
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)
from depgen.trees.sentence import Document, Sentence
from tests.fixtures.kinds import named
from tests.shelves import Shelf


def listed(documents, name="listed"):
    """A corpus of documents of sentences as strings, the same in every split."""
    sentences = ([Sentence(tuple(words.split())) for words in each] for each in documents)
    return Shelf([Document(tuple(each), f"d{place}") for place, each in enumerate(sentences)], name=name)


class Toy(LanguageModel):
    """Scores a document by a rule; remembers how many it has read."""

    def __init__(self, rule, *, sentence_context="document"):
        super().__init__()
        self.rule, self.sentence_context, self.documents_read = rule, sentence_context, 0
        self.eval()

    def sentence_log_probs(self, documents, *, vocabulary):
        self.documents_read += len(documents)
        return [[np.array(each) for each in self.rule([list(ids) for ids in document])] for document in documents]


def counting(document):
    """Each sentence that begins with the number after that of the one before is certain, every other one unlikely."""
    before = [document[0][0] - 1, *(ids[0] for ids in document)]
    return [[0.0 if ids[0] == last + 1 else -3.0] for ids, last in zip(document, before, strict=False)]


def blind(document):
    """Likelihoods of sentences by themselves, which rounding could make depend on their order."""
    return [[-1 / (7 + sum(ids))] for ids in document]


# -- questions ---------------------------------------------------------------------------------------------------------

STORIES = listed([[f"{story} {place}" for place in range(4)] for story in ("a", "b", "c", "d")])


def generator(seed=0):
    return np.random.default_rng(seed)


def texts(trial):
    """Of each question, the candidates' sentences as strings."""
    orders = [[" ".join(trial.sentences[place].words) for place in order] for order in trial.orders]
    return [[orders[place] for place in each.candidates.tolist()] for each in trial.questions]


def test_every_order_is_as_probable_as_every_other():
    drawn = Counter(shuffled((0, 1, 2), 6000, generator()))
    assert drawn.keys() == set(permutations(range(3)))
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.parametrize("sentences", [1, 2, 3, 4])
def test_insertion_asks_for_every_place_of_every_sentence(sentences):
    document = tuple(range(sentences))
    asked = inserted(document, None, generator())
    assert len(asked) == sentences
    for taken, candidates in enumerate(asked):
        others = [each for each in document if each != taken]
        places = set(range(sentences)) - {taken}
        assert candidates == {(*others[:place], taken, *others[place:]): abs(place - taken) for place in places}
    assert len(inserted(document, 2, generator())) == min(2, sentences)
    taken = {asked.index(one) for seed in range(200) for one in inserted(document, 1, generator(seed))}
    assert taken == set(range(sentences)) or sentences == 2  # where it is one question to take the one or the other


def test_the_same_text_is_the_same_order():
    corpus = listed([["x", "x", "y"]])
    (order,) = trials(CoherenceOptions(shuffles=50), corpus)
    assert [each.words for each in order.sentences] == [("x",), ("y",)]
    assert sorted(map(tuple, order.orders)) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert (0, 0) in {tuple(each.candidates.tolist()) for each in order.questions}, "a shuffle that is the document"
    (insertion,) = trials(CoherenceOptions(task="insertion", insertions=None), corpus)
    assert texts(insertion) == [
        [["x", "x", "y"], ["x", "y", "x"]],
        [["x", "x", "y"], ["x", "y", "x"]],
        [["x", "x", "y"], ["x", "y", "x"], ["y", "x", "x"]],
    ]
    assert [each.distances.tolist() for each in insertion.questions] == [[0, 2], [0, 1], [0, 1, 2]]


def test_endings_are_those_of_other_documents():
    for trial, story in zip(trials(CoherenceOptions(task="ending", distractors=2), STORIES), "abcd", strict=True):
        for true, other in texts(trial):
            assert true == [f"{story} {place}" for place in range(4)]
            assert other[:3] == true[:3]
            assert other[3][0] in set("abcd") - {story}
            assert other[3][1:] == " 3"
        assert len({other[3] for _, other in texts(trial)}) == 2
    same = listed([["a", "end"], ["b", "end"], ["c", "fin"]])
    assert [texts(trial)[0][1][1] for trial in trials(CoherenceOptions(task="ending", distractors=1), same)] == [
        "fin", "fin", "end",
    ]  # fmt: skip
    with pytest.raises(UserError, match="more than 2 different endings among the documents, found 2"):
        trials(CoherenceOptions(task="ending", distractors=2), same)


@pytest.mark.parametrize("task", ["order", "insertion", "ending"])
def test_draws_depend_on_the_seed_and_the_corpus_alone(task):
    number = {"order": {"shuffles": 3}, "insertion": {"insertions": 1}, "ending": {"distractors": 1}}[task]
    asked = CoherenceOptions(task=task, **number)
    first, again = (list(map(texts, trials(asked, STORIES))) for _ in range(2))
    assert first == again
    others = (trials(CoherenceOptions(task=task, **number, seed=k), STORIES) for k in (1, 2))
    assert any(first != list(map(texts, other)) for other in others)
    shorter = trials(CoherenceOptions(task="order", shuffles=3, max_documents=2), STORIES)
    if task == "order":
        assert list(map(texts, shorter)) == first[:2]


def test_long_documents_are_cut_into_pieces_of_like_length():
    words = [f"w{place}" for place in range(11)]
    found = trials(CoherenceOptions(sentences=4, shuffles=1), listed([words, words[:4], words[:1]]))
    assert [trial.name for trial in found] == ["d0:1", "d0:2", "d0:3", "d1", "d2"]
    assert [trial.document for trial in found] == ["d0", "d0", "d0", "d1", "d2"]
    assert [texts(trial)[0][0] for trial in found] == [words[:4], words[4:8], words[8:], words[:4], words[:1]]


def test_what_has_no_order_is_left_out():
    corpus = listed([["a", "", "b"], [""], ["c"]])
    assert [texts(trial)[0][0] for trial in trials(CoherenceOptions(shuffles=1), corpus)] == [["a", "b"], ["c"]]
    assert [trial.name for trial in trials(CoherenceOptions(task="insertion"), corpus)] == ["d0"]
    for task in ("order", "insertion", "ending"):
        with pytest.raises(UserError, match="listed test: expected documents of several sentences, found none"):
            trials(CoherenceOptions(task=task), listed([["a"], ["b"]]))
    with pytest.raises(UserError, match="sentences: a piece of a document does not end where the document does"):
        CoherenceOptions(task="ending", sentences=4)


# -- likelihoods -------------------------------------------------------------------------------------------------------

LETTERS = Vocabulary.of_words(list("abcdefgh"), specials=["start"])
CORPUS = listed([["a b c", "d", "e f g h", "h a"], ["b b"], ["c z", "c y", "a"], ["g f", "e"]])  # z and y are unknown
ASKED = [
    CoherenceOptions(shuffles=5),
    CoherenceOptions(task="insertion", insertions=None),
    CoherenceOptions(task="ending", distractors=2),
]
CONTEXTS = [NoContext, CarriedState, HierarchicalContext, AttentionContext, ContextToContext, ContextToOutput]


def model(context, dtype=torch.float64):
    torch.manual_seed(0)
    found = DCLM(LETTERS.size, context=lambda size: context(size, size=5), embedding_size=4)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return found.to(dtype).eval()


def read_alone(found, trial, *, twice=False, at_once=None):
    """The log-likelihood of each arrangement, each in a batch of its own."""
    result = []
    for order in trial.orders:
        words = [trial.sentences[place].words for place in order]
        ids = [encode(LETTERS, [*each, each[-1]] if twice else each).ids.tolist() for each in words]
        parts = [ids[first : first + (at_once or len(ids))] for first in range(0, len(ids), at_once or len(ids))]
        scores = [each for part in parts for each in found.sentence_log_probs([part], vocabulary=LETTERS)[0]]
        result.append(sum(map(np.sum, scores)))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("task", ASKED, ids=lambda task: task.task)
@pytest.mark.parametrize("context", CONTEXTS)
def test_each_arrangement_has_the_likelihood_of_reading_it(context, task):
    found, asked = model(context), trials(task, CORPUS)
    for twice, at_once in ((False, None), (True, None), (False, 2)):
        reading = Reading(final_word_twice=twice, longest=at_once)
        scores = score_trials(found, asked, vocabulary=LETTERS, reading=reading)
        for trial, own in zip(asked, scores, strict=True):
            expected = read_alone(found, trial, twice=twice, at_once=at_once)
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("task", ASKED, ids=lambda task: task.task)
@pytest.mark.parametrize("context", [NoContext, ContextToContext, ContextToOutput])
def test_documents_are_read_in_the_form_of_the_runs_text(context, task):
    """`B` and `, b` are `b`, and a sentence of a comma is none."""
    found = model(context)
    corpus = listed([["A b", ",", "a", ", b", "C"], [",", "h", ";"], ["f", "G", "!"], ["!", "?"], ["d", "e"]])
    reading = Reading("bare")
    for trial, own in zip(
        asked := trials(task, corpus), score_trials(found, asked, vocabulary=LETTERS, reading=reading), strict=True
    ):
        for order, score in zip(trial.orders, own, strict=True):
            words = [reading.words(trial.sentences[place]) for place in order]
            ids = [encode(LETTERS, each).ids.tolist() for each in words if each]
            expected = found.sentence_log_probs([ids], vocabulary=LETTERS)[0] if ids else []
            assert score == pytest.approx(sum(map(np.sum, expected)), abs=1e-10)
    marks = [own for trial, own in zip(asked, score_trials(found, asked, vocabulary=LETTERS, reading=reading),
             strict=True) if trial.name == "d3"]  # fmt: skip
    assert task.task == "ending" or marks[0].tolist() == [0.0] * len(marks[0])


@pytest.mark.parametrize("task", ASKED, ids=lambda task: task.task)
def test_the_table_of_pairs_is_as_good_as_reading(monkeypatch, task):
    found, asked = model(ContextToOutput), trials(task, CORPUS)
    looked_up = score_trials(found, asked, vocabulary=LETTERS)
    monkeypatch.setattr(found, "sentence_log_probs", None)  # nothing was read, and nothing is
    score_trials(found, asked, vocabulary=LETTERS)
    monkeypatch.undo()
    monkeypatch.setattr(found, "sentence_context", "document")
    for first, second in zip(looked_up, score_trials(found, asked, vocabulary=LETTERS), strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-10)


@pytest.mark.parametrize("context", [CarriedState, ContextToContext, ContextToOutput])
def test_batches_do_not_matter(monkeypatch, context):
    found, asked = model(context), trials(ASKED[1], CORPUS)
    whole = score_trials(found, asked, vocabulary=LETTERS)
    monkeypatch.setattr(module, "TOKENS_AT_A_TIME", 1)
    for budget in (1, 30):
        for first, second in zip(
            whole, score_trials(found, asked, vocabulary=LETTERS, tokens_per_batch=budget), strict=True
        ):
            np.testing.assert_allclose(first, second, rtol=0, atol=1e-10)


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_a_vocabulary_can_not_tell_apart_is_as_likely_to_the_last_bit(context):
    found = model(context, torch.float32)
    (trial,) = trials(CoherenceOptions(shuffles=30), listed([["c z", "c y", "a"]]))  # both are c <unk>
    assert len(trial.orders) == 6
    (scores,) = score_trials(found, [trial], vocabulary=LETTERS, tokens_per_batch=1)
    by_text = {}
    for order, score in zip(trial.orders, scores, strict=True):
        by_text.setdefault(tuple("a" if trial.sentences[each].words == ("a",) else "c" for each in order), set()).add(
            score
        )
    assert [len(each) for each in by_text.values()] == [1, 1, 1]
    assert len(set(scores)) == (1 if context is NoContext else 3)


def test_sentences_that_stand_alone_are_read_once_each():
    alone, asked = Toy(blind, sentence_context="none"), trials(CoherenceOptions(shuffles=24), CORPUS)
    scores = score_trials(alone, asked, vocabulary=LETTERS)
    assert alone.documents_read == 9, "of ten sentences two are the same to the vocabulary"
    reading = Toy(blind)
    for first, second in zip(scores, score_trials(reading, asked, vocabulary=LETTERS), strict=True):
        assert len(set(first)) == 1
        assert first == pytest.approx(second)
    assert reading.documents_read > 9


# -- what answers are worth -------------------------------------------------------------------------------------------

RAGGED = [np.array([1.0, 0.0, 0.5]), np.array([1.0]), np.array([0.0, 0.0, 0.0, 1.0])]


def test_a_choice_is_right_wrong_or_shared():
    scores = np.array([-3.0, -3.0, -5.0, -3.0])
    assert credit(scores) == pytest.approx(1 / 3)
    assert credit(scores[[2, 0]]) == 0
    assert credit(scores[[0, 2]]) == 1
    assert credit(np.array([-1e6, np.nextafter(-1e6, 0)])) == 0, "likelihoods are compared to the last bit"
    assert expected_distance(scores, np.array([0.0, 1.0, 2.0, 5.0])) == 2.0
    with pytest.raises(AssertionError):
        credit(np.array([np.nan, -1.0]))


def test_resampled_sets_have_the_distribution_of_all_draws():
    values = [np.array([1.0, 0.0]), np.array([0.25])]
    one = [each for own in values for each in np.repeat(own, 2 // len(own))]  # of equal probability
    expected = Counter(round(sum(draws) / 2, 6) for draws in product(one, repeat=2))
    resamples = 40_000
    found = Counter(resampled_means(values, resamples=resamples).round(6).tolist())
    assert found.keys() == expected.keys()
    chance = [expected[mean] / 16 * resamples for mean in expected]
    assert stats.chisquare([found[mean] for mean in expected], chance).pvalue > 1e-3


def test_draws_depend_on_the_seed_and_on_nothing_else(monkeypatch):
    found = resampled_means(RAGGED, seed=1)
    assert (found == resampled_means(RAGGED, seed=1)).all()
    assert (found != resampled_means(RAGGED, seed=2)).any()
    assert (found[:100] == resampled_means(RAGGED, resamples=100, seed=1)).all()
    monkeypatch.setattr(module, "DRAWS_AT_A_TIME", 7)
    assert (found == resampled_means(RAGGED, seed=1)).all()


# -- the measure -------------------------------------------------------------------------------------------------------

VOCABULARY = Vocabulary.of_words([f"w{number}" for number in range(30)])
LOWERED = named("data.corpora.Brown", steps=["depgen.data.steps.Lowercase"])
NUMBERED = listed([[f"w{first + place}" for place in range(5)] for first in (0, 7, 14, 21)], name="numbered")
GENERATED = named("data.generated.GeneratedLanguage", train=2, valid=2, test=3, sentences=[5, 5])
TASKS = [
    {"task": "order", "shuffles": 40},
    {"task": "insertion", "insertions": None},
    {"task": "ending", "distractors": 2},
]


@pytest.fixture
def trained(tmp_path):
    """Makes a run that holds a toy, its own corpus being three generated stories."""

    def of(rule, **options):
        settings = {"data": named("data.text.TextData", corpus=GENERATED)}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
        return Trained(Toy(rule, **options), VOCABULARY, tmp_path, tmp_path / "best.ckpt")

    return of


def measured(system, task="order", corpus=NUMBERED, **options):
    found = coherence(system, CoherenceOptions(task, corpus, **options))
    return found.items, found.rows.iloc[0]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["task"])
def test_a_system_that_counts_is_never_wrong(trained, task):
    _, row = measured(trained(counting), **task)
    asked = [each for trial in trials(CoherenceOptions(**task), NUMBERED) for each in trial.questions]
    identities, questions = sum(not each.candidates.any() for each in asked), len(asked)
    assert row["accuracy"] == pytest.approx(100 * (1 - 0.5 * identities / questions))
    assert row["empty"] == pytest.approx(100 * identities / questions)
    assert row["accuracy_without_empty"] == 100, "a perfect system gets all that leave a choice"
    assert row["ties"] == 0, "a shuffle that is none is nothing to choose from"
    if task["task"] != "order":
        assert (row["accuracy"], row["deviation"]) == (100, 0)
    if task["task"] == "insertion":
        assert row["distance"] == 0
        assert row["distance_by_chance"] == pytest.approx(np.mean([abs(i - j) for i in range(5) for j in range(5)]))
        assert row["chance"] == pytest.approx(20)
    else:
        assert row["chance"] == 50


@pytest.mark.parametrize("context", ["document", "none"])
@pytest.mark.parametrize("task", TASKS[:2], ids=lambda task: task["task"])
def test_a_system_without_context_is_at_chance_by_ties_alone(trained, context, task):
    _, row = measured(trained(blind, sentence_context=context), **task)
    assert row["accuracy"] == pytest.approx(row["chance"])
    assert row["resampled_mean"] == pytest.approx(row["chance"])
    assert row["ties"] + row["empty"] == pytest.approx(100)
    assert row["deviation"] == pytest.approx(0, abs=1e-9)
    assert (row["low"], row["high"]) == pytest.approx((row["chance"], row["chance"]))
    if task["task"] == "insertion":
        assert row["distance"] == pytest.approx(row["distance_by_chance"])


def test_figures_are_those_of_the_answers(trained):
    rule = lambda document: [[-float((7 * ids[0]) % 5) * k] for k, ids in enumerate(document)]  # noqa: E731
    items, row = measured(trained(rule), **TASKS[0])
    credits = [np.array(each) for each in items["credits"]]
    assert 0 < row["accuracy"] < 100
    assert row["accuracy"] == pytest.approx(100 * np.mean(np.concatenate(credits)))
    resampled = 100 * resampled_means(credits, resamples=1000, seed=0)
    assert (row["resampled_mean"], row["deviation"]) == (resampled.mean(), resampled.std())
    assert abs(row["resampled_mean"] - row["accuracy"]) < 4 * row["deviation"] / np.sqrt(1000)
    assert row["low"] < row["accuracy"] < row["high"]
    assert (row["unknown_share"], row["documents"], row["sentences"]) == (0, 4, 20)


def test_the_accuracy_is_the_mean_of_the_documents_means(trained):
    corpus = listed([["w1", "w2"], [f"w{place}" for place in range(5, 13)]], name="unequal")
    rule = lambda document: counting(document) if len(document) == 2 else blind(document)  # noqa: E731
    items, row = measured(trained(rule), "insertion", corpus, insertions=None)
    assert items["credits"].map(len).tolist() == [2, 8]
    assert row["accuracy"] == pytest.approx(100 * (1 + 1 / 8) / 2), "of all questions it would be 30 %"
    assert row["distance"] == pytest.approx(np.mean([np.mean(each) for each in items["distances"]]))
    corpus = listed([["w1"], ["w5", "w6", "w7", "w8", "w9", "w10"]], name="a document without a choice")
    _, row = measured(trained(counting), corpus=corpus)
    assert row["empty"] >= 50
    assert (row["accuracy"], row["accuracy_without_empty"]) == (100 - row["empty"] / 2, 100)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["task"])
def test_every_arrangement_is_kept_with_its_log_probability(trained, task):
    """Score each by hand, and answer each question again."""
    items, _ = measured(trained(counting), **task)
    for document in items.to_dict("records"):
        texts = [[document["sentences"][place] for place in order] for order in document["orders"]]
        for text, log_prob in zip(texts, document["log_probs"], strict=True):
            numbers = [int(sentence[1:]) for sentence in text]
            assert log_prob == -3.0 * sum(one + 1 != other for one, other in itertools.pairwise(numbers))
        for question, worth in zip(document["questions"], document["credits"], strict=True):
            true, *others = [document["log_probs"][place] for place in question]
            assert texts[question[0]] == texts[0]
            assert worth == (1.0 if all(true > other for other in others) else 0.5), "no other is ever likelier"


def test_the_runs_own_corpus_is_taken_unless_another_is_named(trained):
    _, row = measured(trained(blind), corpus=None, shuffles=2)
    assert (row["name"], row["documents"], row["unknown_share"]) == ("generated", 3, 1)
    assert row["task"] == "order: 2 shuffles of each"
    system = trained(blind)
    (system.run / "config.yaml").unlink()
    with pytest.raises(UserError, match=r"no corpus of documents.*--corpus"):
        measured(system, corpus=None)


def test_words_are_brought_into_the_form_of_the_runs_text(trained, caplog):
    cased = listed([["W1 x", "W2", "W3"], ["W5", "W6"]], name="cased")
    plain = listed([["w1 x", "w2", "w3"], ["w5", "w6"]], name="cased")
    system = trained(counting)
    settings = {"data": named("data.text.TextData", corpus=LOWERED)}
    (system.run / "config.yaml").write_text(yaml.safe_dump(settings))
    lower = replace(system, reading=reading_of_run(system.run))
    (_, ours), (_, lowered) = (measured(lower, corpus=corpus, shuffles=9) for corpus in (cased, plain))
    assert ours.equals(lowered)
    assert (ours["form"], ours["unknown_share"]) == ("lower", 1 / 6)
    assert ours["accuracy"] > 80
    _, as_it_is = measured(system, corpus=cased, shuffles=9)
    assert (as_it_is["form"], as_it_is["unknown_share"]) == ("as_is", 1)
    assert not caplog.records
    cased.form = "ptb"
    measured(lower, corpus=cased)
    assert "has learnt from text in the form `lower`, but cased is in the form `ptb`" in caplog.text


def test_the_verb_prints_a_row_and_keeps_the_items(trained, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("depgen.evaluation.system.load", lambda run, **_: trained(blind))
    monkeypatch.setattr("depgen.evaluation.coherence.data_of", lambda _: type("Data", (), {"corpus": NUMBERED}))
    kept, asked = tmp_path / "blind.jsonl", ["--shuffles", "6", "--seed", "3", "--json"]
    assert main(["evaluate", "coherence", "--run", "blind", *asked, "--item_output", str(kept)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["name"], row["documents"], row["likelihood"], row["accuracy"]) == ("numbered", 4, "exact", 50)
    first = json.loads(kept.read_text().splitlines()[0])
    assert (first["name"], first["credits"], first["orders"][0]) == ("d0", [0.5] * 6, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("context", [CarriedState, ContextToContext, ContextToOutput])
def test_shuffles_prefer_the_document_as_often_as_all_its_orders_do(context):
    found, sentences = model(context), next(CORPUS.documents("test")).sentences
    ids = [encode(VOCABULARY, each.words).ids.tolist() for each in sentences]
    orders = list(permutations(range(4)))
    scores = [
        math.fsum(map(np.sum, found.sentence_log_probs([[ids[place] for place in order]], vocabulary=VOCABULARY)[0]))
        for order in orders
    ]
    expected = np.mean([1.0 if other < scores[0] - 1e-9 else 0.5 * (other <= scores[0] + 1e-9) for other in scores])
    assert 0 < expected < 1
    (trial,) = trials(CoherenceOptions(shuffles=4000), listed([[" ".join(each.words) for each in sentences]]))
    (own,) = score_trials(found, [trial], vocabulary=VOCABULARY)
    values = [own[each.candidates] for each in trial.questions]
    accuracy = np.mean([(first > other) + 0.5 * (first == other) for first, other in values])
    assert accuracy == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 4000))
