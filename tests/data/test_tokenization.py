import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.tokenize.treebank import TreebankWordDetokenizer

from depgen.data.tokenization import detokenize, sentence_spans, sentences_of, tokenize, word_spans, words_of


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("She couldn't, and he'd gone.", "She could n't , and he 'd gone ."),
        ("It's Ann's $100 T-shirt!", "It 's Ann 's $ 100 T-shirt !"),
        ("the boys' room at 7:30pm", "the boys ' room at 7:30pm"),
        ("five o'clock on Dr. Lee's U.S. tour...", "five o'clock on Dr. Lee 's U.S. tour ..."),
        ("[FEMALE]'s 3rd mother-in-law", "[FEMALE] 's 3rd mother-in-law"),
        ('"No," he said (twice).', '" No , " he said ( twice ) .'),
        ("José’s café", "José ’s café"),
        ("We sat at the cafe\u0301, again.", "We sat at the café , again ."),
        ("I 👨‍👩‍👧 you 👍🏽❤️!", "I 👨‍👩‍👧 you 👍🏽 ❤️ !"),
        ("(www.example.org) or https://a.org/b?c=d.", "( www.example.org ) or https://a.org/b?c=d ."),
        ("Write to www.example.org.", "Write to www.example.org ."),
        ("[a] case [sic]", "[ a ] case [ sic ]"),
        ("a well-known 3-year-old", "a well-known 3-year-old"),
        ("I cannot wed; her u.s. id isn't his", "I can not wed ; her u.s. id is n't his"),
        ("`` a @-@ b '' <unk> we 've", "`` a @-@ b '' <unk> we 've"),
    ],
)
def test_tokens(text, tokens):
    assert tokenize(text) == tokens.split()
    assert tokenize(tokens) == tokens.split()  # once is enough


ACCENTED = st.text(
    st.sampled_from("aeEo.'-\"? \n\u0301\u0308\u0344\u0958한ᄒ\u1161\u11abক\u09c7\u09be")
    | st.characters(codec="utf-8"),
    max_size=30,
)


@given(ACCENTED)
@example(" \u0344")
@example("e\u0301 \u0301x")
@example("\U0001d15e a")
def test_tokens_lose_no_character_and_are_the_same_however_accents_are_written(text):
    composed, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert "".join(tokenize(text)) == "".join(composed.split())
    assert tokenize(composed) == tokenize(apart) == tokenize(text)
    spans = word_spans(text, "rules")
    parts = [unicodedata.normalize("NFC", text[first:last]) for first, last in spans]
    if all(len(unicodedata.normalize("NFC", character)) == 1 for character in text):
        assert parts == tokenize(text)
    assert all(token in part for token, part in zip(tokenize(text), parts, strict=True))  # of one character too
    for splitter in ("rules", "sentencizer"):
        cut = [[words_of(each, "rules") for each in sentences_of(form, splitter)] for form in (composed, apart)]
        assert cut[0] == cut[1]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He left. She stayed.", ["He left.", "She stayed."]),
        ("Mr. J. Lee of the U.S. Army left.", ["Mr. J. Lee of the U.S. Army left."]),
        ('"Go!" he said. "No."', ['"Go!" he said.', '"No."']),
        ("It was 3.5 percent. in May", ["It was 3.5 percent. in May"]),
        ("He left . She stayed ? Yes !", ["He left .", "She stayed ?", "Yes !"]),
        ('He said " no . " She left .', ['He said " no . "', "She left ."]),
        ("a heading\n\nA text.", ["a heading", "A text."]),
        ("", []),
    ],
)
def test_sentences(text, sentences):
    assert sentences_of(text, "rules") == sentences


@given(st.text("aB.!?\"' \n", max_size=30), st.sampled_from(["lines", "rules", "sentencizer"]))
def test_sentences_lose_no_word_and_have_no_blanks_around_them(text, splitter):
    sentences = sentences_of(text, splitter)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence.strip() == sentence != "" for sentence in sentences)
    assert all(text[first:last].count("\n") == 0 for first, last in sentence_spans(text, splitter))


def test_splitters_leave_lines_apart_and_out_what_is_blank():
    text = "He left. She stayed in the U.S. forever\n\n  \nA title\n"
    assert sentences_of(text, "lines") == ["He left. She stayed in the U.S. forever", "A title"]
    for splitter in ("rules", "sentencizer"):
        assert sentences_of(text, splitter) == ["He left.", "She stayed in the U.S. forever", "A title"]
    assert sentences_of("who came? nobody.", "sentencizer") == ["who came?", "nobody."]
    assert sentences_of("\n \n", "sentencizer") == []


@pytest.mark.parametrize("splitter", ["lines", "rules", "sentencizer"])
def test_only_ends_of_lines_in_files_end_lines(splitter):
    sentences = sentences_of("one\u2028line\x85and\x0cmore\r\nanother", splitter)
    assert [sentence.split() for sentence in sentences] == [["one", "line", "and", "more"], ["another"]]


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
