"""A builder that sees documents with their trees, and a collate that sees what it built: placeholders and a table."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch

from depgen.annotation.trivial import GoldTrees
from depgen.data.batch import ItemBatch
from depgen.data.text import TextData
from depgen.data.vocabulary import (
    SubwordPieces,
    Vocabulary,
    WordVocabulary,
    reads_trees,
    vocabulary_of_checkpoint,
)
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence

SENTENCES = [
    Sentence(("she", "saw", "him"), (2, 0, 2), ("nsubj", "root", "obj")),
    Sentence(("he", "slept"), (2, 0), ("nsubj", "root")),
    Sentence(("old", "cats", "sleep", "[nsubj]"), (2, 3, 0, 3), ("amod", "nsubj", "root", "obj")),
]


class Corpus:
    name = "toy"
    published: Mapping = {}

    def documents(self, split):
        return (Document((sentence,), str(k)) for k, sentence in enumerate(SENTENCES))

    def fingerprint(self, split):
        return "toy"


@dataclass
class Placeholders:
    """The types of another builder, `[relation]` for each relation, and the relations that each is expanded into."""

    builder: type = WordVocabulary
    size: int | None = None
    reads_trees: bool = True

    def build(self, documents):
        sentences = [sentence for document in documents for sentence in document.sentences]
        relations = sorted({relation for sentence in sentences for relation in sentence.relations})
        rows = {(relation, *dependents) for sentence in sentences for relation, dependents in expansions(sentence)}
        options = {} if self.size is None else {"size": self.size}
        builder = self.builder(specials=["none", *(f"[{each}]" for each in relations)], **options)
        documents = [Document(tuple(sentences), "")]
        return builder.build(documents).with_tables({"relations": relations, "expansions": sorted(map(list, rows))})

    def fingerprint(self):
        return f"placeholders {self.builder.__name__} {self.size}"


def expansions(sentence):
    """Of each word its relation, and the relations of its dependents."""
    for word, relation in enumerate(sentence.relations, start=1):
        yield relation, [each for head, each in zip(sentence.heads, sentence.relations, strict=True) if head == word]


@dataclass(frozen=True)
class Levels:
    """What a system that writes a tree from its root down reads: the placeholder and the expansion of each word."""

    placeholders: torch.Tensor
    expansions: torch.Tensor

    def to(self, device, non_blocking=False):
        return self


def collate_levels(batch: ItemBatch) -> Levels:
    vocabulary = batch.vocabulary
    shape = (len(batch.items), max(len(item.ids) for item in batch.items))
    placeholders = torch.full(shape, vocabulary.special_ids["none"])
    rows = torch.full(shape, -1)
    known = {tuple(row): number for number, row in enumerate(vocabulary.tables["expansions"])}
    for row, item in enumerate(batch.items):
        for place, relation in enumerate(item.relations):
            if relation:
                placeholders[row, place] = vocabulary.special_ids[f"[{relation}]"]
                arcs = zip(item.heads, item.relations, strict=True)
                dependents = [each for head, each in arcs if head == place + 1 and each]
                rows[row, place] = known[relation, *dependents]
    return Levels(placeholders, rows)


def data_of(*arguments, **options):
    return TextData(
        Corpus(), annotator=GoldTrees(), vocabulary=Placeholders(*arguments), collate=collate_levels, **options
    )


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_collate_sees_the_placeholders_and_the_table_that_the_builder_made(workers):
    data = data_of(workers=workers)
    vocabulary = data.vocabulary
    assert vocabulary.types[2:7] == ("none", "[amod]", "[nsubj]", "[obj]", "[root]")
    assert vocabulary.tables == {
        "relations": ["amod", "nsubj", "obj", "root"],
        "expansions": [
            ["amod"], ["nsubj"], ["nsubj", "amod"], ["obj"], ["root", "nsubj"], ["root", "nsubj", "obj"],
        ],
    }  # fmt: skip
    (batch,) = data.val_dataloader()
    found = {tuple(row) for row in batch.placeholders.tolist()}
    assert found == {(4, 6, 5, 2), (4, 6, 2, 2), (3, 4, 6, 5)}
    assert {tuple(row) for row in batch.expansions.tolist()} == {(1, 5, 3, -1), (1, 4, -1, -1), (0, 2, 5, 3)}
    third = data.split("train")[2].ids.tolist()
    assert third[-1] == vocabulary.unk, "a literal [nsubj] in a text is no placeholder"


def test_pieces_have_placeholders_and_tables_too():
    data = data_of(SubwordPieces, 280, left_dependents="first_piece")
    assert data.vocabulary.types[2:7] == ("none", "[amod]", "[nsubj]", "[obj]", "[root]")
    (batch,) = data.val_dataloader()
    assert sorted(batch.placeholders.unique().tolist()) == [2, 3, 4, 5, 6]
    assert not {3, 4, 5, 6} & {each for item in data.split("train") for each in item.ids.tolist()}


def test_placeholders_and_tables_travel_with_run_and_checkpoint(tmp_path):
    data = data_of()
    data.save_into(tmp_path / "run")
    other = TextData(Corpus())
    other.use_vocabulary(tmp_path / "run" / "vocabulary.json")
    held = vocabulary_of_checkpoint({"TextData": pickle.loads(pickle.dumps(data.state_dict()))})
    for vocabulary in (other.vocabulary, held):
        assert vocabulary.tables == data.vocabulary.tables
        assert vocabulary.special_ids == data.vocabulary.special_ids


def test_a_builder_that_reads_trees_needs_an_annotator_for_its_splits():
    assert reads_trees(Placeholders())
    assert not reads_trees(WordVocabulary())
    for options in ({"annotator": None}, {"annotator": GoldTrees(), "trees_for": ["valid"]}):
        with pytest.raises(UserError, match=r"train split gets none: set data\.init_args\.annotator.*trees_for"):
            _ = TextData(Corpus(), vocabulary=Placeholders(), **options).vocabulary


def test_a_vocabulary_built_from_trees_is_cached_by_annotator():
    class Upside(GoldTrees):
        def annotate(self, sentences):
            return [Sentence(each.words, each.heads, tuple(map(str.upper, each.relations))) for each in sentences]

        def fingerprint(self):
            return "upside"

    assert data_of().vocabulary.tables["relations"] == ["amod", "nsubj", "obj", "root"]
    other = TextData(Corpus(), annotator=Upside(), vocabulary=Placeholders())
    assert other.vocabulary.tables["relations"] == ["AMOD", "NSUBJ", "OBJ", "ROOT"]


def test_a_builder_sees_graphs_where_the_annotator_gives_them():
    class Labels(WordVocabulary):
        reads_trees = True

        def build(self, documents):
            found = {label for each in documents for sent in each.sentences for _, _, label in sent.edges}
            return Vocabulary.of_words(["she"], specials=sorted(found))

        def fingerprint(self):
            return "labels"

    class Graphs(Corpus):
        def documents(self, split):
            edges = ((2, 1, "[ARG1]"), (3, 1, "[ARG2]"))
            return [Document((Sentence(("she", "wants", "to"), edges=edges),), "graph")]

        def fingerprint(self, split):
            return "graphs"

    data = TextData(Graphs(), annotator=GoldTrees(structure="graph"), vocabulary=Labels())
    assert data.vocabulary.types == ("<eos>", "<unk>", "[ARG1]", "[ARG2]", "she")
