"""Two files against one another: hand-computed scores, counts by others and by loops, and what is refused."""

import json
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from supar.utils.metric import ChartMetric

from depgen.cli import main
from depgen.evaluation.trees.file_scores import file_scores
from depgen.metrics.induction import induction_counts
from depgen.trees.conllu import format_conllu
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import graphs, head_lists, write_sdp

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


def test_a_file_of_any_other_ending_is_conllu(files, tmp_path, capsys):
    named = [path.rename(tmp_path / f"{path.stem}.conll") for path in files]
    assert rows_of(capsys, *named)["all words"][0] == "18"


def test_trees_without_relations_have_no_las(tmp_path, capsys):
    gold = written(tmp_path / "gold.conllu", GOLD)
    bare = written(tmp_path / "bare.conllu", Sentence(WORDS, GOLD.heads))
    for first, second in ((gold, bare), (bare, gold), (bare, bare)):
        found = rows_of(capsys, first, second, "--punctuation", "form")
        assert found["all words"] == ["7", "100.00", "-", "100.00"]
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
    counts = induction_counts([each.heads for each in other], [each.heads for each in gold])
    assert row["uas"] == pytest.approx(100 * counts.directed.sum() / counts.words.sum())
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


# -- graphs -----------------------------------------------------------------------------------------------------------

GRAPH = ((2, 1, "det"), (3, 2, "nsubj"), (6, 2, "nsubj"), (0, 3, "root"), (6, 4, "punct"), (3, 6, "conj"))
FOUND = ((2, 1, "det"), (3, 2, "nsubj"), (3, 2, "obj"), (0, 3, "root"), (3, 4, "punct"), (0, 6, "root"), (4, 6, "x"))
HEADS = ["gold", "found", "UP", "UR", "UF", "LP", "LR", "LF"]


def sdp(path, *edges, words=WORDS):
    write_sdp((Document((Sentence(words, tags=words, edges=each),), f"d{k}") for k, each in enumerate(edges)), path)
    return path


def graph_rows(*paths, **options):
    return json.loads(file_scores(*paths, json=True, **options))["rows"]


def shares(right, found, gold):
    """Precision, recall and F1, as they are printed."""
    return [f"{100 * part / whole:.2f}" for part, whole in ((right, found), (right, gold), (2 * right, found + gold))]


@pytest.fixture
def graph_files(tmp_path):
    long = Sentence(("so",) * 11, edges=((0, 1, "root"),))
    pairs = (("graphs.conllu", GRAPH), ("found.conllu", FOUND))
    return [written(tmp_path / name, Sentence(WORDS, edges=edges), long) for name, edges in pairs]


def test_scores_of_graphs_by_hand(graph_files, capsys):
    assert main(["attachment-scores", *map(str, graph_files), "--structure", "graph"]) == 0
    head, *lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert head == ["graphs", *HEADS]
    # labelled: det, nsubj of slept, root of slept and of so; unlabelled the same: 3 -> 2 counts once, with either label
    assert {name: values for name, *values in lines} == {
        "all edges": ["7", "8", *shares(4, 7, 7), *shares(4, 8, 7)],
        "without root edges": ["5", "5", *shares(2, 4, 5), *shares(2, 5, 5)],
        "without punctuation": ["6", "6", *shares(4, 5, 6), *shares(4, 6, 6)],  # nor comma -> ran, labelled x
    }


def test_lines_of_graphs_by_relation_and_by_length(graph_files):
    rows = graph_rows(*graph_files, structure="graph", by="relation")
    assert list(rows)[3:] == ["conj", "det", "nsubj", "obj", "root"]
    nsubj = {"gold": 2, "found": 1, "labelled_precision": 100, "labelled_recall": 50, "unlabelled_recall": 50}
    assert rows["nsubj"].items() >= nsubj.items()
    assert rows["nsubj"]["unlabelled_precision"] is rows["nsubj"]["unlabelled_f1"] is None
    assert rows["conj"].items() >= {"gold": 1, "found": 0, "labelled_precision": None, "labelled_f1": 0}.items()
    assert rows["obj"].items() >= {"labelled_precision": 0, "labelled_recall": None, "unlabelled_recall": None}.items()
    rows = graph_rows(*graph_files, structure="graph", by="length")
    assert list(rows)[3:] == ["1 to 10 words", "11 to 20 words"]
    assert rows["11 to 20 words"] == dict(zip(rows["all edges"], [1, 1, *[100] * 6], strict=True))
    assert (rows["1 to 10 words"]["gold"], rows["1 to 10 words"]["found"]) == (5, 5)


def test_punctuation_of_graphs_by_the_relations_of_the_gold_trees(tmp_path):
    names = ("det", "nsubj", "root", "dep", "advmod", "punct", "dep")
    gold = written(tmp_path / "gold", Sentence(WORDS, GOLD.heads, names, edges=GRAPH))
    found = written(tmp_path / "found", Sentence(WORDS, edges=FOUND))
    row = graph_rows(gold, found, structure="graph", punctuation="relation")["without punctuation"]
    assert (row["gold"], row["found"]) == (3, 5)  # without the edges from and to `ran`


def test_tops_of_sdp_are_edges_from_the_root_whatever_the_other_format_calls_them(tmp_path):
    found = [edge for edge in FOUND if edge[2] != "obj"]  # SDP holds one label a pair
    paths = [
        sdp(tmp_path / name, [(head, word, label if head else "top") for head, word, label in each])
        for name, each in (("gold.sdp", GRAPH), ("found.sdp", found))
    ]
    conllu = written(tmp_path / "found.conllu", Sentence(WORDS, edges=tuple(found)))
    rows = graph_rows(*paths)
    assert rows == graph_rows(paths[0], conllu)
    assert (rows["all edges"]["gold"], rows["all edges"]["found"], rows["all edges"]["labelled_recall"]) == (6, 6, 50)


def counted(gold, found, length, label=None):
    """Labelled edges of both sides, of each and of any other, then pairs, by a look at everything there could be."""
    pairs = list(product(range(length + 1), repeat=2))
    names = {name for *_, name in (*gold, *found)} if label is None else {label}
    labelled = [[(*pair, name) in side for pair in pairs for name in names] for side in (gold, found)]
    unlabelled = [[any((*pair, name) in side for name in names) for pair in pairs] for side in (gold, found)]
    return np.array([(sum(map(min, *both)), sum(both[1]), sum(both[0])) for both in (labelled, unlabelled)])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 5).flatmap(lambda n: st.tuples(graphs(n), graphs(n), st.just(n))), min_size=1, max_size=3)
)
def test_scores_of_graphs_are_those_of_loops(tmp_path_factory, drawn):
    assume(all(any(each[side] for each in drawn) for side in (0, 1)))
    folder, forms = tmp_path_factory.mktemp("graphs"), ("w", ".", "w", "w", ",")
    paths = [
        written(folder / str(side), *(Sentence(forms[: each[2]], edges=each[side]) for each in drawn))
        for side in (0, 1)
    ]

    def is_content(edge):
        return all(end == 0 or forms[end - 1] == "w" for end in edge[:2])

    kept = {"all edges": bool, "without root edges": lambda edge: edge[0] != 0, "without punctuation": is_content}
    for name, row in graph_rows(*paths, structure="graph", by="relation").items():
        counts = sum(
            counted(*([*filter(kept.get(name, is_content), each[side])] for side in (0, 1)), each[2],
                    None if name in kept else name)
            for each in drawn
        )  # fmt: skip
        for kind, (right, found, gold) in zip(("labelled", "unlabelled"), counts.tolist(), strict=True):
            if kind == "labelled":
                assert (row["gold"], row["found"]) == (gold, found)
            elif name not in kept:
                sides = [[[*filter(is_content, each[side])] for each in drawn] for side in (0, 1)]
                pairs = [{edge[:2] for edge in each if edge[2] == name} for each in sides[0]]
                shared = sum(len(one & {edge[:2] for edge in each}) for one, each in zip(pairs, sides[1], strict=True))
                assert row["unlabelled_recall"] == (pytest.approx(100 * shared / gold) if gold else None)
                continue
            for key, part, whole in (
                ("precision", right, found),
                ("recall", right, gold),
                ("f1", 2 * right, found + gold),
            ):
                assert row[f"{kind}_{key}"] == (pytest.approx(100 * part / whole) if whole else None)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(-1, 1), min_size=n * n, max_size=n * n), min_size=2, max_size=2)
    )
)
def test_scores_of_graphs_are_those_of_supar(tmp_path_factory, drawn):
    charts = torch.tensor(drawn).view(2, -1, int(len(drawn[0]) ** 0.5))
    charts[:, 0] = -1
    charts.diagonal(dim1=1, dim2=2).fill_(-1)
    charts[:, 1, 0] = 0
    folder, words = tmp_path_factory.mktemp("charts"), ("w",) * (charts.shape[1] - 1)
    paths = [
        written(
            folder / str(k),
            Sentence(
                words,
                edges=sorted_edges(
                    (head, word, "ab"[chart[word, head]]) for word, head in chart.ge(0).nonzero().tolist()
                ),
            ),
        )
        for k, chart in enumerate(charts)
    ]
    row, other = graph_rows(*paths, structure="graph")["all edges"], ChartMetric()(charts[1], charts[0])
    theirs = [100 * each for each in (other.up, other.ur, other.uf, other.p, other.r, other.f)]
    assert [*row.values()][2:] == pytest.approx(theirs)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6).flatmap(lambda n: st.tuples(*[head_lists(min_size=n, max_size=n)] * 2)))
def test_trees_as_graphs_have_the_scores_of_trees(tmp_path_factory, trees):
    folder = tmp_path_factory.mktemp("trees")
    paths = []
    for name, heads in zip(("gold", "other"), trees, strict=True):
        relations = tuple("ab"[head % 2] for head in heads)
        edges = tuple(zip(heads, range(1, len(heads) + 1), relations, strict=True))
        paths.append(written(folder / name, Sentence(("w",) * len(heads), tuple(heads), relations, edges=edges)))
    graph, tree = graph_rows(*paths, structure="graph")["all edges"], graph_rows(*paths)["all words"]
    assert [*graph.values()] == pytest.approx([len(trees[0])] * 2 + [tree["uas"]] * 3 + [tree["las"]] * 3)


def test_graphs_that_are_missing_or_mixed_with_trees_are_refused(tmp_path, files, graph_files, caplog, capsys):
    trees, _ = files
    gold, found = graph_files
    holds_graphs = sdp(tmp_path / "gold.sdp", ((0, 1, "top"),))
    bare = written(tmp_path / "bare.conllu", Sentence(WORDS), Sentence(("so",) * 11))
    other_words = written(tmp_path / "words.conllu", Sentence(("a", *WORDS[1:]), edges=FOUND))
    for arguments, message in (
        ([gold, trees, "--structure", "graph"], "expected graphs in DEPS (column 9), found trees alone"),
        ([gold, bare, "--structure", "graph"], "bare.conllu: expected graphs in DEPS (column 9), found none"),
        ([gold, found], "compared by structure: graph"),
        ([holds_graphs, gold], "graphs.conllu has more sentences than"),
        ([holds_graphs, other_words], "words.conllu:1: sentence 1 has 'a' as word 1"),
        ([gold, holds_graphs, "--structure", "tree"], "gold.sdp is SDP, which holds graphs"),
        ([gold, found, "--structure", "graph", "--punctuation", "relation"], "punctuation: form"),
    ):
        assert main(["attachment-scores", *map(str, arguments)]) == 2
        assert message in capsys.readouterr().err
    some = written(tmp_path / "some.conllu", Sentence(WORDS, edges=FOUND), Sentence(("so",) * 11))
    assert graph_rows(gold, some, structure="graph")["all edges"]["found"] == 7
    assert "some.conllu: 1 of 2 sentences have no edge in DEPS" in caplog.text
