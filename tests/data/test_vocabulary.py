"""Word and subword vocabularies: ids, unknown words, alignment, saving."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.saved_vocabulary import load_vocabulary
from depgen.data.vocabulary import SubwordPieces, SubwordVocabulary, Vocabulary, WordVocabulary, encode
from depgen.errors import UserError

COUNTS = Counter({"the": 9, "cat": 4, "dog": 4, "purrs": 1, "<unk>": 3, "<eos>": 7})


def test_words_are_ordered_by_frequency_then_spelling_behind_the_special_ones():
    vocabulary = WordVocabulary().build(COUNTS)
    assert vocabulary.words == ("<eos>", "<unk>", "the", "cat", "dog", "purrs")


def test_cut_off_and_size():
    assert WordVocabulary(min_count=2).build(COUNTS).words[2:] == ("the", "cat", "dog")
    assert WordVocabulary(max_size=4).build(COUNTS).words[2:] == ("the", "cat")


def test_a_literal_unk_is_the_unknown_word_and_a_literal_eos_does_not_end_a_text():
    vocabulary = WordVocabulary().build(COUNTS)
    assert encode(vocabulary, ["the", "<unk>", "<eos>", "bird"]).ids.tolist() == [2, 1, 1, 1]


def test_a_word_listed_twice_is_refused():
    with pytest.raises(UserError, match="1 words twice"):
        Vocabulary(["a", "a"])


def test_round_trip_through_a_folder(tmp_path):
    vocabulary = WordVocabulary().build(Counter({"naïve": 2, "“": 1}))
    vocabulary.save(tmp_path)
    assert load_vocabulary(tmp_path).words == vocabulary.words


def test_a_folder_without_vocabulary_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        load_vocabulary(tmp_path)


@pytest.fixture(scope="module")
def pieces():
    return SubwordPieces(size=300).build(Counter({"walking": 5, "walked": 4, "talking": 3, "ünïcode": 1}))


def test_pieces_align_with_words_and_decode_to_the_text(pieces, tmp_path):
    words = ["walking", "xyz", "talked", "ünïcode"]
    encoding = encode(pieces, words)
    assert pieces.decode(encoding.ids.tolist()) == " ".join(words)
    assert encoding.word_of_piece.tolist() == sorted(encoding.word_of_piece.tolist())
    assert set(encoding.word_of_piece.tolist()) == {0, 1, 2, 3}
    assert len(encoding.ids) > len(words)
    pieces.save(tmp_path)
    again = load_vocabulary(tmp_path)
    assert isinstance(again, SubwordVocabulary)
    assert encode(again, words).ids.tolist() == encoding.ids.tolist()
    assert (again.eos, again.unk, again.size) == (pieces.eos, pieces.unk, pieces.size)


@settings(max_examples=40, deadline=None)
@given(
    words=st.lists(
        st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=6), min_size=1, max_size=5
    )
)
def test_any_words_survive_the_byte_level_pieces(pieces, words):
    assert pieces.decode(encode(pieces, words).ids.tolist()) == " ".join(words)


def test_a_ready_tokenizer_without_its_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        SubwordPieces(tokenizer=str(tmp_path)).build(Counter())


@pytest.mark.parametrize("content", [b"{", b"{}", b"caf\xe9"])
def test_a_damaged_tokenizer_is_named(pieces, tmp_path, content):
    pieces.save(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(content)
    for ask in (lambda: load_vocabulary(tmp_path), lambda: SubwordPieces(tokenizer=str(tmp_path)).build(Counter())):
        with pytest.raises(UserError, match=r"tokenizer\.json.*found"):
            ask()


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "other"}', '{"kind": "word"}'])
def test_a_damaged_vocabulary_is_named(tmp_path, content):
    (tmp_path / "vocabulary.json").write_text(content)
    with pytest.raises(UserError, match=r"vocabulary\.json: expected"):
        load_vocabulary(tmp_path)


def test_sizes_below_the_least_are_refused():
    assert SubwordPieces(size=258).build(Counter({"a": 1})).size == 258
    with pytest.raises(UserError, match="size must be at least 258"):
        SubwordPieces(size=257)
    with pytest.raises(UserError, match="max_size must be at least 3"):
        WordVocabulary(max_size=2)


def test_a_ready_tokenizer_needs_its_end_of_text_token_by_name(pieces, tmp_path):
    pieces.save(tmp_path)
    with pytest.raises(UserError, match="eos_token"):
        SubwordPieces(tokenizer=str(tmp_path), eos_token="<|endoftext|>").build(Counter())
    assert SubwordPieces(tokenizer=str(tmp_path), eos_token="<eos>").build(Counter()).size == pieces.size


def test_a_literal_end_of_text_in_a_corpus_is_text(pieces):
    encoding = encode(pieces, ["<eos>", "walking"])
    assert pieces.eos not in encoding.ids
    assert pieces.decode(encoding.ids.tolist()) == "<eos> walking"


def test_a_mask_is_the_third_special_word_and_no_word_of_a_text():
    counts = Counter({"the": 9, "cat": 4, "<mask>": 8, "<unk>": 2})
    vocabulary = WordVocabulary(masks=True).build(counts)
    assert vocabulary.words == ("<eos>", "<unk>", "<mask>", "the", "cat")
    assert (vocabulary.eos, vocabulary.unk, vocabulary.mask_id) == (0, 1, 2)
    assert encode(vocabulary, ["<mask>", "cat", "<eos>", "the"]).ids.tolist() == [1, 4, 1, 3]
    plain = WordVocabulary().build(counts)
    assert plain.mask_id is None
    assert plain.words[2:4] == ("the", "<mask>"), "without masks it is a word as any other"


def test_sizes_count_the_mask():
    assert WordVocabulary(max_size=4, masks=True).build(COUNTS).words == ("<eos>", "<unk>", "<mask>", "the")
    with pytest.raises(UserError, match="at least 4: <eos>, <unk>, <mask> and a word; found 3"):
        WordVocabulary(max_size=3, masks=True)


def test_masks_survive_a_folder_and_older_files_have_none(tmp_path):
    for masks in (True, False):
        vocabulary = Vocabulary(["the", "cat"], masks=masks)
        vocabulary.save(tmp_path)
        loaded = load_vocabulary(tmp_path)
        assert (loaded.words, loaded.mask_id) == (vocabulary.words, vocabulary.mask_id)
    (tmp_path / "vocabulary.json").write_text('{"kind": "word", "words": ["the", "cat"]}', encoding="utf-8")
    older = load_vocabulary(tmp_path)
    assert (older.words, older.mask_id) == (("<eos>", "<unk>", "the", "cat"), None)


def test_fingerprints_of_builders_without_masks_are_what_caches_were_made_under():
    assert WordVocabulary().fingerprint() == "word min_count=1 max_size=None"
    assert WordVocabulary(min_count=5, max_size=9).fingerprint() == "word min_count=5 max_size=9"
    assert WordVocabulary(min_count=5, max_size=9, masks=True).fingerprint() == "word min_count=5 max_size=9 masks"
    assert SubwordPieces(size=300).fingerprint() == "bpe size=300"


def test_sequences_may_begin_with_a_word_of_their_own(tmp_path):
    both = WordVocabulary(masks=True, starts=True).build(Counter(["a", "<s>"]))
    assert (both.eos, both.unk, both.mask_id, both.start, both.size) == (0, 1, 2, 3, 5)
    assert both.pieces("<s>") == (both.unk,), "a literal <s> in a text is an unknown word"
    both.save(tmp_path)
    read = load_vocabulary(tmp_path)
    assert (read.mask_id, read.start, read.pieces("a")) == (2, 3, (4,))
    assert WordVocabulary(starts=True).build(Counter(["a"])).start == 2
    assert WordVocabulary().build(Counter(["a"])).start == 0
    assert WordVocabulary(starts=True).fingerprint() != WordVocabulary().fingerprint()
