"""Invented stories, in memory and tagged by rule."""

from typing import ClassVar

import pytest

from depgen.annotation.tagger import SuffixTagger
from depgen.evaluation.union.encoders import SmallEncoder
from depgen.evaluation.union.stories import UnionData
from depgen.trees.sentence import Document, Sentence

PETS = ("dog", "cat", "goat", "bird", "horse", "pig", "duck", "hen", "cow", "mouse", "fox", "owl")


class PetStories:
    """Stories whose sentences come in one order, each about a single pet."""

    name = "pets"
    published: ClassVar = {}

    def __init__(self, train=12, held_out=6):
        self.sizes = {"train": train, "valid": held_out, "test": held_out}

    def documents(self, split):
        for number in range(self.sizes[split]):
            pet = PETS[number % len(PETS)]
            texts = (
                f"[FEMALE] wanted a {pet} .",
                f"she looked for a {pet} in town .",
                f"then the {pet} was found .",
                f"she paid for the {pet} happily .",
                f"at last the {pet} did n't bite .",
            )
            yield Document(tuple(Sentence(tuple(text.split())) for text in texts), f"{split}:{number}")
        yield Document((Sentence(("short", ".")),), f"{split}:short")

    def fingerprint(self, split):
        return f"pets {split} {self.sizes[split]}"


def small_encoder(**options):
    return SmallEncoder(**{
        "layers": 1, "width": 32, "attention_heads": 2, "feedforward": 64, "min_count": 1, "dropout": 0.0, **options,
    })  # fmt: skip


@pytest.fixture
def data():
    return UnionData(PetStories(), SuffixTagger(), tokens_per_batch=200, max_length=60)


@pytest.fixture
def stories(data):
    return data.stories("train")
