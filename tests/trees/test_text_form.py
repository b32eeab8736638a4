"""The forms of text: rules on examples, the Penn Treebank's own text, and that a form does nothing to its own text."""

import os
import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.data.formats import DependencyColumns
from depgen.trees.punctuation import UPOS_TAGS, WORD_TAGS, is_bare_word
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS, PLACEHOLDERS, bare_word, bare_words, kept_in_bare, normalize, normalize_word

WORDS = ("``", "The", "owners", "'", "US$", "1.5", "%", "&", "#", "2", "-LRB-", ",", "''")
TAGS = ("``", "DT", "NNS", "POS", "$", "CD", "NN", "CC", "#", "CD", "-LRB-", ",", "''")
UNTELLABLE = re.compile(r"[0-9](?!(?:st|nd|rd|th|s|d)(?![^\W_]))[^\W0-9_]", re.IGNORECASE)
"""A digit before a letter, or before a digit of another script: in `bare` `5ow` becomes `Now`, as the word is spelt."""


def read(form, sentence):
    chosen = FORMS[form]
    pairs = zip(sentence.words, chosen.kept(sentence), strict=True)
    return tuple(chosen.spelt(word) for word, keep in pairs if keep)


# -- bare -------------------------------------------------------------------------------------------------------------


def test_there_are_36_word_tags_and_two_of_auxiliaries():
    assert (len(WORD_TAGS), len(UPOS_TAGS)) == (38, 17)


@pytest.mark.parametrize(
    ("words", "tags", "kept"),
    [
        ("`` Owners ' US$ 5 & 3 % -- does n't # 1 ; ' -LRB- all . Wa",
         "`` NNS POS $ CD CC CD NN : VBZ RB # CD : '' -LRB- DT . ,", "Owners ' 5 & 3 % does n't 1 all"),
        ("is being ( x", "AUX AUXG -LRB- HYPH", "is being"),
        ("mail a@b.com with out e - x", "VB ADD GW IN AFX HYPH XX", "mail out"),
        ("It costs $ 5 or 3 % ( ' + ) !", "PRON VERB SYM NUM CCONJ NUM SYM PUNCT PART SYM PUNCT PUNCT",
         "It costs 5 or 3 % ' +"),
        ("The `` jury '' said .", "at `` nn '' vbd .", "The jury said"),
        ("Ada , -LRB- $", "nnp xx yy zz", "Ada"),
        ("“ He 's ” -LRB- n't ) , ... 5.5 % & # $ US$ £ 30-day ’ `` '' – C++ :D", None,
         "He 's n't 5.5 % & 30-day C++ :D"),
    ],
)  # fmt: skip
def test_bare_words_go_by_tags_of_known_sets_and_else_by_form(words, tags, kept):
    sentence = Sentence(tuple(words.split()), tags=None if tags is None else tuple(tags.split()))
    pairs = zip(sentence.words, kept_in_bare(sentence), strict=True)
    assert " ".join(word for word, keep in pairs if keep) == kept


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


# -- ptb --------------------------------------------------------------------------------------------------------------


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
    dots = Sentence(("...", "!"), (2, 0), tags=(":", "."))
    assert normalize(dots, {"N"}).words == bare_words(dots).words == ()


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
        for sentence in next(DependencyColumns().read(path, path.name)).sentences
    ]
    covered = set(lines[1:3911])
    assert [words for words in found if words in covered] == lines[1:3911]
    assert len(found) == 3914


# -- running text -----------------------------------------------------------------------------------------------------


def test_the_penn_treebanks_form_is_its_normalisation_without_the_unknown_word():
    tagged = Sentence(WORDS, tags=TAGS)
    known = {word.lower() for word in WORDS} | {"N"}
    assert read("ptb", tagged) == normalize(tagged, known).words


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


@pytest.mark.parametrize(
    ("form", "words", "expected"),
    [
        ("ptb", WORDS, "the owners ' us$ N N & # N"),
        ("ptb", ("did", "n’t", "Ada", "’s"), "did n't ada 's"),
        ("ptb", ("N", "<unk>", "'", "n't", "us$"), "N <unk> ' n't us$"),
        ("ptb", ("N-day", "N.V.", "NN"), "n-day n.v. nn"),
        ("bare", ("N", "N,N", "N-day", "'N", "Nth", "mid-Ns", "$N.N", "N%", "N$", "b-N"),
         "N N,N N-day 'N Nth mid-Ns $N.N N% N$ b-N"),
        ("bare", ("New", "No.", "NBC", "NN", "Now", "TEN", "McN"), "new no. nbc nn now ten mcn"),
        ("stories", ("[MALE]", "Went", "to", "[FEMALE]", "'s", "[Male]", "."), "[MALE] went to [FEMALE] 's [male] ."),
        ("as_is", WORDS, " ".join(WORDS)),
    ],
)  # fmt: skip
def test_words_without_tags(form, words, expected):
    assert " ".join(read(form, Sentence(words))) == expected


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
