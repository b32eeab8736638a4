"""A table of the sizes of corpora: counted, not trained; what is not at hand is named."""

import shutil

import pytest

from depgen.reporting.reproduce import reproduce
from depgen.reporting.results import read_results
from depgen.reporting.table import load_definition
from tests.invented_data import write_corpora


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("sizes")
    write_corpora(found / "data")
    shutil.rmtree(found / "data" / "nant")
    return found


@pytest.fixture
def places(folder, tmp_path, monkeypatch):
    for name, path in (("DATA", folder / "data"), ("RESULTS", tmp_path / "results"), ("CACHE", folder / "cache")):
        monkeypatch.setenv(f"DEPGEN_{name}", str(path))
    return tmp_path


def sizes_of(row):
    (result,) = read_results("dclm_table1", row, size="paper")
    return result


@pytest.mark.slow
def test_every_corpus_at_hand_is_counted_and_the_others_are_named(places):
    text = reproduce("dclm_table1")
    assert "NANT, paper, seed 1: left out, its corpus is not at hand. No corpus at" in text
    assert not read_results("dclm_table1", "NANT", size="paper")
    brown = sizes_of("Brown")
    assert {name: value for name, value in brown.metrics.items() if "documents" in name} == {
        "train_documents": 2, "dev_documents": 50, "test_documents": 50,
    }  # fmt: skip
    assert brown.metrics["dev_sentences"] == 5, "stories of five sentences"
    stories = sizes_of("ROCStories")
    assert (stories.metrics["train_documents"], stories.data.reduced) == (24, True)
    assert sizes_of("WikiText-2").metrics["test_documents"] == 6
    assert sizes_of("PTB").metrics["train_documents"] == 21, "sections 00 to 20"
    lines = {tuple(cell.strip() for cell in line.split("│")[1:3]): line for line in text.splitlines() if "│" in line}
    assert "-1979" in lines["", "difference"], "where LDC's files are, ours stand beside the paper's"
    assert ("NANT (not run yet)", "paper") in lines
    for word in ("significant", "Tests:", "NOT the same data", "less data than was published"):
        assert word not in text


def test_words_of_a_document_are_counted_without_ends(places):
    reproduce("dclm_table1", rows=["ROCStories"])
    definition = load_definition("dclm_table1")
    assert all(row.floor == "corpus" for row in definition.rows)
    from depgen.data.corpora import RocStories

    documents = list(RocStories().documents("test"))
    words = [word for document in documents for word in document.words()]
    assert sizes_of("ROCStories").metrics["test_tokens"] == len(words) / len(documents)
