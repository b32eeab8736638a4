"""Batches of sentences at levels, against the slow versions of levels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.levels import LevelItem
from depgen.data.vocabulary import SubwordPieces, Vocabulary
from depgen.errors import UserError
from depgen.models.itexp import collate_levels
from depgen.trees.sentence import Document, Sentence
from tests import oracles_of_itexp as oracle
from tests.invented_levels import LIKES, built, expansion_of, item_of, trees, written_levels


def rows_of(batch, vocabulary):
    """Each row in words: inputs, heads, targets, expansions (None where there is no placeholder), places."""
    for row, length in enumerate(batch.lengths.tolist()):
        opened = batch.is_open[row, :length].tolist()
        patterns = [vocabulary.tables["expansions"][k] for k in batch.expansions[row, :length].tolist()]
        yield (
            [vocabulary.types[token] for token in batch.inputs[row, :length].tolist()],
            batch.heads[row, :length].tolist(),
            [vocabulary.types[token] for token in batch.targets[row, :length].tolist()],
            [pattern if here else None for pattern, here in zip(patterns, opened, strict=True)],
            batch.places[row, :length].tolist(),
        )


def expected_row(sentence, level, scheme):
    """The same by the slow version."""
    heads = oracle.binarised(sentence.heads, scheme)
    found = oracle.levels(sentence.words, heads, sentence.relations)[level - 1]
    places = [word for word in range(len(heads)) if oracle.depth(heads, word + 1) <= level]
    patterns = [None if each is None else expansion_of(each) for each in found.patterns]
    return found.inputs, found.heads, [sentence.words[place] for place in places], patterns, places


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.data(), st.lists(trees(), min_size=1, max_size=4), st.sampled_from(["left-right", "none"]))
def test_rows_are_the_levels_of_the_trees(data, sentences, scheme):
    vocabulary = built(sentences, binarization=scheme)
    rows, items = [], []
    for number, sentence in enumerate(sentences):
        deepest = len(written_levels(sentence, scheme))
        level = data.draw(st.none() | st.integers(1, deepest))
        items.append(item_of(7 + number, sentence, vocabulary, level, 1.0 + number))
        rows += [(number, each) for each in ([level] if level else range(1, deepest + 1))]
    batch = collate_levels(ItemBatch(items, 5, vocabulary))
    assert batch.sentences.tolist() == [number for number, _ in rows]
    assert batch.weights.tolist() == [1.0 + number for number, _ in rows]
    assert batch.items.tolist() == [7 + number for number in range(len(sentences))]
    assert batch.words.tolist() == [len(each) for each in sentences]
    assert (batch.global_tokens, batch.unk, batch.eos) == (5, vocabulary.unk, vocabulary.eos)
    expected = [expected_row(sentences[number], level, scheme) for number, level in rows]
    assert list(rows_of(batch, vocabulary)) == expected
    assert torch.equal(batch.opened, batch.is_open.flatten().nonzero()[:, 0])
    assert not batch.is_open[~batch.is_word].any()
    assert not batch.expansions[~batch.is_open].any()
    assert (batch.inputs[~batch.is_word] >= 0).all()


def test_the_sentence_of_figure_2_is_read_level_by_level():
    vocabulary = built([LIKES])
    batch = collate_levels(ItemBatch([item_of(0, LIKES, vocabulary)], 1, vocabulary))
    found = list(rows_of(batch, vocabulary))
    assert [row[:2] for row in found] == [
        (["[ROOT]"], [-1]),
        (["[nsubj]", "likes", "[xcomp]"], [1, -1, 1]),
        (["[poss]", "dog", "[advmod]", "likes", "eating", "[dobj]"], [1, 3, 1, -1, 3, 4]),
    ]
    assert [[row for row in each[3] if row] for each in found] == [
        [["nsubj", "HEAD", "xcomp"]],
        [["poss", "HEAD", "advmod"], ["HEAD", "dobj"]],
        [["HEAD"]] * 3,
    ]


def test_without_binarisation_the_levels_are_those_of_the_paper():
    vocabulary = built([LIKES], binarization="none")
    batch = collate_levels(ItemBatch([item_of(0, LIKES, vocabulary)], 1, vocabulary))
    assert [row[0] for row in rows_of(batch, vocabulary)] == [
        ["[ROOT]"], ["[nsubj]", "[advmod]", "likes", "[xcomp]"], ["[poss]", "dog", "also", "likes", "eating", "[dobj]"],
    ]  # fmt: skip


def test_what_training_never_saw_is_unknown():
    vocabulary = built([LIKES])
    other = Sentence(("a", "dog", "likes"), (2, 3, 0), ("det", "nsubj", "ROOT"))
    batch = collate_levels(ItemBatch([item_of(0, other, vocabulary)], 1, vocabulary))
    found = list(rows_of(batch, vocabulary))
    assert found[2][0] == ["<unk>", "dog", "likes"]
    assert found[0][3] == [["<unk>"]]
    assert found[2][2][0] == "<unk>"


def test_a_vocabulary_without_an_unknown_word_pads_and_names_labels_by_the_end(tmp_path):
    pieces = SubwordPieces(size=258).build([Document((LIKES,), "")])
    (tmp_path / "tokenizer.json").write_text(pieces.tokenizer)
    builder = SubwordPieces(tokenizer=str(tmp_path / "tokenizer.json"))
    vocabulary = built([LIKES], words=builder)
    assert vocabulary.unk == -1
    heads = np.arange(4)
    other = TokenItem(0, np.array([40, 41, 42, 43]), heads, relations=np.array(["root", *"xyz"], dtype=object))
    batch = collate_levels(ItemBatch([LevelItem(other)], 1, vocabulary))
    assert batch.inputs[~batch.is_word].tolist() == [vocabulary.eos] * 6
    assert batch.inputs[1].tolist()[:2] == [40, vocabulary.eos]
    assert batch.unk == -1


def test_sentences_without_trees_and_vocabularies_without_placeholders_are_refused():
    vocabulary = built([LIKES])
    bare = LevelItem(TokenItem(3, np.array([2, 3])))
    with pytest.raises(UserError, match=r"item 4: .*tree"):
        collate_levels(ItemBatch([bare], 1, vocabulary))
    with pytest.raises(UserError, match="ExpansionVocabulary"):
        collate_levels(ItemBatch([item_of(0, LIKES, vocabulary)], 1, Vocabulary.of_words("ab")))
