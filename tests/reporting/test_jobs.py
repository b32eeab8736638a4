import json
from pathlib import Path

import pytest

from depgen.data.generated import GeneratedStories
from depgen.errors import UserError
from depgen.reporting import jobs
from depgen.reporting.definition import Generation, load_definition
from depgen.reporting.jobs import Job, Prompts, fit, generate, measure_test, prompts_of, run_depgen
from depgen.trees.sentence import Document, Sentence
from tests.reporting.stub import Stub


@pytest.fixture
def job(project):
    definition = load_definition("toy")
    return Job(definition, definition.row("DM-Base"), "small", 2)


def test_a_fresh_fit_takes_the_yaml_and_the_seed_and_its_own_runs(job):
    stub = Stub()
    trained = fit(job, stub)
    ((arguments, environment),) = stub.calls
    assert arguments == ["fit", "--config", "experiments/dm_toy_small.yaml", "--seed_everything", "2"]
    assert Path(environment["DEPGEN_RUNS"]) == Path("runs/toy/DM-Base/small-seed2").absolute()
    assert trained.run.is_relative_to(Path(environment["DEPGEN_RUNS"]).relative_to(Path.cwd()))


def test_a_finished_fit_is_not_repeated(job):
    stub = Stub()
    assert fit(job, stub) == fit(job, stub)
    assert len(stub.calls) == 1


def test_an_unfinished_fit_is_gone_on_with(job):
    stub = Stub(dies_in="fit")
    with pytest.raises(UserError):
        fit(job, stub)
    stub.dies_in = None
    trained = fit(job, stub)
    assert stub.calls[1][0][-2:] == ["--resume", str(trained.run)]
    assert len(stub.calls) == 2


def test_a_fit_killed_before_its_first_checkpoint_begins_afresh(job):
    stub = Stub(dies_in="fit")
    with pytest.raises(UserError):
        fit(job, stub)
    next(job.runs.glob("*/*/checkpoints/resume.ckpt")).unlink()
    stub.dies_in = None
    fit(job, stub)
    assert "--resume" not in stub.calls[1][0]


def test_a_changed_yaml_is_not_mixed_with_an_older_run(job):
    fit(job, Stub())
    with job.config.open("a") as stream:
        stream.write("# another\n")
    with pytest.raises(UserError, match=r"has changed since DM-Base, small, seed 2 was begun.*--redo"):
        fit(job, Stub())


def test_a_fit_that_ends_early_is_no_success(job):
    with pytest.raises(UserError, match="training has not come to its end"):
        fit(job, lambda arguments, environment: None)


def test_the_test_split_is_measured_once(job):
    stub = Stub()
    trained = fit(job, stub)
    assert measure_test(job, trained, stub) == measure_test(job, trained, stub) == {"perplexity": 42.0}
    assert [arguments[0] for arguments, _ in stub.calls] == ["fit", "test"]
    assert stub.calls[1][0] == ["test", "--run", str(trained.run)]


def test_broken_test_numbers_are_named(job):
    trained = fit(job, Stub())
    (trained.run / "test.json").write_text(json.dumps({"perplexity": 1}))
    with pytest.raises(UserError, match=r"no test numbers in .*test\.json"):
        measure_test(job, trained, Stub())


def test_prompts_are_four_sentences_and_the_reference_the_fifth():
    corpus = GeneratedStories(train=1, valid=1, test=3)
    made = prompts_of(corpus, Generation())
    for document, prompt, reference in zip(corpus.documents("test"), made.prompts, made.references, strict=True):
        assert f"{prompt} {reference}".split() == list(document.words())
        assert tuple(reference.split()) == document.sentences[4].words


def test_a_short_story_is_refused_by_name():
    class Short:
        def documents(self, split):
            yield Document((Sentence(("one", ".")),) * 4, "file.csv:7")

    with pytest.raises(UserError, match=r"file\.csv:7: the table wants 4 sentences as prompt and one as reference"):
        prompts_of(Short(), Generation())


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    monkeypatch.setattr(jobs, "write_texts", stub.generate)
    return stub


def test_texts_are_written_once_a_prompt_file(job, stub):
    prompts = Prompts(("a b", "c d"), ("e", "f"))
    trained = fit(job, stub)
    assert generate(job, trained, prompts) == generate(job, trained, prompts) == ("text 0", "")
    (options,) = stub.written
    assert options == {
        "checkpoint": str(trained.run), "top_p": 0.5, "temperature": 1.0, "seed": 12, "max_new_tokens": 60,
    }  # fmt: skip
    generate(job, trained, Prompts(("a b", "other"), ("e", "f")))
    assert len(stub.written) == 2


def test_another_number_of_texts_is_noticed(job, stub):
    trained = fit(job, stub)
    prompts = Prompts(("a", "b"), ("c", "d"))
    generate(job, trained, prompts)
    (job.folder / "texts.txt").write_text("only one\n")
    with pytest.raises(UserError, match="expected 2 texts, one a line, found 1"):
        generate(job, trained, prompts)


def test_a_failing_command_is_named():
    with pytest.raises(UserError, match="`depgen no-such-verb` ended with code 2"):
        run_depgen(["no-such-verb"], {})
