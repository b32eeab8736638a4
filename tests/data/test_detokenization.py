"""Raw text from tokens: the inverse of our tokens, the Penn Treebank's and WikiText's spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize.treebank import TreebankWordDetokenizer

from depgen.data.detokenization import detokenize
from depgen.data.tokenization import tokenize

SENTENCES = [
    "Mr. Lee's dog didn't eat (the U.S. team won)!",
    'She said: "Why not?" and left; nobody moved...',
    "They'll pay $5.50, or 20% of it; we've paid £3.",
    '"It\'s late," he said, "and I\'m tired."',
    "He 'borrowed' it, didn't he?",
    "the dogs' tails [sic] wagged",
    "[MALE] was 'a happy man', [FEMALE] wasn't.",
    "“So it goes,” wrote the writer’s friend.",
    "Well, well. What's all this, then?!",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_it_is_the_inverse_of_our_tokens(text):
    assert detokenize(" ".join(tokenize(text))) == text


WORDS = st.sampled_from(["a", "dog", "Mr.", "didn't", "it's", "1,000", "well-known", "(so)", "U.S."])
MARKS = st.sampled_from(["", ",", ";", "!", "?", ":", "%"])


@given(st.lists(st.tuples(WORDS, MARKS), min_size=1))
def test_words_with_marks_after_them_come_back(drawn):
    text = " ".join(map("".join, drawn))
    assert detokenize(" ".join(tokenize(text))) == text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("`` we ca n't , '' he said", '"we can\'t," he said'),
        ("-LRB- a -RRB- b -lsb- c -rsb-", "(a) b [c]"),
        ("the N @-@ year @-@ old cost 3 @.@ 5 million", "the N-year-old cost 3.5 million"),
        ("i 'm gon na go , lem me see", "i'm gonna go, lemme see"),
        ("it is <unk> . it is late .", "it is <unk>. it is late."),
        ('he said " go and left', 'he said" go and left'),
        ("", ""),
        ("  a   b ", "a b"),
    ],
)
def test_other_spellings(tokens, text):
    assert detokenize(tokens) == text


PHRASES = ["a dog", "it 's", "they did n't", "we 'll", "( so )", "I 'm", "she 'd", "5 %", "you 've", "can not"]


@given(st.lists(st.tuples(st.sampled_from(PHRASES), st.sampled_from([",", ";"])), min_size=1), st.sampled_from(".?!"))
def test_it_agrees_with_nltk_where_both_know_the_tokens(phrases, end):
    tokens = [*" ".join(f"{phrase} {mark}" for phrase, mark in phrases).split()[:-1], end]
    assert detokenize(" ".join(tokens)) == TreebankWordDetokenizer().detokenize(tokens)
