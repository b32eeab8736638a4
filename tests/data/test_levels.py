"""Vocabularies with placeholders, and sentences at levels as items of training and of evaluation."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.trivial import GoldTrees
from depgen.data.level_items import UNKNOWN_EXPANSION, TreeForm
from depgen.data.levels import ExpansionVocabulary, LevelData, with_placeholders
from depgen.data.vocabulary import SubwordPieces, Vocabulary, WordVocabulary
from depgen.errors import UserError
from depgen.trees.binarization import expansions
from depgen.trees.sentence import Document, Sentence
from tests import oracles_of_itexp as oracle
from tests.invented_levels import LIKES, built, expansion_of, small, trees, written_levels

TWO_ROOTS = Sentence(("a", "b", "c"), (0, 1, 0), ("root", "x", "root"))
CROSSING = Sentence(("a", "b", "c", "d"), (3, 4, 0, 3), ("x", "y", "root", "z"))
ONE = Sentence(("a",), (0,), ("root",))
SENTENCES = (LIKES, CROSSING, ONE, TWO_ROOTS)


class Corpus:
    """The same sentences in all splits."""

    name, published = "some", {}

    def __init__(self, *sentences):
        self.sentences = sentences

    def documents(self, split):
        for number, sentence in enumerate(self.sentences):
            yield Document((sentence,), f"{number}")

    def fingerprint(self, split):
        return f"{self.sentences}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))


def data_of(*sentences, builder=None, **options):
    options = {"annotator": GoldTrees(), "vocabulary": builder or ExpansionVocabulary(), **options}
    return LevelData(Corpus(*(sentences or SENTENCES)), **options)


# -- vocabulary -------------------------------------------------------------------------------------------------------


def test_the_vocabulary_of_figure_2():
    found = built([LIKES])
    assert found.tables["placeholders"] == ["ROOT", "advmod", "dobj", "nsubj", "poss", "xcomp"]
    assert found.types[-6:] == ("[ROOT]", "[advmod]", "[dobj]", "[nsubj]", "[poss]", "[xcomp]")
    assert found.tables["expansions"] == [
        ["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "dobj"], ["nsubj", "HEAD", "xcomp"], ["poss", "HEAD", "advmod"],
    ]  # fmt: skip
    assert found.tables["trees"] == ["left-right", "", "lift"]
    assert {*found.types[:-6]} == {"<eos>", "<unk>", *LIKES.words}


@settings(deadline=None, max_examples=40)
@given(st.lists(trees(), min_size=1, max_size=5), st.sampled_from(["left-right", "inside-out", "none"]))
def test_the_table_has_every_expansion_of_the_trees_the_frequent_first(sentences, scheme):
    found = built(sentences, binarization=scheme).tables["expansions"]
    seen = [
        tuple(expansion_of(pattern))
        for sentence in sentences
        for level in written_levels(sentence, scheme)
        for pattern in level.patterns
        if pattern
    ]
    rows = [tuple(row) for row in found[2:]]
    assert {*rows} == {*seen, ("HEAD",)}
    assert len({*rows}) == len(rows)
    assert rows == sorted(rows, key=lambda row: (-seen.count(row) - (row == ("HEAD",)), row))


def test_a_limit_keeps_the_frequent_expansions_and_the_leaf():
    assert built([LIKES], max_expansions=2).tables["expansions"] == [["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "dobj"]]
    rare = Sentence(("a", "b"), (0, 1), ("root", "x"))
    many = Sentence(("a", *"bcdefg"), (0, 1, 2, 3, 4, 5, 6), ("root", *"xxxxxx"))
    for sentence, most in ((rare, 1), (many, 1)):
        assert built([sentence], max_expansions=most).tables["expansions"][2:] == [["HEAD"]]


def test_pieces_have_expansions_themselves():
    found = built([LIKES], words=SubwordPieces(size=258))  # bytes alone: four for a space and "dog"
    pieces = [[str(each) for each in found.pieces(word)] for word in LIKES.words]
    assert len(pieces[1]) == 4
    _, heads, labels = oracle.in_pieces(oracle.binarised(LIKES.heads), LIKES.relations, pieces)
    expected = {tuple(expansion_of(oracle.pattern(heads, labels, word))) for word in range(1, len(heads) + 1)}
    assert {tuple(row) for row in found.tables["expansions"][2:]} == expected
    assert ("poss", "HEAD", "subword") in expected
    assert found.tables["placeholders"] == ["ROOT", "advmod", "dobj", "nsubj", "poss", "subword", "xcomp"]


def test_sentences_of_pieces_are_read_as_the_tree_of_pieces():
    data = data_of(LIKES, builder=ExpansionVocabulary(SubwordPieces(size=258)))
    vocabulary, (batch,) = data.vocabulary, list(data.val_dataloader())
    pieces = [[vocabulary.types[each] for each in vocabulary.pieces(word)] for word in LIKES.words]
    texts, heads, labels = oracle.in_pieces(oracle.binarised(LIKES.heads), LIKES.relations, pieces)
    levels = oracle.levels(texts, heads, labels)
    found = [[vocabulary.types[token] for token in row[:length].tolist()]
             for row, length in zip(batch.inputs, batch.lengths.tolist(), strict=True)]  # fmt: skip
    assert found == [level.inputs for level in levels]
    rows = vocabulary.tables["expansions"]
    patterns = [
        [rows[k] for k in row[here].tolist()] for row, here in zip(batch.expansions, batch.is_open, strict=True)
    ]
    assert patterns == [[expansion_of(each) for each in level.patterns if each] for level in levels]
    assert batch.words.tolist() == [6]


DEEP = Sentence(("a", "b", "c", "d", "e"), (0, 1, 2, 3, 1), ("root", "x", "y", "z", "w"))
"""The last word climbs from `d` over `c` to `b`: two steps."""


def test_labels_that_keep_the_tree_count_words_not_pieces():
    data = data_of(DEEP, builder=ExpansionVocabulary(SubwordPieces(size=258), lossless=True))
    assert "w^2" in data.vocabulary.tables["placeholders"]
    (batch,) = data.val_dataloader()
    first = data.vocabulary.size - len(data.vocabulary.tables["placeholders"])
    assert (batch.inputs[batch.is_open] >= first).all()
    assert (batch.expansions[batch.is_open] != UNKNOWN_EXPANSION).all()


def test_a_corpus_without_pieces_has_no_placeholder_for_them():
    assert "subword" not in built([LIKES]).tables["placeholders"]


def test_irregular_trees_are_lifted_or_left_out_of_the_vocabulary():
    assert ["HEAD", "x"] not in built([CROSSING], irregular="leave_out").tables["expansions"]
    assert built([CROSSING], irregular="leave_out").tables["expansions"][2:] == [["HEAD"]]
    assert len(built([CROSSING]).tables["expansions"]) > 3


def test_a_word_that_is_spelt_like_a_placeholder_is_refused():
    with pytest.raises(UserError, match=r"'\[amod\]'"):
        with_placeholders(Vocabulary.of_words(["[amod]"]), ["ROOT", "amod"], {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lossless": True, "binarization": "none"}, "lossless: .*left-right, found none"),
        ({"lossless": True, "binarization": "inside-out"}, "lossless: .*found inside-out"),
    ],
)
def test_forms_out_of_range_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        TreeForm(**{"binarization": "left-right", **options})


@pytest.mark.parametrize("most", [0, -1])
def test_fewer_expansions_than_one_are_refused(most):
    with pytest.raises(UserError, match=f"max_expansions: expected at least 1, found {most}"):
        ExpansionVocabulary(max_expansions=most)


def test_the_fingerprint_has_every_option():
    options = [{}, {"binarization": "none"}, {"lossless": True}, {"irregular": "leave_out"}, {"max_expansions": 5}]
    options.append({"words": WordVocabulary(min_count=2)})
    assert len({ExpansionVocabulary(**each).fingerprint() for each in options}) == len(options)


def test_expansions_name_dependents_in_the_words_order():
    assert expansions([2, 4, 4, 0, 4, 5], LIKES.relations)[3] == ("nsubj", "advmod", "HEAD", "xcomp")


# -- items ------------------------------------------------------------------------------------------------------------


def depths_of(sentence):
    heads = oracle.binarised(oracle.lifted(with_one_root(sentence.heads)))
    return [oracle.depth(heads, word) for word in range(1, len(heads) + 1)]


def with_one_root(heads):
    root = list(heads).index(0) + 1
    return [head if head or word == root else root for word, head in enumerate(heads, 1)]


@pytest.mark.parametrize("loss_per", ["position", "written"])
def test_an_epoch_has_every_level_of_every_sentence_once(loss_per):
    items = data_of(loss_per=loss_per).training_items(0)
    expected = []
    for number, sentence in enumerate(SENTENCES):
        depths = depths_of(sentence)
        for level in range(1, max(depths) + 1):
            read, at = sum(each <= level for each in depths), depths.count(level)
            expected.append((number, level, read, read if loss_per == "position" else at))
    found = zip(items.places, items.levels, items.lengths, items.tokens, strict=True)
    assert [tuple(map(int, each)) for each in found] == expected
    assert items.weights is None
    assert [(items[k].sentence.index, items[k].levels, items[k].weight) for k in range(len(expected))] == [
        (number, (level,), 1.0) for number, level, _, _ in expected
    ]


@pytest.mark.parametrize("loss_per", ["position", "written"])
def test_a_drawn_level_weighs_by_the_number_of_levels(loss_per):
    data = data_of(levels_per_sentence=1, loss_per=loss_per)
    items, depths = data.training_items(0), [depths_of(each) for each in SENTENCES]
    assert items.places.tolist() == [0, 1, 2, 3]
    deepest = [max(each) for each in depths]
    assert items.weights.tolist() == pytest.approx([each / np.mean(deepest) for each in deepest])
    drawn = list(zip(depths, items.levels, strict=True))
    read = [sum(d <= level for d in each) for each, level in drawn]
    assert items.lengths.tolist() == read
    assert items.tokens.tolist() == (read if loss_per == "position" else [each.count(level) for each, level in drawn])
    assert isinstance(items[0].weight, float)


@pytest.mark.slow
@pytest.mark.parametrize("levels", ["all", 1])
def test_every_level_has_the_same_share_of_an_epochs_gradient(levels):
    data = data_of(*[LIKES] * 40, levels_per_sentence=levels, tokens_per_batch=12)
    shares = np.zeros(3)
    for epoch in range(20):
        for batch in data.train_dataloader(epoch):
            rows = batch.weights / batch.global_tokens
            np.add.at(shares, np.searchsorted([1, 3, 6], batch.lengths), rows)  # tokens read at the levels of LIKES
    assert shares == pytest.approx(np.full(3, shares.mean()), rel=0.15)


@pytest.mark.slow
def test_epochs_draw_other_levels_and_the_same_after_a_restart():
    data, again = data_of(levels_per_sentence=1), data_of(levels_per_sentence=1)
    drawn = [data.training_items(epoch).levels.tolist() for epoch in range(200)]
    assert drawn == [again.training_items(epoch).levels.tolist() for epoch in range(200)]
    assert drawn != [
        data_of(levels_per_sentence=1, seed=1).training_items(epoch).levels.tolist() for epoch in range(200)
    ]
    for number, sentence in enumerate(SENTENCES):
        deepest = max(depths_of(sentence))
        counts = np.bincount([each[number] for each in drawn], minlength=deepest + 1)
        assert counts[0] == 0
        assert len(counts) == deepest + 1
        assert (np.abs(counts[1:] - 200 / deepest) < 5 * (200 / deepest) ** 0.5).all()


def test_evaluation_reads_every_sentence_at_all_levels():
    data = data_of()
    items = data.items("valid")
    assert items.places.tolist() == [0, 1, 2, 3]
    assert [items[k].levels for k in range(4)] == [None] * 4
    assert items.tokens.tolist() == [len(each) for each in SENTENCES]
    whole = [sum(sum(d <= level for d in depths_of(each)) for level in range(1, max(depths_of(each)) + 1))
             for each in SENTENCES]  # fmt: skip
    assert items.lengths.tolist() == whole


def test_batches_hold_real_tokens_of_levels_within_the_budget():
    data = data_of(LIKES, LIKES, CROSSING, ONE, tokens_per_batch=12)
    seen = 0
    for found in data.train_dataloader(0):
        assert len(found.lengths) * int(found.lengths.max()) <= 12
        assert found.global_tokens == int(found.lengths.sum())
        seen += len(found.lengths)
    assert seen == sum(max(depths_of(each)) for each in (LIKES, LIKES, CROSSING, ONE))


@torch.no_grad()
def test_sums_of_validation_are_those_of_texts_with_their_trees():
    data = data_of(LIKES, CROSSING, ONE)
    model, total, tokens = small(data.vocabulary), 0.0, 0
    for batch in data.val_dataloader():
        found = model.item_scores(batch)
        total, tokens = total + found.nll.sum().item(), tokens + int(found.tokens.sum())
    texts = [[[data.vocabulary.pieces(word)[0] for word in each.words] for each in (LIKES, CROSSING, ONE)]]
    structure = [[(each.heads, each.relations) for each in (LIKES, CROSSING, ONE)]]
    (scores,) = model.sentence_log_probs(texts, vocabulary=data.vocabulary, structure=structure)
    assert -sum(each.sum() for each in scores) == pytest.approx(total, abs=1e-9)
    assert tokens == sum(map(len, scores)) == 11


# -- irregular trees --------------------------------------------------------------------------------------------------


def test_irregular_trees_are_counted_and_named_and_lifted(caplog):
    with caplog.at_level(logging.INFO):
        kept = data_of().split_levels("train").kept
    assert kept.tolist() == [0, 1, 2, 3]
    said = [each.message for each in caplog.records if "crossing" in each.message]
    assert len(said) == 1
    assert "1 of 4 trees have crossing arcs and 1 several roots" in said[0]
    assert "sentence 2" in said[0]
    assert "made projective" in said[0]


def test_irregular_trees_are_left_out_where_that_is_said(caplog):
    data = data_of(builder=ExpansionVocabulary(irregular="leave_out"))
    with caplog.at_level(logging.INFO):
        assert {*data.training_items(0).places.tolist()} == {0, 2}
    assert data.items("test").places.tolist() == [0, 2]
    assert any("left out" in each.message for each in caplog.records)


def test_regular_trees_are_not_mentioned(caplog):
    with caplog.at_level(logging.INFO):
        data_of(LIKES, ONE).split_levels("train")
    assert not any("crossing" in each.message for each in caplog.records)


def test_a_corpus_of_nothing_but_irregular_trees_is_refused():
    data = data_of(CROSSING, builder=ExpansionVocabulary(irregular="leave_out"))
    with pytest.raises(UserError, match=r"train: all 1 trees.*to lift"):
        data.training_items(0)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [0, 2])
def test_other_numbers_of_levels_are_refused(levels):
    with pytest.raises(UserError, match="levels_per_sentence: expected all or 1"):
        data_of(levels_per_sentence=levels)


def test_splits_without_trees_and_plain_vocabularies_are_refused():
    with pytest.raises(UserError, match="ExpansionVocabulary"):
        data_of(builder=WordVocabulary()).training_items(0)
    with pytest.raises(UserError, match="annotator"):
        data_of(annotator=None).vocabulary  # noqa: B018
    with pytest.raises(UserError, match=r"valid: .*annotator"):
        data_of(trees_for=["train"]).items("valid")
    bare = Sentence(("a", "b"), None)
    with pytest.raises(UserError):
        data_of(LIKES, bare).training_items(0)
