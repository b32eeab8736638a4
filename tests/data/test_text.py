"""The data module of texts: vocabulary, splits, batches, what a run and a checkpoint keep."""

import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from depgen.annotation.controls import GoldTrees, LeftChain
from depgen.data.batch import ItemBatch, collate_tokens
from depgen.data.corpora import RawText, TextLines
from depgen.data.steps import BareWords, SingleSentences
from depgen.data.stream import Segments, StreamColumns
from depgen.data.text import TextData
from depgen.data.vocabulary import (
    SubwordPieces,
    WordVocabulary,
    encode,
    vocabulary_of_checkpoint,
)
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence
from tests.shelves import Shelf
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
FLIES = [Document((Sentence(("she", "flies"), (2, 0), ("nsubj", "root")),), "3")]
TALK = Shelf(DOCUMENTS, test=FLIES)
ON_CPU = SimpleNamespace(root_device=torch.device("cpu"))


def trained_by(data, model):
    """The data, as a trainer of a model has them."""
    data.trainer = SimpleNamespace(lightning_module=model, world_size=1, global_rank=0, strategy=ON_CPU)
    return data


# -- vocabulary -------------------------------------------------------------------------------------------------------


def test_words_that_only_the_test_split_has_are_unknown():
    assert TextData(TALK).split("test")[0].ids.tolist()[1] == 1


def test_the_runs_vocabulary_is_used_and_not_rebuilt(tmp_path):
    small = WordVocabulary(max_size=3).build(documents_of(["she"]))
    small.save(tmp_path / "vocabulary.json")
    data = TextData(TALK)
    assert data.vocabulary_size == 9
    data.use_vocabulary(tmp_path / "vocabulary.json")
    assert data.vocabulary_size == 3
    assert data.split("train")[0].ids.tolist() == [2, 1, 1, 1, 1]


@dataclass
class Relations:
    """Words, a special token for each relation or label, and a table of these."""

    builder: type = WordVocabulary
    reads_trees: bool = True

    def build(self, documents):
        sentences = [sentence for document in documents for sentence in document.sentences]
        relations = {name for sentence in sentences for name in sentence.relations or ()}
        relations |= {label for sentence in sentences for *_, label in sentence.edges or ()}
        names = sorted(relations)
        documents = [Document(tuple(sentences), "")]
        return self.builder(specials=[f"[{name}]" for name in names]).build(documents).with_tables({"names": names})

    def fingerprint(self):
        return f"relations {self.builder.__name__}"


class Upside(GoldTrees):
    def annotate(self, sentences):
        return [Sentence(each.words, each.heads, tuple(map(str.upper, each.relations))) for each in sentences]

    def fingerprint(self):
        return "upside"


def test_a_builder_sees_the_trees_or_graphs_of_the_annotator():
    data = TextData(TALK, annotator=GoldTrees(), vocabulary=Relations())
    assert data.vocabulary.types[2:7] == ("[a]", "[b]", "[nsubj]", "[punct]", "[root]")
    assert TextData(TALK, annotator=Upside(), vocabulary=Relations()).vocabulary.tables["names"][:2] == ["A", "B"]
    pieces = TextData(TALK, annotator=GoldTrees(), vocabulary=Relations(SubwordPieces))
    assert pieces.vocabulary.types[2:7] == data.vocabulary.types[2:7]
    assert not {2, 3, 4, 5, 6} & {token for item in pieces.split("train") for token in item.ids.tolist()}
    graph = Sentence(("she", "wants", "to"), edges=((2, 1, "ARG1"), (3, 1, "ARG2")))
    graphs = TextData(Shelf([Document((graph,), "1")]), annotator=GoldTrees(structure="graph"), vocabulary=Relations())
    assert graphs.vocabulary.tables["names"] == ["ARG1", "ARG2"]


@pytest.mark.parametrize("options", [{"annotator": None}, {"annotator": GoldTrees(), "trees_for": ["valid"]}])
def test_a_builder_that_reads_trees_needs_an_annotator_for_training(options):
    with pytest.raises(UserError, match=r"train split gets none: set data\.init_args\.annotator.*trees_for"):
        _ = TextData(TALK, vocabulary=Relations(), **options).vocabulary


def test_special_tokens_and_tables_travel_with_run_and_checkpoint(tmp_path):
    data = TextData(TALK, annotator=GoldTrees(), vocabulary=Relations())
    data.save_into(tmp_path / "run")
    ready, resumed, other = (TextData(TALK) for _ in range(3))
    ready.use_vocabulary(tmp_path / "run" / "vocabulary.json")
    state = pickle.loads(pickle.dumps(data.state_dict()))
    resumed.load_state_dict(state)
    for vocabulary in (ready.vocabulary, resumed.vocabulary, vocabulary_of_checkpoint({"TextData": state})):
        assert vocabulary.to_json() == data.vocabulary.to_json()
    assert other.vocabulary_size == 9
    with pytest.raises(UserError, match="another vocabulary, of 14 types, than these data have, of 9"):
        other.load_state_dict(state)


# -- splits -----------------------------------------------------------------------------------------------------------


def test_trees_are_joined_as_one_sentence_or_left_out():
    joined = TextData(TALK, annotator=LeftChain(), joining="previous_sentence").split("train")[0]
    assert joined.heads.tolist() == [0, 1, 2, 3, 4]
    assert TextData(TALK).split("train")[0].heads is None
    assert TextData(TALK, annotator=GoldTrees()).split("test")[0].heads is None
    assert TextData(TALK, annotator=GoldTrees(), trees_for=("test",)).split("test")[0].heads.tolist() == [2, 0]


def test_a_limit_on_documents_limits_training_alone():
    data = TextData(TALK, max_documents=1)
    assert [len(data.split(split)) for split in ("train", "valid")] == [1, 2]
    assert "!" not in data.vocabulary.types


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextData(TALK, max_documents=0), "^max_documents: expected at least 1, found 0"),
        (lambda: TextData(TALK, workers=-1), "workers: expected at least 0, found -1"),
        (lambda: TextData(TALK, seed=-1), "seed: expected a seed from 0"),
        (lambda: TextData(Shelf([])).split("train"), "shelf train: expected documents"),
    ],
)
def test_options_and_corpora_that_hold_nothing(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize(("min_count", "warnings"), [(1, 1), (2, 0)])
def test_an_unk_that_training_has_not_is_warned_of_at_the_start_of_fit(min_count, warnings, caplog):
    class NovelWords(Shelf):
        def documents(self, split):
            return super().documents("train" if split == "train" else "test")

    documents = [*DOCUMENTS, Document((Sentence(("she", "walks")),), "4")]
    data = TextData(NovelWords(documents, test=FLIES), vocabulary=WordVocabulary(min_count))
    data.setup("fit")
    data.setup("test")
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(messages) == warnings
    assert all("1 of 2 tokens (50.0 %)" in message and "min_count" in message for message in messages)


def test_trees_with_several_roots_are_counted_at_fit(caplog):
    trees = [(0, 0, 2), (2, 0, 2), (0, 0), (0, 1)]
    documents = [Document((Sentence(tuple("abc"[: len(heads)]), heads),), str(heads)) for heads in trees]
    TextData(Shelf(documents), annotator=GoldTrees()).setup("fit")
    assert "2 of 4 sentences have several roots" in caplog.text
    caplog.clear()
    TextData(Shelf(documents[1:2]), annotator=GoldTrees()).setup("fit")
    assert "several roots" not in caplog.text


@pytest.mark.parametrize(
    ("text", "marked"), [("she walks. he said, “no”", 2), ("Mr. Lee walks . and he walks , too", 1)]
)
def test_raw_text_is_warned_of_at_fit(text, marked, caplog):
    words = (*text.split(), *["and"] * 14)
    TextData(Shelf([Document((Sentence(words),), "1")])).setup("fit")
    warned = [record.getMessage() for record in caplog.records if "raw text" in record.getMessage()]
    assert len(warned) == (marked > 1)
    assert all(f": 2 of {len(words)} words" in message and "tokens: rules" in message for message in warned)


@pytest.mark.parametrize(("ends", "cut"), [(".", 0), ("late", 3), ("?”", 0)])
def test_wrapped_lines_of_raw_text_are_warned_of_at_fit(ends, cut, tmp_path, caplog):
    (tmp_path / "train.txt").write_text(f"It was {ends}\n" * 3 + "She slept.\n" * 2)
    corpus = RawText(str(tmp_path), valid="train.txt", test="train.txt", steps=())
    TextData(corpus, vocabulary=WordVocabulary()).setup("fit")
    warned = [record.getMessage() for record in caplog.records if "within a sentence" in record.getMessage()]
    assert len(warned) == (cut > 0)
    assert all(f": {cut} of 5 training documents" in message for message in warned)
    caplog.clear()
    bare = RawText(str(tmp_path), valid="train.txt", test="train.txt", steps=(SingleSentences(), BareWords()))
    TextData(bare, vocabulary=WordVocabulary()).setup("fit")
    assert "within a sentence" not in caplog.text, "marks were left out"


def test_raw_text_has_pieces_of_words_by_default(tmp_path):
    assert isinstance(TextData(RawText(str(tmp_path))).builder, SubwordPieces)
    assert isinstance(TextData(TextLines(str(tmp_path))).builder, WordVocabulary)


def test_what_lies_in_a_cache_that_cannot_be_written_is_read(cache):
    before = TextData(TALK).split("train")
    locks = sorted(cache.glob("*/*.lock"))
    assert [path.parent.name for path in locks] == ["tables", "tables", "vocabularies"]
    for path in locks:
        path.unlink()
        path.mkdir()
    assert TextData(TALK).split("train").counts.tolist() == before.counts.tolist()


# -- batches ----------------------------------------------------------------------------------------------------------


def test_a_padded_batch():
    split = TextData(TALK).split("train")
    batch = collate_tokens(ItemBatch([split[0], split[1]], 9, split.vocabulary))
    assert batch.inputs.shape == (2, 6)
    assert batch.inputs[0, 1:].tolist() == batch.targets[0, :-1].tolist()
    assert batch.inputs[:, 0].tolist() == [0, 0]
    assert batch.is_word.sum(1).tolist() == batch.lengths.tolist() == [6, 3]
    assert batch.targets[1].tolist()[2:] == [0, 0, 0, 0]


def test_words_are_counted_at_their_last_pieces_in_items_and_in_a_stream():
    data = TextData(TALK, vocabulary=SubwordPieces(size=260))
    split = data.split("train")
    ends = encode(data.vocabulary, list(DOCUMENTS[0].words())).word_of_piece
    assert split[0].word_ends.tolist() == [*(ends[1:] != ends[:-1]).tolist(), True]
    batch = collate_tokens(ItemBatch([split[0], split[1]], int(split.lengths.sum()), split.vocabulary))
    assert batch.words.tolist() == [6, 3]  # five words and two, an end each
    assert batch.lengths.tolist() != [6, 3]
    columns = StreamColumns(split, 2)
    segments = [collate_tokens(columns.__getitems__(each)) for each in Segments(columns, 4, vary=False)]
    assert sum(int(each.words.sum()) for each in segments) == 9
    whole_words = TextData(TALK).split("train")
    assert whole_words[0].word_ends is None
    together = collate_tokens(ItemBatch([whole_words[0], whole_words[1]], 9, NO_WORDS))
    assert together.words.tolist() == together.lengths.tolist() == [6, 3]


@pytest.mark.parametrize("builder", [WordVocabulary(), SubwordPieces(size=258)], ids=["words", "pieces"])
def test_items_to_predict_are_sentences_where_the_system_takes_each_by_itself(builder):
    data = TextData(Shelf(DOCUMENTS), vocabulary=builder)
    sentences = [" ".join(sentence.words) for document in DOCUMENTS for sentence in document.sentences]
    documents = [" ".join(document.words()) for document in DOCUMENTS]
    for context, expected in (("none", sentences), ("document", documents)):
        items = trained_by(data, SimpleNamespace(sentence_context=context)).predict_dataloader().dataset
        assert [data.vocabulary.decode(items[n].ids.tolist()) for n in range(len(items))] == expected
        assert items[0].heads is None


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_within_their_budgets(workers):
    data = TextData(TALK, tokens_per_batch=6, eval_tokens_per_batch=99, workers=workers)
    (batch,) = data.val_dataloader()
    words = [data.vocabulary.decode(row[:n]) for row, n in zip(batch.targets.tolist(), batch.lengths - 1, strict=True)]
    assert dict(zip(batch.items.tolist(), words, strict=True)) == {0: "she walks he is walking", 1: "walk !"}
    sizes = [(len(batch.items), batch.global_tokens) for batch in data.train_dataloader()]
    assert sorted(sizes) == [(1, 3), (1, 6)]


def test_items_that_the_system_has_no_positions_for_are_named():
    class Short:
        longest_scored = 4

    with pytest.raises(UserError, match=r"shelf, valid, item 1: expected at most 4 tokens.* Short .* found 5; 1 are"):
        trained_by(TextData(TALK), Short()).val_dataloader()
