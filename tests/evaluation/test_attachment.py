"""Two files against one another, by hand, and what is refused."""

import json

import pytest

from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.attachment import AttachmentOptions, attachment_of_files
from depgen.trees.conllu import format_conllu
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import write_sdp

WORDS = ("the", "dog", "slept", ",", "then", "ran", ".")
GOLD = Sentence(WORDS, (2, 3, 0, 6, 6, 3, 3), ("det", "nsubj", "root", "punct", "advmod", "conj", "punct"))
OTHER = Sentence(WORDS, (2, 3, 6, 6, 3, 0, 6), ("det", "obj", "conj", "punct", "advmod", "root", "punct"))
LONG = ("so",) * 11


def written(path, *sentences):
    path.write_text("".join(f"{format_conllu(each)}\n" for each in sentences))
    return path


@pytest.fixture
def files(tmp_path):
    long = Sentence(LONG, (0, *range(1, 11)), ("root", *["dep"] * 10))
    return written(tmp_path / "gold.conllu", GOLD, long), written(tmp_path / "other.conll", OTHER, long)


def rows_of(*paths, **options):
    return attachment_of_files(AttachmentOptions(*paths, **options)).rows.set_index("name").drop(columns="level")


def approx(*values):
    return pytest.approx(list(values), nan_ok=True)


NAN = float("nan")


def test_trees_by_hand(files):
    found = attachment_of_files(AttachmentOptions(*files))
    # right heads: the, dog, the comma; of these dog has another relation; slept and ran are a pair in both trees
    assert found.rows.columns.tolist() == ["level", "name", "words", "uas", "las", "uda"]
    rows = found.rows.set_index("name").drop(columns="level").T
    assert rows["all words"].tolist() == approx(18, 1400 / 18, 1300 / 18, 1500 / 18)
    assert rows["without punctuation"].tolist() == approx(16, 1300 / 16, 1200 / 16, 1400 / 16)
    assert found.items.to_numpy().tolist() == [approx(0, 7, 300 / 7, 200 / 7, 400 / 7), approx(1, 11, 100, 100, 100)]


def test_trees_by_relation_and_by_length(files):
    rows = rows_of(*files, by="relation")
    assert rows.index[:6].tolist() == ["advmod", "conj", "dep", "det", "nsubj", "root"]
    assert rows.loc["nsubj"].tolist() == [1, 100, 0, 100]
    assert rows.loc["conj"].tolist() == [1, 0, 0, 100]
    rows = rows_of(*files, by="length")
    assert rows.index[:2].tolist() == ["1 to 10 words", "11 to 20 words"]
    assert rows[:2].to_numpy().tolist() == [[5, 40, 20, 60], [11, 100, 100, 100]]


def test_trees_without_relations_have_no_las_and_no_word_has_no_score(tmp_path):
    gold = written(tmp_path / "gold.conllu", GOLD)
    bare = written(tmp_path / "bare.conllu", Sentence(WORDS, GOLD.heads))
    for paths in ((gold, bare), (bare, gold), (bare, bare)):
        assert rows_of(*paths, punctuation="form").loc["all words"].tolist() == approx(7, 100, NAN, 100)
    stop = written(tmp_path / "stop", Sentence((".",), (0,)))
    assert rows_of(stop, stop, punctuation="form").loc["without punctuation"].tolist() == approx(0, NAN, NAN, NAN)


def test_the_verb_prints_the_rows(files, capsys):
    options = ["--gold", str(files[0]), "--predicted", str(files[1])]
    assert main(["evaluate", "attachment", *options, "--by", "length", "--json"]) == 0, capsys.readouterr().err
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (rows[0]["level"], rows[0]["name"], rows[0]["uas"]) == ("length", "1 to 10 words", 40)
    assert (rows[-1]["level"], rows[-1]["name"], rows[-1]["words"]) == ("overall", "all words", 18)


# -- graphs -----------------------------------------------------------------------------------------------------------

GRAPH = ((2, 1, "det"), (3, 2, "nsubj"), (6, 2, "nsubj"), (0, 3, "root"), (6, 4, "punct"), (3, 6, "conj"))
FOUND = ((2, 1, "det"), (3, 2, "nsubj"), (3, 2, "obj"), (0, 3, "root"), (3, 4, "punct"), (0, 6, "root"), (4, 6, "x"))


def sdp(path, *edges, words=WORDS):
    write_sdp((Document((Sentence(words, tags=words, edges=each),), f"d{k}") for k, each in enumerate(edges)), path)
    return path


def shares(right, found, gold):
    """Precision, recall and F1."""
    return [100 * part / whole for part, whole in ((right, found), (right, gold), (2 * right, found + gold))]


@pytest.fixture
def graph_files(tmp_path):
    long = Sentence(LONG, edges=((0, 1, "root"),))
    pairs = (("graphs.conllu", GRAPH), ("found.conllu", FOUND))
    return [written(tmp_path / name, Sentence(WORDS, edges=edges), long) for name, edges in pairs]


def test_graphs_by_hand(graph_files):
    # labelled: det, nsubj of slept, root of slept and of so; unlabelled the same: 3 -> 2 counts once, with either label
    rows = rows_of(*graph_files, structure="graph").T
    assert rows["all edges"].tolist() == approx(7, 8, *shares(4, 7, 7), *shares(4, 8, 7))
    assert rows["without root edges"].tolist() == approx(5, 5, *shares(2, 4, 5), *shares(2, 5, 5))
    without = rows["without punctuation"].tolist()
    assert without == approx(6, 6, *shares(4, 5, 6), *shares(4, 6, 6))  # nor comma -> ran, labelled x


def test_graphs_by_relation_and_by_length(graph_files):
    rows = rows_of(*graph_files, structure="graph", by="relation")
    assert rows.index[:5].tolist() == ["conj", "det", "nsubj", "obj", "root"]
    # gold, found; precision, recall and F1 without and with labels
    assert rows.loc["nsubj"].tolist() == approx(2, 1, NAN, 50, NAN, *shares(1, 1, 2))
    assert rows.loc["conj"].tolist() == approx(1, 0, NAN, 0, NAN, NAN, 0, 0)
    assert rows.loc["obj"].tolist() == approx(0, 1, NAN, NAN, NAN, 0, NAN, 0)
    rows = rows_of(*graph_files, structure="graph", by="length")
    assert rows.loc["11 to 20 words"].tolist() == [1, 1, *[100] * 6]
    assert rows.loc["1 to 10 words", ["gold", "found"]].tolist() == [5, 5]


def test_a_relation_is_found_with_any_label(tmp_path):
    gold = written(tmp_path / "gold", Sentence(WORDS, edges=((2, 1, "det"), (3, 2, "det"), (3, 6, "x"))))
    other = written(tmp_path / "other", Sentence(WORDS, edges=((2, 1, "x"),)))
    row = rows_of(gold, other, structure="graph", by="relation").loc["det"]
    assert (row["unlabelled_recall"], row["labelled_recall"]) == (50, 0)


def test_punctuation_of_graphs_by_the_relations_of_the_gold_trees(tmp_path):
    names = ("det", "nsubj", "root", "dep", "advmod", "punct", "dep")
    gold = written(tmp_path / "gold", Sentence(WORDS, GOLD.heads, names, edges=GRAPH))
    found = written(tmp_path / "found", Sentence(WORDS, edges=FOUND))
    row = rows_of(gold, found, structure="graph", punctuation="relation").loc["without punctuation"]
    assert (row["gold"], row["found"]) == (3, 5)  # without the edges from and to `ran`


def test_tops_of_sdp_are_edges_from_the_root_whatever_the_other_format_calls_them(tmp_path):
    found = [edge for edge in FOUND if edge[2] != "obj"]  # SDP holds one label a pair
    paths = [
        sdp(tmp_path / name, [(head, word, label if head else "top") for head, word, label in each])
        for name, each in (("gold.sdp", GRAPH), ("found.sdp", found))
    ]
    rows = rows_of(*paths)
    assert rows.equals(rows_of(paths[0], written(tmp_path / "found.conllu", Sentence(WORDS, edges=tuple(found)))))
    assert rows.loc["all edges", ["gold", "found", "labelled_recall"]].tolist() == [6, 6, 50]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_files_that_do_not_belong_together_or_lack_what_is_compared(tmp_path, files, graph_files, caplog):
    gold, _ = files
    graphs, found = graph_files
    holds_graphs = sdp(tmp_path / "gold.sdp", ((0, 1, "top"),))
    bare = written(tmp_path / "bare.conllu", Sentence(WORDS))
    one = written(tmp_path / "one.conllu", OTHER)
    other_word = written(tmp_path / "word.conllu", Sentence(("a", *WORDS[1:]), OTHER.heads))
    shorter = written(tmp_path / "end.conllu", Sentence(WORDS[:2], (0, 1)))
    alone = written(tmp_path / "alone.conllu", Sentence(WORDS, GOLD.heads))
    only_words = written(tmp_path / "words.conllu", Sentence(WORDS), Sentence(LONG))
    of_graphs = {"structure": "graph"}
    for paths, options, message in (
        ((gold, one), {}, "gold.conllu has more sentences than"),
        (
            (gold, other_word),
            {},
            r"word\.conllu:1: expected the words of sentence 1 of .*'the dog .*found 'a dog",
        ),
        ((gold, shorter), {}, "found 'the dog'"),
        ((gold, bare), {}, r"bare\.conllu:1: expected a tree"),
        ((alone, alone), {}, "punctuation: form"),
        ((graphs, gold), of_graphs, r"expected graphs in DEPS \(column 9\), found trees alone"),
        ((graphs, only_words), of_graphs, r"words\.conllu: expected graphs in DEPS \(column 9\), found none"),
        ((graphs, found), {}, "compared by structure: graph"),
        ((holds_graphs, graphs), {}, r"graphs\.conllu has more sentences than"),
        ((graphs, holds_graphs), {"structure": "tree"}, r"gold\.sdp is SDP, which holds graphs"),
        ((graphs, found), of_graphs | {"punctuation": "relation"}, "punctuation: form"),
    ):
        with pytest.raises(UserError, match=message):
            rows_of(*paths, **options)
    some = written(tmp_path / "some.conllu", Sentence(WORDS, edges=FOUND), Sentence(LONG))
    assert rows_of(graphs, some, structure="graph").loc["all edges", "found"] == 7
    assert "some.conllu: 1 of 2 sentences have no edge in DEPS" in caplog.text
