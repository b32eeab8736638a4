import os
from pathlib import Path

import pytest

from depgen.trees.dependency_columns import read_dependency_columns
from depgen.trees.normalization import normalize, normalize_word
from depgen.trees.sentence import Sentence


def test_punctuation_goes_by_its_tag():
    words = ("``", "The", "owners", "'", "bird", "--", "US$", "1", "-", "is", "#", "2", ";", "'", ")", "&", ",")
    tags = ("``", "DT", "NNS", "POS", "NN", ":", "$", "CD", "HYPH", "VBZ", "#", "CD", ":", "''", "-RRB-", "CC", "NN")
    known = {word.lower() for word in words} | {"N"}
    expected = ("the", "owners", "'", "bird", "us$", "N", "is", "#", "N", "&", ",")
    assert normalize(Sentence(words, tags=tags), known).words == expected


def test_the_tree_and_the_tags_follow():
    sentence = Sentence(
        ("(", "Sold", "99.5", "%", "!", ")"), (2, 0, 4, 2, 4, 5), tags=("-LRB-", "VBD", "CD", "NN", ".", "-RRB-")
    )
    assert normalize(sentence, {"N"}) == Sentence(("<unk>", "N", "N"), (0, 3, 1), tags=("VBD", "CD", "NN"))


def test_a_sentence_of_punctuation_becomes_empty():
    assert normalize(Sentence(("...", "!"), (2, 0), tags=(":", ".")), {"N"}).words == ()


@pytest.mark.parametrize("number", ["1", "1,234.5", ".5", "3\\/4", "2/3", "1:30", "1989-90", "50-50", "%"])
def test_numbers(number):
    assert normalize_word(number, {"N", number}) == "N"


@pytest.mark.parametrize("word", ["'86", "30-day", "1980s", "n't", "'s", "$", "a.m", "-"])
def test_words(word):
    assert normalize_word(word.upper(), {"N", word}) == word
    assert normalize_word(word, {"N"}) == "<unk>"


@pytest.mark.real_data
def test_the_wall_street_journal_sample_is_the_beginning_of_the_penn_treebank():
    folder = Path(os.environ["DEPGEN_DATA"])
    lines = [tuple(line.split()) for line in (folder / "ptb/ptb.train.txt").read_text().splitlines()]
    vocabulary = {word for line in lines for word in line}
    found = [
        normalize(sentence, vocabulary).words
        for path in sorted((folder / "wsj_sample/dependency").glob("*.dp"))
        for sentence in read_dependency_columns(path)
    ]
    covered = set(lines[1:3911])
    assert [words for words in found if words in covered] == lines[1:3911]
    assert len(found) == 3914
