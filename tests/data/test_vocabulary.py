"""Vocabularies of words and of pieces: ids, unknown words, special tokens, side tables, alignment, files."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from depgen.data.corpora import TextLines
from depgen.data.text import TextData
from depgen.data.vocabulary import (
    CorpusVocabulary,
    ReadyVocabulary,
    SubwordPieces,
    Vocabulary,
    WordVocabulary,
    encode,
    is_unknown,
    load_vocabulary,
    special_tokens,
    vocabulary_of_checkpoint,
)
from depgen.errors import UserError
from tests.vocabularies import documents_of

COUNTS = Counter({"the": 9, "cat": 4, "dog": 4, "purrs": 1, "<unk>": 3, "<eos>": 7})
TALK = {"walking": 5, "walked": 4, "talking": 3, "ünïcode": 1}
BUILDERS = {
    "words": WordVocabulary(min_count=2, specials=["start", "[nsubj]"]),
    "BPE": SubwordPieces(size=275, specials=["start", "[nsubj]"]),
}
WORD = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="▁"), min_size=1, max_size=6)
"""A word without white space, and without the character that marks where a word begins."""
LETTERS = st.text("abcdefgh", min_size=1, max_size=7)


def built(builder, counts):
    return builder.build(documents_of(counts))


# -- words ------------------------------------------------------------------------------------------------------------


def test_words_are_ordered_by_frequency_then_spelling_and_cut_off():
    assert built(WordVocabulary(), COUNTS).types == ("<eos>", "<unk>", "the", "cat", "dog", "purrs")
    assert built(WordVocabulary(min_count=2), COUNTS).types[2:] == ("the", "cat", "dog")
    assert built(WordVocabulary(max_size=4), COUNTS).types[2:] == ("the", "cat")
    assert built(WordVocabulary(max_size=4, masks=True), COUNTS).types == ("<eos>", "<unk>", "<mask>", "the")
    assert built(SubwordPieces(size=258), ["a"]).size == built(SubwordPieces(size=9), ["a"]).size == 258


def test_a_literal_special_word_and_white_space_are_text():
    vocabulary = built(WordVocabulary(), COUNTS)
    assert encode(vocabulary, ["the", "<unk>", "<eos>", "bird"]).ids.tolist() == [2, 1, 1, 1]
    assert [is_unknown(vocabulary, word) for word in ("the", "<unk>", "bird")] == [False, True, True]
    vocabulary = Vocabulary.of_words(["10 000", "a\u00a0b"])
    assert [vocabulary.pieces(word) for word in ("10 000", "a\u00a0b", "10 001")] == [(2,), (3,), (1,)]
    assert vocabulary.decode([2, 3, 2]) == "10 000 a\u00a0b 10 000"


def test_a_mask_and_a_beginning_are_special_words_and_no_words_of_a_text():
    counts = Counter({"the": 9, "cat": 4, "<mask>": 8, "<unk>": 2})
    vocabulary = built(WordVocabulary(masks=True), counts)
    assert vocabulary.types == ("<eos>", "<unk>", "<mask>", "the", "cat")
    assert (vocabulary.eos, vocabulary.unk, vocabulary.mask_id, vocabulary.start) == (0, 1, 2, 0)
    assert encode(vocabulary, ["<mask>", "cat", "<eos>", "the"]).ids.tolist() == [1, 4, 1, 3]
    plain = built(WordVocabulary(), counts)
    assert plain.mask_id is None
    assert plain.types[2:4] == ("the", "<mask>"), "without masks it is a word as any other"
    both = built(WordVocabulary(masks=True, starts=True), ["a", "<s>"])
    assert (both.eos, both.unk, both.mask_id, both.start, both.size) == (0, 1, 2, 3, 5)
    assert both.pieces("<s>") == (both.unk,)


def test_fingerprints_follow_every_option():
    options = [{}, {"min_count": 2}, {"max_size": 9}, {"masks": True}, {"starts": True}, {"specials": ["mine"]}]
    builders = [WordVocabulary(**each) for each in options]
    builders += [SubwordPieces(), SubwordPieces(size=300), SubwordPieces(specials=["mine"])]
    assert len({builder.fingerprint() for builder in builders}) == 9


# -- special tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BUILDERS)
def test_named_special_tokens_follow_the_two_that_all_have_and_no_text_holds_them(kind):
    vocabulary = built(BUILDERS[kind], {**TALK, "<eos>": 3, "[nsubj]": 9, "<s>": 2})
    assert vocabulary.special_ids == {"eos": 0, "unk": 1, "start": 2, "[nsubj]": 3}
    assert vocabulary.types[:4] == ("<eos>", "<unk>", "<s>", "[nsubj]")
    assert not vocabulary.opens_word[[0, 2, 3]].any()
    for word in ("<eos>", "<s>", "[nsubj]", "a[nsubj]b"):
        assert not {0, 2, 3} & set(vocabulary.pieces(word)), word


# -- pieces -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pieces():
    return built(SubwordPieces(size=300), TALK)


@pytest.fixture(scope="module")
def unigram(tmp_path_factory):
    """A ready tokenizer of another library's making, whose words begin with `▁`."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="never")
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=["<eos>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([f" {word}" for word in (*TALK, *"abcdefghüï") for _ in range(3)], trainer)
    return Vocabulary(tokenizer.to_str(), specials={"eos": "<eos>", "unk": "<unk>"})


def test_pieces_align_with_words_and_decode_to_the_text(pieces, unigram):
    assert "Ġwalk" in pieces.types
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
        tokenizer = Tokenizer.from_str(vocabulary.tokenizer)
        text = " " * (first and vocabulary.splits_words) + " ".join(words)
        found = encode(vocabulary, words, first_word_space=first).ids.tolist()
        assert found == tokenizer.encode(text, add_special_tokens=False).ids


def test_a_literal_end_of_text_in_a_corpus_is_text(pieces):
    encoding = encode(pieces, ["<eos>", "walking"])
    assert pieces.eos not in encoding.ids
    assert pieces.decode(encoding.ids.tolist()) == "<eos> walking"


def test_a_ready_tokenizer_has_its_own_end_of_text_token(pieces, tmp_path):
    (tmp_path / "tokenizer.json").write_text(pieces.tokenizer)
    ready = SubwordPieces(tokenizer=str(tmp_path), eos_token="<eos>").build([])
    assert (ready.size, ready.unk, ready.specials) == (pieces.size, -1, {"eos": "<eos>"})


def test_a_word_with_an_unknown_piece_is_unknown_and_the_byte_0_is_no_character(unigram, pieces):
    assert [is_unknown(unigram, word) for word in ("☃t", "walked")] == [True, False]
    zero = pieces.types.index("Ā")  # how byte-level pieces spell it
    assert pieces.decode([zero]) == "\ufffd"


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


# -- files and processes ----------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    counts=st.dictionaries(st.one_of(LETTERS, WORD), st.integers(1, 9), min_size=1, max_size=12),
    text=st.lists(st.one_of(LETTERS, WORD), max_size=6),
    table=st.one_of(st.lists(WORD), st.lists(st.lists(WORD, max_size=3))),
)
def test_a_saved_vocabulary_gives_the_same_ids(tmp_path_factory, counts, text, table):
    assume(len(set("".join(counts))) < 30)
    file = tmp_path_factory.mktemp("saved") / "vocabulary.json"
    for builder in BUILDERS.values():
        vocabulary = built(builder, counts).with_tables({"rows": table})
        vocabulary.save(file)
        of_checkpoint = vocabulary_of_checkpoint({"epoch": 1, "TextData": {"vocabulary": vocabulary.to_json()}})
        for again in (load_vocabulary(file), pickle.loads(pickle.dumps(vocabulary)), of_checkpoint):
            assert again.to_json() == vocabulary.to_json()
            assert again.types == vocabulary.types
            assert again.tables == {"rows": table}
            words = [*text, *counts]
            assert encode(again, words).ids.tolist() == encode(vocabulary, words).ids.tolist()
            assert again.decode(range(vocabulary.size)) == vocabulary.decode(range(vocabulary.size))


# -- refusals ---------------------------------------------------------------------------------------------------------


def of_bpe(*pieces):
    """A tokenizer of byte-level pieces without merges and without an unknown token."""
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Vocabulary(tokenizer.to_str(), specials={"eos": pieces[0]})


@pytest.mark.parametrize(("make", "message"), [
    (lambda: special_tokens(["start", "start"]), "start, start"),
    (lambda: special_tokens(["eos"]), "eos"),
    (lambda: special_tokens(["start", "<s>"]), "start, <s>"),
    (lambda: Vocabulary.of_words(["a", "b", "a"]), "'a' twice"),
    (lambda: Vocabulary.of_words(["a", "<mask>"], specials=["mask_id"]), "'<mask>' twice"),
    (lambda: WordVocabulary(max_size=3, masks=True), r"^max_size: expected at least 4, found 3"),
    (lambda: of_bpe("<end>", "a", "Ġ").pieces("b", space=False), "no piece for the word 'b' and has no unknown token"),
    (lambda: of_bpe("<eos>", "a").opens_word, "begin with Ġ or ▁"),
    (lambda: load_vocabulary(Path("no/vocabulary.json")), r"vocabulary\.json can't be read"),
    (lambda: Vocabulary.of_json("[]", "mine.json"), r"^mine\.json: expected a vocabulary"),
    (lambda: Vocabulary.of_json(of_bpe("<eos>").to_json()[:-9], "cut"), "^cut: expected a vocabulary"),
    (lambda: Vocabulary.of_json('{"specials": {}, "tables": {}}', "part"), "^part: expected a vocabulary.*tokenizer"),
    (lambda: vocabulary_of_checkpoint({"TextData": {"vocabulary": "{}"}}), "checkpoint, TextData: expected"),
    (lambda: Vocabulary(of_bpe("a").tokenizer, specials={"eos": "<end>"}), "The tokenizer has no token '<end>'.*eos_"),
])  # fmt: skip
def test_what_is_no_vocabulary(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_a_ready_tokenizer_needs_its_file(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        SubwordPieces(tokenizer=str(tmp_path)).build([])


# -- vocabularies of other data ---------------------------------------------------------------------------------------


def corpus(folder, train="a b b\nc b a\n"):
    for split, text in (("train", train), ("valid", "a d\n"), ("test", "a\n")):
        (folder / f"{split}.txt").write_text(text)
    return TextLines(str(folder))


def test_parts_of_a_corpus_share_the_words_of_the_whole(tmp_path):
    whole = corpus(tmp_path)
    sizes = {
        shared: [
            TextData(whole, max_documents=count, vocabulary=CorpusVocabulary(whole) if shared else None).vocabulary_size
            for count in (1, None)
        ]
        for shared in (True, False)
    }
    assert sizes == {True: [5, 5], False: [4, 5]}
    builder = CorpusVocabulary(whole, WordVocabulary(min_count=2, masks=True))
    assert builder.build(documents_of(["z", "z"])).types == ("<eos>", "<unk>", "<mask>", "b", "a")
    first = CorpusVocabulary(whole).fingerprint()
    assert builder.fingerprint() != first == CorpusVocabulary(whole).fingerprint()
    assert CorpusVocabulary(corpus(tmp_path, train="a\n")).fingerprint() != first


def test_a_ready_vocabulary_is_taken_whatever_the_words(tmp_path):
    file = tmp_path / "vocabulary.json"
    Vocabulary.of_words(["cat"]).save(file)
    ready = ReadyVocabulary(str(file))
    assert ready.build(documents_of(COUNTS)).types == ("<eos>", "<unk>", "cat")
    before = ready.fingerprint()
    Vocabulary.of_words(["dog"]).save(file)
    assert ready.fingerprint() != before
