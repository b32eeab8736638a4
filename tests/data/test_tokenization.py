import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.data.tokenization import sentences_of, split_sentences, tokenize


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
    ],
)
def test_tokens(text, tokens):
    assert tokenize(text) == tokens.split()
    assert tokenize(tokens) == tokens.split()  # once is enough


@given(st.text(max_size=40))
def test_tokens_lose_no_character(text):
    assert "".join(tokenize(text)) == "".join(text.split())


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
    assert split_sentences(text) == sentences


@given(st.text("aB.!?\"' \n", max_size=30))
def test_sentences_lose_no_word(text):
    assert " ".join(split_sentences(text)).split() == text.split()


def test_splitters_leave_lines_apart_and_out_what_is_blank():
    text = "He left. She stayed in the U.S. forever\n\n  \nA title\n"
    assert sentences_of(text, "lines") == ["He left. She stayed in the U.S. forever", "A title"]
    for splitter in ("rules", "sentencizer"):
        assert sentences_of(text, splitter) == ["He left.", "She stayed in the U.S. forever", "A title"]
    assert sentences_of("who came? nobody.", "sentencizer") == ["who came?", "nobody."]
    assert sentences_of("\n \n", "sentencizer") == []
