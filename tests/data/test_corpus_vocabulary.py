"""Runs on parts of a corpus share the vocabulary of the whole."""

from depgen.data.corpora import TextLines
from depgen.data.corpus_vocabulary import CorpusVocabulary
from depgen.data.text import TextData
from depgen.data.vocabulary import WordVocabulary
from tests.vocabularies import documents_of


def corpus(folder, train="a b b\nc b a\n"):
    for split, text in (("train", train), ("valid", "a d\n"), ("test", "a\n")):
        (folder / f"{split}.txt").write_text(text)
    return TextLines(str(folder))


def test_parts_of_a_corpus_share_the_words_of_the_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    whole = corpus(tmp_path)
    sizes = {
        shared: [
            TextData(whole, max_documents=count, vocabulary=CorpusVocabulary(whole) if shared else None).vocabulary_size
            for count in (1, None)
        ]
        for shared in (True, False)
    }
    assert sizes == {True: [5, 5], False: [4, 5]}


def test_what_is_counted_is_cut_and_masked_as_the_builder_says(tmp_path):
    vocabulary = CorpusVocabulary(corpus(tmp_path), WordVocabulary(min_count=2, masks=True)).build(
        documents_of(["z", "z"])
    )
    assert [vocabulary.decode([index]) for index in range(vocabulary.size)] == ["<eos>", "<unk>", "<mask>", "b", "a"]


def test_its_fingerprint_follows_the_corpus_and_the_builder(tmp_path):
    first = CorpusVocabulary(corpus(tmp_path)).fingerprint()
    assert CorpusVocabulary(corpus(tmp_path)).fingerprint() == first
    assert CorpusVocabulary(corpus(tmp_path), WordVocabulary(min_count=2)).fingerprint() != first
    assert CorpusVocabulary(corpus(tmp_path, train="a\n")).fingerprint() != first
