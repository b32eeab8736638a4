import logging

import pytest
from depgen.data.sentences import SingleSentences

from depgen.data.corpus import Corpus
from depgen.data.generated import GeneratedStories
from depgen.data.source import fingerprint_of
from depgen.errors import UserError

STORIES = GeneratedStories(train=4, valid=2, test=2)


def test_each_sentence_is_a_document():
    corpus = SingleSentences(STORIES)
    assert isinstance(corpus, Corpus)
    assert corpus.name == "generated sentences"
    found = list(corpus.documents("train"))
    assert [document.sentences for document in found] == [(s,) for d in STORIES.documents("train") for s in d.sentences]
    assert [document.identifier for document in found[4:6]] == ["generated-train-0:5", "generated-train-1:1"]


def test_lengths_outside_the_limits_are_left_out_and_counted(caplog):
    lengths = [len(sentence) for document in STORIES.documents("train") for sentence in document.sentences]
    least, most = sorted(lengths)[5], sorted(lengths)[14]
    corpus = SingleSentences(STORIES, min_words=least, max_words=most, name="short")
    with caplog.at_level(logging.WARNING):
        kept = [len(document.sentences[0]) for document in corpus.documents("train")]
    assert kept == [length for length in lengths if least <= length <= most]
    assert caplog.messages == [f"short, train: left out {len(lengths) - len(kept)} sentences of other lengths."]
    with pytest.raises(UserError, match="no sentence has at least 3 words and at most 2"):
        SingleSentences(STORIES, min_words=3, max_words=2)


def test_the_first_documents_are_those_of_training_alone():
    corpus = SingleSentences(STORIES, max_documents=3)
    whole = [document.identifier for document in SingleSentences(STORIES).documents("train")]
    kept = [document.identifier for document in corpus.documents("train")]
    assert kept == [name for name in whole if not name.startswith("generated-train-3:")] != whole
    assert len(list(corpus.documents("valid"))) == len(list(SingleSentences(STORIES).documents("valid")))
    assert corpus.fingerprint("valid") == SingleSentences(STORIES).fingerprint("valid")
    with pytest.raises(UserError, match="max_documents: expected at least 1, found 0"):
        SingleSentences(STORIES, max_documents=0)
    with pytest.raises(UserError, match="test_sentences: expected at least 1, found 0"):
        SingleSentences(STORIES, test_sentences=0)


def test_documents_of_others_are_skipped_in_training_alone():
    whole = [document.identifier for document in SingleSentences(STORIES).documents("train")]
    part = SingleSentences(STORIES, skipped_documents=1, max_documents=2)
    kept = [document.identifier for document in part.documents("train")]
    assert kept == [name for name in whole if name.startswith(("generated-train-1:", "generated-train-2:"))]
    first = [document.identifier for document in SingleSentences(STORIES, max_documents=1).documents("train")]
    rest = [document.identifier for document in SingleSentences(STORIES, skipped_documents=1).documents("train")]
    assert first + rest == whole
    for split in ("valid", "test"):
        assert part.fingerprint(split) == SingleSentences(STORIES).fingerprint(split)
        assert len(list(part.documents(split))) == len(list(SingleSentences(STORIES).documents(split)))
    with pytest.raises(UserError, match="skipped_documents: expected at least 0"):
        SingleSentences(STORIES, skipped_documents=-1)


def test_the_fingerprint_holds_the_limits_and_the_text():
    others = [
        SingleSentences(STORIES),
        SingleSentences(STORIES, min_words=2),
        SingleSentences(STORIES, max_words=9),
        SingleSentences(STORIES, max_documents=3),
        SingleSentences(STORIES, max_documents=3, skipped_documents=1),
        SingleSentences(STORIES, skipped_documents=1),
        SingleSentences(GeneratedStories(train=5, valid=2, test=2)),
    ]
    assert len({corpus.fingerprint("train") for corpus in others}) == 7
    assert SingleSentences(STORIES).fingerprint("test") == others[0].fingerprint("test")


def test_the_first_sentences_of_the_test_split_are_other_data_and_those_of_the_other_splits_the_same():
    whole, first = SingleSentences(STORIES, min_words=5), SingleSentences(STORIES, min_words=5, test_sentences=3)
    texts = {split: [[*corpus.documents(split)] for corpus in (whole, first)] for split in ("train", "valid", "test")}
    assert texts["test"][1] == texts["test"][0][:3] != texts["test"][0]
    assert all(texts[split][0] == texts[split][1] for split in ("train", "valid"))
    same = [whole.fingerprint(split) == first.fingerprint(split) for split in ("train", "valid", "test")]
    assert same == [True, True, False]
    assert len({fingerprint_of(SingleSentences(STORIES, test_sentences=limit)) for limit in (None, 2, 3)}) == 3
