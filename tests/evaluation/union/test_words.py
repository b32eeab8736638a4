import random
from collections import Counter

import pytest

from depgen.errors import UserError
from depgen.evaluation.union.words import (
    ContentWords,
    own_antonyms,
    read_conceptnet_antonyms,
    read_conceptnet_entities,
)
from depgen.trees.sentence import Sentence

COUNTS = {
    "NN": Counter({"dog": 6, "cat": 3, "hat": 1, "it": 9, "'s": 4, "bag": 1}),
    "VBD": Counter({"walked": 2, "stopped": 3, "was": 9}),
    "VB": Counter({"stop": 1, "hope": 1, "walk": 1, "require": 1}),
    "JJ": Counter({"solo": 1}),
    "IN": Counter({"of": 3}),
}


@pytest.fixture
def lexicon():
    return ContentWords(COUNTS, antonyms={"love": ("hate",), "happy": ("sad", "happy")})


def test_other_words_of_the_tag_come_by_frequency(lexicon):
    generator = random.Random(0)
    drawn = Counter(lexicon.swap("hat", "NN", generator) for _ in range(5000))
    assert set(drawn) == {"dog", "cat", "bag"}
    for word, share in (("dog", 0.6), ("cat", 0.3), ("bag", 0.1)):
        assert drawn[word] / 5000 == pytest.approx(share, abs=0.03)
    assert lexicon.swap("solo", "JJ", generator) is None
    assert lexicon.swap("other", "JJR", generator) is None


def test_antonyms_take_the_words_form(lexicon):
    generator = random.Random(0)
    assert lexicon.swap("loved", "VBD", generator) == "hated"
    assert lexicon.swap("Loving", "VBG", generator) == "hating"
    assert {lexicon.swap("happy", "JJ", generator) for _ in range(20)} == {"sad"}


@pytest.mark.parametrize(
    ("word", "tag", "base"),
    [
        ("went", "VBD", "go"), ("taken", "VBN", "take"), ("stopped", "VBD", "stop"), ("hoping", "VBG", "hope"),
        ("walked", "VBD", "walk"), ("required", "VBD", "require"), ("tried", "VBD", "try"), ("goes", "VBZ", "go"),
        ("watches", "VBZ", "watch"), ("cries", "VBZ", "cry"), ("dogs", "NNS", "dog"), ("happy", "JJ", "happy"),
        ("called", "VBD", "call"), ("missed", "VBD", "miss"),
    ],
)  # fmt: skip
def test_base_forms_and_back(lexicon, word, tag, base):
    assert lexicon.base(word, tag) == base
    assert lexicon.inflect(base, tag) == word


def test_only_content_words_are_swapped(lexicon):
    assert lexicon.is_content("dog", "NN")
    for word, tag in (("was", "VBD"), ("[male]", "NNP"), ("dog", "IN"), ("'s", "NN"), ("3", "NN"), ("n't", "RB")):
        assert not lexicon.is_content(word, tag)


def test_entities_restrict_by_word_and_base(tmp_path):
    path = tmp_path / "conceptnet_entity.csv"
    path.write_text("dog|||12\nwalk|||3\nhot|||dog|||1\n")
    lexicon = ContentWords(COUNTS, entities=read_conceptnet_entities(path))
    assert lexicon.is_content("dog", "NN")
    assert lexicon.is_content("walked", "VBD")
    assert not lexicon.is_content("cat", "NN")
    assert not lexicon.is_content("hot", "JJ")
    (tmp_path / "bad.csv").write_text("dog|||1\nno fields\n")
    with pytest.raises(UserError, match=r"^.*bad\.csv:2: expected word"):
        read_conceptnet_entities(tmp_path / "bad.csv")


def test_conceptnets_antonyms(tmp_path):
    path = tmp_path / "conceptnet_antonym.txt"
    path.write_text("fit|||/r/Antonym|||unfit lazy\nfit|||/r/NotDesires|||flabby\nfix|||/r/Antonym|||\n")
    assert read_conceptnet_antonyms(path) == {"fit": ("unfit", "lazy", "flabby")}
    path.write_text("fit|||unfit\n")
    with pytest.raises(UserError, match=r"antonym\.txt:1: expected word"):
        read_conceptnet_antonyms(path)


def test_the_own_list_goes_both_ways_and_never_to_itself():
    antonyms = own_antonyms()
    assert "sad" in antonyms["happy"]
    assert all(word in antonyms[other] and word != other for word, others in antonyms.items() for other in others)


def test_a_lexicon_counts_tagged_sentences():
    sentence = Sentence(("Dogs", "saw", "dogs"), tags=("NNS", "VBD", "NNS"))
    drawn = ContentWords.of([sentence, Sentence(("cats",), tags=("NNS",))], antonyms={})
    assert drawn.swap("cats", "NNS", random.Random(0)) == "dogs"
