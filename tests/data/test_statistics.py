import json
from dataclasses import replace

import pytest
from depgen.data.text_lines import TextLines

from depgen.data.corpus import SplitStatistics
from depgen.data.statistics import MeasuredStatistics, compare, data_statistics, measure
from depgen.errors import MissingDataError


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "train.txt").write_text("the cat sat\nthe dog\n")
    (tmp_path / "valid.txt").write_text("the\n")
    (tmp_path / "test.txt").write_text("the cow sat down\n")
    found = TextLines(str(tmp_path), name="pets")
    found.published = {
        "train": SplitStatistics(sentences=2, tokens=7, types=5),
        "valid": SplitStatistics(documents=3),
        "test": SplitStatistics(documents=1, tokens=4),
    }
    return found


def test_sizes(corpus):
    assert measure(corpus, ["train", "test"]) == {
        "train": MeasuredStatistics(
            2, 2, 7, 5, tokens_without_eos=5, mean_length=2.5, max_length=3, mean_sentences=1.0, max_sentences=1
        ),
        "test": MeasuredStatistics(
            1,
            1,
            5,
            5,
            tokens_without_eos=4,
            mean_length=4.0,
            max_length=4,
            mean_sentences=1.0,
            max_sentences=1,
            unknown_rate=0.5,
        ),
    }


@pytest.mark.parametrize(
    ("published", "status"),
    [
        (SplitStatistics(documents=10, tokens=70), "as published"),
        (SplitStatistics(documents=11), "reduced"),
        (SplitStatistics(documents=9), "differs"),
        (SplitStatistics(documents=10, tokens=71), "differs"),
        (SplitStatistics(sentences=11), "reduced"),
        (SplitStatistics(), "nothing published"),
        (None, "nothing published"),
    ],
)
def test_differences_have_a_name(published, status):
    assert compare(SplitStatistics(documents=10, sentences=10, tokens=70, types=5), published) == status


def test_table(corpus):
    found = data_statistics(corpus).splitlines()
    assert [line.removesuffix("as published").rstrip() for line in found] == [
        "pets",
        "split             documents  sentences  tokens  with eos  types  mean length  max length  mean sentences  max sentences  unknown  status",  # noqa: E501
        "train                     2          2       5         7      5          2.5           3             1.0              1",  # noqa: E501
        "train, published                     2                 7      5",
        "valid                     1          1       1         2      2          1.0           1             1.0              1    0.00%  reduced",  # noqa: E501
        "valid, published          3",
        "test                      1          1       4         5      5          4.0           4             1.0              1   50.00%  differs",  # noqa: E501
        "test, published           1                            4",
    ]
    assert found[2].endswith("as published")


def test_json(corpus):
    found = json.loads(data_statistics(corpus, ["test"], json=True))
    assert found["corpus"] == "pets"
    assert found["splits"][0]["status"] == "differs"
    assert found["splits"][1]["tokens"] == 4


def test_without_a_training_split_unknown_words_are_not_counted(corpus, tmp_path, caplog):
    with_train = measure(corpus, ["valid", "test"])
    (tmp_path / "train.txt").unlink()
    found = measure(corpus, ["valid", "test"])
    assert found == {split: replace(sizes, unknown_rate=None) for split, sizes in with_train.items()}
    assert str(tmp_path / "train.txt") in caplog.text
    assert "as published" not in data_statistics(corpus, ["test"]).splitlines()[2]
    with pytest.raises(MissingDataError, match=r"train\.txt"):
        measure(corpus)


@pytest.mark.real_data
def test_the_penn_treebank_is_the_published_one():
    files = {split: f"ptb.{split}.txt" for split in ("train", "valid", "test")}
    corpus = TextLines("ptb", **files, published="ptb")
    found = measure(corpus)
    assert {split: compare(sizes, corpus.published[split]) for split, sizes in found.items()} == dict.fromkeys(
        ("train", "valid", "test"), "as published"
    )
    sizes = [(sizes.sentences, sizes.tokens) for sizes in found.values()]
    assert sizes == [(42_068, 929_589), (3_370, 73_760), (3_761, 82_430)]
    assert found["train"].types == 10_000
