from collections import Counter

import pytest

from depgen.data.ready_vocabulary import ReadyVocabulary
from depgen.data.vocabulary import SubwordPieces, Vocabulary, VocabularyBuilder
from depgen.errors import UserError
from tests.vocabularies import documents_of

COUNTS = Counter({"the": 9, "cat": 4})


def test_a_ready_vocabulary_is_taken_whatever_the_words(tmp_path):
    Vocabulary.of_words(["cat"]).save(tmp_path / "words")
    pieces = SubwordPieces(size=260).build(documents_of(COUNTS))
    pieces.save(tmp_path / "pieces")
    words = ReadyVocabulary(str(tmp_path / "words"))
    assert words.build(documents_of(COUNTS)).types == ("<eos>", "<unk>", "cat")
    assert ReadyVocabulary(str(tmp_path / "pieces")).build(documents_of(COUNTS)).size == pieces.size
    assert isinstance(words, VocabularyBuilder)
    before = words.fingerprint()
    assert before != ReadyVocabulary(str(tmp_path / "pieces")).fingerprint()
    Vocabulary.of_words(["dog"]).save(tmp_path / "words")
    assert words.fingerprint() != before


def test_a_vocabulary_that_is_not_there_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(UserError, match=f"No vocabulary at .*{name}"):
            ReadyVocabulary(str(tmp_path / name)).fingerprint()
