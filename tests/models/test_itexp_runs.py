"""Iterative expansion by the command line: what is written and controlled, and treebanks that it cannot take."""

import json
import math

import pytest
import yaml

from depgen.cli import main
from depgen.evaluation.loading import load_run
from depgen.trees.binarization import levels_of
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree
from tests.contract.runs import fit
from tests.fixtures.kinds import ADAM, BOTH_SIDES, EXPERIMENTS, GOLD, experiment, named

HOME = ("data", "cache", "runs")
SMALL_TEXT = ("generate", "--json", "--device", "cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of generated stories."""
    folder = tmp_path_factory.mktemp("levels")
    with pytest.MonkeyPatch.context() as patch:
        for root in HOME:
            patch.setenv(f"DEPGEN_{root.upper()}", str(folder / root))
        longer = ("--trainer.max_epochs", "40", "--model.init_args.optimizer.init_args.lr", "0.02")
        yield fit(folder, EXPERIMENTS["itexp"], *longer)  # until texts end by themselves


@pytest.fixture
def written(run, capsys):
    """Texts by the command line with options, each with its tree, and what was said."""

    def of(*options, number=40):
        assert main([*SMALL_TEXT, "--run", str(run), "-n", str(number), *options]) == 0
        said = capsys.readouterr()
        return [json.loads(line) for line in said.out.splitlines()], said.err

    return of


@pytest.fixture
def refused(run, capsys):
    """The message that options end with."""

    def of(*options):
        assert main([*SMALL_TEXT, "--run", str(run), *options]) == 2
        return capsys.readouterr().err

    return of


def relations_of(texts):
    return [each["structure"]["relations"] for each in texts]


# -- texts ------------------------------------------------------------------------------------------------------------


def test_texts_have_the_trees_that_python_gives_them(run, written):
    rows, _ = written("--max_new_tokens", "20", "--seed", "3")
    system = load_run(str(run), device="cpu")
    again = system.generate(number=40, max_new_tokens=20, seed=3)
    assert [(row["text"], row["log_prob"]) for row in rows] == [(each.text, each.log_prob) for each in again]
    for row in rows:
        structure = row["structure"]
        check_tree(structure["heads"], "text", single_root=True)
        ids = [system.tokenizer.pieces(word)[0] for word in row["text"].split()]
        ((scores,),) = system.model.sentence_log_probs([[ids]], vocabulary=system.tokenizer, structure=[[structure]])
        assert math.isclose(scores.sum(), row["log_prob"], abs_tol=1e-3)
        assert not {"<unk>", "<eos>"} & {*row["text"].split()}
        assert not {"[ROOT]", *(f"[{name}]" for name in structure["relations"])} & {*row["text"].split()}


def test_limits_cut_texts_and_the_number_cut_is_said(written):
    rows, said = written("--max_new_tokens", "3", "--temperature", "3")
    assert max(len(row["text"].split()) for row in rows) == 3
    assert " of 40 texts were cut at 3 tokens" in said
    count = int(said.partition(" of 40 texts were cut")[0].split()[-1])
    assert 0 < count < 40
    rows, said = written("--levels", "2", "--temperature", "3")
    assert "of 40 texts were cut at 40 tokens or 2 levels" in said
    assert max(len(row["text"].split()) for row in rows) <= 3


def test_the_trace_has_every_level(written):
    rows, _ = written("--trace")
    for row in rows:
        levels = row["structure"]["levels"]
        assert levels[0] == "[ROOT]"
        last = levels[-1].split()
        assert len(last) == len(row["text"].split())
        words = [(one, other) for one, other in zip(last, row["text"].split(), strict=True) if one[0] != "["]
        assert all(one == other for one, other in words)
        lengths = [len(level.split()) for level in levels]
        steps = levels_of(row["text"].split(), row["structure"]["heads"], row["structure"]["relations"])
        assert [" ".join(step.inputs) for step in steps] == levels
        assert lengths == sorted(lengths)
    assert max(len(row["structure"]["levels"]) for row in rows) > 2
    (row, *_), _ = written()
    assert "levels" not in row["structure"]


def test_greedy_and_cold_texts_are_the_same_and_all_alike(written):
    greedy, _ = written("--greedy", number=3)
    cold, _ = written("--temperature", "1e-9", number=3)
    assert [each["text"] for each in greedy] == [each["text"] for each in cold]
    assert len({each["text"] for each in greedy}) == 1


# -- control ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def relation(written):
    """A relation that some texts have and some have not."""
    rows, _ = written()
    names = {name for row in relations_of(rows) for name in row} - {"root"}
    return next(name for name in sorted(names) if 2 < sum(name in row for row in relations_of(rows)) < 38)


def test_relations_are_required_and_forbidden(written, relation):
    rows, said = written("--require", f'["{relation}"]')
    assert all(relation in row for row in relations_of(rows))
    assert "lack" not in said
    rows, _ = written("--forbid", f'["{relation}"]')
    assert not any(relation in row for row in relations_of(rows))
    rows, _ = written("--boost", json.dumps({relation: 0}))
    assert not any(relation in row for row in relations_of(rows))


@pytest.mark.parametrize("before", [(), ("--boost_before_truncation",)])
def test_factors_make_relations_frequent(written, relation, before):
    def frequency(*options):
        rows = relations_of(written(*options, *before)[0])
        return sum(row.count(relation) for row in rows) / sum(map(len, rows))

    plain, one = frequency(), frequency("--boost", json.dumps({relation: 1}))
    assert plain == one
    assert frequency("--boost", json.dumps({relation: 50})) > 1.5 * plain
    assert frequency("--boost", json.dumps({relation: 0.001})) < plain


def test_words_and_lengths_are_kept(run, written):
    system = load_run(str(run), device="cpu")
    words = [each for each in system.tokenizer.types if each.isalpha()][:2]
    rows, said = written("--words", json.dumps(words))
    lacking = sum(not {*words} <= {*row["text"].split()} for row in rows)
    assert lacking <= 2  # those at the limit of tokens
    assert (f"{lacking} of 40 texts lack" in said) == (lacking > 0)
    rows, said = written("--min_tokens", "7")
    assert all(len(row["text"].split()) >= 7 for row in rows)
    assert "lack" not in said


def test_texts_that_lack_what_they_are_to_have_are_counted(written, relation):
    _, said = written("--require", f'["{relation}"]', "--levels", "1")
    assert "40 of 40 texts lack" in said
    _, said = written("--min_tokens", "5", "--levels", "2")
    assert "of 40 texts lack" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--require", '["amodd"]'), "require: "),
        (("--forbid", '["amodd"]'), "forbid: "),
        (("--boost", '{"amodd": 2}'), "boost: "),
        (("--boost", '{"amod": -1}'), "boost of amod: "),
        (("--require", '["obj"]', "--forbid", '["obj"]'), "obj: required and forbidden"),
        (("--temperature", "0"), "temperature"),
        (("--words", '["Zyxwv"]'), "'Zyxwv'"),
        (("--min_tokens", "9", "--max_new_tokens", "8"), "min_tokens: "),
        (("--levels", "0"), "levels"),
    ],
)
def test_options_that_nothing_can_do_end_in_one_line(refused, options, message):
    said = refused(*options)
    assert message in said
    assert "Traceback" not in said


def test_a_relation_that_is_misspelt_gets_a_suggestion(refused, relation):
    said = refused("--forbid", json.dumps([relation + "x"]))
    assert f"Did you mean '{relation}'" in said


def test_prompts_and_plain_scores_are_refused(run, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("a text\n")
    for verb in (["score", str(text)], ["generate", "--prompts", str(text)]):
        assert main([*verb, "--run", str(run), "--device", "cpu"]) == 2
        assert "ITEXP" in capsys.readouterr().err


# -- skeletons --------------------------------------------------------------------------------------------------------


def conllu(heads, relations, words=None):
    words = words or ["_"] * len(heads)
    return (
        "".join(
            f"{number}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n"
            for number, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True), start=1)
        )
        + "\n"
    )


def test_given_trees_are_filled(run, written, tmp_path):
    (first, second, *_), _ = written()
    trees = [(each["structure"]["heads"], each["structure"]["relations"]) for each in (first, second)]
    path = tmp_path / "trees.conllu"
    given = first["text"].split()
    path.write_text(conllu(*trees[0], [given[0], *["_"] * (len(given) - 1)]) + conllu(*trees[1]))
    rows, said = written("--skeletons", str(path), number=6)
    for number, row in enumerate(rows):
        assert (row["structure"]["heads"], row["structure"]["relations"]) == tuple(map(list, trees[number % 2]))
    assert all(row["text"].split()[0] == given[0] for row in rows[::2])
    assert len({row["text"] for row in rows}) > 2
    assert "lack" not in said


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", (), "trees.conllu: the file is empty"),
        ("# text = nothing\n\n", (), "trees.conllu: "),
        (conllu([0, 1], ["root", "amodd"]), (), "'amodd'"),
        (conllu([2, 1], ["x", "y"]), (), "trees.conllu:1"),
        (conllu([0], ["root"], ["Zyxwv"]), (), "'Zyxwv'"),
        (conllu([0], ["root"]), ("--require", '["obj"]'), "skeletons fix the trees"),
    ],
)
def test_skeletons_that_cannot_be_filled_end_in_one_line(refused, tmp_path, content, options, message):
    path = tmp_path / "trees.conllu"
    path.write_text(content)
    said = refused("--skeletons", str(path), *options)
    assert message in said
    assert "Traceback" not in said


def test_skeletons_beyond_the_limits_are_refused(written, refused, tmp_path):
    rows, _ = written()
    longest = max(rows, key=lambda row: len(row["text"].split()))["structure"]
    path = tmp_path / "trees.conllu"
    path.write_text(conllu(longest["heads"], longest["relations"]))
    for options in (("--max_new_tokens", "2"), ("--levels", "1")):
        assert "sentence 1 has" in refused("--skeletons", str(path), *options)
    assert "found none at" in refused("--skeletons", str(tmp_path / "nowhere.conllu"))


# -- treebanks --------------------------------------------------------------------------------------------------------

PLAIN = [
    Sentence(("the", "dog", "barks", "."), (2, 3, 0, 3), ("det", "nsubj", "root", "punct")),
    Sentence(("Stop",), (0,), ("root",)),
    Sentence(("a", "cat", "sees", "the", "dog"), (2, 3, 0, 5, 3), ("det", "nsubj", "root", "det", "obj")),
]
CROSSING = Sentence(("a", "dog", "barks", "loudly"), (3, 4, 0, 3), ("det", "nsubj", "root", "advmod"))
TWO_ROOTS = Sentence(("the", "dog", "barks"), (0, 1, 0), ("root", "det", "root"))


def trained(folder, monkeypatch, sentences, *options, annotator=GOLD, vocabulary=None, length=320):
    """The exit code of training on a treebank."""
    for root in HOME:
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(folder / root))
    (folder / "data" / "bank").mkdir(parents=True)
    files = {}
    for split in ("train", "valid", "test"):
        path = folder / "data" / "bank" / f"{split}.conllu"
        files[split] = [path.name]
        if isinstance(sentences, str):
            path.write_text(sentences)
        else:
            write_conllu([Document(tuple(sentences), "1")], path)
    bank = named("data.treebank.ConlluTreebank", folder="bank", documents_by="sentence", **files)
    data = named(
        "data.levels.LevelData", corpus=bank, annotator=annotator, tokens_per_batch=400,
        vocabulary=vocabulary or named("data.levels.ExpansionVocabulary"),
    )  # fmt: skip
    model = named("models.itexp.ITEXP", backbone=BOTH_SIDES, max_length=length, optimizer=ADAM)
    config = folder / "experiment.yaml"
    config.write_text(yaml.safe_dump(experiment(model, data, 1)))
    return main(["fit", "--config", str(config), *options])


def test_one_word_and_irregular_trees_are_trained_on_and_counted(tmp_path, monkeypatch, caplog):
    with caplog.at_level("INFO"):
        assert trained(tmp_path, monkeypatch, [*PLAIN, CROSSING, TWO_ROOTS]) == 0
    said = [each.getMessage() for each in caplog.records if "crossing arcs" in each.getMessage()]
    assert any("train: 1 of 5 trees have crossing arcs and 1 several roots" in each for each in said)
    assert any("sentence 4; they are made projective" in each for each in said)


def test_irregular_trees_are_left_out_by_an_argument(tmp_path, monkeypatch, caplog):
    vocabulary = named("data.levels.ExpansionVocabulary", irregular="leave_out")
    with caplog.at_level("INFO"):
        assert trained(tmp_path, monkeypatch, [*PLAIN, CROSSING], vocabulary=vocabulary) == 0
    assert any("they are left out" in each.getMessage() for each in caplog.records)


LONG = Sentence(("w",) * 300, tuple(range(300)), ("root", *["x"] * 299))


def test_three_hundred_words_are_trained_on(tmp_path, monkeypatch):
    assert trained(tmp_path, monkeypatch, [*PLAIN, LONG]) == 0


CYCLE = conllu([2, 1], ["x", "y"], ["a", "b"])


@pytest.mark.parametrize(
    ("sentences", "changes", "message"),
    [
        ([*PLAIN, LONG], {"length": 299}, "at most 299 tokens"),
        ([*PLAIN, LONG], {"options": ("--data.init_args.tokens_per_batch", "200")}, "tokens_per_batch to at least 300"),
        (CYCLE, {}, "train.conllu:1"),
        (PLAIN, {"vocabulary": named("data.vocabulary.WordVocabulary")}, "table 'expansions'"),
        (PLAIN, {"annotator": None}, "data.init_args.annotator"),
        (PLAIN, {"options": ("--model.init_args.backbone.init_args.causal", "true")}, "causal to false"),
        (PLAIN, {"options": ("--data.init_args.vocabulary.init_args.binarization", "right")}, "binarization"),
        (PLAIN, {"options": ("--data.init_args.levels_per_sentence", "2")}, "levels_per_sentence"),
        (PLAIN, {"options": ("--model.init_args.attention", "causal")}, "attention"),
        ([CROSSING], {"vocabulary": named("data.levels.ExpansionVocabulary", irregular="leave_out")}, "to lift"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_ends_in_one_line(tmp_path, monkeypatch, capsys, sentences, changes, message):
    options = changes.pop("options", ())
    assert trained(tmp_path, monkeypatch, sentences, *options, **changes) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
