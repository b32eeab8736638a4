import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.bare_words import bare_word
from depgen.trees.normalization import normalize
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS, PLACEHOLDERS

WORDS = ("``", "The", "owners", "'", "US$", "1.5", "%", "&", "#", "2", "-LRB-", ",", "''")
TAGS = ("``", "DT", "NNS", "POS", "$", "CD", "NN", "CC", "#", "CD", "-LRB-", ",", "''")
UNTELLABLE = re.compile(r"[0-9](?!(?:st|nd|rd|th|s|d)(?![^\W_]))[^\W0-9_]", re.IGNORECASE)
"""A digit before a letter, or before a digit of another script: in `bare` `5ow` becomes `Now`, as the word is spelt."""


def read(form, sentence):
    chosen = FORMS[form]
    pairs = zip(sentence.words, chosen.kept(sentence), strict=True)
    return tuple(chosen.spelt(word) for word, keep in pairs if keep)


def test_the_penn_treebanks_form_is_its_normalisation_without_the_unknown_word():
    tagged = Sentence(WORDS, tags=TAGS)
    known = {word.lower() for word in WORDS} | {"N"}
    assert read("ptb", tagged) == normalize(tagged, known).words
    assert read("ptb", Sentence(WORDS)) == ("the", "owners", "'", "us$", "N", "N", "&", "#", "N")


@pytest.mark.parametrize(
    ("words", "tags", "kept"),
    [
        (("Well", ",", "he", "left", "."), ("ADV", "$,", "PPER", "VVFIN", "$."), "well he left"),
        (("(", "It", "--", "3", ")"), ("(", "pps", "--", "cd", ")"), "it N"),
        (("A", "-", "b", "!"), ("_", "_", "_", "_"), "a b"),
        (("Yes", ",", "$", "."), ("INTJ", "PUNCT", "SYM", "PUNCT"), "yes $"),
    ],
)
def test_tags_of_other_treebanks_tell_nothing_and_form_does(words, tags, kept):
    tagged = Sentence(words, tags=tags)
    assert " ".join(read("ptb", tagged)) == kept
    assert normalize(tagged, set(kept.split())).words == tuple(kept.split())


def test_typographic_apostrophes_are_typewritten_in_the_penn_treebank():
    assert read("ptb", Sentence(("did", "n’t", "Ada", "’s"))) == ("did", "n't", "ada", "'s")


def test_bare_and_unchanged():
    assert read("bare", Sentence(WORDS, tags=TAGS)) == ("the", "owners", "'", "N.N", "%", "&", "N")
    assert read("as_is", Sentence(WORDS, tags=TAGS)) == WORDS


def test_stories_keep_their_placeholders():
    words = ("[MALE]", "Went", "to", "[FEMALE]", "'s", "[Male]", ".")
    assert read("stories", Sentence(words)) == ("[MALE]", "went", "to", "[FEMALE]", "'s", "[male]", ".")


def test_digits_are_left_out_by_no_form_twice():
    bare = ("N", "N,N", "N-day", "'N", "Nth", "mid-Ns", "$N.N", "N%", "N$", "b-N")
    assert read("bare", Sentence(bare)) == bare
    assert read("ptb", Sentence(("N", "<unk>", "'", "n't", "us$"))) == ("N", "<unk>", "'", "n't", "us$")
    capitals = ("New", "No.", "NBC", "NN", "Now", "TEN", "McN")
    assert read("bare", Sentence(capitals)) == tuple(word.lower() for word in capitals)
    assert read("ptb", Sentence(("N-day", "N.V.", "NN"))) == ("n-day", "n.v.", "nn")


@pytest.mark.parametrize("form", FORMS)
@given(
    word=st.one_of(
        st.text(st.sampled_from("aNnDtTshrd.,:-/%$'`059#&[]_"), min_size=1),
        st.text(st.characters(exclude_categories=("Z", "C")), min_size=1),
        st.sampled_from([*PLACEHOLDERS, *string.digits, "N", "US$", "n't", "İ", "ΑΣ", "１９", "5$"]),
    ).filter(lambda word: not UNTELLABLE.search(word))
)
def test_text_in_a_form_stays_as_it_is(form, word):
    once = read(form, Sentence((word,)))
    assert read(form, Sentence(once)) == once
    if form == "bare" and "N" not in word and once:
        assert once == (bare_word(word),), "the form of the corpora that are made so"
