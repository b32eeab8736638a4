import random

import numpy as np
import pytest

from depgen.data.sampler import RankBatch
from depgen.evaluation.union.alteration import altered_words, marks_of_tokens, offsets_of
from depgen.evaluation.union.corruption import repeat_ngrams, shuffle_sentences, words_of
from depgen.evaluation.union.encoders import PretrainedEncoder
from depgen.evaluation.union.stories import text_of
from depgen.trees.sentence import Sentence
from tests.evaluation.union.conftest import small_encoder


def story(*texts):
    return tuple(Sentence(tuple(text.split())) for text in texts)


HUMAN = story("a dog ran off .", "Ann did n't see it .", "she bought a red hat there .")


@pytest.mark.parametrize(
    ("changed", "marked"),
    [
        (HUMAN, ""),
        (story("a dog ran off .", "ann did n't see it .", "she bought a red hat there ."), ""),  # case does not count
        (story("a dog ran off .", "Ann did see it .", "she bought a red hat there ."), "see"),  # what stood before it
        (story("a dog ran off .", "Ann did n't see it .", "she bought a blue hat there ."), "blue"),
        (story("a dog ran off .", "Ann did n't see it .", "she bought a red red hat there ."), "red"),
        (story("a dog ran off .", "Ann did n't see it", "she bought a red hat there ."), "it"),  # the end is missing
        (story("a dog ran off .", "we sat by a lake .", "she bought a red hat there ."), "we sat by a lake ."),
    ],
)  # fmt: skip
def test_words_are_marked_that_the_human_did_not_write_there(changed, marked):
    words = words_of(changed)
    marks = altered_words(HUMAN, changed)
    assert [word for word, mark in zip(words, marks, strict=True) if mark] == marked.split()


def test_as_many_words_are_marked_as_were_repeated(stories):
    for seed in range(40):
        changed = repeat_ngrams(stories[seed % 12], random.Random(seed))
        added = len(words_of(changed)) - len(words_of(stories[seed % 12]))
        assert sum(altered_words(stories[seed % 12], changed)) == added > 0


def test_sentences_that_change_places_are_marked_and_the_first_never_is(stories):
    for seed in range(20):
        changed = shuffle_sentences(stories[0], random.Random(seed))
        marks = iter(altered_words(stories[0], changed))
        for before, after in zip(stories[0], changed, strict=True):
            assert (sum(next(marks) for _ in after.words) > 0) == (before != after)


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_a_batch_marks_tokens_of_altered_words_alone(data, tiny_bert, kind):
    texts = [text_of(each) for each in data.stories("train")]
    source = small_encoder() if kind == "words" else PretrainedEncoder(str(tiny_bert))
    data.max_length = 60 if kind == "words" else 24
    data.tokenizer = source.build(texts, max_length=data.max_length).tokenizer
    assert data.pairs("train", epoch=0).__getitems__(RankBatch(np.array([4, 1]), 0, 2)).altered is None
    data.marked = True
    assert data.pairs("valid").__getitems__(RankBatch(np.array([4, 1]), 0, 2)).altered is None
    pairs = data.pairs("train", epoch=0)
    batch = pairs.__getitems__(RankBatch(np.arange(12), 0, 12))
    assert not batch.altered[:12].any()
    assert not batch.altered[~batch.is_word].any()
    assert batch.altered[12:].any()
    for row, index in enumerate(range(12), start=12):
        changed = pairs.corrupted(index).story
        marks = altered_words(pairs.stories[index], changed)
        tokens = data.tokenizer.convert_ids_to_tokens(batch.tokens[row][batch.is_word[row]].tolist())
        expected = [False]
        for word, mark in zip(words_of(changed), marks, strict=True):
            expected += [mark] * len(data.tokenizer.tokenize(word))
        expected = [*expected[: len(tokens) - 1], False]
        assert batch.altered[row][: len(tokens)].tolist() == expected


def test_offsets_cover_the_words_of_the_text(data):
    tokenizer = small_encoder().build(["a dog ran ."], max_length=20).tokenizer
    (offsets,) = offsets_of(tokenizer, ["a dog ran ."], max_length=4)
    assert offsets == [(0, 0), (0, 1), (2, 5), (0, 0)]
    assert marks_of_tokens(["a", "dog", "ran", "."], [True, False, True, True], offsets) == [False, True, False, False]
