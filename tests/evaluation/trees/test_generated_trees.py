"""Generated trees against a parser's, in the form that is written."""

import numpy as np
import pytest

from depgen.annotation.controls import LeftChain
from depgen.errors import UserError
from depgen.evaluation.trees.generated_trees import (
    agreement,
    levels_per_token,
    relations_per_sentence,
    reparsed,
    sentence_of,
)
from depgen.trees.sentence import Sentence

GENERATED = Sentence(("my", "dog", "also", "ran", "."), (2, 4, 2, 0, 4), ("poss", "nsubj", "advmod", "root", "punct"))
ONE = Sentence(("a",), (0,), ("root",))
PARSED = Sentence(("my", "dog", "also", "ran", "."), (2, 4, 4, 0, 4), ("det", "nsubj", "advmod", "root", "punct"))


def test_parsers_trees_are_binarised_and_punctuation_does_not_count():
    found = agreement([GENERATED], [PARSED], "left-right")
    assert (found["uas"], found["las"]) == (100.0, 75.0)  # also hangs on dog in the binarised tree
    assert agreement([GENERATED], [PARSED], "none")["uas"] == 75.0
    assert np.isnan(agreement([], [], "left-right")["las"])


def test_sums_are_over_words_and_not_sentences():
    one, two = Sentence(("a",), (0,), ("root",)), Sentence(("a", "b", "c"), (0, 1, 2), ("root", "x", "x"))
    other = Sentence(("a", "b", "c"), (3, 3, 0), ("x", "x", "root"))
    assert agreement([one, two], [one, other], "none")["uas"] == 25.0


def test_texts_come_with_trees_over_their_words():
    found = sentence_of("a b", {"heads": [2, 0], "relations": ["det", "root"]})
    assert found == Sentence(("a", "b"), (2, 0), ("det", "root"))
    with pytest.raises(UserError, match="tree over their words"):
        sentence_of("a b", {"heads": [2, 3, 0], "relations": ["det", "subword", "root"]})
    assert reparsed([found], LeftChain())[0].heads == (0, 1)


def test_levels_and_relations_are_means_over_sentences():
    assert levels_per_token([GENERATED, ONE], "left-right") == pytest.approx((3 / 5 + 1) / 2)
    flat = Sentence(("a", "b", "c"), (0, 1, 1), ("root", "x", "y"))
    assert levels_per_token([flat], "left-right") == pytest.approx(3 / 3)
    assert levels_per_token([flat], "none") == pytest.approx(2 / 3)
    tagged = Sentence(("a", "b", "c"), (3, 3, 0), ("amod", "amod:x", "root"))
    assert relations_per_sentence([tagged, GENERATED], "amod") == 1.0
    assert np.isnan(relations_per_sentence([], "amod"))
