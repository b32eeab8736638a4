"""Rows of GPT-2 begun from a folder of weights: trained from these, told apart from random ones, and no other row."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from depgen.errors import UserError
from depgen.reporting import reproduce
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.pretrained import can_be_pretrained, end_of_text
from depgen.reporting.results import read_result
from depgen.reporting.table import load_definition
from tests.invented_models import END, write_gpt2
from tests.reporting.commands import Commands

CORPUS = {
    "class_path": "depgen.data.generated.GeneratedLanguage",
    "init_args": {"train": 6, "valid": 2, "test": 2, "sentences": [5, 5]},
}
TABLE = {
    "table": "written",
    "caption": "Invented",
    "source": "an invented paper, Table 1",
    "seeds": [1],
    "columns": [{"key": "word_perplexity", "header": "PPL", "higher_better": False}],
    "rows": [
        {"name": "Transformer", "experiment": "transformer_toy"},
        {"name": "GPT-2", "experiment": "gpt2_toy"},
        {"name": "DM-GPT-2", "experiment": "dm_toy", "against": ["GPT-2"]},
    ],
}


def experiment(system, backbone, vocabulary, *, rate, epochs, **options):
    return {
        "seed_everything": 1,
        "trainer": {"accelerator": "cpu", "max_epochs": epochs},
        "model": {
            "class_path": f"depgen.models.{system}",
            "init_args": {
                "backbone": backbone,
                **options,
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": rate}},
            },
        },
        "data": {
            "class_path": "depgen.data.text.TextData",
            "init_args": {
                "corpus": CORPUS,
                "annotator": "depgen.annotation.controls.GoldTrees",
                "vocabulary": vocabulary,
                "tokens_per_batch": 1024,
            },
        },
    }


def gpt2(**init_args):
    return {"class_path": "depgen.backbones.pretrained.PretrainedTransformer", "init_args": init_args}


def pieces(**init_args):
    return {"class_path": "depgen.data.vocabulary.SubwordPieces", "init_args": init_args}


def write_experiments(folder: Path) -> None:
    """Small experiments from random weights and large ones from weights that are not there."""
    random = gpt2(pretrained=None, model_type="gpt2", layers=1, width=8, attention_heads=2, max_length=512, dropout=0.1)
    weights = gpt2(pretrained="gpt2", model_type="gpt2", layers=12, width=768, dropout=0.1)
    learnt, ready = pieces(size=270, tokenizer=None), pieces(size=50257, tokenizer="gpt2", eos_token=END)
    sizes = {"layers": 1, "width": 8, "attention_heads": 2, "feedforward": 8}
    transformer = {"class_path": "depgen.backbones.transformer.Transformer", "init_args": sizes}
    words = {"class_path": "depgen.data.vocabulary.WordVocabulary"}
    phases = {"dependency_modeling_share": 0.5}
    base, twin = "causal_lm.CausalLM", "dmlm.DMLM"
    content = {
        "tables/written": TABLE,
        "transformer_toy": {**experiment(base, transformer, words, rate=1e-3, epochs=2), "small": {}},
        "gpt2_toy": {
            **experiment(base, weights, ready, rate=1e-4, epochs=80),
            "small": experiment(base, random, learnt, rate=1e-2, epochs=2),
        },
        "dm_toy": {
            **experiment(twin, weights, ready, rate=1e-4, epochs=80, **phases),
            "small": experiment(twin, random, learnt, rate=1e-2, epochs=2, **phases),
        },
    }
    for name, each in content.items():
        path = folder / "experiments" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(each))


@pytest.fixture
def project(tmp_path, monkeypatch):
    write_experiments(tmp_path)
    write_gpt2(tmp_path / "weights" / "tiny")
    monkeypatch.chdir(tmp_path)
    for name in ("data", "cache", "runs", "results", "models"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    return tmp_path


@pytest.fixture
def depgen(project, kept, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(kept / "cache"))
    monkeypatch.setattr(reproduce, "run_depgen", Commands(kept))


def job_of(row, table="written"):
    definition = load_definition(table)
    return Job(definition, definition.row(row), "small", 1)


def made(row, **options):
    """What is said of the row."""
    return reproduce.reproduce("written", row=row, size="small", **options).splitlines()[-1]


@pytest.mark.slow
def test_a_row_is_trained_from_a_folder_of_weights(project, depgen):
    assert "done" in made("DM-GPT-2", pretrained="weights/tiny")
    job = dataclasses.replace(job_of("DM-GPT-2"), pretrained="weights/tiny")
    result = read_result(job.result)
    assert (result.beginning, result.budget.epochs, result.trees) == ("tiny", 2, "the corpus's own trees")
    assert result.metrics["word_perplexity"] > 1
    (run,) = job.training.runs()
    assert json.loads((run / "vocabulary.json").read_text())["specials"] == {"eos": END}
    weights = yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]["backbone"]["init_args"]
    assert weights["pretrained"] == str(project / "weights" / "tiny")


@pytest.mark.slow
def test_what_began_from_random_weights_stays_until_it_is_wanted_again(depgen):
    made("GPT-2")
    random = job_of("GPT-2")
    pretrained = dataclasses.replace(random, pretrained="weights/tiny")
    before = read_result(random.result)
    there = f"GPT-2, small, seed 1: there already, {random.result}"
    said = made("GPT-2", pretrained="weights/tiny")
    assert said == f"{there} (begun from random weights, not from tiny; --redo makes it again)"
    assert read_result(random.result) == before
    made("GPT-2", pretrained="weights/tiny", redo=True)
    after = read_result(random.result)
    assert (before.beginning, after.beginning) == ("random weights", "tiny")
    assert before.config_sha256 != after.config_sha256
    assert made("GPT-2", pretrained="weights/tiny") == there
    assert made("GPT-2") == f"{there} (begun from tiny, not from random weights; --redo makes it again)"
    assert random.training.place == "gpt2_toy/small/seed1"
    assert pretrained.training.place.startswith("gpt2_toy--")
    assert all(finished_run(each) is not None for each in (random, pretrained)), "their runs lie apart"


@pytest.mark.parametrize("row", ["GPT-2", "DM-GPT-2"])
@pytest.mark.parametrize("table", ["dmlm_table2", "dmlm_table4", "dmlm_table5", "dmlm_table13"])
def test_the_recipe_is_that_of_weights_and_the_budget_that_of_the_size(table, row, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    write_gpt2(tmp_path / "tiny")
    usual = job_of(row, table)
    small = usual.config.settings
    ours = dataclasses.replace(usual, pretrained=str(tmp_path / "tiny")).config.settings
    assert ours["trainer"] == small["trainer"]
    backbone, vocabulary = ours["model"]["init_args"].pop("backbone"), ours["data"]["init_args"].pop("vocabulary")
    assert {name: value for name, value in backbone["init_args"].items() if value is not None} == {
        "pretrained": str(tmp_path / "tiny"), "dropout": 0.1, "attention_dropout": 0.1,
    }  # fmt: skip
    assert vocabulary["init_args"].items() >= {"tokenizer": str(tmp_path / "tiny"), "eos_token": END}.items()
    del small["model"]["init_args"]["backbone"], small["data"]["init_args"]["vocabulary"]
    assert ours["data"] == small["data"]
    assert ours["model"]["init_args"].pop("optimizer")["init_args"]["lr"] == 5e-5
    assert ours["model"]["init_args"].pop("scheduler")["class_path"] == "depgen.training.schedules.Constant"
    del small["model"]["init_args"]["optimizer"], small["model"]["init_args"]["scheduler"]
    assert ours["model"] == small["model"]


def test_a_row_without_weights_of_a_table_that_has_others_is_made_as_it_is(project):
    assert made("Transformer", pretrained="weights/tiny", check=True) == made("Transformer", check=True)
    plan = reproduce.reproduce("written", row="Transformer", size="small", pretrained="weights/tiny", check=True)
    assert "Transformer, seed 1" in plan


def test_a_table_without_such_rows_has_no_weights_to_begin_from(project):
    table = {**TABLE, "rows": TABLE["rows"][:1]}
    (project / "experiments/tables/written.yaml").write_text(yaml.safe_dump(table))
    with pytest.raises(UserError, match=r"--pretrained: .*found Transformer"):
        made("Transformer", pretrained="weights/tiny")


def test_networks_over_whole_words_have_none_either():
    row = load_definition("scoreboard").row("GPT-2")
    assert not can_be_pretrained(row.experiment_at("small"))


def test_weights_that_do_not_serve_are_refused(project):
    with pytest.raises(UserError, match=r"No pretrained model \./absent"):
        made("GPT-2", pretrained="./absent")
    folder = project / "weights" / "tiny"
    configuration = json.loads((folder / "config.json").read_text())
    for end, said in ((999, "eos_token_id 999 is no token of"), (None, "do not tell what ends a text")):
        (folder / "config.json").write_text(json.dumps({**configuration, "eos_token_id": end}))
        with pytest.raises(UserError, match=said):
            end_of_text(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        end_of_text(str(folder))
