"""Iterative expansion by the command line: what is written and controlled, and treebanks that it cannot take."""

import json
import math

import pytest
import torch
import yaml

from depgen.annotation.annotator import parser_folder
from depgen.annotation.supar import KINDS, BiaffineSizes, ParserVocabulary, TreeParser
from depgen.cli import main
from depgen.evaluation.system import load
from depgen.trees.binarization import levels_of
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence, check_tree
from tests.contract.runs import fit
from tests.fixtures.kinds import ADAM, BOTH_SIDES, EXPERIMENTS, GOLD, experiment, named

pytestmark = pytest.mark.slow

HOME = ("data", "cache", "runs")
TREE = ("heads", "relations", "levels")

SIZES = {
    "word_embedding": 4, "character_embedding": 4, "character_hidden": 4, "character_output": 4, "lstm_hidden": 8,
    "lstm_layers": 1, "arc_mlp": 8, "relation_mlp": 4, "dropout": 0.0,
}  # fmt: skip
"""Of a SuPar parser."""


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
    """Texts by the command line with options, each with its tree."""

    def of(*options, number=40):
        common = ["--json", "--device", "cpu", "--run", str(run), "--number", str(number)]
        assert main(["generate", *common, *options]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return of


# -- texts ------------------------------------------------------------------------------------------------------------


def test_texts_have_the_trees_that_python_gives_them(run, written, tmp_path, capsys):
    rows = written("--max_new_tokens", "20", "--seed", "3", "--trace")
    system = load(str(run), device="cpu")
    again = system.generate(number=40, max_new_tokens=20, seed=3)
    assert [(row["text"], row["log_prob"]) for row in rows] == [*zip(again["text"], again["log_prob"], strict=True)]
    for row in rows:
        words, (heads, relations, levels) = row["text"].split(), map(row["structure"].get, TREE)
        check_tree(heads, "text", single_root=True)
        assert not {"<unk>", "<eos>", "[ROOT]", *(f"[{name}]" for name in relations)} & {*words}
        assert [" ".join(step.inputs) for step in levels_of(words, heads, relations)] == levels
    assert max(len(row["structure"]["levels"]) for row in rows) > 2
    path = tmp_path / "gold.conllu"
    path.write_text("".join(conllu(*map(row["structure"].get, TREE[:2]), row["text"].split()) for row in rows))
    assert main(["score", str(path), "--run", str(run), "--device", "cpu", "--json", "--trees", "gold"]) == 0
    scores = [json.loads(line)["log_prob"] for line in capsys.readouterr().out.splitlines()]
    assert scores == pytest.approx([row["log_prob"] for row in rows], abs=1e-3)


def test_relations_are_forbidden_and_given_trees_are_filled(written, tmp_path):
    (first, second, *_) = rows = written()
    relation = next(name for row in rows for name in row["structure"]["relations"] if name != "root")
    for options in (("--forbid", f'["{relation}"]'), ("--boost", json.dumps({relation: 0}))):
        assert not any(relation in row["structure"]["relations"] for row in written(*options))
    trees = [tuple(map(each["structure"].get, TREE[:2])) for each in (first, second)]
    path, word = tmp_path / "trees.conllu", first["text"].split()[0]
    path.write_text(conllu(*trees[0], [word, *["_"] * (len(trees[0][0]) - 1)]) + conllu(*trees[1]))
    filled = written("--skeletons", str(path), number=6)
    assert [tuple(map(row["structure"].get, TREE[:2])) for row in filled] == trees * 3
    assert {row["text"].split()[0] for row in filled[::2]} == {word}
    assert len({row["text"] for row in filled}) > 2


def conllu(heads, relations, words=None):
    words = words or ["_"] * len(heads)
    return (
        "".join(
            f"{number}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n"
            for number, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True), start=1)
        )
        + "\n"
    )


# -- bounds over trees ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parser(run):
    """An untrained SuPar parser with the relations of the stories, and one of another kind."""
    torch.manual_seed(0)
    labels = [*load(str(run), device="cpu").vocabulary.tables["placeholders"][1:], "root", "unheard"]
    network = TreeParser(ParserVocabulary({}, {}, labels, 8), BiaffineSizes(**SIZES))
    for name, kind in (("stories", KINDS["tree"]), ("other", "spaCy")):
        folder = parser_folder(name)
        folder.mkdir(parents=True)
        network.save(folder)
        (folder / "parser.json").write_text(json.dumps({"kind": kind, "scheme": "Stories, SuPar biaffine"}))
    return "stories"


@pytest.fixture
def scored(run, parser, tmp_path, capsys):
    """Rows of a text's bounds, what was said, and the exit code."""
    text = tmp_path / "text.txt"
    text.write_text("she was happy\nhe ran .\n\nshe\n")

    def of(*options):
        code = main(["score", str(text), "--run", str(run), "--device", "cpu", "--json", *options])
        said = capsys.readouterr()
        return [json.loads(line) for line in said.out.splitlines()], said.err, code

    return of


def test_texts_have_bounds_over_trees(run, scored, parser):
    rows, _, _ = scored("--trees", "sampled", "--parser", parser, "--number_of_trees", "30")
    names = ["document", "sentence", "place", "words", "tokens", "unknown", "log_prob", "surprisal", "perplexity_bound",
             "token_perplexity_bound", "likelihood", "trees", "number_of_trees", "parser", "unit", "distinct_trees",
             "impossible_trees", "log_prob_1", "log_prob_10", "log_prob_30", "effective_1", "effective_10",
             "effective_30", "text"]  # fmt: skip
    assert [list(row) for row in rows] == [names] * 3
    assert [(row["document"], row["sentence"], row["words"]) for row in rows] == [(1, 1, 3), (1, 2, 3), (2, 1, 1)]
    assert {(row["likelihood"], row["trees"], row["parser"]) for row in rows} == {
        ("bound", "sampled", "Stories, SuPar biaffine")
    }
    assert rows[0]["impossible_trees"] > 0
    last = rows[2]  # a word has one tree
    assert last["effective_30"] == pytest.approx(30)
    system = load(str(run), device="cpu")
    ids = system.vocabulary.pieces("she")
    ((single,),) = system.model.sentence_log_probs([[ids]], vocabulary=system.vocabulary, structure=[[([0], ["root"])]])
    assert last["log_prob"] == last["log_prob_1"] == pytest.approx(single.sum(), abs=1e-5)
    python = system.score_over_trees(["she was happy\nhe ran .", "she"], number_of_trees=30, parser=parser)
    assert python["log_prob"].tolist() == pytest.approx(
        [-math.inf if row["log_prob"] is None else row["log_prob"] for row in rows], abs=1e-6
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "`depgen score --trees sampled`"),
        (("--trees", "sampled", "--parser", "stories", "--by", "word"), "of sentences, not of their words"),
        (
            ("--trees", "sampled", "--parser", "stories", "--beam_size", "3"),
            "expected without trees",
        ),
        (("--trees", "gold", "--seed", "3"), "seed: expected with sampled trees"),
        (("--parser", "stories", "--by", "all"), "parser: expected with sampled trees"),
        (("--trees", "sampled", "--parser", "other"), "expected a dependency parser of SuPar"),
        (("--trees", "sampled", "--parser", "nowhere"), "No parser 'nowhere'"),
    ],
)
def test_what_has_no_bound_ends_in_one_line(scored, options, message):
    _, said, code = scored(*options)
    assert code == 2
    assert message in said
    assert "Traceback" not in said


# -- treebanks --------------------------------------------------------------------------------------------------------

PLAIN = Sentence(("the", "dog", "barks", "."), (2, 3, 0, 3), ("det", "nsubj", "root", "punct"))
LONG = Sentence(("w",) * 300, tuple(range(300)), ("root", *["x"] * 299))


@pytest.mark.parametrize(
    ("sentences", "changes", "message"),
    [
        ([PLAIN, LONG], {"length": 299}, "at most 299 tokens"),
        ([PLAIN, LONG], {"tokens_per_batch": 200}, "tokens_per_batch to at least 300"),
        ([PLAIN], {"vocabulary": named("data.vocabulary.WordVocabulary")}, "table 'expansions'"),
        ([PLAIN], {"annotator": None}, "data.init_args.annotator"),
    ],
)
def test_what_cannot_be_trained_on_ends_in_one_line(tmp_path, monkeypatch, capsys, sentences, changes, message):
    for root in HOME:
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    (tmp_path / "data" / "bank").mkdir(parents=True)
    files = {split: [f"{split}.conllu"] for split in ("train", "valid", "test")}
    for (name,) in files.values():
        write_conllu([Document(tuple(sentences), "1")], tmp_path / "data" / "bank" / name)
    conllu_format = named("data.formats.Conllu", documents_by="sentence")
    bank = named("data.corpora.ConlluTreebank", folder="bank", format=conllu_format, **files)
    model = named("models.itexp.ITEXP", backbone=BOTH_SIDES, max_length=changes.pop("length", 320), optimizer=ADAM)
    settings = {"annotator": GOLD, "tokens_per_batch": 400, "vocabulary": named("data.levels.ExpansionVocabulary")}
    config = tmp_path / "experiment.yaml"
    data = named("data.levels.LevelData", corpus=bank, **{**settings, **changes})
    config.write_text(yaml.safe_dump(experiment(model, data, 1)))
    assert main(["fit", "--config", str(config)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
