"""Invented stories, in memory."""

from collections.abc import Iterator, Mapping

from depgen.data.corpus import Split, SplitStatistics
from depgen.trees.sentence import Document, Sentence

PETS = ("dog", "cat", "goat", "bird", "horse", "pig", "duck", "hen", "cow", "mouse", "fox", "owl")


class PetStories:
    """Stories whose sentences come in one order, each about a single pet."""

    name = "pets"
    published: Mapping[Split, SplitStatistics] = {}

    def __init__(self, train: int = 12, held_out: int = 6) -> None:
        self.sizes = {"train": train, "valid": held_out, "test": held_out}

    def documents(self, split: Split) -> Iterator[Document]:
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

    def fingerprint(self, split: Split) -> str:
        return f"pets {split} {self.sizes[split]}"
