"""Sizes of splits, counted by hand, and those published for them."""

import json

import pytest

from depgen.data.corpora import TextLines
from depgen.data.corpus import SplitStatistics
from depgen.data.statistics import Sizes, data_statistics, measure
from depgen.errors import MissingDataError


class Pets(TextLines):
    published = {"train": SplitStatistics(sentences=2, tokens=7), "test": SplitStatistics(documents=3)}  # noqa: RUF012


@pytest.fixture
def pets(tmp_path):
    texts = {"train": "the cat sat\nthe dog\n", "valid": "the\n", "test": "the cow sat down\nthedog\n"}
    for split, text in texts.items():
        (tmp_path / f"{split}.txt").write_text(text)
    return Pets(str(tmp_path), steps=[], name="pets")


def test_sizes(pets):
    assert measure(pets, ["test", "train"]) == {
        "train": Sizes(2, 2, tokens=7, types=5, mean_length=2.5, max_length=3, mean_sentences=1.0),
        "test": Sizes(2, 2, 7, 6, 2.5, 4, 1.0, in_training=1, unknown=0.6),
    }


def test_without_the_training_split_nothing_is_compared_with_it(pets, tmp_path):
    (tmp_path / "train.txt").unlink()
    assert measure(pets, ["valid"]) == {"valid": Sizes(1, 1, 2, 2, 1.0, 1, 1.0)}
    with pytest.raises(MissingDataError, match=r"train\.txt"):
        measure(pets)


def test_the_published_sizes_stand_below(pets):
    name, _, *rows = data_statistics(pets).splitlines()
    assert name == "pets"
    assert [row.split()[:2] for row in rows] == [
        ["train", "2"], ["train,", "published"], ["valid", "1"], ["test", "2"], ["test,", "published"],
    ]  # fmt: skip
    content = json.loads(data_statistics(pets, ["test"], json=True))
    assert content["corpus"] == "pets"
    assert [each["documents"] for each in content["splits"]] == [2, 3]
