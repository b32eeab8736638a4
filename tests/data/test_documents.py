"""Documents cut into segments, padded, and left whole in evaluation."""

import numpy as np
import pytest
import torch

from depgen.data.batch import ItemBatch, SegmentItem, collate_documents
from depgen.data.corpora import JsonDocuments
from depgen.data.documents import DocumentData, segment_bounds
from depgen.data.formats import JsonLines
from depgen.data.vocabulary import SubwordPieces, WordVocabulary
from tests.vocabularies import NO_WORDS_BUT_START


@pytest.fixture
def corpus(tmp_path):
    """Documents of 1 to 7 sentences, named by their numbers."""
    for split, sizes in (("train", (3, 1, 7, 2)), ("valid", (6,)), ("test", (1, 12))):
        rows = [
            {"id": f"{split}{n}", "sentences": [["w"] * (1 + (k + n) % 3) + [f"d{n}s{k}"] for k in range(size)]}
            for n, size in enumerate(sizes)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{row}\n".replace("'", '"') for row in rows))
    files = {split: f"{split}.jsonl" for split in ("train", "valid", "test")}
    return JsonDocuments(str(tmp_path), JsonLines(), **files, steps=[])


def words_of(data, item):
    return [data.vocabulary.decode(ids.tolist()) for ids in item.sentences]


def test_segments_are_the_documents_in_order(corpus):
    data = DocumentData(corpus, sentences_per_segment=3)
    split = data.segmented("train", longest=3)
    items = [split[k] for k in range(len(split))]
    assert [len(item.sentences) for item in items] == [3, 1, 3, 3, 1, 2]
    assert words_of(data, items[3])[0].endswith("d2s3")
    assert split.lengths.tolist() == [sum(len(ids) + 1 for ids in item.sentences) for item in items]
    whole = data.segmented("test", longest=None)
    assert [len(whole[k].sentences) for k in range(len(whole))] == [1, 12]


@pytest.mark.parametrize("builder", [WordVocabulary(), SubwordPieces(size=270)], ids=["words", "pieces"])
def test_every_word_stands_in_one_segment(corpus, builder):
    data = DocumentData(corpus, vocabulary=builder)
    for longest in (1, 2, 5, None):
        split = data.segmented("train", longest=longest)
        words = [word for k in range(len(split)) for sentence in words_of(data, split[k]) for word in sentence.split()]
        assert words == [word for document in corpus.documents("train") for word in document.words()]


@pytest.mark.parametrize(
    ("sentences", "paper", "code"),
    [(1, [1], [1]), (5, [5], [5]), (6, [5, 1], [6]), (7, [5, 2], [6, 1]), (12, [5, 5, 2], [6, 6])],
)
def test_the_code_cuts_every_six_sentences(sentences, paper, code):
    assert np.diff(segment_bounds(sentences, 5)).tolist() == paper
    assert np.diff(segment_bounds(sentences, 5, "code2015")).tolist() == code
    assert segment_bounds(sentences, None) == [0, sentences]


def test_the_2015_reader_repeats_the_last_word_of_every_sentence(corpus):
    plain, repeated = DocumentData(corpus), DocumentData(corpus, duplicate_final_word=True)
    first, second = (each.segmented("train", longest=5)[0] for each in (plain, repeated))
    for once, twice in zip(words_of(plain, first), words_of(repeated, second), strict=True):
        assert twice.split() == [*once.split(), once.split()[-1]]
    lengths = repeated.segmented("train", longest=5).lengths - plain.segmented("train", longest=5).lengths
    assert lengths.tolist() == [3, 1, 5, 2, 2]


def test_sentences_are_read_from_their_beginning_and_predicted_up_to_their_end():
    items = [SegmentItem(4, [np.array([7, 8]), np.array([9])]), SegmentItem(2, [np.array([5])])]
    batch = collate_documents(ItemBatch(items, 7, NO_WORDS_BUT_START, global_items=2))
    assert batch.inputs.tolist() == [[[2, 7, 8], [2, 9, 2]], [[2, 5, 2], [2, 2, 2]]]
    assert batch.targets.tolist() == [[[7, 8, 0], [9, 0, 0]], [[5, 0, 0], [0, 0, 0]]]
    assert batch.lengths.tolist() == [[3, 2], [2, 0]]
    assert int(batch.is_word.sum()) == batch.global_tokens
    assert batch.items.tolist() == [4, 2]


def test_batches_hold_so_many_segments_or_so_many_tokens(corpus):
    vocabulary = WordVocabulary(starts=True)
    for options, expected in (({"segments_per_batch": 1}, 5), ({"segments_per_batch": 2}, 3)):
        data = DocumentData(corpus, vocabulary=vocabulary, **options)
        batches = list(data.train_dataloader())
        assert len(batches) == expected
        assert sum(batch.global_items for batch in batches) == 5
        assert sum(batch.global_tokens for batch in batches) == int(data.segmented("train", longest=5).lengths.sum())
    data = DocumentData(corpus, vocabulary=vocabulary, eval_tokens_per_batch=1)
    assert [batch.lengths.shape[1] for batch in data.test_dataloader()] == [1, 12], "a longer one is by itself"
    assert torch.cat([batch.items for batch in data.test_dataloader()]).sort().values.tolist() == [0, 1]
