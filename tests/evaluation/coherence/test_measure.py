"""Coherence asked of systems whose answers are known: sure ones, order-blind ones, and one against another."""

import itertools
import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import yaml

from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.coherence.arrangements import CoherenceOptions, trials
from depgen.evaluation.coherence.measure import coherence
from depgen.evaluation.reading import reading_of_run
from depgen.evaluation.trained import Trained
from depgen.metrics.coherence import resampled_means
from tests.evaluation.coherence.toys import Listed, Toy, blind, counting

VOCABULARY = Vocabulary.of_words([f"w{number}" for number in range(30)])
LOWERED = {"class_path": "depgen.data.corpora.Brown", "init_args": {"steps": ["depgen.data.steps.Lowercase"]}}
NUMBERED = Listed([[f"w{first + place}" for place in range(5)] for first in (0, 7, 14, 21)], name="numbered")
GENERATED = {
    "class_path": "depgen.data.generated.GeneratedLanguage",
    "init_args": {"train": 2, "valid": 2, "test": 3, "sentences": [5, 5]},
}


@pytest.fixture
def trained(tmp_path):
    """Makes a run that holds a toy, its own corpus being three generated stories."""

    def of(rule, **options):
        settings = {"data": {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": GENERATED}}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
        return Trained(Toy(rule, **options), VOCABULARY, tmp_path, tmp_path / "best.ckpt")

    return of


def measured(system, task="order", corpus=NUMBERED, **options):
    found = coherence(system, CoherenceOptions(task, corpus, **options))
    return found.items, found.rows.iloc[0]


TASKS = [
    {"task": "order", "shuffles": 40},
    {"task": "insertion", "insertions": None},
    {"task": "ending", "distractors": 2},
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["task"])
def test_a_system_that_counts_is_never_wrong(trained, task):
    _, row = measured(trained(counting), **task)
    asked = [each for trial in trials(CoherenceOptions(**task), NUMBERED) for each in trial.questions]
    identities, questions = sum(not each.candidates.any() for each in asked), len(asked)
    assert row["accuracy"] == pytest.approx(100 * (1 - 0.5 * identities / questions))
    assert row["empty"] == pytest.approx(100 * identities / questions)
    assert row["accuracy_without_empty"] == 100, "a perfect system gets all that leave a choice"
    assert row["ties"] == 0, "a shuffle that is none is nothing to choose from"
    if task["task"] != "order":
        assert (row["accuracy"], row["deviation"]) == (100, 0)
    if task["task"] == "insertion":
        assert row["distance"] == 0
        assert row["distance_by_chance"] == pytest.approx(np.mean([abs(i - j) for i in range(5) for j in range(5)]))
        assert row["chance"] == pytest.approx(20)
    else:
        assert row["chance"] == 50


@pytest.mark.parametrize("context", ["document", "none"])
@pytest.mark.parametrize("task", TASKS[:2], ids=lambda task: task["task"])
def test_a_system_without_context_is_at_chance_by_ties_alone(trained, context, task):
    _, row = measured(trained(blind, sentence_context=context), **task)
    assert row["accuracy"] == pytest.approx(row["chance"])
    assert row["resampled_mean"] == pytest.approx(row["chance"])
    assert row["ties"] + row["empty"] == pytest.approx(100)
    assert row["deviation"] == pytest.approx(0, abs=1e-9)
    assert (row["low"], row["high"]) == pytest.approx((row["chance"], row["chance"]))
    if task["task"] == "insertion":
        assert row["distance"] == pytest.approx(row["distance_by_chance"])


def test_figures_are_those_of_the_answers(trained):
    rule = lambda document: [[-float((7 * ids[0]) % 5) * k] for k, ids in enumerate(document)]  # noqa: E731
    items, row = measured(trained(rule), **TASKS[0])
    credits = [np.array(each) for each in items["credits"]]
    assert 0 < row["accuracy"] < 100
    assert row["accuracy"] == pytest.approx(100 * np.mean(np.concatenate(credits)))
    resampled = 100 * resampled_means(credits, resamples=1000, seed=0)
    assert (row["resampled_mean"], row["deviation"]) == (resampled.mean(), resampled.std())
    assert abs(row["resampled_mean"] - row["accuracy"]) < 4 * row["deviation"] / np.sqrt(1000)
    assert row["low"] < row["accuracy"] < row["high"]
    assert (row["unknown_share"], row["documents"], row["sentences"]) == (0, 4, 20)


def test_the_accuracy_is_the_mean_of_the_documents_means(trained):
    corpus = Listed([["w1", "w2"], [f"w{place}" for place in range(5, 13)]], name="unequal")
    rule = lambda document: counting(document) if len(document) == 2 else blind(document)  # noqa: E731
    items, row = measured(trained(rule), "insertion", corpus, insertions=None)
    assert items["credits"].map(len).tolist() == [2, 8]
    assert row["accuracy"] == pytest.approx(100 * (1 + 1 / 8) / 2), "of all questions it would be 30 %"
    assert row["distance"] == pytest.approx(np.mean([np.mean(each) for each in items["distances"]]))
    corpus = Listed([["w1"], ["w5", "w6", "w7", "w8", "w9", "w10"]], name="a document without a choice")
    _, row = measured(trained(counting), corpus=corpus)
    assert row["empty"] >= 50
    assert (row["accuracy"], row["accuracy_without_empty"]) == (100 - row["empty"] / 2, 100)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["task"])
def test_every_arrangement_is_kept_with_its_log_probability(trained, task):
    """Score each by hand, and answer each question again."""
    items, _ = measured(trained(counting), **task)
    for document in items.to_dict("records"):
        texts = [[document["sentences"][place] for place in order] for order in document["orders"]]
        for text, log_prob in zip(texts, document["log_probs"], strict=True):
            numbers = [int(sentence[1:]) for sentence in text]
            assert log_prob == -3.0 * sum(one + 1 != other for one, other in itertools.pairwise(numbers))
        for question, credit in zip(document["questions"], document["credits"], strict=True):
            true, *others = [document["log_probs"][place] for place in question]
            assert texts[question[0]] == texts[0]
            assert credit == (1.0 if all(true > other for other in others) else 0.5), "no other is ever likelier"


def test_the_runs_own_corpus_is_taken_unless_another_is_named(trained):
    _, row = measured(trained(blind), corpus=None, shuffles=2)
    assert (row["name"], row["documents"], row["unknown_share"]) == ("generated", 3, 1)
    assert row["task"] == "order: 2 shuffles of each"
    system = trained(blind)
    (system.run / "config.yaml").unlink()
    with pytest.raises(UserError, match=r"no corpus of documents.*--corpus"):
        measured(system, corpus=None)


def test_words_are_brought_into_the_form_of_the_runs_text(trained, caplog):
    cased = Listed([["W1 x", "W2", "W3"], ["W5", "W6"]], name="cased")
    plain = Listed([["w1 x", "w2", "w3"], ["w5", "w6"]], name="cased")
    system = trained(counting)
    settings = {"data": {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": LOWERED}}}
    (system.run / "config.yaml").write_text(yaml.safe_dump(settings))
    lower = replace(system, reading=reading_of_run(system.run))
    (_, ours), (_, lowered) = (measured(lower, corpus=corpus, shuffles=9) for corpus in (cased, plain))
    assert ours.equals(lowered)
    assert (ours["form"], ours["unknown_share"]) == ("lower", 1 / 6)
    assert ours["accuracy"] > 80
    _, as_it_is = measured(system, corpus=cased, shuffles=9)
    assert (as_it_is["form"], as_it_is["unknown_share"]) == ("as_is", 1)
    assert not caplog.records
    cased.form = "ptb"
    measured(lower, corpus=cased)
    assert "has learnt from text in the form `lower`, but cased is in the form `ptb`" in caplog.text


def test_the_interval_of_a_difference_is_that_of_whole_documents(trained, tmp_path):
    """Against all draws of three documents of one, two and three pieces."""
    lengths, kept = (2, 4, 6), tmp_path / "blind.jsonl"
    corpus = Listed([[f"w{9 * document + place}" for place in range(n)] for document, n in enumerate(lengths)])
    options = {"corpus": corpus, "sentences": 2, "shuffles": 3}
    items, _ = measured(trained(blind), **options)
    items.to_json(kept, orient="records", lines=True)
    items, row = measured(trained(counting), **options, against=kept)
    assert (row["documents"], row["whole_documents"]) == (6, 3)
    parts = [items.loc[items["document"] == f"d{document}", "accuracy"].to_numpy() - 50 for document in range(3)]
    means = [np.mean(np.concatenate(drawn)) for drawn in product(parts, repeat=3)]
    low, high = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert (row["difference"], row["difference_low"], row["difference_high"]) == pytest.approx(
        (np.mean(np.concatenate(parts)), low, high)
    )
    single = {"task": "insertion", "max_documents": 1}
    measured(trained(blind), **single)[0].to_json(kept, orient="records", lines=True)
    _, row = measured(trained(counting), **single, against=kept)
    assert (row["difference"], row["published_z"], row["published_p_one_sided"]) == (80, np.inf, 0)
    assert np.isnan(row["difference_low"])


@pytest.fixture
def runs(trained, monkeypatch):
    rules = {"sure": counting, "blind": blind}
    monkeypatch.setattr("depgen.evaluation.system.load", lambda run, **_: trained(rules[run]))
    monkeypatch.setattr("depgen.evaluation.coherence.measure.data_of", lambda _: type("Data", (), {"corpus": NUMBERED}))


def test_the_verb_prints_a_row_and_compares_two_runs(runs, capsys, tmp_path):
    kept, verb = tmp_path / "blind.jsonl", ["evaluate", "coherence", "--json"]
    asked = ["--shuffles", "6", "--seed", "3"]
    assert main([*verb, "--run", "blind", *asked, "--item_output", str(kept)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["name"], row["documents"], row["likelihood"], row["accuracy"]) == ("numbered", 4, "exact", 50)
    first = json.loads(kept.read_text().splitlines()[0])
    assert (first["name"], first["credits"], first["orders"][0]) == ("d0", [0.5] * 6, [0, 1, 2, 3, 4])
    assert main([*verb, "--run", "sure", *asked, "--against", str(kept)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["difference"] == pytest.approx(row["accuracy"] - 50)
    assert row["published_z"] is None or row["published_z"] > 50, "infinite where no shuffle is the document"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "4"], "its run had other questions"),
        (["--against", "lost.jsonl"], "No file at"),
        (["--against", "other.json"], "expected what depgen evaluate coherence --item_output writes"),
    ],
)
def test_what_can_not_be_asked_is_refused(runs, capsys, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    coherence_of = ["evaluate", "coherence", "--run", "blind"]
    assert main([*coherence_of, "--item_output", "kept.jsonl"]) == 0
    (tmp_path / "other.json").write_text("{}\n")
    against = [] if "--against" in options else ["--against", "kept.jsonl"]
    assert main([*coherence_of, *options, *against]) == 2
    assert message in capsys.readouterr().err
