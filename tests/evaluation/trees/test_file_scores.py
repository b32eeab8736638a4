"""Two CoNLL-U files against one another: hand-computed scores, the attachment counts elsewhere, and what is refused."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.cli import main
from depgen.evaluation.trees.file_scores import file_scores
from depgen.metrics.attachment import attachment_counts
from depgen.metrics.induction import induction_counts
from depgen.trees.conllu import format_conllu
from depgen.trees.sentence import Sentence
from tests.trees.trees import head_lists

WORDS = ("the", "dog", "slept", ",", "then", "ran", ".")
GOLD = Sentence(WORDS, (2, 3, 0, 6, 6, 3, 3), ("det", "nsubj", "root", "punct", "advmod", "conj", "punct"))
OTHER = Sentence(WORDS, (2, 3, 6, 6, 3, 0, 6), ("det", "obj", "conj", "punct", "advmod", "root", "punct"))


def written(path, *sentences):
    path.write_text("".join(f"{format_conllu(each)}\n" for each in sentences))
    return path


@pytest.fixture
def files(tmp_path):
    long = Sentence(("so",) * 11, (0, *range(1, 11)), ("root", *["dep"] * 10))
    return written(tmp_path / "gold.conllu", GOLD, long), written(tmp_path / "other.conllu", OTHER, long)


def rows_of(capsys, *arguments):
    assert main(["attachment-scores", *map(str, arguments)]) == 0
    head, *lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert head == ["trees", "words", "UAS", "LAS", "UDA"]
    return {name: values for name, *values in lines}


def test_scores_with_and_without_punctuation_by_hand(files, capsys):
    # right heads: the, dog, the comma; of these dog has another relation; slept and ran are a pair in both trees
    assert rows_of(capsys, *files) == {
        "all words": ["18", f"{1400 / 18:.2f}", f"{1300 / 18:.2f}", f"{1500 / 18:.2f}"],
        "without punctuation": ["16", f"{1300 / 16:.2f}", f"{1200 / 16:.2f}", f"{1400 / 16:.2f}"],
    }


def test_trees_without_relations_have_no_las(tmp_path, capsys):
    gold = written(tmp_path / "gold.conllu", GOLD)
    bare = written(tmp_path / "bare.conllu", Sentence(WORDS, GOLD.heads))
    for first, second in ((gold, bare), (bare, gold), (bare, bare)):
        found = rows_of(capsys, first, second, "--punctuation", "form")
        assert found["all words"] == ["7", "100.00", "nan", "100.00"]
    assert '"las": null' in file_scores(bare, bare, punctuation="form", json=True)


def test_lines_by_relation_and_by_length(files, capsys):
    found = rows_of(capsys, *files, "--by", "relation")
    assert list(found)[2:] == ["advmod", "conj", "dep", "det", "nsubj", "root"]
    assert found["nsubj"] == ["1", "100.00", "0.00", "100.00"]
    assert found["conj"] == ["1", "0.00", "0.00", "100.00"]
    found = rows_of(capsys, *files, "--by", "length")
    assert list(found)[2:] == ["1 to 10 words", "11 to 20 words"]
    assert found["1 to 10 words"] == ["5", "40.00", "20.00", "60.00"]
    assert found["11 to 20 words"] == ["11", *["100.00"] * 3]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.integers(1, 6).flatmap(lambda n: st.tuples(*[head_lists(min_size=n, max_size=n)] * 2)),
        min_size=1,
        max_size=3,
    )
)
def test_they_are_the_counts_of_other_functions(tmp_path_factory, trees):
    folder = tmp_path_factory.mktemp("trees")
    gold, other = ([Sentence(("w",) * len(heads), tuple(heads)) for heads in each] for each in zip(*trees, strict=True))
    paths = written(folder / "gold", *gold), written(folder / "other", *other)
    row = json.loads(file_scores(*paths, punctuation="form", json=True))["rows"]["all words"]
    right, found = (torch.tensor([head for each in side for head in each.heads]) for side in (gold, other))
    assert row["uas"] == pytest.approx(attachment_counts(found, right, torch.ones(len(right), dtype=torch.bool)).uas)
    counts = induction_counts([each.heads for each in other], [each.heads for each in gold])
    assert row["uda"] == pytest.approx(100 * counts.undirected.sum() / counts.words.sum())
    assert row["words"] == counts.words.sum()


def test_scores_of_no_word_are_null(tmp_path):
    stop = written(tmp_path / "stop", Sentence((".",), (0,)))
    rows = json.loads(file_scores(stop, stop, punctuation="form", json=True))["rows"]
    assert (rows["all words"]["uas"], rows["without punctuation"]["uas"]) == (100, None)


def test_files_that_do_not_belong_together_are_refused(tmp_path, files, capsys):
    gold, _ = files
    bare = written(tmp_path / "bare.conllu", Sentence(WORDS))
    for wrong, message in (
        (written(tmp_path / "one.conllu", OTHER), "gold.conllu has more sentences than"),
        (written(tmp_path / "word.conllu", Sentence(("a", *WORDS[1:]), OTHER.heads)), "word.conllu:1: sentence 1"),
        (written(tmp_path / "end.conllu", Sentence(WORDS[:2], (0, 1))), "has 'its end' as word 3"),
        (bare, "bare.conllu:1: expected a tree"),
    ):
        assert main(["attachment-scores", str(gold), str(wrong)]) == 2
        assert message in capsys.readouterr().err
    alone = written(tmp_path / "alone.conllu", Sentence(WORDS, GOLD.heads))
    assert main(["attachment-scores", str(alone), str(alone)]) == 2
    assert "punctuation: form" in capsys.readouterr().err
