"""Iterative expansion by the command line: what is written and controlled, and treebanks that it cannot take."""

import copy
import json
import math

import pytest
import torch
import yaml

from depgen.annotation.parser_folders import parser_folder
from depgen.annotation.supar_network import BiaffineSizes, ParserVocabulary
from depgen.annotation.supar_training import BiaffineParser, SuparTraining
from depgen.cli import main
from depgen.evaluation.system import load
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.binarization import levels_of
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree
from tests.contract.runs import fit
from tests.fixtures.kinds import ADAM, BOTH_SIDES, EXPERIMENTS, GOLD, SIZES, experiment, named

pytestmark = pytest.mark.slow

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


def test_two_processes_have_the_weights_of_one(tmp_path, monkeypatch):
    """From the first step on, which the layers made for the data's expansions take part in. By SGD, for rounding."""
    content = copy.deepcopy(EXPERIMENTS["itexp"])
    content["model"]["init_args"]["optimizer"] = named("torch.optim.SGD", lr=0.1)
    content["model"]["init_args"]["backbone"]["init_args"]["dropout"] = 0.0
    weights = []
    for devices in (1, 2):
        folder = tmp_path / f"on{devices}"
        folder.mkdir()
        for root in HOME:
            monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(folder / root))
        spread = ["--trainer.strategy=ddp_fork", "--trainer.devices=2"] if devices == 2 else []
        run = fit(folder, content, *spread)
        weights.append(load_checkpoint(run / "checkpoints" / "resume.ckpt")["state_dict"])
    alone, together = weights
    assert {"expansion_output.weight", "expansion_embedding.weight"} < set(alone)
    for name, value in alone.items():
        torch.testing.assert_close(together[name], value, rtol=0, atol=1e-5, msg=name)


@pytest.fixture
def written(run, capsys):
    """Texts by the command line with options, each with its tree, and what was said."""

    def of(*options, number=40):
        assert main([*SMALL_TEXT, "--run", str(run), "-n", str(number), *options]) == 0
        said = capsys.readouterr()
        return [json.loads(line) for line in said.out.splitlines()], said.err

    return of


def relations_of(texts):
    return [each["structure"]["relations"] for each in texts]


# -- texts ------------------------------------------------------------------------------------------------------------


def test_texts_have_the_trees_that_python_gives_them(run, written):
    rows, _ = written("--max_new_tokens", "20", "--seed", "3")
    system = load(str(run), device="cpu")
    again = system.generate(number=40, max_new_tokens=20, seed=3)
    assert [(row["text"], row["log_prob"]) for row in rows] == [(each.text, each.log_prob) for each in again]
    texts = [[[system.vocabulary.pieces(word)[0] for word in row["text"].split()]] for row in rows]
    trees = [[row["structure"]] for row in rows]
    found = system.model.sentence_log_probs(texts, vocabulary=system.vocabulary, structure=trees)
    for row, (scores,) in zip(rows, found, strict=True):
        structure = row["structure"]
        check_tree(structure["heads"], "text", single_root=True)
        assert math.isclose(scores.sum(), row["log_prob"], abs_tol=1e-3)
        assert not {"<unk>", "<eos>"} & {*row["text"].split()}
        assert not {"[ROOT]", *(f"[{name}]" for name in structure["relations"])} & {*row["text"].split()}


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


# -- control ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def relation(written):
    """A relation that some texts have and some have not."""
    rows, _ = written()
    names = {name for row in relations_of(rows) for name in row} - {"root"}
    return next(name for name in sorted(names) if 2 < sum(name in row for row in relations_of(rows)) < 38)


def test_relations_are_forbidden(written, relation):
    rows, _ = written("--forbid", f'["{relation}"]')
    assert not any(relation in row for row in relations_of(rows))
    rows, _ = written("--boost", json.dumps({relation: 0}))
    assert not any(relation in row for row in relations_of(rows))


def test_plain_scores_are_refused(run, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("a text\n")
    assert main(["score", str(text), "--run", str(run), "--device", "cpu"]) == 2
    assert "`depgen score --trees sampled`" in capsys.readouterr().err


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
    network = BiaffineParser(ParserVocabulary({}, {}, labels, 8), BiaffineSizes(**SIZES))
    for name, kind in (("stories", SuparTraining.kind), ("other", "spaCy")):
        folder = parser_folder(name)
        folder.mkdir(parents=True)
        network.save(folder, {})
        (folder / "parser.json").write_text(json.dumps({"kind": kind, "scheme": "Stories, SuPar biaffine"}))
    return "stories"


@pytest.fixture
def scored(run, parser, tmp_path, capsys):
    """Rows of a text's bounds, what was said, and the exit code."""
    text = tmp_path / "text.txt"
    text.write_text("she was happy\nhe ran .\n\nshe\n")

    def of(*options, parser=parser):
        code = main(["score", str(text), "--run", str(run), "--device", "cpu", "--json", "--parser", parser, *options])
        said = capsys.readouterr()
        return [json.loads(line) for line in said.out.splitlines()], said.err, code

    return of


def test_texts_have_bounds_over_trees(run, scored, parser):
    rows, said, _ = scored("--trees", "sampled", "--number_of_trees", "30")
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
    assert "1 of its" in said
    assert "probability 0: unheard" in said
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


def test_conllu_is_scored_with_its_trees(run, written, tmp_path, capsys):
    rows, _ = written("--max_new_tokens", "20", number=5)
    path = tmp_path / "gold.conllu"
    trees = [(row["structure"]["heads"], row["structure"]["relations"], row["text"].split()) for row in rows]
    path.write_text("".join(conllu(*tree) for tree in trees))
    assert main(["score", str(path), "--run", str(run), "--device", "cpu", "--json", "--trees", "gold"]) == 0
    found = [json.loads(line)["log_prob"] for line in capsys.readouterr().out.splitlines()]
    assert found == pytest.approx([row["log_prob"] for row in rows], abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--trees", "sampled", "--by", "word"), "of sentences, not of their words"),
        (("--trees", "sampled", "--beam_size", "3"), "beam_size: expected without trees"),
        (("--trees", "gold", "--seed", "3"), "parser, seed: expected with sampled trees"),
        (("--by", "all"), "parser: expected with sampled trees"),
    ],
)
def test_what_has_no_bound_ends_in_one_line(scored, options, message):
    _, said, code = scored(*options)
    assert code == 2
    assert message in said
    assert "Traceback" not in said


def test_parsers_without_scores_of_arcs_are_refused(scored):
    for name, message in (("other", "expected a dependency parser of SuPar"), ("nowhere", "No parser 'nowhere'")):
        _, said, code = scored("--trees", "sampled", parser=name)
        assert code == 2
        assert message in said


# -- skeletons --------------------------------------------------------------------------------------------------------


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
    assert "get no text" not in said
    assert "1 of 2 trees get no text" in written("--skeletons", str(path), number=1)[1]


# -- treebanks --------------------------------------------------------------------------------------------------------

PLAIN = [
    Sentence(("the", "dog", "barks", "."), (2, 3, 0, 3), ("det", "nsubj", "root", "punct")),
    Sentence(("Stop",), (0,), ("root",)),
    Sentence(("a", "cat", "sees", "the", "dog"), (2, 3, 0, 5, 3), ("det", "nsubj", "root", "det", "obj")),
]
LONG = Sentence(("w",) * 300, tuple(range(300)), ("root", *["x"] * 299))


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
    bank = named(
        "data.corpora.ConlluTreebank",
        folder="bank",
        format=named("data.formats.Conllu", documents_by="sentence"),
        **files,
    )
    data = named(
        "data.levels.LevelData", corpus=bank, annotator=annotator, tokens_per_batch=400,
        vocabulary=vocabulary or named("data.levels.ExpansionVocabulary"),
    )  # fmt: skip
    model = named("models.itexp.ITEXP", backbone=BOTH_SIDES, max_length=length, optimizer=ADAM)
    config = folder / "experiment.yaml"
    config.write_text(yaml.safe_dump(experiment(model, data, 1)))
    return main(["fit", "--config", str(config), *options])


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
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_ends_in_one_line(tmp_path, monkeypatch, capsys, sentences, changes, message):
    options = changes.pop("options", ())
    assert trained(tmp_path, monkeypatch, sentences, *options, **changes) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
