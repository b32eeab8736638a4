"""The data module against the documents it reads: tokens, heads joined and on pieces, the vocabulary of a run."""

from collections.abc import Mapping
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from depgen.annotation.trivial import GoldTrees, LeftChain
from depgen.data.batch import ItemBatch, TokenItem, collate_tokens
from depgen.data.stream import Segments, StreamColumns
from depgen.data.text import TextData
from depgen.data.vocabulary import SubwordPieces, WordVocabulary, encode
from depgen.errors import UserError
from depgen.trees.pieces import piece_heads
from depgen.trees.sentence import Document, Sentence
from tests.oracles import joined_heads
from tests.vocabularies import NO_WORDS, documents_of

DOCUMENTS = [
    Document(
        (
            Sentence(("she", "walks"), (2, 0), ("nsubj", "root")),
            Sentence(("he", "is", "walking"), (3, 3, 0), ("a", "b", "root")),
        ),
        "1",
    ),
    Document((Sentence(("walk", "!"), (0, 1), ("root", "punct")),), "2"),
]

ON_CPU = SimpleNamespace(root_device=torch.device("cpu"))


class Fixture:
    name = "fixture"
    published: Mapping = {}

    def __init__(self, documents=DOCUMENTS):
        self._documents = documents

    def documents(self, split):
        yield from (
            self._documents if split != "test" else [Document((Sentence(("she", "flies"), (2, 0), ("n", "r")),), "3")]
        )

    def fingerprint(self, split):
        return f"fixture {split} {len(self._documents)}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))


def test_heads_are_joined_over_sentences():
    document = Document((Sentence(("a", "b"), heads=(0, 1)), Sentence(("c", "d"), heads=(2, 0))), "two")
    assert joined_heads(document) == [0, 1, 4, 0]
    assert joined_heads(document, joining="previous_sentence") == [0, 1, 4, 2]


@pytest.mark.parametrize("joining", ["roots", "previous_sentence"])
def test_items_are_the_documents_words_and_joined_heads(joining):
    data = TextData(Fixture(), annotator=GoldTrees(), joining=joining)
    split = data.split("train")
    for index, document in enumerate(DOCUMENTS):
        item = split[index]
        assert data.vocabulary.decode(item.ids.tolist()) == " ".join(document.words())
        assert item.heads.tolist() == joined_heads(document, joining=joining)
    assert split.lengths.tolist() == [6, 3]


@pytest.mark.parametrize("attachment", ["last_piece", "first_piece"])
def test_heads_follow_the_pieces(attachment):
    data = TextData(Fixture(), annotator=GoldTrees(), vocabulary=SubwordPieces(size=260), left_dependents=attachment)
    item = data.split("train")[0]
    encoding = encode(data.vocabulary, list(DOCUMENTS[0].words()))
    assert item.ids.tolist() == encoding.ids.tolist()
    assert len(item.ids) > 5
    expected = piece_heads(joined_heads(DOCUMENTS[0]), encoding.word_of_piece.tolist(), left_dependents=attachment)
    assert item.heads.tolist() == expected


def test_words_are_counted_at_their_last_pieces_in_items_and_in_a_stream():
    data = TextData(Fixture(), vocabulary=SubwordPieces(size=260))
    split = data.split("train")
    ends = encode(data.vocabulary, list(DOCUMENTS[0].words())).word_of_piece
    assert split[0].word_ends.tolist() == [*(ends[1:] != ends[:-1]).tolist(), True]
    batch = collate_tokens(ItemBatch([split[0], split[1]], int(split.lengths.sum()), split.vocabulary))
    assert batch.words.tolist() == [6, 3]  # five words and two, an end each
    assert batch.lengths.tolist() != [6, 3]
    columns = StreamColumns(split, 2)
    segments = [collate_tokens(columns.__getitems__(each)) for each in Segments(columns, 4, vary=False)]
    assert sum(int(each.words.sum()) for each in segments) == 9
    whole_words = TextData(Fixture()).split("train")
    assert whole_words[0].word_ends is None
    together = collate_tokens(ItemBatch([whole_words[0], whole_words[1]], 9, NO_WORDS))
    assert together.words.tolist() == together.lengths.tolist() == [6, 3]


def test_whole_documents_are_parsed_as_one_sentence():
    data = TextData(Fixture(), annotator=LeftChain(), joining="whole")
    assert data.split("train")[0].heads.tolist() == [0, 1, 2, 3, 4]


def test_without_annotator_there_are_no_heads():
    assert TextData(Fixture()).split("train")[0].heads is None


def test_unknown_words_of_the_test_split():
    assert TextData(Fixture()).split("test")[0].ids.tolist()[1] == 1


def test_the_runs_vocabulary_is_used_and_not_rebuilt(tmp_path):
    small = WordVocabulary(max_size=3).build(documents_of(["she"]))
    small.save(tmp_path / "vocabulary")
    data = TextData(Fixture())
    assert data.vocabulary_size == 9
    data.use_vocabulary(tmp_path / "vocabulary")
    assert data.vocabulary_size == 3
    assert data.split("train")[0].ids.tolist() == [2, 1, 1, 1, 1]


def test_a_limit_on_documents_limits_training_alone():
    data = TextData(Fixture(), max_documents=1)
    assert [len(data.split(split)) for split in ("train", "valid")] == [1, 2]
    assert "!" not in data.vocabulary.types


@pytest.mark.parametrize("number", [0, -1])
def test_a_limit_that_leaves_no_document_is_refused(number):
    with pytest.raises(UserError, match=f"^max_documents: expected at least 1, found {number}"):
        TextData(Fixture(), max_documents=number)


def test_a_padded_batch():
    split = TextData(Fixture()).split("train")
    batch = collate_tokens(ItemBatch([split[0], split[1]], 9, split.vocabulary))
    assert batch.inputs.shape == (2, 6)
    assert batch.inputs[0, 1:].tolist() == batch.targets[0, :-1].tolist()
    assert batch.inputs[:, 0].tolist() == [0, 0]
    assert batch.is_word.sum(1).tolist() == batch.lengths.tolist() == [6, 3]
    assert batch.targets[1].tolist()[2:] == [0, 0, 0, 0]


def test_an_empty_split_is_refused_by_name():
    data = TextData(Fixture([]))
    with pytest.raises(UserError, match="fixture"):
        data.split("train")


def test_stages_prepare_only_what_they_need():
    data = TextData(Fixture(), annotator=GoldTrees())
    data.setup("fit")
    assert set(data._splits) == {"train", "valid"}
    assert data.split("train")[0].heads.dtype == np.int32


class NovelWords(Fixture):
    """Documents whose validation split has words of its own."""

    def documents(self, split):
        return super().documents("train" if split == "train" else "test")


@pytest.mark.parametrize(("min_count", "warns"), [(1, 1), (2, 0)])
def test_an_unk_that_training_has_not_is_warned_of_at_the_start_of_fit(min_count, warns, caplog):
    documents = [*DOCUMENTS, Document((Sentence(("she", "walks"), (2, 0), ("nsubj", "root")),), "4")]
    data = TextData(NovelWords(documents), vocabulary=WordVocabulary(min_count))
    data.setup("fit")
    data.setup("test")
    found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(found) == warns
    assert all("1 of 2 tokens (50.0 %)" in each and "min_count" in each for each in found)


def test_the_test_split_gets_no_trees_unless_asked():
    assert TextData(Fixture(), annotator=GoldTrees()).split("test")[0].heads is None
    assert TextData(Fixture(), annotator=GoldTrees(), trees_for=("test",)).split("test")[0].heads.tolist() == [2, 0]


def test_fewer_than_no_workers_are_refused():
    with pytest.raises(UserError, match="workers: expected at least 0, found -1"):
        TextData(Fixture(), workers=-1)


def test_a_seed_is_no_negative_number():
    with pytest.raises(UserError, match="seed: expected a seed from 0"):
        TextData(Fixture(), seed=-1)


def test_what_lies_in_a_cache_that_cannot_be_written_is_read(tmp_path):
    before = TextData(Fixture()).split("train")
    locks = sorted(tmp_path.glob("*/*.lock"))
    assert [path.parent.name for path in locks] == ["tables", "tables", "vocabularies"]
    for path in locks:
        path.unlink()
        path.mkdir()
    assert TextData(Fixture()).split("train").counts.tolist() == before.counts.tolist()


class AlsoForTests(Fixture):
    def documents(self, split):
        return iter(DOCUMENTS)


@pytest.mark.parametrize("builder", [WordVocabulary(), SubwordPieces(size=258)], ids=["words", "pieces"])
@pytest.mark.parametrize("joining", ["roots", "whole"])
def test_items_to_predict_are_sentences_where_the_system_takes_each_by_itself(builder, joining):
    data = TextData(AlsoForTests(), vocabulary=builder, joining=joining)
    sentences = [" ".join(sentence.words) for document in DOCUMENTS for sentence in document.sentences]
    documents = [" ".join(document.words()) for document in DOCUMENTS]
    for context, expected in (("none", sentences), ("document", documents)):
        model = SimpleNamespace(sentence_context=context)
        data.trainer = SimpleNamespace(lightning_module=model, world_size=1, global_rank=0, strategy=ON_CPU)
        loader = data.predict_dataloader()
        found = [loader.dataset[item].ids.tolist() for item in range(len(loader.dataset))]
        assert [data.vocabulary.decode(ids) for ids in found] == expected
        assert loader.dataset[0].heads is None


class Sentences:
    """The sentences of a split, with their heads counted within them."""

    def __init__(self, split):
        self.sentences = []
        for number in range(len(split)):
            item = split[number]
            for begin, end in pairwise(split.sentences(number).tolist()):
                heads = item.heads[begin:end]
                self.sentences.append((item.ids[begin:end], np.where(heads > 0, heads - begin, heads)))
        self.lengths = np.array([len(ids) + 1 for ids, _ in self.sentences])

    def __getitem__(self, index):
        return TokenItem(index, *self.sentences[index])


class Levels:
    """Each sentence once for each depth of its tree: the words up to there, and how deep that is."""

    def __init__(self, sentences):
        self.sentences, self.places = sentences, []
        for index in range(len(sentences.lengths)):
            self.places += [(index, level) for level in sorted({*depths(sentences[index].heads)})]
        self.lengths = np.array([1 + sum(d <= k for d in depths(sentences[n].heads)) for n, k in self.places])

    def __getitem__(self, index):
        sentence, level = self.places[index]
        item = self.sentences[sentence]
        return TokenItem(index, item.ids[np.array(depths(item.heads)) <= level]), level


def depths(heads):
    def depth(word):
        return 0 if heads[word] == 0 else 1 + depth(heads[word] - 1)

    return [depth(word) for word in range(len(heads))]


class SentenceData(TextData):
    def items(self, split):
        return Sentences(super().items(split))


class LevelData(SentenceData):
    def items(self, split):
        return Levels(super().items(split))

    @property
    def plain_collate(self):
        return lambda batch: [(item.ids.tolist(), level) for item, level in batch.items]


def test_samples_can_be_sentences():
    data = SentenceData(Fixture(), annotator=GoldTrees(), tokens_per_batch=4, eval_tokens_per_batch=99)
    (batch,) = data.val_dataloader()
    words = [data.vocabulary.decode(row[:n]) for row, n in zip(batch.targets.tolist(), batch.lengths - 1, strict=True)]
    assert dict(zip(batch.items.tolist(), words, strict=True)) == {0: "she walks", 1: "he is walking", 2: "walk !"}
    assert [data.items("train")[n].heads.tolist() for n in range(3)] == [[2, 0], [3, 3, 0], [0, 1]]
    sizes = [(len(batch.items), batch.global_tokens) for batch in data.train_dataloader()]
    assert sorted(sizes) == [(1, 3), (1, 3), (1, 4)]  # no two sentences fit into four tokens


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_can_be_sentences_at_a_level(workers):
    data = LevelData(Fixture(), annotator=GoldTrees(), eval_tokens_per_batch=99, workers=workers)
    (batch,) = data.val_dataloader()
    found = sorted((data.vocabulary.decode(ids), level) for ids, level in batch)
    assert found == [
        ("he is walking", 1), ("she walks", 1), ("walk", 0), ("walk !", 1), ("walking", 0), ("walks", 0),
    ]  # fmt: skip


def test_samples_that_no_system_has_positions_for_are_named():
    class Short:
        longest_scored = 2

    data = SentenceData(Fixture(), annotator=GoldTrees())
    data.trainer = SimpleNamespace(lightning_module=Short(), world_size=1, global_rank=0, strategy=ON_CPU)
    with pytest.raises(UserError, match=r"fixture, valid, item 2: expected at most 2 tokens.* Short .* found 3; 1 are"):
        data.val_dataloader()
