from collections import Counter

import pytest

from depgen.data.corpus import Corpus
from depgen.data.sentence_pairs import PairCorpus
from depgen.data.sts import TEST_SETS, SimilarityTasks, read_benchmark, read_sick, read_task, similarity_words
from depgen.errors import UserError
from tests.invented_similarity import benchmark_lines, sick_lines, write_similarity


@pytest.fixture
def folder(tmp_path):
    write_similarity(tmp_path / "sts")
    return tmp_path / "sts"


def rewrite(path, change):
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def test_a_task_is_its_judged_pairs_part_by_part(tmp_path):
    (tmp_path / "STS.input.images.txt").write_text('A "cat\tA dog\tsource\tsource\nno score\tno score\nx\x85y\tz\n')
    (tmp_path / "STS.gs.images.txt").write_text("4.2\n\n0\n")
    (tmp_path / "STS.input.belief.txt").write_text("so\tthus\r\n")
    (tmp_path / "STS.gs.belief.txt").write_text("5.000\r\n")
    (tmp_path / "STS.gs.SMT.txt").write_text("1\n2\n")  # its sentences are not distributed
    pairs = read_task(tmp_path)
    assert [(pair.first, pair.second, pair.score) for pair in pairs] == [
        ("so", "thus", 5.0), ('A "cat', "A dog", 4.2), ("x\x85y", "z", 0.0)
    ]  # fmt: skip
    assert [pair.identifier for pair in pairs][1:] == ["STS.input.images.txt:1", "STS.input.images.txt:3"]


def test_quotes_are_text_and_columns_are_where_they_are(tmp_path):
    pairs = [('He said "no', "It's 3\" long", 2.5), ("a", "b", 1.0)]
    (tmp_path / "b.csv").write_text(benchmark_lines(pairs))
    (tmp_path / "s.txt").write_text(sick_lines(pairs))
    for found in (read_benchmark(tmp_path / "b.csv"), read_sick(tmp_path / "s.txt")):
        assert [(pair.first, pair.second, pair.score) for pair in found] == pairs


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("STSBenchmark/sts-test.csv", lambda text: text.replace("\t", " ", 1), r"test\.csv:1: expected 7 columns.*6"),
        ("SICK/SICK_train.txt", lambda text: text + "1\ta\tb\tmuch\tNEUTRAL\n", r"train\.txt:26: expected.*'much'"),
        ("STS12-en-test/STS.gs.images.txt", lambda text: text + "3\n", "a line for each of the 6 .* found 7"),
        ("STS16-en-test/STS.gs.headlines.txt", lambda text: "7.0" + text[text.index("\n") :], r":1: .*0 to 5.*7\.0"),
        ("STS14-en-test/STS.input.images.txt", lambda text: text.replace("\t", " ", 1), "txt:1: expected 2 columns"),
    ],
)  # fmt: skip
def test_broken_files_are_named_with_the_line(folder, name, change, complaint):
    rewrite(folder / name, change)
    corpus = SimilarityTasks(str(folder))
    with pytest.raises(UserError, match=complaint):
        list(corpus.pairs("train")), list(corpus.pairs("test"))


@pytest.mark.parametrize(
    "name", ["STSBenchmark/sts-dev.csv", "SICK/SICK_test_annotated.txt", "STS15-en-test/STS.gs.images.txt"]
)
def test_missing_files_are_named_with_where_to_get_them(folder, name):
    (folder / name).unlink()
    corpus = SimilarityTasks(str(folder))
    with pytest.raises(UserError, match=rf"{name.split('/')[1]}.*zenodo"):
        list(corpus.pairs("valid")), list(corpus.pairs("test"))


def test_a_folder_without_tasks_is_named(folder):
    for path in (folder / "STS13-en-test").iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"STS13-en-test: expected files STS\.input"):
        list(SimilarityTasks(str(folder)).pairs("test"))


def test_splits_are_the_training_sets_the_development_set_and_seven_test_sets(folder):
    corpus = SimilarityTasks(str(folder))
    assert isinstance(corpus, Corpus)
    assert isinstance(corpus, PairCorpus)
    assert len(list(corpus.pairs("train"))) == 48
    assert len(list(SimilarityTasks(str(folder), train=["stsb"]).pairs("train"))) == 24
    assert {pair.test_set for pair in corpus.pairs("valid")} == {-1}
    counts = Counter(pair.test_set for pair in corpus.pairs("test"))
    assert counts == {**dict.fromkeys(range(5), 10), 5: 6, 6: 6}
    document = next(corpus.documents("test"))
    pair = next(corpus.pairs("test"))
    assert [sentence.words for sentence in document.sentences] == [pair.first, pair.second]


def test_a_test_pair_that_is_trained_on_is_marked_whatever_its_order_and_marks(folder):
    def lines(text):
        return text + "main\tx\tx\t9\t1.0\tTwo Birds, flying\tthe SKY\n"

    rewrite(folder / "STSBenchmark/sts-train.csv", lines)
    for name, text in (("sts12", "the sky.\ttwo birds flying!\n"), ("sts14", "the skies\ttwo birds flying\n")):
        for kind, line in (("input", text), ("gs", "1.0\n")):
            rewrite(folder / f"STS{name[3:]}-en-test/STS.{kind}.images.txt", lambda old, line=line: old + line)
    marked = {train: [
        (TEST_SETS[pair.test_set], pair.identifier)
        for pair in SimilarityTasks(str(folder), train=[train]).pairs("test")
        if "birds" in pair.first + pair.second and pair.seen
    ] for train in ("stsb", "sick")}  # fmt: skip
    assert marked == {"stsb": [("sts12", "STS.input.images.txt:7")], "sick": []}


def test_a_test_pair_that_weights_are_chosen_by_is_marked(folder):
    def seen():
        return [pair.identifier for pair in SimilarityTasks(str(folder), train=["sick"]).pairs("test") if pair.seen]

    rewrite(folder / "STSBenchmark/sts-test.csv", lambda text: text + "main\tx\tx\t9\t1.0\tfour snails\tthe sea\n")
    before = seen()
    rewrite(folder / "STSBenchmark/sts-dev.csv", lambda text: text + "main\tx\tx\t9\t4.0\tThe sea\tfour snails\n")
    assert [each for each in seen() if each not in before] == ["sts-test.csv:7"]


def test_words_are_lower_case_with_letters():
    assert similarity_words("-- The U.S. won $1,000-0 (on 8/9)!") == ("the", "u.s.", "won", "N,N", "N", "on", "N/N")
    assert similarity_words("It rose 8 % in the 1990s to 1,234.5", "whole") == (
        "it", "rose", "N", "N", "in", "the", "1990s", "to", "N"
    )  # fmt: skip
    assert similarity_words("... !") == ()


def test_the_fingerprint_depends_on_files_options_and_what_is_trained_on(folder):
    corpus = SimilarityTasks(str(folder))
    before = {split: corpus.fingerprint(split) for split in ("train", "valid", "test")}
    assert len(set(before.values())) == 3
    assert SimilarityTasks(str(folder), numbers="whole").fingerprint("valid") != before["valid"]
    assert SimilarityTasks(str(folder), train=["stsb"]).fingerprint("test") != before["test"]
    rewrite(folder / "SICK/SICK_test_annotated.txt", lambda text: text + "7\ta\tb\t2\tNEUTRAL\n")
    assert {split: corpus.fingerprint(split) == before[split] for split in before} == {
        "train": True, "valid": True, "test": False
    }  # fmt: skip


@pytest.mark.parametrize("train", [[], ["stsb", "stsb"]])
def test_a_training_set_is_named_once(train):
    with pytest.raises(UserError, match="train: expected stsb, sick or both"):
        SimilarityTasks(train=train)


SEEN = {"stsb": [1254, 678, 2053, 1681, 219, 15, 65], "sick": [296, 81, 193, 581, 22, 15, 91]}
"""1,003, 597, 1,861, 1,102, 197, 12 and 55 stand in STS-B's training set; the others in its development set alone."""


@pytest.mark.real_data
@pytest.mark.parametrize("train", ["stsb", "sick"])
def test_the_published_sizes_and_what_the_training_sets_hold_of_them(train):
    corpus = SimilarityTasks(train=[train])
    pairs = list(corpus.pairs("test"))
    sizes = Counter(pair.test_set for pair in pairs)
    seen = Counter(pair.test_set for pair in pairs if pair.seen)
    assert [sizes[k] for k in range(7)] == [3108, 1500, 3750, 3000, 1186, 1379, 4927]
    assert [seen[k] for k in range(7)] == SEEN[train]
    found = {"train": len(list(corpus.pairs("train"))), "valid": len(list(corpus.pairs("valid"))), "test": len(pairs)}
    assert found == {split: statistics.documents for split, statistics in corpus.published.items()}
