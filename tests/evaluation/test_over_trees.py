"""Bounds over trees against the enumeration of all labelled trees of a sentence."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.annotation.supar import SuparAnnotator
from depgen.data.levels import binarization_of, with_placeholders
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.over_trees import bound_of_samples, bound_table, bounds_of_sentences
from depgen.evaluation.text_documents import TextDocument, document_of
from depgen.evaluation.trained import Trained
from depgen.trees.binarization import Binarization, binary_dependencies, written_tree
from depgen.trees.pieces import piece_heads
from depgen.trees.sentence import Sentence
from tests import oracles_of_itexp as oracle
from tests.decoding.test_projective_trees import crf, keys, labelled, probabilities
from tests.invented_levels import FULL, SIDES, small
from tests.models.test_itexp import network_scores
from tests.trees.trees import projective_heads

WORDS = ("a", "b", "c")


def of_form(binarization: Binarization):
    """A vocabulary of all expansions of three words with two labels, in a form."""
    if binarization == "left-right":
        return FULL
    patterns = {oracle.pattern(heads, labels, word) for words in (1, 2, 3) for heads, labels in labelled(words)
                for word in range(1, words + 1)}  # fmt: skip
    tables = {
        "expansions": [["<pad>"], ["<unk>"], *([*left, "HEAD", *right] for left, right in sorted(patterns))],
        "binarization": [binarization],
    }
    return with_placeholders(Vocabulary.of_words("abcdefgh"), ["ROOT", *SIDES], tables)


def joint(model, vocabulary, tree):
    """The probability of the three words and a tree, by the slow version."""
    heads, labels = written(vocabulary, tree)
    levels = oracle.levels(WORDS, heads, labels)
    return math.exp(sum(oracle.joint_log_prob(levels, *network_scores(model, vocabulary))))


def written(vocabulary, tree):
    heads, labels = written_tree(*tree, binarization_of(vocabulary))
    return tuple(heads.tolist()), tuple(labels)


@pytest.fixture
def scored(monkeypatch):
    """Bounds of sentences by a system whose parser has given distributions."""

    def of(model, vocabulary, distributions, number, *, text="a b c", texts=(), trees="sampled", **options):
        annotator = SuparAnnotator("invented")
        monkeypatch.setattr(annotator, "distributions", lambda sentences: distributions[: len(sentences)])
        monkeypatch.setattr("depgen.evaluation.over_trees.parser_named", lambda name: annotator)
        trained = Trained(model, vocabulary, Path("run"), Path("run.ckpt"))
        documents = texts or [document_of(text, name="text")]
        return bounds_of_sentences(
            trained, documents, trees=trees, number_of_trees=number, parser="invented", **options
        )

    return of


@pytest.mark.parametrize("binarization", ["left-right", "none"])
@torch.no_grad()
def test_three_words_with_two_labels(scored, binarization):
    vocabulary, trees = of_form(binarization), crf(3, ("left", "right"))
    model = small(vocabulary)
    of_written, shares = {}, {}
    for tree, share in probabilities(trees).items():
        key = written(vocabulary, tree)
        of_written[key] = of_written.get(key) or joint(model, vocabulary, tree)
        shares[key] = shares.get(key, 0.0) + share
    assert len(of_written) == (20 if binarization != "none" else 28)
    marginal = sum(of_written.values())
    number = 1000
    (sentence,) = scored(model, vocabulary, [trees], number, seed=3).to_dict("records")
    drawn = trees.sample(number, np.random.default_rng((3, 0)))
    weights = np.array([of_written[key] / shares[key] for key in (written(vocabulary, tree) for tree in drawn)])
    numbers = (1, 10, 100, number)
    for each in numbers:
        assert math.exp(sentence[f"log_prob_{each}"]) == pytest.approx(weights[:each].mean())
        expected = weights[:each].sum() ** 2 / (weights[:each] ** 2).sum()
        assert sentence[f"effective_{each}"] == pytest.approx(expected)
    assert sentence["log_prob"] == sentence[f"log_prob_{number}"]
    assert sentence["distinct_trees"] == len({written(vocabulary, tree) for tree in drawn})
    assert abs(weights.mean() - marginal) < 4 * weights.std() / math.sqrt(number)
    assert sum(of_written[key] for key in shares) == pytest.approx(marginal)  # all of p's trees are drawn: no bias


@torch.no_grad()
def test_gold_trees_have_their_joint_probability(scored):
    model, trees = small(FULL), [([2, 0, 2], ["left", "root", "right"]), ([0, 1], ["root", "other"])]
    texts = [
        TextDocument("t", (Sentence(tuple("abc"[: len(heads)]), tuple(heads), tuple(names)),), ("t:1",))
        for heads, names in trees
    ]
    first, second = scored(model, FULL, [], 5, texts=texts, trees="gold").to_dict("records")
    assert math.exp(first["log_prob"]) == pytest.approx(joint(model, FULL, trees[0]))
    assert (second["log_prob"], second["impossible_trees"]) == (-math.inf, 1)
    with pytest.raises(UserError, match="'a b': expected a sentence with its tree"):
        scored(model, FULL, [], 5, text="a b", trees="gold")


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
    {"expansions": [["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "right"]], "binarization": ["left-right"]},
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
    first, _ = scored(model, FEW, [best, crf(3)], 200, text=text).to_dict("records")
    assert first["impossible_trees"] == first["distinct_trees"] - 1 > 0
    share = best.log_prob((np.array(chain[0]), tuple(chain[1])), binarization="left-right")
    drawn = best.sample(200, np.random.default_rng((0, 0)))
    count = sum(written(FEW, tree) == written(FEW, chain) for tree in drawn)
    assert first["log_prob"] == pytest.approx(expected + math.log(count / 200) - share)
    worst = crf(3)
    worst.arcs[:] = -9.0
    worst.arcs[0, 1] = worst.arcs[2, 1] = worst.roots[1] = 9.0
    found = scored(model, FEW, [best, worst], 4, text=text)
    assert found["log_prob"][1] == -math.inf
    (row,) = bound_table(found, [document_of(text)], by="all").to_dict("records")
    assert (row["sentences"], row["sentences_without_trees"]) == (2, 1)
    assert row["words"] == 3
    assert row["impossible_trees"] == found["impossible_trees"].sum()
    assert row["log_prob"] == found["log_prob"][0]
    assert row["perplexity_bound"] == pytest.approx(math.exp(-row["log_prob"] / 3))
    assert row["likelihood"] == "bound"


@given(projective_heads(max_size=7), st.data())
def test_a_tree_is_binarised_before_or_after_its_words_are_cut(heads, data):
    counts = [data.draw(st.integers(1, 3)) for _ in heads]
    owner = np.repeat(np.arange(len(heads)), counts)
    for binarization in ("left-right", "none"):
        after = binary_dependencies(piece_heads(heads, owner, left_dependents="first_piece"), binarization=binarization)
        before = piece_heads(
            binary_dependencies(heads, binarization=binarization), owner, left_dependents="first_piece"
        )
        assert after.tolist() == before


def test_a_pair_of_weights():
    bound = bound_of_samples(np.log([0.2, 0.1]), np.log([0.5, 0.5]), [0, 1, 1])
    assert np.exp([bound["log_prob_1"], bound["log_prob_3"]]) == pytest.approx([0.4, 0.8 / 3])
    assert [bound["effective_1"], bound["effective_3"]] == pytest.approx([1.0, 0.8**2 / (0.16 + 0.04 + 0.04)])
    assert (bound["distinct_trees"], bound["impossible_trees"]) == (2, 0)


def test_samples_do_not_depend_on_other_numbers(scored):
    model, trees = small(FULL), [crf(3, seed=1), crf(3, seed=2)]
    few, many = (scored(model, FULL, trees, number, text="a b c\nc b a") for number in (10, 30))
    for name in ("log_prob_1", "log_prob_10"):
        np.testing.assert_allclose(few[name], many[name])
    assert few["log_prob"][0] != few["log_prob"][1]
    other = scored(model, FULL, trees, 10, text="a b c\nc b a", seed=1)
    assert other["log_prob"][0] != few["log_prob"][0]
    assert keys(trees[0].sample(3, np.random.default_rng((0, 0)))) != keys(
        trees[0].sample(3, np.random.default_rng((1, 0)))
    )


@pytest.mark.parametrize("by", ["sentence", "document", "all"])
def test_tables_have_the_fields_of_texts_and_the_unit(scored, by):
    documents = [
        replace(document_of("a b"), fields={"item": 1}, sentence_ids=("s-1",)), document_of("a b c", name="other"),
        document_of(""),
    ]  # fmt: skip
    found = scored(small(FULL), FULL, [crf(2), crf(3)], 10, texts=documents)
    nats, bits = (bound_table(found, documents, by=by, unit=unit) for unit in ("nats", "bits"))
    np.testing.assert_allclose(bits["log_prob"] * math.log(2), nats["log_prob"])
    assert set(bits["unit"]) == {"bits"}
    if by != "all":
        assert bits["item"].notna().tolist()[:2] == [True, False]
    if by == "sentence":
        assert bits["sent_id"].dropna().tolist() == ["s-1"]
        np.testing.assert_allclose(nats["log_prob"], found["log_prob"])
    else:
        np.testing.assert_allclose(nats["log_prob"].sum(), found["log_prob"].sum())
        np.testing.assert_allclose(nats["effective_10"].dropna().mean(), found["effective_10"].mean())
