"""Vocabularies with placeholders, and sentences at levels as items of training and of evaluation."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.controls import GoldTrees
from depgen.data.levels import ExpansionVocabulary, LevelData, with_placeholders
from depgen.data.vocabulary import SubwordPieces, Vocabulary, WordVocabulary
from depgen.errors import UserError
from depgen.models.itexp import collate_levels
from depgen.trees.sentence import Document, Sentence
from tests import oracles_of_itexp as oracle
from tests.invented_levels import LIKES, built, expansion_of, trees, written_levels
from tests.shelves import Shelf

TWO_ROOTS = Sentence(("a", "b", "c"), (0, 1, 0), ("root", "x", "root"))
CROSSING = Sentence(("a", "b", "c", "d"), (3, 4, 0, 3), ("x", "y", "root", "z"))
ONE = Sentence(("a",), (0,), ("root",))
SENTENCES = (LIKES, CROSSING, ONE, TWO_ROOTS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))


def data_of(*sentences, builder=None, **options):
    options = {
        "annotator": GoldTrees(), "vocabulary": builder or ExpansionVocabulary(), "collate": collate_levels, **options
    }  # fmt: skip
    documents = [Document((sentence,), f"{number}") for number, sentence in enumerate(sentences or SENTENCES)]
    return LevelData(Shelf(documents), **options)


# -- vocabulary -------------------------------------------------------------------------------------------------------


def test_the_vocabulary_of_figure_2():
    found = built([LIKES])
    assert found.tables["placeholders"] == ["ROOT", "advmod", "dobj", "nsubj", "poss", "xcomp"]
    assert found.types[-6:] == ("[ROOT]", "[advmod]", "[dobj]", "[nsubj]", "[poss]", "[xcomp]")
    assert found.tables["expansions"] == [
        ["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "dobj"], ["nsubj", "HEAD", "xcomp"], ["poss", "HEAD", "advmod"],
    ]  # fmt: skip
    assert found.tables["binarization"] == ["left-right"]
    assert {*found.types[:-6]} == {"<eos>", "<unk>", *LIKES.words}


@settings(deadline=None, max_examples=40)
@given(st.lists(trees(), min_size=1, max_size=5), st.sampled_from(["left-right", "none"]))
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
    assert ["poss", "HEAD", "subword"] in rows
    assert vocabulary.tables["placeholders"] == ["ROOT", "advmod", "dobj", "nsubj", "poss", "subword", "xcomp"]
    assert batch.words.tolist() == [6]


def test_a_word_that_is_spelt_like_a_placeholder_is_refused():
    with pytest.raises(UserError, match=r"'\[amod\]'"):
        with_placeholders(Vocabulary.of_words(["[amod]"]), ["ROOT", "amod"], {})


def test_the_fingerprint_has_every_option():
    options = [{}, {"binarization": "none"}, {"words": WordVocabulary(min_count=2)}]
    assert len({ExpansionVocabulary(**each).fingerprint() for each in options}) == len(options)


# -- items ------------------------------------------------------------------------------------------------------------


def depths_of(sentence):
    heads = oracle.binarised(oracle.lifted(with_one_root(sentence.heads)))
    return [oracle.depth(heads, word) for word in range(1, len(heads) + 1)]


def with_one_root(heads):
    root = list(heads).index(0) + 1
    return [head if head or word == root else root for word, head in enumerate(heads, 1)]


def test_an_epoch_has_every_level_of_every_sentence_once():
    items = data_of().items("train", 0)
    expected = []
    for number, sentence in enumerate(SENTENCES):
        depths = depths_of(sentence)
        for level in range(1, max(depths) + 1):
            read = sum(each <= level for each in depths)
            expected.append((number, level, read, read))
    found = zip(items.places, items.levels, items.lengths, items.tokens, strict=True)
    assert [tuple(map(int, each)) for each in found] == expected
    assert items.weights is None
    assert [(items[k].sentence.index, items[k].level, items[k].weight) for k in range(len(expected))] == [
        (number, level, 1.0) for number, level, _, _ in expected
    ]


def test_a_drawn_level_weighs_by_the_number_of_levels():
    data = data_of(levels_per_sentence=1)
    items, depths = data.items("train", 0), [depths_of(each) for each in SENTENCES]
    assert items.places.tolist() == [0, 1, 2, 3]
    deepest = [max(each) for each in depths]
    assert items.weights.tolist() == pytest.approx([each / np.mean(deepest) for each in deepest])
    read = [sum(d <= level for d in each) for each, level in zip(depths, items.levels, strict=True)]
    assert items.lengths.tolist() == items.tokens.tolist() == read
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
    drawn = [data.items("train", epoch).levels.tolist() for epoch in range(200)]
    assert drawn == [again.items("train", epoch).levels.tolist() for epoch in range(200)]
    assert drawn != [
        data_of(levels_per_sentence=1, seed=1).items("train", epoch).levels.tolist() for epoch in range(200)
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
    assert [items[k].level for k in range(4)] == [None] * 4
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


# -- irregular trees --------------------------------------------------------------------------------------------------


def test_irregular_trees_are_counted_and_named(caplog):
    with caplog.at_level(logging.INFO):
        levels, _ = data_of().level_sizes("train")
        data_of(LIKES, ONE).level_sizes("train")
    assert levels.tolist() == [max(depths_of(each)) for each in SENTENCES]
    (said,) = [each.message for each in caplog.records if "crossing" in each.message]
    assert "2 of 4 trees have crossing arcs or several roots" in said
    assert "sentence 2" in said


# -- what is refused --------------------------------------------------------------------------------------------------


def test_splits_without_trees_and_plain_vocabularies_are_refused(tmp_path):
    with pytest.raises(UserError, match="ExpansionVocabulary"):
        data_of(builder=WordVocabulary()).items("train", 0)
    with pytest.raises(UserError, match="annotator"):
        data_of(annotator=None).vocabulary  # noqa: B018
    data_of().save_into(tmp_path)
    bare = data_of(annotator=None)
    bare.use_vocabulary(tmp_path / "vocabulary.json")
    with pytest.raises(UserError, match=r"valid, sentence 1: expected a dependency tree, .*annotator"):
        bare.items("valid")
