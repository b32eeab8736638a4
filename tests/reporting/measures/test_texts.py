"""A row's texts: generated once into the folder of its run, and measured at each nucleus."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from depgen.data.generated import GeneratedLanguage
from depgen.errors import UserError
from depgen.evaluation.generation import text_seed
from depgen.evaluation.text_judges import TextScore
from depgen.evaluation.text_measures import TextOptions
from depgen.evaluation.text_oracle import find_oracle, text_losses
from depgen.models.dclm import DCLM
from depgen.reporting import reproduce
from depgen.reporting.jobs import Job, fit
from depgen.reporting.measures import TrainedRow, texts
from depgen.reporting.measures.texts import Texts, generated, prompts_of, texts_of
from depgen.reporting.results import read_result
from depgen.reporting.table import Generation, load_definition
from depgen.trees.sentence import Document, Sentence
from tests.reporting.conftest import EXPERIMENT

FREE = """
table: free
caption: Texts from nothing
source: an invented paper, Table 2
seeds: [1, 2]
generation: {samples: {small: 4, paper: 9}, top_p: 1.0, seed: 10}
oracle: oracle_toy
measures: [depgen.reporting.measures.texts.Texts]
columns:
  - {key: lm, header: LM, higher_better: false, test: welch_t}
  - {key: cold, header: p=0.3, measure: oracle_perplexity, top_p: 0.3, higher_better: false, test: welch_t}
  - {key: warm, header: p=0.9, measure: oracle_perplexity, top_p: 0.9, higher_better: false, test: welch_t}
  - {key: gpt_cold, header: GPT p=0.3, measure: lm_perplexity, top_p: 0.3, higher_better: false}
rows:
  - {name: Base, experiment: base_toy, values: {lm: 5.0}}
  - {name: DM-Base, experiment: dm_toy, against: [Base]}
"""


@pytest.fixture
def free(project):
    (project / "experiments/tables/free.yaml").write_text(FREE)
    (project / "experiments/oracle_toy.yaml").write_text(f"{EXPERIMENT}small: {{}}\n")
    return project


def a_job(table="free", row="DM-Base"):
    definition = load_definition(table)
    return Job(definition, definition.row(row), "small", 2)


def with_texts(job, **how):
    """The job of a table with other settings of texts."""
    return dataclasses.replace(job, definition=job.definition.model_copy(update={"generation": Generation(**how)}))


def write(job, trained, prompts=None, **how):
    """The texts of a job's run."""
    row = TrainedRow(job=job, trained=trained, corpus=None, facts=None, options=TextOptions(device="cpu"), depgen=None)
    return list(generated(row, prompts, **how)["text"])


@pytest.mark.slow
def test_every_nucleus_of_one_run_fills_its_columns(free, depgen, monkeypatch):
    job = a_job()
    monkeypatch.setattr(reproduce, "run_depgen", depgen)
    reproduce.make(job, options=TextOptions(resamples=10))
    result, run = read_result(job.result), job.training.finished()
    assert result.generation == Generation(top_p=1.0, seed=10, samples=4)
    how, weights = result.generation, result.weights_sha256
    named = [dataclasses.replace(how, top_p=p).file_of(training_seed=2, weights=weights) for p in (0.3, 0.9, 1.0)]
    assert sorted(path.name for path in (run / "texts").iterdir()) == named
    rows = [json.loads(line) for line in (run / "texts" / named[0]).read_text().splitlines()]
    assert [row["seed"] for row in rows] == [text_seed(12, 0, copy) for copy in range(4)]
    kept = {p: texts_of(result, p) for p in (0.3, 0.9, None)}
    assert kept[0.3].to_dict("records") == rows
    oracle = find_oracle("experiments/oracle_toy.yaml")
    for key, p in (("cold", 0.3), ("warm", 0.9)):
        losses = text_losses(list(kept[p]["text"]), oracle)
        expected = np.exp(losses["nll"] / losses["tokens"])
        np.testing.assert_allclose(result.scores(key), expected, rtol=1e-5)
        assert result.metrics[key] == pytest.approx(np.nanmean(expected), rel=1e-5)
        assert result.metrics[f"{key}_unk_rate"] == pytest.approx(losses["unknown"].sum() / losses["words"].sum())
    losses = text_losses(list(kept[None]["text"]), oracle)
    assert result.metrics["lm"] == pytest.approx(np.nanmean(losses["nll"] / losses["tokens"]), rel=1e-5)
    empty = sum(not text for texts in kept.values() for text in texts["text"])
    assert (result.metrics["texts"], result.metrics["empty"]) == (12, empty)
    assert "gpt_cold" in result.not_computed


def test_tables_share_texts_and_one_that_wants_more_has_the_same_first(free, depgen, caplog):
    how = {"top_p": 0.3, "seed": 10}
    four, trained = with_texts(a_job(), samples=4, **how), fit(a_job(), depgen)
    first = write(four, trained, top_p=0.3)
    (file,) = (trained.run / "texts").iterdir()
    before = file.stat().st_mtime_ns
    fewer = with_texts(a_job("toy"), samples=3, **how)
    assert write(fewer, trained, top_p=0.3) == first[:3]
    assert file.stat().st_mtime_ns == before
    assert not caplog.text.count("generated again")
    more = with_texts(a_job("toy"), samples=6, **how)
    assert write(more, trained, top_p=0.3)[:4] == first
    assert f"{file} is generated again: it has other prompts, or fewer" in caplog.text
    assert [*(trained.run / "texts").iterdir()] == [file]


def test_other_settings_and_other_weights_have_other_files():
    how, weights = Generation(), "0" * 64
    changed = [
        {"prompt_sentences": 3}, {"top_p": 0.9}, {"temperature": 0.7}, {"seed": 3}, {"max_new_tokens": 9},
        {"samples": 5}, {"options": {"boost": {"amod": 10}}}, {"options": {"boost": {"amod": 20}}},
    ]  # fmt: skip
    others = [dataclasses.replace(how, **change) for change in changed]
    names = {each.file_of(training_seed=2, weights=weights) for each in (how, *others)}
    names |= {how.file_of(training_seed=1, weights=weights), how.file_of(training_seed=2, weights="1" * 64)}
    assert len(names) == len(changed) + 3
    assert hash(others[-1]) is not None


@pytest.mark.slow
def test_texts_continue_their_prompts_and_are_of_the_runs_weights(project, depgen, caplog):
    job = a_job("toy")
    trained, prompts = fit(job, depgen), ("one day", "she was")
    written = write(job, trained, prompts, top_p=0.5)
    (file,) = (trained.run / "texts").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["prompt"], row["text"]) for row in rows] == [*zip(prompts, written, strict=True)]
    before = file.read_text()
    assert write(job, trained, prompts[:1], top_p=0.5) == written[:1]
    assert file.read_text() == before
    write(job, trained, ("one day", "another"), top_p=0.5)
    assert [json.loads(line)["prompt"] for line in file.read_text().splitlines()] == ["one day", "another"]
    assert f"{file} is generated again" in caplog.text
    file.write_text(before)
    other = fit(dataclasses.replace(job, seed=1), depgen).run
    shutil.copy(other / "checkpoints/best.ckpt", trained.run / "checkpoints/best.ckpt")
    write(job, trained, prompts, top_p=0.5)
    assert len([*(trained.run / "texts").iterdir()]) == 2
    assert file.read_text() == before


def test_a_table_may_leave_out_empty_texts(project, monkeypatch):
    written = pd.DataFrame({"prompt": ["a", "b", "c"], "text": ["one day it rained", "", "she was late"]})
    monkeypatch.setattr(texts, "generated", lambda *_, **__: written)
    monkeypatch.setattr(texts, "prompts_of", lambda *_: (("a", "b", "c"), ("one day", "e", "she was")))
    columns = (load_definition("toy").columns[0].model_copy(update={"key": "bleu1"}),)
    job = a_job("toy")
    job = dataclasses.replace(job, definition=job.definition.model_copy(update={"columns": columns}))
    row = SimpleNamespace(
        job=job, generation=job.generation, corpus=None, options=TextOptions(resamples=10), depgen=None
    )
    found = {empty: Texts(empty=empty).measure(row) for empty in (None, "zero", "drop")}
    scores = found["zero"].items["bleu1"]
    assert scores[1] == 0 < scores[0]
    np.testing.assert_array_equal(found[None].items["bleu1"], scores)
    np.testing.assert_array_equal(found["drop"].items["bleu1"], [scores[0], np.nan, scores[2]])
    assert found["drop"].metrics["bleu1"] == pytest.approx(1.5 * found["zero"].metrics["bleu1"])
    assert found["drop"].metrics["empty"] == 1


def test_columns_of_one_measure_have_their_own_judges(project, monkeypatch):
    written = pd.DataFrame({"prompt": ["a", "b"], "text": ["one day it rained", "she was late"]})
    monkeypatch.setattr(texts, "generated", lambda *_, **__: written)
    monkeypatch.setattr(texts, "prompts_of", lambda *_: (("a", "b"), ("one day", "she was")))

    def lm_perplexity(read, *, model, **_):
        return TextScore(float(len(model)), model, np.full(len(read), float(len(model))))

    monkeypatch.setattr("depgen.evaluation.text_measures.lm_perplexity", lm_perplexity)
    job = a_job("toy")
    first, *_ = job.definition.columns
    judged = [
        first.model_copy(update={"key": key, "measure": "lm_perplexity", "judge": judge})
        for key, judge in (("own", None), ("small", "SmolLM"), ("large", "Llama-large"))
    ]
    job = dataclasses.replace(job, definition=job.definition.model_copy(update={"columns": (first, *judged)}))

    def measured(**options):
        row = SimpleNamespace(
            job=job, generation=job.generation, corpus=None, options=TextOptions(resamples=10, **options), depgen=None
        )
        return Texts().measure(row)

    numbers = measured()
    assert [numbers.settings[key] for key in ("own", "small", "large")] == ["gpt2", "SmolLM", "Llama-large"]
    assert [numbers.metrics[key] for key in ("own", "small", "large")] == [4, 6, 11]
    np.testing.assert_array_equal(numbers.items["large"], [11, 11])
    assert (numbers.metrics["texts"], "bleu1" in numbers.metrics) == (2, True)
    named = measured(perplexity_model="mine").settings
    assert [named[key] for key in ("own", "small", "large")] == ["mine"] * 3


def test_systems_that_read_documents_are_refused(project, depgen, monkeypatch):
    documents = SimpleNamespace(model=DCLM(9))
    monkeypatch.setattr(texts, "load", lambda run, device: documents)
    job = a_job("toy")
    with pytest.raises(UserError, match="reads documents sentence by sentence"):
        write(job, fit(job, depgen), ("one day",), top_p=0.5)


def test_prompts_are_four_sentences_and_the_reference_the_fifth():
    corpus = GeneratedLanguage(train=1, valid=1, test=3, sentences=(5, 5))
    for document, prompt, reference in zip(corpus.documents("test"), *prompts_of(corpus, Generation()), strict=True):
        assert f"{prompt} {reference}".split() == list(document.words())
        assert tuple(reference.split()) == document.sentences[4].words
    assert [*zip(*prompts_of(corpus, Generation(documents=2)), strict=True)] == [
        *zip(*prompts_of(corpus, Generation()), strict=True)
    ][:2]
    short = SimpleNamespace(documents=lambda split: [Document((Sentence(("one", ".")),) * 4, "file.csv:7")])
    with pytest.raises(UserError, match=r"file\.csv:7: .*4 sentences as prompt"):
        prompts_of(short, Generation())


@pytest.mark.parametrize(
    ("key", "options", "expected"),
    [
        ("bleu1", {"union": "mine", "oracle": "mine"}, {"union": None, "oracle": None, "reverse": False}),
        ("union", {}, {"union": "union_rocstories/small"}),
        ("union", {"union": "mine"}, {"union": "mine"}),
        ("lm", {"oracle": "mine"}, {"oracle": "mine", "reverse": False}),
        ("rlm", {"oracle": "mine"}, {"oracle": "mine", "reverse": True}),
        ("lm_perplexity", {}, {"perplexity_model": "gpt2", "bertscore_model": None}),
        ("bertscore", {}, {"perplexity_model": None, "bertscore_model": "roberta-large"}),
    ],
)
def test_columns_have_the_models_of_their_measures_alone(project, depgen, key, options, expected):
    job = a_job("toy")
    columns = (job.definition.columns[0].model_copy(update={"key": key}),)
    found = texts.options_for(job, columns, TextOptions(**options), depgen)
    assert {name: getattr(found, name) for name in expected} == expected
    assert depgen.calls == []


def test_a_column_of_an_oracle_wants_one(project, depgen):
    job = a_job("toy")
    columns = (job.definition.columns[0].model_copy(update={"key": "lm"}),)
    with pytest.raises(UserError, match=r"Table toy .*no `oracle`"):
        texts.options_for(job, columns, TextOptions(), depgen)


def test_a_size_without_a_number_of_samples_is_refused(free):
    path = free / "experiments/tables/free.yaml"
    path.write_text(FREE.replace("paper: 9", "large: 9"))
    with pytest.raises(UserError, match=r"samples: .*paper"):
        load_definition("free")
    assert Generation(samples=7).at("small").samples == 7
    assert Generation(documents={"small": 5, "paper": None}).at("paper") == Generation()
    assert Generation().at("small").samples is None
