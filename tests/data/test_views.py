"""What systems read of an item beside its tokens: made once a split, equal to what is made when items are batched."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from depgen.annotation.controls import GoldTrees
from depgen.data.batch import Batch, ItemBatch, StreamSlice
from depgen.data.text import TextData
from depgen.data.vocabulary import SubwordPieces
from depgen.models.dmlm import DependencyCollate
from depgen.models.dtg import DerivationCollate
from depgen.models.pushdown import BracketingCollate
from depgen.models.tg import ConstituentLabels, TreeCollate
from depgen.trees.sentence import Document, Sentence
from tests.shelves import Shelf

SENTENCES = [
    Sentence(("she", "walked", "home"), (2, 0, 2), ("nsubj", "root", "obl"), spans=((0, 3, "S"), (1, 3, "VP"))),
    Sentence(("go",), (0,), ("root",), spans=()),
    Sentence(("a", "b", "c", "d"), (3, 4, 0, 3), ("x", "y", "root", "x"), spans=((0, 4, "S"), (0, 2, "NP"))),
]


class Leaving(GoldTrees):
    """Gold trees, of the sentences that have one."""

    leaves_out = True

    def annotate(self, sentences):
        return list(sentences)


def shelf(sentences):
    return Shelf([Document((sentence,), str(number)) for number, sentence in enumerate(sentences)])


def data_of(structure, *, sentences=SENTENCES, builder=None):
    builder = builder or SubwordPieces(size=260)
    return TextData(shelf(sentences), annotator=Leaving(structure=structure), vocabulary=builder)


def same(one, other):
    """Raises AssertionError unless two batches hold the same."""
    for name, value in vars(one).items():
        found = getattr(other, name)
        if isinstance(value, Batch):
            same(value, found)
        elif isinstance(value, torch.Tensor):
            assert value.dtype == found.dtype, name
            torch.testing.assert_close(found, value, rtol=0, atol=0)
        else:
            assert value == found, name


CASES = {
    "dependents": ("tree", SubwordPieces(size=260), DependencyCollate()),
    "bracketings": ("constituency", SubwordPieces(size=260), BracketingCollate()),
    "strings of trees": ("constituency", ConstituentLabels(), TreeCollate(5)),
    "strings of arcs": ("tree", SubwordPieces(size=260), DerivationCollate(260)),
}  # fmt: skip


def test_a_split_without_what_a_system_reads_has_no_view_of_another_system():
    split = data_of("tree", builder=SubwordPieces(size=260)).split("train").viewed(DependencyCollate())
    assert split[0].view is not None
    assert split.viewed(BracketingCollate())[0].view is None


@pytest.mark.parametrize("case", CASES)
def test_a_batch_of_views_that_were_made_ahead_is_that_of_views_made_now(case, monkeypatch):
    structure, builder, collate = CASES[case]
    split = data_of(structure, builder=builder).split("train")
    viewed = split.viewed(collate)
    assert viewed.viewed(collate) is viewed

    def batch(items):
        return collate(ItemBatch(items, 9, split.vocabulary))

    expected = batch([split[number] for number in (2, 0, 1)])
    monkeypatch.setattr(type(collate), "view", None)
    same(expected, batch([split.viewed(collate)[number] for number in (2, 0, 1)]))


def test_views_of_a_stream():
    split, collate = data_of("tree").split("train"), DependencyCollate()
    for start, stop in ((0, 12), (2, 9), (7, 7)):
        plain, ahead = (
            collate(ItemBatch([StreamSlice(0, [of[0], of[1], of[2]], start, stop)], 9, split.vocabulary, segment=0))
            for of in (split, split.viewed(collate))
        )
        same(plain, ahead)


@dataclass(frozen=True)
class Marking(DependencyCollate):
    mark: int = 0

    def view(self, item, vocabulary):
        return {"marks": np.array([self.mark])}


def test_another_option_is_another_view():
    split = data_of("tree").split("train")
    for first, second in ((1, 2), (2, 1)):
        marks = split.viewed(Marking(first)).viewed(Marking(second))[0].view["marks"]
        assert marks.tolist() == [second]


def test_items_without_trees_have_empty_views_and_texts_without_any_have_none():
    bare = [replace(SENTENCES[1], spans=None), *SENTENCES]
    split = data_of("constituency", sentences=bare).split("train").viewed(BracketingCollate())
    assert split[0].view["attachments"].tolist() == []
    assert split[0].spans is None
    assert len(split[1].view["attachments"]) == len(split[1].ids)
    split = TextData(shelf(SENTENCES)).split("train")
    assert split.viewed(DependencyCollate()) is split


def test_the_items_of_a_trained_system_are_those_with_its_view():
    data = data_of("tree")
    data.collate = DependencyCollate()
    assert data.filled_split("train")[0].view is not None
    (batch,) = data.val_dataloader()
    assert batch.dependents is not None
