"""`depgen coherence` asked of systems whose answers are known: sure ones, order-blind ones, and one against another."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.coherence import assessment
from depgen.evaluation.coherence.arrangements import CoherenceTask, trials
from depgen.evaluation.coherence.assessment import assess, coherence
from depgen.evaluation.reading import reading_of_run
from depgen.evaluation.system import System
from depgen.evaluation.trained import Trained
from depgen.metrics.coherence import paired_interval, resampled_means
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


TASKS = [
    CoherenceTask(corpus=NUMBERED, shuffles=40),
    CoherenceTask("insertion", NUMBERED, insertions=None),
    CoherenceTask("ending", NUMBERED, distractors=2),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task)
def test_a_system_that_counts_is_never_wrong(trained, task):
    found = assess(trained(counting), task)
    measures = found.measures
    asked = [each for trial in trials(task, NUMBERED) for each in trial.questions]
    identities, questions = sum(not each.candidates.any() for each in asked), len(asked)
    assert measures["accuracy"] == pytest.approx(100 * (1 - 0.5 * identities / questions))
    assert measures["empty"] == pytest.approx(100 * identities / questions)
    assert measures["accuracy_without_empty"] == 100, "a perfect system gets all that leave a choice"
    assert measures["ties"] == 0, "a shuffle that is none is nothing to choose from"
    if task.task != "order":
        assert (measures["accuracy"], measures["ties"], measures["deviation"]) == (100, 0, 0)
    if task.task == "insertion":
        assert measures["distance"] == 0
        assert measures["distance_by_chance"] == pytest.approx(
            np.mean([abs(i - j) for i in range(5) for j in range(5)])
        )
        assert measures["chance"] == pytest.approx(20)
    else:
        assert measures["chance"] == 50


@pytest.mark.parametrize("context", ["document", "none"])
def test_a_system_without_context_is_at_chance_by_ties_alone(trained, context):
    for task in TASKS[:2]:
        found = assess(trained(blind, sentence_context=context), task).measures
        assert found["accuracy"] == found["resampled_mean"] == pytest.approx(found["chance"])
        assert found["ties"] + found["empty"] == pytest.approx(100)
        assert found["deviation"] == pytest.approx(0, abs=1e-9)
        assert (found["low"], found["high"]) == pytest.approx((found["chance"], found["chance"]))
        if task.task == "insertion":
            assert found["distance"] == pytest.approx(found["distance_by_chance"])


def test_figures_are_those_of_the_answers(trained):
    found = assess(
        trained(lambda document: [[-float((7 * ids[0]) % 5) * k] for k, ids in enumerate(document)]), TASKS[0]
    )
    credits, measures = found.answers.credits, found.measures
    assert 0 < measures["accuracy"] < 100
    assert measures["accuracy"] == pytest.approx(100 * np.mean(np.concatenate(credits)))
    resampled = 100 * resampled_means(credits, resamples=1000, seed=0)
    assert (measures["resampled_mean"], measures["deviation"]) == (resampled.mean(), resampled.std())
    assert abs(measures["resampled_mean"] - measures["accuracy"]) < 4 * measures["deviation"] / np.sqrt(1000)
    assert measures["low"] < measures["accuracy"] < measures["high"]
    assert found.facts["unknown_share"] == 0
    assert (found.facts["documents"], found.facts["sentences"]) == (4, 20)


def test_the_accuracy_is_the_mean_of_the_documents_means(trained):
    corpus = Listed([["w1", "w2"], [f"w{place}" for place in range(5, 13)]], name="unequal")
    rule = lambda document: counting(document) if len(document) == 2 else blind(document)  # noqa: E731
    found = assess(trained(rule), CoherenceTask("insertion", corpus, insertions=None))
    measures = found.measures
    assert list(map(len, found.answers.credits)) == [2, 8]
    assert measures["accuracy"] == pytest.approx(100 * (1 + 1 / 8) / 2), "of all questions it would be 30 %"
    distances = found.answers.distances
    assert measures["distance"] == pytest.approx((distances[0].mean() + distances[1].mean()) / 2)


def test_documents_of_one_sentence_leave_no_choice(trained):
    corpus = Listed([["w1"], ["w5", "w6", "w7", "w8", "w9", "w10"]], name="short")
    measures = assess(trained(counting), CoherenceTask(corpus=corpus)).measures
    assert measures["empty"] >= 50
    assert (measures["accuracy"], measures["accuracy_without_empty"]) == (100 - measures["empty"] / 2, 100)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task)
def test_every_arrangement_is_kept_with_its_log_probability(trained, task):
    """Score each by hand, and answer each question again."""
    system = System(**vars(trained(counting)))
    found = system.coherence(task)
    assert found.measures == assess(system, task).measures
    for document in found.documents:
        texts = [[document["sentences"][place] for place in each["order"]] for each in document["arrangements"]]
        for text, arrangement in zip(texts, document["arrangements"], strict=True):
            numbers = [int(sentence[1:]) for sentence in text]
            jumps = sum(one + 1 != other for one, other in itertools.pairwise(numbers))
            assert arrangement["log_probability"] == -3.0 * jumps
        for question, credit in zip(document["questions"], document["credits"], strict=True):
            true, *others = [document["arrangements"][place]["log_probability"] for place in question]
            assert texts[question[0]] == texts[0]
            assert credit == (1.0 if all(true > other for other in others) else 0.5), "no other is ever likelier"


def test_the_runs_own_corpus_is_taken_unless_another_is_named(trained):
    found = assess(trained(blind), CoherenceTask(shuffles=2)).facts
    assert (found["corpus"], found["documents"], found["unknown_share"]) == ("generated", 3, 1)
    assert found["task"] == "order: 2 shuffles of each"


class TestVerb:
    @pytest.fixture(autouse=True)
    def _loaded(self, trained, monkeypatch):
        rules = {"sure": counting, "blind": blind}
        load = lambda run, **_: trained(rules[run])  # noqa: E731
        monkeypatch.setattr(assessment, "load_trained", load)
        monkeypatch.setattr(assessment, "data_of", lambda _: type("Data", (), {"corpus": NUMBERED}))

    def test_facts_and_figures_are_printed_a_line_each(self, capsys):
        assert main(["coherence", "--run", "blind", "--task", "insertion", "--insertions", "2"]) == 0
        lines = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
        assert (lines["corpus"], lines["documents"], lines["likelihood"]) == ("numbered", "4", "exact")
        assert lines["task"] == "insertion: 2 sentences of each put back"
        assert (lines["accuracy"], lines["chance"], lines["ties"]) == ("20.00", "20.00", "100.00")

    def test_one_run_stands_against_another(self, capsys, tmp_path, trained):
        kept = tmp_path / "blind.json"
        asked = ["--task", "order", "--shuffles", "6", "--seed", "3"]
        assert main(["coherence", "--run", "blind", *asked, "--output", str(kept)]) == 0
        content = json.loads(kept.read_text())
        assert [each["name"] for each in content["documents_asked"]] == ["d0", "d1", "d2", "d3"]
        first = content["documents_asked"][0]
        assert first["credits"] == [0.5] * 6
        assert first["sentences"] == [f"w{place}" for place in range(5)]
        assert first["arrangements"][0]["order"] == [0, 1, 2, 3, 4]
        likelihoods = {each["log_probability"] for each in first["arrangements"]}
        assert max(likelihoods) == pytest.approx(min(likelihoods))
        assert len(kept.read_text().splitlines()) == len(content) + 7, "a line a fact and a line a document"
        capsys.readouterr()
        assert main(["coherence", "--run", "sure", *asked, "--against", str(kept), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["difference"] == pytest.approx(found["accuracy"] - 50), "over all questions"
        own = assess(trained(counting), CoherenceTask(corpus=NUMBERED, shuffles=6, seed=3)).answers
        interval = paired_interval(own.by_document, np.full(4, 50.0), np.arange(4))
        assert (found["difference_low"], found["difference_high"]) == (interval.low, interval.high)
        assert found["published_z"] is None or found["published_z"] > 50, "infinite where no shuffle is the document"
        assert 0 <= found["published_p_one_sided"] < 1e-9
        assert main(["coherence", "--run", "sure", "--against", str(kept)]) == 2
        assert "its run had other questions: task is order: 6 shuffles of each there" in capsys.readouterr().err

    def test_pieces_of_one_document_are_drawn_together(self, capsys, tmp_path):
        kept, asked = tmp_path / "blind.json", ["--sentences", "2", "--shuffles", "3", "--json"]
        assert main(["coherence", "--run", "blind", *asked, "--output", str(kept)]) == 0
        content = json.loads(kept.read_text())
        assert (content["documents"], content["whole_documents"]) == (12, 4)
        assert [each["document"] for each in content["documents_asked"]] == np.repeat(
            ["d0", "d1", "d2", "d3"], 3
        ).tolist()
        sure = tmp_path / "sure.json"
        capsys.readouterr()
        assert main(["coherence", "--run", "sure", *asked, "--against", str(kept), "--output", str(sure)]) == 0
        found = json.loads(capsys.readouterr().out)
        means = 100 * np.array([np.mean(each["credits"]) for each in json.loads(sure.read_text())["documents_asked"]])
        interval = paired_interval(means, np.full(12, 50.0), np.repeat(np.arange(4), 3))
        assert (found["difference_low"], found["difference_high"]) == (interval.low, interval.high)
        assert (interval.low, interval.high) != tuple(
            paired_interval(means, np.full(12, 50.0), np.arange(12)).__dict__.values()
        )[1:]

    def test_json_has_no_infinity(self, capsys, tmp_path):
        """Neither system's resampled sets differ: z is infinite. And of one document there is no interval."""
        kept = tmp_path / "blind.json"
        asked = ["--task", "insertion", "--max_documents", "1", "--json"]
        assert main(["coherence", "--run", "blind", *asked, "--output", str(kept)]) == 0
        both = [*asked, "--against", str(kept), "--output", str(tmp_path / "sure.json")]
        capsys.readouterr()
        assert main(["coherence", "--run", "sure", *both]) == 0
        printed = capsys.readouterr().out
        for text in (printed, (tmp_path / "sure.json").read_text()):
            found = json.loads(text, parse_constant=pytest.fail)
            assert (found["published_z"], found["difference_low"], found["difference"]) == (None, None, 80.0)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda content: content.pop("run"), "found no 'run'"),
            (lambda content: content["documents_asked"][0].pop("name"), "found no 'name'"),
            (lambda content: content["documents_asked"][1].update(credits=[]), "d1 has 0 answers there and 24 here"),
            (lambda content: content["documents_asked"][1].update(credits=["x"]), "found other JSON"),
            (lambda content: content["documents_asked"][1].update(credits=3), "found other JSON"),
            (lambda content: content.update(fingerprint="other"), "fingerprint is other there"),
            (lambda content: content.pop("fingerprint"), "it does not say its fingerprint"),
            (lambda content: content["documents_asked"].pop(), "other documents"),
        ],
    )
    def test_answers_that_do_not_fit_are_refused(self, capsys, tmp_path, change, message):
        kept = tmp_path / "blind.json"
        assert main(["coherence", "--run", "blind", "--output", str(kept)]) == 0
        content = json.loads(kept.read_text())
        change(content)
        kept.write_text(json.dumps(content))
        assert main(["coherence", "--run", "sure", "--against", str(kept)]) == 2
        assert message in capsys.readouterr().err

    def test_a_folder_is_no_answers(self, capsys):
        assert main(["coherence", "--run", "sure", "--against", "."]) == 2
        assert "expected a file that depgen coherence --output writes" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "No answers at"),
            ("{", "found no JSON"),
            ("[]", "found other JSON"),
            ("{}", "found no 'documents_asked'"),
        ],
    )
    def test_other_files_are_refused(self, capsys, tmp_path, content, message):
        if content is not None:
            (tmp_path / "other.json").write_text(content)
        assert main(["coherence", "--run", "sure", "--against", str(tmp_path / "other.json")]) == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--seed", "-1"], "seed: expected at least 0, found -1"),
            (["--insertions", "3"], "insertions: this number is of `insertion`, and the task is `order`"),
            (["--task", "ending", "--shuffles", "3"], "shuffles: this number is of `order`"),
            (["--output", "."], "--output . is a folder"),
        ],
    )
    def test_numbers_out_of_range_are_refused(self, capsys, options, message):
        assert main(["coherence", "--run", "sure", *options]) == 2
        assert message in capsys.readouterr().err


def test_a_run_on_no_documents_wants_a_corpus(trained, monkeypatch):
    monkeypatch.setattr(assessment, "data_of", lambda _: object())
    with pytest.raises(UserError, match=r"no corpus of documents.*--corpus"):
        assess(trained(counting), CoherenceTask())


def test_words_are_brought_into_the_form_of_the_runs_text(trained, caplog, monkeypatch):
    cased = Listed([["W1 x", "W2", "W3"], ["W5", "W6"]], name="cased")
    plain = Listed([["w1 x", "w2", "w3"], ["w5", "w6"]], name="cased")
    found = trained(counting)
    settings = {"data": {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": LOWERED}}}
    (found.run / "config.yaml").write_text(yaml.safe_dump(settings))
    lower = replace(found, reading=reading_of_run(found.run))
    ours, lowered = (assess(lower, CoherenceTask(corpus=corpus, shuffles=9)) for corpus in (cased, plain))
    assert ours.facts == lowered.facts
    assert (ours.facts["form"], ours.facts["unknown_share"]) == ("lower", 1 / 6)
    assert ours.measures == lowered.measures
    assert ours.measures["accuracy"] > 80
    as_it_is = assess(found, CoherenceTask(corpus=cased, shuffles=9))
    assert as_it_is.facts["unknown_share"] == 1
    monkeypatch.setattr("depgen.evaluation.coherence.assessment.load_trained", lambda *given, **more: found)
    assert "form\tas_is\n" in coherence(questions=CoherenceTask(corpus=cased, shuffles=9))
    assert not caplog.records
    cased.form = "ptb"
    assess(lower, CoherenceTask(corpus=cased, shuffles=9))
    assert "has learnt from text in the form `lower`, but cased is in the form `ptb`" in caplog.text
