import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.bare_words import bare_word, bare_words, kept_words
from depgen.trees.punctuation import UPOS_TAGS, WORD_TAGS, is_bare_word
from depgen.trees.sentence import Sentence


def kept(words, tags=None):
    sentence = Sentence(tuple(words.split()), tags=None if tags is None else tuple(tags.split()))
    return " ".join(word for word, keep in zip(sentence.words, kept_words(sentence), strict=True) if keep)


def test_there_are_36_word_tags_and_two_of_auxiliaries():
    assert len(WORD_TAGS) == 38
    assert len(UPOS_TAGS) == 17


def test_penn_tags_tell_words_from_punctuation_currency_and_number_signs():
    words = "`` Owners ' US$ 5 & 3 % -- does n't # 1 ; ' -LRB- all . Wa"
    tags = "`` NNS POS $ CD CC CD NN : VBZ RB # CD : '' -LRB- DT . ,"
    assert kept(words, tags) == "Owners ' 5 & 3 % does n't 1 all"
    assert kept("is being ( x", "AUX AUXG -LRB- HYPH") == "is being"


def test_what_english_ud_adds_to_the_penn_tags_goes():
    assert kept("mail a@b.com with out e - x", "VB ADD GW IN AFX HYPH XX") == "mail out"


def test_universal_tags_leave_punctuation_out_and_symbols_by_form():
    words, tags = "It costs $ 5 or 3 % ( ' + ) !", "PRON VERB SYM NUM CCONJ NUM SYM PUNCT PART SYM PUNCT PUNCT"
    assert kept(words, tags) == "It costs 5 or 3 % ' +"


def test_words_of_other_tag_sets_go_by_form():
    assert kept("The `` jury '' said .", "at `` nn '' vbd .") == "The jury said"
    assert kept("Ada , -LRB- $", "nnp xx yy zz") == "Ada"


def test_words_without_tags_go_by_form():
    words = "“ He 's ” -LRB- n't ) , ... 5.5 % & # $ US$ £ 30-day ’ `` '' – C++ :D"
    assert kept(words) == "He 's n't 5.5 % & 30-day C++ :D"


@given(st.text(alphabet=string.punctuation, min_size=1).filter(lambda word: re.fullmatch(r"[^$+<=>^|~%&]+", word)))
def test_ascii_punctuation_goes_by_form(word):
    assert not is_bare_word(word)
    assert is_bare_word(f"a{word}")
    assert is_bare_word(f"{word}1")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("190.58", "N.N"), ("30-Day", "N-day"), ("1980s", "Ns"), ("NASDAQ", "nasdaq"), ("N.V.", "n.v."), ("٣", "٣")],
)
def test_digit_runs_and_case(word, expected):
    assert bare_word(word) == expected


def test_heads_climb_over_what_goes_and_what_reaches_the_top_is_a_root():
    words, tags = ("--", "She", "left", "$", "5", "!"), (":", "PRP", "VBD", "$", "CD", ".")
    sentence = Sentence(words, (0, 3, 1, 3, 4, 1), ("root", "nsubj", "parataxis", "obj", "nummod", "punct"), tags)
    assert bare_words(sentence) == Sentence(
        ("she", "left", "N"), (2, 0, 2), ("nsubj", "parataxis", "nummod"), ("PRP", "VBD", "CD")
    )
    several = Sentence(words, (0, 1, 1, 3, 4, 1), tags=tags)
    assert bare_words(several).heads == (0, 0, 2)
    assert bare_words(several, orphans="one_root").heads == (0, 1, 2)


def test_a_sentence_of_punctuation_becomes_empty():
    assert bare_words(Sentence(("...", "!"), (2, 0), tags=(":", "."))).words == ()
    assert bare_words(Sentence(("...", "!"))).words == ()
