import dataclasses
import json
import math
from pathlib import Path

import lightning as L
import numpy as np
import pytest
import yaml
from filelock import Timeout

from depgen.data.generated import GeneratedStories
from depgen.errors import UserError
from depgen.reporting import jobs
from depgen.reporting.definition import load_definition
from depgen.reporting.jobs import (
    Job,
    Prompts,
    finished_run,
    fit,
    generate,
    prompts_of,
    run_of_row,
)
from depgen.reporting.measures import Texts
from depgen.reporting.numbers import Generation
from depgen.training.experiment_runs import SplitNumbers, measure_test, run_depgen
from depgen.training.scores import ItemScoreWriter
from depgen.trees.sentence import Document, Sentence
from tests.reporting.stub import Stub, leave_numbers


@pytest.fixture
def job(project):
    definition = load_definition("toy")
    return Job(definition, definition.row("DM-Base"), "small", 2)


def test_a_fresh_fit_takes_the_experiment_its_size_and_the_seed(job):
    stub = Stub()
    trained = fit(job, stub)
    ((arguments, environment),) = stub.calls
    assert arguments == [
        "fit", "--config", "experiments/dm_toy.yaml", "--size", "small", "--seed_everything", "2",
        "--name", "dm_toy/small/seed2",
    ]  # fmt: skip
    assert Path(environment["DEPGEN_RUNS"]) == Path("runs").absolute()
    assert trained.run == Path("runs/dm_toy/small/seed2/2026-01-01")


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
    next(job.training.root.glob("*/checkpoints/resume.ckpt")).unlink()
    stub.dies_in = None
    fit(job, stub)
    assert "--resume" not in stub.calls[1][0]


def test_a_changed_experiment_makes_a_new_run_next_to_the_old_one(job):
    stub, before = Stub(), job.config.file.read_text()
    first = fit(job, stub).run
    job.config.file.write_text(f"{before}# a comment\n")
    assert fit(job, stub).run == first
    job.config.file.write_text(f"{before}trainer: {{max_epochs: 9}}\n")
    assert finished_run(job) is None
    second = fit(job, stub).run
    assert first.parent == second.parent
    assert first != second
    assert finished_run(job) == second
    job.config.file.write_text(before)
    assert finished_run(job) == first
    assert stub.verbs == ["fit", "fit"]


def test_a_table_takes_the_newest_finished_run_of_its_configuration(job):
    stub = Stub()
    fit(job, stub)
    stub(job.training.command, job.training.environment)  # as a user repeats `depgen fit --size small`
    assert [run.name for run in job.training.runs()] == ["2026-01-02", "2026-01-01"]
    assert fit(job, stub).run.name == "2026-01-02"


def test_options_make_a_run_of_another_place(job):
    options = {"data.init_args.tokens_per_batch": 77}
    row = dataclasses.replace(job.row, options=options)
    other, stub = dataclasses.replace(job, row=row), Stub()
    assert fit(other, stub).run.parts[1].startswith("dm_toy--tokens_per_batch-77-")
    assert "--data.init_args.tokens_per_batch=77" in stub.calls[0][0]
    fit(job, stub)
    assert len(stub.calls) == 2
    assert {finished_run(each).parts[1] for each in (job, other)} == {"dm_toy", other.training.place.split("/")[0]}


def test_rows_of_two_tables_share_the_run_of_one_experiment(job, project):
    path = project / "experiments/tables/toy.yaml"
    (project / "experiments/tables/other.yaml").write_text(path.read_text().replace("table: toy", "table: other"))
    definition, stub = load_definition("other"), Stub()
    other = Job(definition, definition.row("DM-Base"), "small", 2)
    assert fit(job, stub) == fit(other, stub)
    assert run_of_row("other", "DM-Base", "small") == finished_run(job)
    assert len(stub.calls) == 1


def test_a_training_of_another_process_is_not_waited_for(job):
    stub = Stub()
    with job.training.lock(), pytest.raises(Timeout):
        fit(job, stub, wait=False)
    assert stub.calls == []


def test_a_fit_that_ends_early_is_no_success(job):
    with pytest.raises(UserError, match="training has not come to its end"):
        fit(job, lambda arguments, environment: None)


def test_the_test_split_is_measured_once(job):
    stub = Stub()
    trained = fit(job, stub)
    assert (
        measure_test(job.training, trained.run, stub)
        == measure_test(job.training, trained.run, stub)
        == SplitNumbers({"perplexity": 42.0})
    )
    assert [arguments[0] for arguments, _ in stub.calls] == ["fit", "test"]
    assert stub.calls[1][0] == ["test", "--run", str(trained.run)]


def test_broken_test_numbers_are_named(job):
    trained = fit(job, Stub())
    leave_numbers(trained.run / "test.json", {"test/perplexity": "1 in all"})
    with pytest.raises(UserError, match=r"no test numbers in .*test\.json"):
        measure_test(job.training, trained.run, Stub())


def test_numbers_that_were_printed_only_are_asked_for_with_the_runs_data(job):
    trained = fit(job, Stub())
    with pytest.raises(UserError, match=r"test\.json was not written"):
        measure_test(job.training, trained.run, lambda arguments, environment: None)


ITEMS = {"items": [2, 0, 3, 0], "nll": [30.0, 12.0, 8.0, 12.0], "tokens": [10, 4, 4, 4]}


def test_each_item_has_its_mean_nats_a_token_in_the_order_of_the_split(job):
    """Items 0, 2 and 3 of four; the first was scored on two devices."""
    trained, stub = fit(job, Stub()), Stub()
    stub.items = {name: values[:3] for name, values in ITEMS.items()}
    measure_test(job.training, trained.run, stub)
    expected = [3.0, np.nan, 3.0, 2.0]
    np.testing.assert_allclose(measure_test(job.training, trained.run, stub).item_nll, expected)
    np.savez(trained.run / "test_items.npz", **ITEMS)
    np.testing.assert_allclose(measure_test(job.training, trained.run, stub).item_nll, expected)
    assert stub.verbs == ["test"]


def test_the_items_that_a_test_writes_are_read(job):
    """By the very function that `depgen test` keeps them with."""
    trained, stub = fit(job, Stub()), Stub()
    measure_test(job.training, trained.run, stub)
    nll = 2 * math.log(42)
    model = L.LightningModule()
    model.test_scores = lambda: ([0, 1], [nll, nll], [2, 2], [1, 2])
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    ItemScoreWriter(trained.run / "test_items.npz").on_test_end(trainer, model)
    tested = measure_test(job.training, trained.run, stub)
    assert tested.item_nll.tolist() == pytest.approx([math.log(42)] * 2)
    assert (tested.item_tokens.tolist(), tested.item_words.tolist()) == ([2, 2], [1, 2])


def test_a_test_is_made_again_for_its_items_only_when_asked(job):
    trained, stub = fit(job, Stub()), Stub()
    measure_test(job.training, trained.run, stub)
    stub.items = {"items": [0, 1], "nll": [6.0, 6.0], "tokens": [2, 2]}
    assert measure_test(job.training, trained.run, stub).item_nll is None
    assert stub.verbs == ["test"]
    again = measure_test(job.training, trained.run, stub, remeasure=True)
    assert again.metrics["perplexity"] == pytest.approx(np.exp(3))
    assert again.item_nll.tolist() == [3.0, 3.0]
    measure_test(job.training, trained.run, stub, remeasure=True)
    assert stub.verbs == ["test", "test"]


def test_numbers_of_no_known_checkpoint_are_not_taken(job):
    trained, stub = fit(job, Stub()), Stub()
    (trained.run / "test.json").write_text(json.dumps({"metrics": {"test/perplexity": 1.0}}))
    assert measure_test(job.training, trained.run, stub).metrics == {"perplexity": 42.0}


def test_numbers_from_before_the_checkpoint_changed_are_not_taken(job):
    trained, stub = fit(job, Stub()), Stub()
    leave_numbers(trained.run / "test.json", {"test/perplexity": 1.0})
    assert measure_test(job.training, trained.run, stub).metrics == {"perplexity": 1.0}
    (trained.run / "checkpoints" / "best.ckpt").write_bytes(b"trained on")
    assert measure_test(job.training, trained.run, stub).metrics == {"perplexity": 42.0}


def test_items_of_another_test_stay_unused(job, caplog):
    trained, stub = fit(job, Stub()), Stub()
    measure_test(job.training, trained.run, stub)
    np.savez(trained.run / "test_items.npz", items=[0, 1], nll=[6.0, 6.0], tokens=[2, 2])
    assert measure_test(job.training, trained.run, stub).item_nll is None
    assert "the items have perplexity 20.0855, test.json says 42.0000" in caplog.text


def test_broken_items_are_named(job):
    trained, stub = fit(job, Stub()), Stub()
    measure_test(job.training, trained.run, stub)
    np.savez(trained.run / "test_items.npz", items=[0, 1], nll=[6.0, 6.0])
    with pytest.raises(UserError, match=r"test_items\.npz: .*items, nll and tokens"):
        measure_test(job.training, trained.run, stub)
    np.savez(trained.run / "test_items.npz", items=[0, 1], nll=[6.0, 6.0], tokens=[1])
    with pytest.raises(UserError, match="found 2 items, 2 nll, 1 tokens"):
        measure_test(job.training, trained.run, stub)
    (trained.run / "test_items.npz").write_bytes(b"PK half a file")
    with pytest.raises(UserError, match=r"test_items\.npz: expected arrays"):
        measure_test(job.training, trained.run, stub)


def test_a_finished_run_is_named_from_the_working_folder(job, monkeypatch):
    assert finished_run(job) is None
    monkeypatch.setenv("DEPGEN_RUNS", str(Path("runs").absolute()))
    fit(job, Stub())
    assert finished_run(job) == Path("runs/dm_toy/small/seed2/2026-01-01")
    next(job.training.root.glob("*/run.json")).write_text("{}")
    assert finished_run(job) is None


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

    with pytest.raises(UserError, match=r"file\.csv:7: .*4 sentences as prompt"):
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
        "run": str(trained.run), "top_p": 0.5, "temperature": 1.0, "seed": 12, "max_new_tokens": 60,
        "device": None,
    }  # fmt: skip
    other = Prompts(("a b", "other"), ("e", "f"))
    generate(job, trained, prompts, top_p=0.9)
    generate(job, trained, other)
    generate(job, trained, other, top_p=0.9)
    assert [options["top_p"] for options in stub.written] == [0.5, 0.9, 0.5, 0.9]


@pytest.fixture
def written(job, stub):
    """A trained run, its prompts, and texts written once."""
    prompts, trained = Prompts(("a b", "c d"), ("e", "f")), fit(job, stub)
    generate(job, trained, prompts)
    return trained, prompts


def test_what_texts_depend_on_stands_beside_them(job, stub, written):
    note = json.loads((job.folder / "texts.json").read_text())
    assert note == {
        "top_p": 0.5, "temperature": 1.0, "seed": 12, "max_new_tokens": 60, "run": "dm_toy/small/seed2/2026-01-01",
        "checkpoint_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [("top_p", 0.9), ("temperature", 0.7), ("seed", 3), ("max_new_tokens", 9)])
def test_other_settings_write_other_texts(job, stub, written, name, value):
    texts = Texts(**{**dataclasses.asdict(job.definition.generation), name: value})
    other = dataclasses.replace(job, definition=dataclasses.replace(job.definition, measures=(texts,)))
    generate(other, *written)
    assert [options[name] for options in stub.written] == [
        getattr(job.definition.generation, name) + (2 if name == "seed" else 0), value + (2 if name == "seed" else 0),
    ]  # fmt: skip
    generate(other, *written)
    assert len(stub.written) == 2


def test_another_checkpoint_writes_other_texts(job, stub, written):
    trained, _ = written
    (trained.run / "checkpoints" / "best.ckpt").write_bytes(b"trained on")
    generate(job, *written)
    generate(job, *written)
    assert len(stub.written) == 2


def test_texts_that_nothing_vouches_for_are_written_again(job, stub, written, caplog):
    (job.folder / "texts.json").unlink()
    generate(job, *written, device="cpu")
    assert [options["device"] for options in stub.written] == [None, "cpu"]
    assert (job.folder / "texts.json").is_file()
    assert "no texts.json says how it was written" in caplog.text


def test_a_stop_while_writing_leaves_no_texts_of_another_kind(job, stub, written, monkeypatch):
    trained, _ = written
    (trained.run / "checkpoints" / "best.ckpt").write_bytes(b"trained on")

    def killed(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "write_texts", killed)
    with pytest.raises(KeyboardInterrupt):
        generate(job, *written)
    assert not (job.folder / "texts.txt").exists()


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


FINE = """
table: fine
caption: Invented numbers
source: an invented paper, Table 5
columns: [{key: perplexity, header: PPL, higher_better: false}]
rows: [{name: Parsed, experiment: parsed_toy}]
"""
PARSER = "depgen.evaluation.trees.induced_trees.InducedTrees"


@pytest.fixture
def parsed(project):
    """A row whose trees come from a run of `dm_toy`."""
    (project / "experiments/tables/fine.yaml").write_text(FINE)
    settings = yaml.safe_load((project / "experiments/dm_toy.yaml").read_text())
    settings["data"]["init_args"]["annotator"] = {"class_path": PARSER, "init_args": {"run": "dm_toy"}}
    (project / "experiments/parsed_toy.yaml").write_text(yaml.safe_dump(settings))
    definition = load_definition("fine")
    return Job(definition, definition.row("Parsed"), "small", 2)


def test_the_run_that_an_experiment_loads_is_trained_first_and_once(job, parsed):
    stub = Stub()
    trained = fit(parsed, stub)
    assert [arguments[2] for arguments, _ in stub.calls] == ["experiments/dm_toy.yaml", "experiments/parsed_toy.yaml"]
    parser = finished_run(job)
    option = "--data.init_args.annotator.init_args.run"
    assert f"{option}={parser.relative_to('runs')}" in stub.calls[1][0]
    assert trained.run.is_relative_to("runs/parsed_toy/small/seed2")
    assert fit(parsed, stub) == trained
    assert len(stub.calls) == 2
    parser.rename(parser.with_name("2026-01-05"))
    assert fit(parsed, stub) != trained, "its trees come from another run"
    assert len(stub.calls) == 3


def test_a_row_of_another_experiment_that_is_none_of_ours_loads_what_it_names(parsed):
    content = parsed.config.file.read_text()
    parsed.config.file.write_text(content.replace("run: dm_toy", "run: my/own/run"))
    assert parsed.needed == {}


def test_the_run_of_a_row_is_that_of_the_first_seed_that_has_one(job):
    with pytest.raises(UserError, match=r"DM-Base of toy .*depgen reproduce toy --row DM-Base --size small"):
        run_of_row("toy", "DM-Base", "small")
    for seed in (9, 2):
        fit(dataclasses.replace(job, seed=seed), Stub())
        assert run_of_row("toy", "DM-Base", "small").parts[3] == f"seed{seed}"
