"""Vocabularies of words and of pieces: ids, unknown words, special tokens, side tables, alignment."""

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from depgen.data.saved_vocabulary import load_vocabulary
from depgen.data.vocabulary import (
    TOKENIZER_FILE,
    SubwordPieces,
    UnigramPieces,
    Vocabulary,
    WordVocabulary,
    encode,
    is_unknown,
    special_tokens,
)
from depgen.errors import UserError
from tests.vocabularies import documents_of

COUNTS = Counter({"the": 9, "cat": 4, "dog": 4, "purrs": 1, "<unk>": 3, "<eos>": 7})
TALK = {"walking": 5, "walked": 4, "talking": 3, "ünïcode": 1}
BUILDERS = {
    "words": WordVocabulary(min_count=2, specials=["pad", "[nsubj]"]),
    "BPE": SubwordPieces(size=275, specials=["pad", "[nsubj]"]),
    "Unigram": UnigramPieces(size=40, specials=["pad", "[nsubj]"]),
}
WORD = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="▁"), min_size=1, max_size=6)
"""A word without white space, and without the character that marks where a word begins."""
LETTERS = st.text("abcdefgh", min_size=1, max_size=7)


def built(builder, counts):
    return builder.build(documents_of(counts))


# -- words ------------------------------------------------------------------------------------------------------------


def test_words_are_ordered_by_frequency_then_spelling_after_the_special_ones():
    assert built(WordVocabulary(), COUNTS).types == ("<eos>", "<unk>", "the", "cat", "dog", "purrs")


def test_cut_off_and_size():
    assert built(WordVocabulary(min_count=2), COUNTS).types[2:] == ("the", "cat", "dog")
    assert built(WordVocabulary(max_size=4), COUNTS).types[2:] == ("the", "cat")


def test_a_literal_unk_is_the_unknown_word_and_a_literal_eos_does_not_end_a_text():
    vocabulary = built(WordVocabulary(), COUNTS)
    assert encode(vocabulary, ["the", "<unk>", "<eos>", "bird"]).ids.tolist() == [2, 1, 1, 1]


def test_a_word_that_holds_white_space_is_one_word():
    vocabulary = Vocabulary.of_words(["10 000", "a\u00a0b"])
    assert [vocabulary.pieces(word) for word in ("10 000", "a\u00a0b", "10 001")] == [(2,), (3,), (1,)]
    assert vocabulary.decode([2, 3, 2]) == "10 000 a\u00a0b 10 000"


def test_a_mask_is_the_third_special_word_and_no_word_of_a_text():
    counts = Counter({"the": 9, "cat": 4, "<mask>": 8, "<unk>": 2})
    vocabulary = built(WordVocabulary(masks=True), counts)
    assert vocabulary.types == ("<eos>", "<unk>", "<mask>", "the", "cat")
    assert (vocabulary.eos, vocabulary.unk, vocabulary.mask_id) == (0, 1, 2)
    assert encode(vocabulary, ["<mask>", "cat", "<eos>", "the"]).ids.tolist() == [1, 4, 1, 3]
    plain = built(WordVocabulary(), counts)
    assert plain.mask_id is None
    assert plain.types[2:4] == ("the", "<mask>"), "without masks it is a word as any other"


def test_sequences_may_begin_with_a_token_for_that():
    both = built(WordVocabulary(masks=True, starts=True), ["a", "<s>"])
    assert (both.eos, both.unk, both.mask_id, both.start, both.size) == (0, 1, 2, 3, 5)
    assert both.pieces("<s>") == (both.unk,), "a literal <s> in a text is an unknown word"
    assert built(WordVocabulary(starts=True), ["a"]).start == 2
    assert built(WordVocabulary(), ["a"]).start == 0


def test_fingerprints_are_what_caches_were_made_under():
    assert WordVocabulary().fingerprint() == "word min_count=1 max_size=None"
    assert WordVocabulary(min_count=5, max_size=9, masks=True).fingerprint() == "word min_count=5 max_size=9 masks"
    assert WordVocabulary(masks=True, starts=True).fingerprint() == "word min_count=1 max_size=None masks starts"
    assert SubwordPieces(size=300).fingerprint() == "bpe size=300"
    assert len({builder.fingerprint() for builder in (*BUILDERS.values(), UnigramPieces(40), SubwordPieces(275))}) == 5


# -- special tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BUILDERS)
def test_named_special_tokens_follow_the_two_that_all_have_and_no_text_holds_them(kind):
    vocabulary = built(BUILDERS[kind], {**TALK, "<eos>": 3, "[nsubj]": 9, "<pad>": 2})
    assert vocabulary.special_ids == {"eos": 0, "unk": 1, "pad": 2, "[nsubj]": 3}
    assert vocabulary.types[:4] == ("<eos>", "<unk>", "<pad>", "[nsubj]")
    assert not vocabulary.opens_word[[0, 2, 3]].any()
    for word in ("<eos>", "<pad>", "[nsubj]", "a[nsubj]b"):
        assert not {0, 2, 3} & set(vocabulary.pieces(word)), word


def test_special_tokens_of_one_name_or_spelling_are_refused():
    for names in (["pad", "pad"], ["eos"], ["pad", "<pad>"]):
        with pytest.raises(UserError, match=names[-1]):
            special_tokens(names)


def test_a_word_that_is_listed_twice_or_is_a_special_token_is_refused():
    with pytest.raises(UserError, match="1 words twice, such as 'a'"):
        Vocabulary.of_words(["a", "b", "a"])
    with pytest.raises(UserError, match="'<mask>' as a word, which is a special token"):
        Vocabulary.of_words(["a", "<mask>"], specials=["mask_id"])


def test_sizes_below_the_least_are_refused():
    assert built(SubwordPieces(size=258), ["a"]).size == 258
    with pytest.raises(UserError, match="size must be at least 259: <eos>, <unk>, <mask> and the 256 bytes"):
        SubwordPieces(size=258, specials=["mask_id"])
    assert built(WordVocabulary(max_size=4, masks=True), COUNTS).types == ("<eos>", "<unk>", "<mask>", "the")
    with pytest.raises(UserError, match="at least 4: <eos>, <unk>, <mask> and a word; found 3"):
        WordVocabulary(max_size=3, masks=True)
    assert built(UnigramPieces(size=6), ["ab", "ba"]).size == 6
    with pytest.raises(UserError, match="size must be at least 6: <eos>, <unk>, all characters and one piece"):
        built(UnigramPieces(size=5), ["ab", "ba"])


# -- pieces -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pieces():
    return built(SubwordPieces(size=300), TALK)


@pytest.fixture(scope="module")
def unigram():
    return built(UnigramPieces(size=60), {**TALK, "a": 2, "$": 1, "cats": 4, "caw": 1})


def test_pieces_align_with_words_and_decode_to_the_text(pieces, unigram):
    words = ["walking", "talked", "ünïcode"]
    for vocabulary in (pieces, unigram):
        encoding = encode(vocabulary, words)
        assert vocabulary.decode(encoding.ids.tolist()) == " ".join(words)
        assert encoding.word_of_piece.tolist() == sorted(encoding.word_of_piece.tolist())
        assert set(encoding.word_of_piece.tolist()) == {0, 1, 2}
        assert len(encoding.ids) > len(words)


@settings(max_examples=40, deadline=None)
@given(words=st.lists(WORD, min_size=1, max_size=5))
def test_any_words_survive_the_byte_level_pieces(pieces, words):
    assert pieces.decode(encode(pieces, words).ids.tolist()) == " ".join(words)


@settings(max_examples=60, deadline=None)
@given(words=st.lists(LETTERS, min_size=1, max_size=5), first=st.booleans())
def test_words_one_by_one_are_what_the_tokenizer_makes_of_the_text(pieces, unigram, words, first):
    whole_words = Vocabulary.of_words(["a", "b", "cab"])
    for vocabulary in (whole_words, pieces, unigram):
        tokenizer = Tokenizer.from_str(vocabulary.files()[TOKENIZER_FILE])
        text = " " * (first and vocabulary.splits_words) + " ".join(words)
        found = encode(vocabulary, words, first_word_space=first).ids.tolist()
        assert found == tokenizer.encode(text, add_special_tokens=False).ids


def test_a_literal_end_of_text_in_a_corpus_is_text(pieces):
    encoding = encode(pieces, ["<eos>", "walking"])
    assert pieces.eos not in encoding.ids
    assert pieces.decode(encoding.ids.tolist()) == "<eos> walking"


def test_a_ready_tokenizer_needs_its_file_and_its_end_of_text_token_by_name(pieces, tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        SubwordPieces(tokenizer=str(tmp_path)).build([])
    pieces.save(tmp_path)
    with pytest.raises(UserError, match="eos_token"):
        SubwordPieces(tokenizer=str(tmp_path), eos_token="<|endoftext|>").build([])
    ready = SubwordPieces(tokenizer=str(tmp_path), eos_token="<eos>").build([])
    assert (ready.size, ready.unk, ready.specials) == (pieces.size, -1, {"eos": "<eos>"})


def test_a_ready_tokenizer_without_a_piece_for_a_word_says_so():
    tokenizer = Tokenizer(models.BPE({"<end>": 0, "a": 1, "Ġ": 2}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary = Vocabulary(tokenizer.to_str(), specials={"eos": "<end>"})
    assert vocabulary.pieces("a") == (2, 1)
    with pytest.raises(UserError, match="no piece for the word 'b' and has no unknown token"):
        vocabulary.pieces("b", space=False)


def test_no_unigram_word_begins_with_a_bare_mark_if_a_word_of_the_text_begins_so(unigram):
    assert "▁$" in unigram.types
    for word in (*TALK, "cat", "cot", "king", "$", "$$", "wünï"):
        assert unigram.types[unigram.pieces(word)[0]] != "▁" or word[0] not in "wtüac$", word
    assert unigram.types[unigram.pieces("king")[0]] == "▁", "no word of the text begins with k"
    assert [unigram.types[index] for index in unigram.pieces("☃t")] == ["▁", "<unk>", "t"]
    assert [is_unknown(unigram, word) for word in ("☃t", "king")] == [True, False]


def test_unigram_pieces_are_the_same_whenever_they_are_learnt():
    words = np.random.default_rng(0).choice(list("abcde"), (300, 5))
    counts = Counter("".join(word[: 1 + place % 5]) for place, word in enumerate(words))
    found = {built(UnigramPieces(size=80), counts).files()[TOKENIZER_FILE] for _ in range(3)}
    assert len(found) == 1


# -- the beginnings of words ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.one_of(LETTERS, WORD), min_size=1, max_size=6))
def test_the_first_piece_of_each_word_opens_it_and_no_other_does(pieces, unigram, words):
    for vocabulary in (Vocabulary.of_words(["a", "b"], specials=["mask_id"]), pieces, unigram):
        encoding = encode(vocabulary, words)
        begins = np.diff(encoding.word_of_piece, prepend=-1) > 0
        assert vocabulary.opens_word.dtype == np.bool_
        assert len(vocabulary.opens_word) == vocabulary.size
        assert vocabulary.opens_word[encoding.ids].tolist() == begins.tolist()


def test_all_words_open_and_special_tokens_but_the_unknown_word_do_not():
    vocabulary = Vocabulary.of_words(["a", "b"], specials=["mask_id", "[nsubj]"])
    assert vocabulary.opens_word.tolist() == [False, True, False, False, True, True]


def test_a_tokenizer_that_marks_no_beginnings_has_no_table_of_them():
    tokenizer = Tokenizer(models.BPE({"<eos>": 0, "a": 1}, []))
    with pytest.raises(UserError, match="begin with Ġ or ▁"):
        _ = Vocabulary(tokenizer.to_str(), specials={"eos": "<eos>"}).opens_word


# -- files and processes ----------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    counts=st.dictionaries(st.one_of(LETTERS, WORD), st.integers(1, 9), min_size=1, max_size=12),
    text=st.lists(st.one_of(LETTERS, WORD), max_size=6),
    table=st.one_of(st.lists(WORD), st.lists(st.lists(WORD, max_size=3))),
)
def test_a_saved_vocabulary_gives_the_same_ids(tmp_path_factory, counts, text, table):
    assume(len(set("".join(counts))) < 30)
    folder = tmp_path_factory.mktemp("saved")
    for builder in BUILDERS.values():
        vocabulary = built(builder, counts).with_tables({"rows": table})
        vocabulary.save(folder)
        for again in (load_vocabulary(folder), pickle.loads(pickle.dumps(vocabulary))):
            assert again.files() == vocabulary.files()
            assert (again.types, again.special_ids, again.start) == (
                vocabulary.types, vocabulary.special_ids, vocabulary.start,
            )  # fmt: skip
            assert again.tables == {"rows": table}
            words = [*text, *counts]
            assert encode(again, words).ids.tolist() == encode(vocabulary, words).ids.tolist()
            assert again.decode(range(vocabulary.size)) == vocabulary.decode(range(vocabulary.size))


def test_tables_hold_strings_or_rows_of_strings():
    plain = Vocabulary.of_words(["a"], tables={"labels": ["nsubj"]})
    both = plain.with_tables({"expansions": [["nsubj", "det"], []]})
    assert both.tables == {"labels": ["nsubj"], "expansions": [["nsubj", "det"], []]}
    assert plain.tables == {"labels": ["nsubj"]}
    for rows in ([1], ["a", ["b"]], [["a", 2]], [None], "ab", 3, {"a": "b"}):
        with pytest.raises(UserError, match="'wrong': expected strings, or rows of strings"):
            plain.with_tables({"wrong": rows})
