"""Vocabularies in folders and checkpoints: those of earlier versions, and damaged ones."""

import json

import pytest
from tokenizers import Tokenizer, models

from depgen.data.saved_vocabulary import load_vocabulary, vocabulary_of_checkpoint
from depgen.data.vocabulary import TOKENIZER_FILE, VOCABULARY_FILE, SubwordPieces, Vocabulary, WordVocabulary
from depgen.errors import UserError
from tests.vocabularies import documents_of


@pytest.fixture
def folder(tmp_path):
    """A saved vocabulary of pieces."""
    SubwordPieces(size=270).build(documents_of({"walking": 5, "walked": 4})).save(tmp_path)
    return tmp_path


def test_a_folder_without_vocabulary_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        load_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("flags", "types"),
    [
        ({}, ("<eos>", "<unk>", "the", "cat")),
        ({"masks": True}, ("<eos>", "<unk>", "<mask>", "the", "cat")),
        ({"masks": True, "starts": True}, ("<eos>", "<unk>", "<mask>", "<s>", "the", "cat")),
        ({"starts": True}, ("<eos>", "<unk>", "<s>", "the", "cat")),
    ],
)
def test_words_of_an_earlier_version_are_read(tmp_path, flags, types):
    content = json.dumps({"kind": "word", "words": ["the", "cat"], **flags})
    (tmp_path / VOCABULARY_FILE).write_text(content, encoding="utf-8")
    built = WordVocabulary(**flags).build(documents_of({"the": 2, "cat": 1}))
    held = vocabulary_of_checkpoint({"epoch": 1, "TextData": {"vocabulary": {VOCABULARY_FILE: content}}})
    for vocabulary in (load_vocabulary(tmp_path), held):
        assert vocabulary.types == types
        assert vocabulary.files() == built.files()


def test_pieces_of_an_earlier_version_are_read(folder):
    now = load_vocabulary(folder)
    for unknown, special_ids in (("<unk>", {"eos": 0, "unk": 1}), (None, {"eos": 0})):
        content = {"kind": "subword", "eos_token": "<eos>", "unk_token": unknown}
        (folder / VOCABULARY_FILE).write_text(json.dumps(content))
        before = load_vocabulary(folder)
        assert before.special_ids == special_ids
        assert (before.types, before.pieces("walks")) == (now.types, now.pieces("walks"))


@pytest.mark.parametrize("content", [b"{", b"{}", b"caf\xe9", b""])
def test_a_damaged_tokenizer_is_named(folder, content):
    (folder / TOKENIZER_FILE).write_bytes(content)
    for ask in (lambda: load_vocabulary(folder), lambda: SubwordPieces(tokenizer=str(folder)).build([])):
        with pytest.raises(UserError, match=r"tokenizer\.json.*found"):
            ask()
    (folder / TOKENIZER_FILE).unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json.*found"):
        load_vocabulary(folder)


def test_a_tokenizer_that_is_not_the_one_saved_is_refused(folder):
    path = folder / TOKENIZER_FILE
    path.write_text(path.read_text(encoding="utf-8").replace('Ġwalk"', 'Ġwelk"'), encoding="utf-8")
    with pytest.raises(UserError, match=r"vocabulary\.json: expected the tokenizer\.json that was saved with it"):
        load_vocabulary(folder)
    files = {**Vocabulary.of_words(["a"]).files(), TOKENIZER_FILE: "{}"}
    for each in (files, {VOCABULARY_FILE: files[VOCABULARY_FILE]}):
        with pytest.raises(UserError, match=r"checkpoint, TextData.*tokenizer\.json that was saved"):
            vocabulary_of_checkpoint({"TextData": {"vocabulary": each}})


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "", "[" * 99_999, f'{{"kind": {"9" * 5000}}}', '{"kind": "other"}', '{"kind": "word"}',
        '{"kind": "word", "words": ["a", 1]}', '{"kind": "subword", "eos_token": 3, "unk_token": null}',
        '{"specials": {}, "tables": {}, "sha256": ""}', '{"specials": {"eos": 1}, "tables": {}, "sha256": ""}',
        '{"specials": {"eos": "<eos>", "pad": 1}, "tables": {}, "sha256": ""}',
        '{"specials": {"eos": "<eos>"}, "tables": [], "sha256": ""}', '{"specials": {"eos": "<eos>"}, "tables": {}}',
    ],
)  # fmt: skip
def test_a_damaged_vocabulary_is_named(tmp_path, content):
    (tmp_path / VOCABULARY_FILE).write_text(content)
    with pytest.raises(UserError, match=r"vocabulary\.json: expected"):
        load_vocabulary(tmp_path)


@pytest.mark.parametrize("change", [{"tables": {"rows": [1]}}, {"specials": {"eos": "<end>"}}])
def test_a_vocabulary_whose_parts_do_not_fit_is_named(folder, change):
    path = folder / VOCABULARY_FILE
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(UserError, match=r"vocabulary\.json: (Table 'rows'|The tokenizer has no token '<end>')"):
        load_vocabulary(folder)


def test_a_tokenizer_of_an_unknown_kind_is_refused():
    tokenizer = Tokenizer(models.WordPiece({"<eos>": 0, "a": 1}, unk_token="<eos>"))
    with pytest.raises(UserError, match=r"Expected a tokenizer of kind WordLevel, BPE or Unigram.*found WordPiece"):
        Vocabulary(tokenizer.to_str(), specials={"eos": "<eos>"})
