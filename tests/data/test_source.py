from depgen.data.sentences import SingleSentences
from depgen.data.tagged import TaggedDocuments

from depgen.data.corpus import SplitStatistics
from depgen.data.generated import GeneratedStories
from depgen.data.source import source_of
from tests.invented_data import write_corpora


def test_reduced_means_fewer_documents_than_published():
    corpus = GeneratedStories(train=4, valid=1, test=1)
    assert not source_of(corpus).reduced
    corpus.published = {"train": SplitStatistics(documents=4)}
    assert not source_of(corpus).reduced
    limited = source_of(corpus, max_documents=3)
    assert limited.reduced
    assert not source_of(corpus, max_documents=99).reduced
    assert (limited.reduced, limited.train_documents) == (True, 3)
    assert limited.fingerprint not in {source_of(corpus).fingerprint, source_of(corpus, max_documents=2).fingerprint}
    corpus.published = {"test": SplitStatistics(documents=2)}
    assert source_of(corpus).reduced
    assert source_of(corpus).fingerprint != source_of(GeneratedStories(train=5, valid=1, test=1)).fingerprint


def test_all_sentences_of_a_corpus_are_the_same_data_and_some_of_them_are_not(tmp_path, monkeypatch):
    write_corpora(tmp_path)
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    whole = source_of(TaggedDocuments())
    assert source_of(SingleSentences(TaggedDocuments())).fingerprint == whole.fingerprint
    for limits in ({"min_words": 3}, {"max_words": 30}):
        assert source_of(SingleSentences(TaggedDocuments(), **limits)).fingerprint != whole.fingerprint
    first, documents = (
        source_of(SingleSentences(TaggedDocuments(), max_documents=2)),
        source_of(TaggedDocuments(), max_documents=2),
    )
    assert first.fingerprint == documents.fingerprint != whole.fingerprint
    assert first.reduced == documents.reduced is False  # there are no more
    assert source_of(SingleSentences(TaggedDocuments(), max_documents=1)).reduced
