"""Documents without words, of one sentence and of eleven hundred, from the file through the data module to a model."""

import json

import pytest
import torch

from depgen.data.corpora import JsonDocuments
from depgen.data.documents import DocumentData
from depgen.data.formats import JsonLines
from depgen.data.vocabulary import WordVocabulary
from depgen.errors import UserError
from depgen.evaluation.unit_scores import score_documents
from tests.models.documents import CONTEXTS, small_model

LONG = 1100
"""Sentences of a long document: beyond the depth to which Python recurses."""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Beside documents of words: an empty one, one of empty sentences, and sentences without words between others."""
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    documents = [
        [], ["", "  "], ["one alone"], ["a", "", "b c", " ", "d"], [f"w{n % 7}" for n in range(LONG)],
    ]  # fmt: skip
    rows = "".join(json.dumps({"id": f"d{n}", "sentences": each}) + "\n" for n, each in enumerate(documents))
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jsonl").write_text(rows)
    files = {split: f"{split}.jsonl" for split in ("train", "valid", "test")}
    corpus = JsonDocuments(str(tmp_path), JsonLines(), **files, steps=[])
    return DocumentData(corpus, vocabulary=WordVocabulary(starts=True))


def test_what_has_no_words_is_left_out_and_said(data, caplog):
    assert [len(item.sentences) for item in map(data.segmented("test", longest=None).__getitem__, range(3))] == [
        1, 3, LONG,
    ]  # fmt: skip
    assert [message.partition("left out ")[2] for message in caplog.messages if "left out" in message][:2] == [
        "2 sentences without a token.", "2 rows without a token.",
    ]  # fmt: skip


def test_long_documents_are_segments_in_training_and_whole_in_evaluation(data):
    assert len(data.segmented("train", longest=5)) == 1 + 1 + LONG // 5
    shapes = [tuple(batch.lengths.shape) for batch in data.test_dataloader()]
    assert sum(rows for rows, _ in shapes) == 3
    assert max(sentences for _, sentences in shapes) == LONG


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_long_document_is_scored_as_its_beginning_alone_would_be(data, name):
    model = small_model(name, data.vocabulary_size)
    split = data.segmented("test", longest=None)
    one, few, long = ([ids.tolist() for ids in split[row].sentences] for row in range(3))
    with torch.no_grad():
        together = score_documents(model, [one, few, long], vocabulary=data.vocabulary, tokens_per_batch=100_000)
        alone = [
            *score_documents(model, [one], vocabulary=data.vocabulary),
            *score_documents(model, [few], vocabulary=data.vocabulary),
            *score_documents(model, [long[:4]], vocabulary=data.vocabulary),
        ]
    assert [len(each) for each in together] == [1, 3, LONG]
    for whole, part in zip(together, alone, strict=True):
        for sentence, expected in zip(whole, part, strict=False):
            torch.testing.assert_close(torch.tensor(sentence), torch.tensor(expected), rtol=0, atol=1e-12)
    assert all(torch.tensor(sentence).isfinite().all() for sentence in together[2])


def test_a_split_of_nothing_but_empty_documents_is_refused(data, tmp_path):
    (tmp_path / "test.jsonl").write_text('{"sentences": []}\n')
    with pytest.raises(UserError, match="expected documents, found no row with a token"):
        data.segmented("test", longest=None)
