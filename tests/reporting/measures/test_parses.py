"""Figures of trees and heads in a table: over all words, with their sentences; floors by rule; treebanks from YAML."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

from depgen.annotation.controls import RandomTree
from depgen.data.generated import GeneratedLanguage
from depgen.errors import UserError
from depgen.evaluation import trained
from depgen.evaluation.correlations import CorrelationOptions, correlations
from depgen.evaluation.parsing import network_of, predicted_heads
from depgen.evaluation.reading import Reading
from depgen.evaluation.trained import load_trained
from depgen.models.udgn import UDGN
from depgen.reporting.jobs import Job
from depgen.reporting.measures.parses import WORDS, Correlations, measure_floor, measure_trees, treebank_of_table
from depgen.reporting.reproduce import make
from depgen.reporting.results import read_result
from depgen.reporting.table import load_definition
from tests.fixtures.kinds import named
from tests.invented_models import write_other_seed, write_udgn_run

STORIES = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])
TABLE = {
    "table": "trees",
    "caption": "Invented trees",
    "source": "an invented paper",
    "parsing": "parsing_stories",
    "measures": [
        "depgen.reporting.measures.parses.Trees",
        named("reporting.measures.parses.Correlations", treebank="correlations_stories"),
    ],
    "columns": [{"key": "uda_tree", "header": "UDA", "higher_better": True}],
    "rows": [
        {"name": "UDGN", "experiment": "udgn"},
        {"name": "next word", "floor": "next word"},
        {"name": "previous word", "floor": "previous word"},
        {"name": "random tree", "floor": "random tree"},
        {"name": "best guess", "floor": "best guess"},
    ],
}
TREEBANKS = {
    "parsing_stories": {"corpus": STORIES, "splits": ["train", "test"], "choose_on": ["valid"], "seeds": 5},
    "correlations_stories": {"corpus": STORIES},
}
JUDGE = "generated, train+test, 40 sentences"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        return write_udgn_run(folder / "runs", corpus=STORIES)


@pytest.fixture
def job(project):
    """Makes the job of a row of a table of trees."""

    def of(row, **changes):
        write(project, "tables/trees", TABLE | changes)
        definition = load_definition("trees")
        return Job(definition, definition.row(row), "small", 1)

    for name, content in TREEBANKS.items():
        write(project, name, content)
    return of


def write(project, name, content):
    (project / "experiments" / f"{name}.yaml").write_text(yaml.safe_dump(content))


@pytest.fixture(scope="module")
def sentences():
    corpus = GeneratedLanguage(train=6, valid=2, test=2, sentences=(5, 5))
    found = [each for split in ("train", "test") for document in corpus.documents(split) for each in document.sentences]
    assert len({len(each) for each in found}) > 3, "sentences of one length would not tell one mean from the other"
    return found


def correlated(job, run):
    return Correlations("correlations_stories").measure(SimpleNamespace(job=job, trained=SimpleNamespace(run=run)))


def right(gold, found):
    """Words with the right head; pairs that both have, a root paired with itself."""
    pairs = [{frozenset((word, head or word)) for word, head in enumerate(heads, start=1)} for heads in (gold, found)]
    return sum(a == b for a, b in zip(gold, found, strict=True)), len(pairs[0] & pairs[1])


def check_accuracies(found, decoding, heads, sentences):
    """Against counting; `heads` are drawn several times where chance draws them."""
    counts = np.mean(
        [[right(each.heads, own) for each, own in zip(sentences, drawn, strict=True)] for drawn in heads], 0
    )
    words = np.array([len(each) for each in sentences])
    assert found.items[WORDS].tolist() == words.tolist()
    for measure, correct in zip(("dda", "uda"), counts.T, strict=True):
        key = f"{measure}_{decoding}"
        assert found.metrics[key] == pytest.approx(100 * correct.sum() / words.sum())
        np.testing.assert_allclose(found.items[key], 100 * correct / words)
        assert found.settings[key] == JUDGE
    return counts.sum(0).tolist()


@pytest.mark.slow
def test_a_runs_accuracies_are_shares_of_all_words(run, job, sentences):
    trained = load_trained(run, device="cpu")
    found, words = measure_trees(job("UDGN"), [run]), [each.words for each in sentences]
    seen = [
        check_accuracies(found, how, [predicted_heads(trained.model, trained.vocabulary, words)[how]], sentences)
        for how in ("argmax", "tree")
    ]
    assert seen[0] != seen[1], "both decodings found the same, so that nothing tells them apart"
    unknown = [trained.vocabulary.pieces(word) == (trained.vocabulary.unk,) for each in words for word in each]
    assert found.metrics["unknown_words"] == pytest.approx(100 * np.mean(unknown))
    assert not found.not_computed, "the table has no column of a system's own rule"
    assert set(found.metrics) == {"unknown_words", *(f"{a}_{b}" for a in ("dda", "uda") for b in ("argmax", "tree"))}


@pytest.mark.slow
def test_a_system_without_a_rule_of_its_own_says_so_and_one_that_has_is_judged_by_it(run, job, sentences, monkeypatch):
    own = [{"key": "dda_own", "header": "own DDA", "higher_better": True}]
    found = measure_trees(job("UDGN", columns=own), [run])
    assert found.not_computed == {"dda_own": "the system has no own rule"}
    preceding = [list(range(len(each))) for each in sentences]
    every = lambda model, tokens, lengths: torch.arange(tokens.size(1)).expand_as(tokens)  # noqa: E731
    monkeypatch.setattr(UDGN, "own_heads", every, raising=False)
    found = measure_trees(job("UDGN", columns=own), [run])
    assert not found.not_computed
    check_accuracies(found, "own", [preceding], sentences)


def test_floors_follow_their_rules_whatever_the_decoding(job, sentences):
    following = [[*range(2, len(each) + 1), 0] for each in sentences]
    preceding = [list(range(len(each))) for each in sentences]
    drawn = [[tree.heads for tree in RandomTree(seed).annotate(sentences)] for seed in range(5)]
    for name, heads in (("next word", [following]), ("previous word", [preceding]), ("random tree", drawn)):
        found = measure_floor(job(name))
        for decoding in ("argmax", "tree", "own"):
            check_accuracies(found, decoding, heads, sentences)
        assert "unknown_words" not in found.metrics


def test_a_floor_that_is_none_is_refused(job):
    with pytest.raises(UserError, match=r"'best guess' is no floor; .*next word"):
        measure_floor(job("best guess"))


def test_every_relation_has_its_best_head_in_both_directions(run, job):
    found, trained = correlated(job("UDGN"), run), load_trained(run, device="cpu")
    corpus = GeneratedLanguage(train=6, valid=2, test=2, sentences=(5, 5))
    test = [sentence for document in corpus.documents("test") for sentence in document.sentences]
    relations = {relation for sentence in test for relation in sentence.relations} - {"root"}
    directions = ("child_to_parent", "parent_to_child")
    assert set(found.metrics) == {f"{direction}_{relation}" for direction in directions for relation in relations}
    for best in correlations(trained, CorrelationOptions(corpus)).rows.itertuples():
        key = f"{best.level}_{best.name}"
        assert found.metrics[key] == pytest.approx(best.correlation)
        assert found.settings[key] == f"generated, test, {len(test)} sentences"
    assert any(
        found.metrics[f"{directions[0]}_{each}"] != found.metrics[f"{directions[1]}_{each}"] for each in relations
    )


def test_a_relation_that_the_treebank_lacks_is_told_of(run, job):
    keys = ("child_to_parent_nsubj", "parent_to_child_prep", "perplexity")
    found = correlated(job("UDGN", columns=[{"key": key, "header": key, "higher_better": True} for key in keys]), run)
    assert found.not_computed == {"parent_to_child_prep": "generated has no such relation"}
    assert "child_to_parent_nsubj" in found.metrics


def test_a_treebank_is_read_in_the_form_of_the_runs_text(run, job, monkeypatch):
    monkeypatch.setattr(trained, "reading_of_run", lambda *_, **__: Reading("lower"))
    for found in (measure_trees(job("UDGN"), [run]), correlated(job("UDGN"), run)):
        judges = set(found.settings.values())
        assert [judge.partition(", ")[0] for judge in judges] == ["generated (brought into the form `lower`)"]


def test_a_treebank_is_what_its_yaml_says(job):
    options = treebank_of_table(job("UDGN"))
    assert ([*options.splits], [*options.choose_on]) == (["train", "test"], ["valid"])
    assert (options.corpus.name, options.seeds, options.max_words) == ("generated", 5, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"corpus": STORIES | {"class_path": "depgen.data.generated.Stories"}}, "Stories"),
        ({"corpus": STORIES, "splits": ["tests"]}, "tests"),
        ("[", "expected YAML"),
    ],
)
def test_a_treebank_that_does_not_read_as_one_is_refused_by_its_file(job, project, content, message):
    of_table = job("UDGN")
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    (project / "experiments" / "parsing_stories.yaml").write_text(text)
    with pytest.raises(UserError, match=rf"(?s)^experiments/parsing_stories\.yaml: .*{message}"):
        treebank_of_table(of_table)
    with pytest.raises(UserError, match=r"No experiment file experiments/parsing_lost\.yaml"):
        treebank_of_table(job("UDGN", parsing="parsing_lost"))


# -- the consensus of a row's seeds -----------------------------------------------------------------------------------

CONSENSUS = {"name": "Consensus", "consensus_of": "UDGN", "in_paper": False}


@pytest.fixture
def consensus(run, job, monkeypatch, tmp_path):
    """The job of a consensus, and the runs of its seeds, which a test may take away; the second has other weights."""
    runs = {1: run, 2: write_other_seed(run, tmp_path / "other", seed=6)}
    monkeypatch.setattr("depgen.reporting.jobs.finished_run", lambda job: runs[job.seed])
    return job("Consensus", rows=[*TABLE["rows"], CONSENSUS]), runs


@pytest.mark.slow
def test_a_row_is_the_consensus_of_the_seeds_of_another(consensus, sentences):
    job, runs = consensus
    assert "done" in make(job)
    found = read_result(job.result)
    systems = [load_trained(each, device="cpu") for each in runs.values()]
    words = [each.words for each in sentences]
    heads = predicted_heads(network_of(systems), systems[0].vocabulary, words)["tree"]
    counts = np.sum([right(each.heads, own) for each, own in zip(sentences, heads, strict=True)], 0)
    assert found.metrics["uda_tree"] == pytest.approx(100 * counts[1] / sum(map(len, words)))
    alone = [measure_trees(job, [each]).metrics["uda_tree"] for each in runs.values()]
    assert found.metrics["uda_tree"] not in alone
    assert (found.seed, found.settings["uda_tree"], found.data.corpus) == (1, JUDGE, "generated")


def test_a_consensus_waits_for_the_runs_of_all_seeds(consensus):
    job, runs = consensus
    runs[2] = None
    said = make(job)
    assert said.startswith("Consensus, small, seed 1: left out, UDGN has no finished run of seed 2.")
    assert said.endswith("depgen reproduce trees --rows UDGN --size small")
    assert not job.result.exists()


@pytest.mark.parametrize("change", [{"consensus_of": "next word"}, {"consensus_of": "Nobody"}])
def test_a_consensus_is_of_a_row_that_is_trained(job, change):
    with pytest.raises(UserError, match=r"row Consensus: (next word|Nobody): no trained rows \(UDGN\)"):
        job("Consensus", rows=[*TABLE["rows"], CONSENSUS | change])
    with pytest.raises(UserError, match="row Consensus: expected `parsing`"):
        job("Consensus", rows=[TABLE["rows"][0], CONSENSUS], parsing=None)
