"""Bounds over trees against the enumeration of all labelled trees of a sentence."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.annotation.supar_parser import SuparAnnotator
from depgen.data.level_items import TreeForm
from depgen.data.levels import with_placeholders
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.likelihood.over_trees import BoundedSentence, TreeBound, TreeScorer, TreeScores
from depgen.evaluation.likelihood.score_table import ScoredText
from depgen.evaluation.likelihood.scored_text import Totals
from depgen.evaluation.reading import Reading
from depgen.evaluation.text_documents import document_of
from depgen.evaluation.trained import Trained
from depgen.trees.binarization import Binarization, binarized
from depgen.trees.pieces import piece_heads
from tests import oracles_of_itexp as oracle
from tests.decoding.test_projective_trees import crf, keys, labelled, probabilities
from tests.invented_levels import FULL, SIDES, small
from tests.models.test_itexp import network_scores
from tests.trees.trees import projective_heads

WORDS = ("a", "b", "c")


def of_form(binarization: Binarization, lossless=False):
    """A vocabulary of all expansions of three words with two labels, in a form."""
    if binarization == "left-right" and not lossless:
        return FULL
    form = TreeForm(binarization, lossless)
    written = [form.written(heads, relations) for words in (1, 2, 3) for heads, relations in labelled(words)]
    patterns = {oracle.pattern(heads.tolist(), labels, word) for heads, labels in written
                for word in range(1, len(labels) + 1)}  # fmt: skip
    tables = {
        "expansions": [["<pad>"], ["<unk>"], *([*left, "HEAD", *right] for left, right in sorted(patterns))],
        "trees": [binarization, "lossless" if lossless else "", "lift"],
    }
    names = sorted({label for _, labels in written for label in labels} - {"ROOT"})
    return with_placeholders(Vocabulary.of_words("abcdefgh"), ["ROOT", *names], tables)


def joint(model, vocabulary, tree):
    """The probability of the three words and a tree, by the slow version."""
    heads, labels = TreeForm.of(vocabulary).written(*tree)
    levels = oracle.levels(WORDS, heads.tolist(), labels)
    return math.exp(sum(oracle.joint_log_prob(levels, *network_scores(model, vocabulary))))


def written(vocabulary, tree):
    heads, labels = TreeForm.of(vocabulary).written(*tree)
    return tuple(heads.tolist()), tuple(labels)


@pytest.fixture
def scored(monkeypatch):
    """Bounds of sentences by a system whose parser has given distributions."""

    def of(model, vocabulary, distributions, trees, number, *, text="a b c", by="sentence", **options):
        annotator = SuparAnnotator("invented")
        monkeypatch.setattr(annotator, "distributions", lambda sentences: distributions[: len(sentences)])
        monkeypatch.setattr("depgen.evaluation.likelihood.over_trees.parser_named", lambda name: annotator)
        trained = Trained(model, vocabulary, Path("run"), Path("run.ckpt"))
        scorer = TreeScorer(trained, Reading(), trees, number, "invented", **options)
        return scorer.score([document_of(text, name="text")], by=by, unit="nats")

    return of


FORMS = [("left-right", False), ("inside-out", False), ("none", False), ("left-right", True)]


@pytest.mark.parametrize(("binarization", "lossless"), FORMS)
@torch.no_grad()
def test_three_words_with_two_labels(scored, binarization, lossless):
    vocabulary, trees = of_form(binarization, lossless), crf(3, ("left", "right"))
    model = small(vocabulary)
    proposal = probabilities(trees)
    of_written, shares = {}, {}
    for tree, share in proposal.items():
        key = written(vocabulary, tree)
        of_written[key] = of_written.get(key) or joint(model, vocabulary, tree)
        shares[key] = shares.get(key, 0.0) + share
    assert len(of_written) == (20 if binarization != "none" and not lossless else 28)
    marginal = sum(of_written.values())
    # the best trees
    falling = [written(vocabulary, tree) for tree in sorted(proposal, key=proposal.__getitem__, reverse=True)]
    ((sentence,),) = (text.sentences for text in scored(model, vocabulary, [trees], "k_best", 12))
    expected = [sum(of_written[key] for key in {*falling[:number]}) for number in (1, 10, 12)]
    assert np.exp(sentence.bound.log_probs) == pytest.approx(expected)
    assert expected[0] < expected[1] <= expected[2] < marginal
    assert sentence.bound.distinct == len({*falling[:12]})
    ((sentence,),) = (text.sentences for text in scored(model, vocabulary, [trees], "k_best", 1000))
    assert math.exp(sentence.bound.log_prob) == pytest.approx(marginal)
    # importance sampling
    number = 1000
    ((sentence,),) = (text.sentences for text in scored(model, vocabulary, [trees], "sampled", number, seed=3))
    drawn = trees.sample(number, np.random.default_rng((3, 0)))
    weights = np.array([of_written[key] / shares[key] for key in (written(vocabulary, tree) for tree in drawn)])
    numbers = (1, 10, 100, number)
    assert np.exp(sentence.bound.log_probs) == pytest.approx([weights[:each].mean() for each in numbers])
    sizes = [weights[:each].sum() ** 2 / (weights[:each] ** 2).sum() for each in numbers]
    assert sentence.bound.effective == pytest.approx(sizes)
    assert abs(weights.mean() - marginal) < 4 * weights.std() / math.sqrt(number)
    assert sum(of_written[key] for key in shares) == pytest.approx(marginal)  # all of p's trees are drawn: no bias


@torch.no_grad()
def test_joint_scores_of_many_trees_are_those_of_each(monkeypatch):
    monkeypatch.setattr("depgen.models.itexp.LEVELS_AT_ONCE", 40)
    model = small(FULL)
    trees = [tree for words in (1, 2, 3) for tree in labelled(words, tuple(SIDES))][::3]
    texts = [[FULL.pieces(word)[0] for word in "abc"[: len(heads)]] for heads, _ in trees]
    expected = [
        model.sentence_log_probs([[ids]], vocabulary=FULL, structure=[[tree]])[0][0].sum()
        for ids, tree in zip(texts, trees, strict=True)
    ]
    for tokens in (1, 10_000):
        found = model.tree_log_probs(texts, trees, vocabulary=FULL, tokens_per_batch=tokens)
        assert found == pytest.approx(expected, abs=1e-9)
    assert model.tree_log_probs([], [], vocabulary=FULL, tokens_per_batch=9).tolist() == []


def test_equal_levels_are_read_once(monkeypatch):
    model, rows = small(FULL), []
    forward = type(model).forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, batch: rows.append(len(batch.inputs)) or forward(self, batch)
    )
    ids = [FULL.pieces(word)[0] for word in "abc"]
    trees = [([0, 1, 2], ["root", "left", side]) for side in SIDES]  # the same but for the last level and its label
    model.tree_log_probs([ids, ids, ids], [*trees, trees[0]], vocabulary=FULL, tokens_per_batch=100)
    assert sum(rows) == 1 + 2 + 2


FEW = with_placeholders(
    Vocabulary.of_words("abcdefgh"),
    ["ROOT", *SIDES],
    {"expansions": [["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "right"]], "trees": ["left-right", "", "lift"]},
)
"""A single tree of each sentence: each word hangs on the one before."""


def test_trees_that_are_never_written_have_no_probability_and_are_counted(scored):
    model, text = small(FEW), "a b c\nb c a"
    chain = ([0, 1, 2], ["root", "right", "right"])
    expected = model.sentence_log_probs(
        [[[FEW.pieces(word)[0] for word in WORDS]]], vocabulary=FEW, structure=[[chain]]
    )[0][0].sum()
    best = crf(3, ("left", "right", "other"))
    best.arcs[1, 0] = best.arcs[2, 1] = best.roots[0] = 5.0
    best.labels[..., 1] += 5.0
    for trees in ("k_best", "sampled"):
        found = scored(model, FEW, [best, crf(3)], trees, 200, text=text)
        first, _ = found.sentences
        assert first.bound.impossible == first.bound.distinct - 1 > 0
        if trees == "k_best":
            assert first.bound.log_prob == pytest.approx(expected)
    worst = crf(3)
    worst.arcs[:] = -9.0
    worst.arcs[0, 1] = worst.arcs[2, 1] = worst.roots[1] = 9.0
    for trees in ("k_best", "sampled"):
        found = scored(model, FEW, [best, worst], trees, 4, text=text, by="all")
        second = found.sentences[1]
        assert second.bound.log_prob == -math.inf
        (row,) = found.rows()
        assert (row["sentences"], row["sentences_without_trees"]) == (2, 1)
        assert row["words"] == 3
        assert row["impossible_trees"] == sum(each.bound.impossible for each in found.sentences)
        assert row["log_prob"] == found.sentences[0].bound.log_prob
        assert found.rows()[0]["likelihood"] == "bound"


@given(projective_heads(max_size=7), st.data())
def test_a_tree_is_binarised_before_or_after_its_words_are_cut(heads, data):
    counts = [data.draw(st.integers(1, 3)) for _ in heads]
    owner = np.repeat(np.arange(len(heads)), counts)
    for binarization in ("left-right", "inside-out", "none"):
        after = binarized(piece_heads(heads, owner, left_dependents="first_piece"), binarization=binarization)
        before = piece_heads(binarized(heads, binarization=binarization), owner, left_dependents="first_piece")
        assert after.tolist() == before


def test_a_pair_of_weights():
    bound = TreeBound.of_samples(np.log([0.2, 0.1]), np.log([0.5, 0.5]), [0, 1, 1])
    assert np.exp(bound.log_probs) == pytest.approx([0.4, 0.8 / 3])
    assert bound.effective == pytest.approx([1.0, 0.8**2 / (0.16 + 0.04 + 0.04)])
    assert (bound.distinct, bound.impossible) == (2, 0)


def test_a_negative_seed_is_refused(scored):
    with pytest.raises(UserError, match="seed: expected at least 0, found -1"):
        scored(small(FULL), FULL, [crf(3)], "sampled", 1, seed=-1)


def test_words_have_no_bounds(scored):
    with pytest.raises(UserError, match="of sentences, not of their words"):
        scored(small(FULL), FULL, [crf(3)], "sampled", 2, by="word")


def test_samples_do_not_depend_on_other_numbers(scored):
    model, trees = small(FULL), [crf(3, seed=1), crf(3, seed=2)]
    few, many = (scored(model, FULL, trees, "sampled", number, text="a b c\nc b a") for number in (10, 30))
    for one, other in zip(few.sentences, many.sentences, strict=True):
        assert one.bound.log_probs == pytest.approx(other.bound.log_probs[:2])
    assert few.sentences[0].bound != few.sentences[1].bound
    other = scored(model, FULL, trees, "sampled", 10, text="a b c\nc b a", seed=1)
    assert other.sentences[0].bound != few.sentences[0].bound
    assert keys(trees[0].sample(3, np.random.default_rng((0, 0)))) != keys(
        trees[0].sample(3, np.random.default_rng((1, 0)))
    )


@pytest.mark.parametrize("by", ["sentence", "document", "all"])
def test_tables_have_the_fields_of_texts_and_the_unit(by):
    sentence = BoundedSentence("a", "t:1", Totals(), None)
    texts = (ScoredText("t", (sentence,), {"item": 1}, ("s-1",)), ScoredText("u", (sentence,)))
    rows = TreeScores(texts, "sampled", 10, "p", by, "bits").rows()
    assert {row["unit"] for row in rows} == {"bits"}
    if by != "all":
        assert [row["item"] for row in rows] == [1, None]
    if by == "sentence":
        assert [row["sent_id"] for row in rows] == ["s-1", None]
    assert TreeScores(texts[1:], "sampled", 10, "p", by).columns() == [
        name for name in rows[0] if name not in ("item", "sent_id")
    ]
