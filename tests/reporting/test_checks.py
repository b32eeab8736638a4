"""Misspelt columns are refused before anything is trained; columns of every table of the package are known."""

from contextlib import nullcontext

import pytest
import yaml

from depgen.cli import main
from depgen.errors import UserError
from depgen.models.causal_lm import CausalLM
from depgen.reporting import reproduce
from depgen.reporting.checks import check_keys, check_options
from depgen.reporting.definition import is_made, load_definition
from depgen.reporting.experiments import table_names


def rows_of(definition, size):
    return [row for row in definition.rows if is_made(row, size=size)]


@pytest.mark.slow
def test_columns_of_all_tables_are_known():
    for name in table_names():
        definition = load_definition(name)
        for size in definition.sizes:
            check_keys(definition, rows_of(definition, size), size=size)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("texts.Texts]", "texts.Text]", r"toy: measures: Problem (.|\n)*has no attribute 'Text'"),
        ("texts.Texts]", "coherence.Coherence]", r"toy: measures: (.|\n)*tasks"),
        ("texts.Texts]", "parses.Trees]", "toy: parsing must be given: Trees needs it"),
        ("generation: {prompt_sentences: 4, seed: 10}\n", "", "toy: generation must be given: Texts needs it"),
        ("texts.Texts]", "samples.TextShapes]", "toy: samples must be given: TextShapes needs it"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_measures_that_cannot_be_made_are_refused_before_training(project, monkeypatch, old, new, message, check):
    path = project / "experiments/tables/toy.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    monkeypatch.setattr(reproduce, "make_all", lambda *given, **options: pytest.fail("trained"))
    with pytest.raises(UserError, match=message):
        reproduce.reproduce("toy", check=check)


BACKBONE = "model.init_args.backbone.init_args"


@pytest.mark.parametrize(
    ("option", "value", "found"),
    [
        (f"{BACKBONE}.widht", 32, "'widht'"),
        ("model.backbone.widht", 32, "'widht'"),
        (f"{BACKBONE}.width", "wide", "wide"),
        ("trainer.max_epoch", 3, "'max_epoch'"),
        ("data.init_args.corpus.init_args.trian", 3, "'trian'"),
        ("modle.init_args.dropout", 0.1, "there is no option 'modle'. Did you mean 'model'?"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_misspelt_option_of_a_row_is_refused_before_training(
    project, monkeypatch, capsys, option, value, found, check
):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(
        path.read_text().replace("experiment: dm_toy\n", f"experiment: dm_toy\n    options:\n      {option}: {value}\n")
    )
    monkeypatch.setattr(reproduce, "make_all", lambda *given, **options: pytest.fail("trained"))
    assert main(["reproduce", "toy", "--size", "small", *check]) == 2
    said = capsys.readouterr().err
    assert f"tables/toy.yaml: row DM-Base: options: {option}: " in said
    assert found in said
    assert said.strip().endswith("Nothing was trained.")


def test_options_that_belong_together_are_read_together(project):
    path = project / "experiments/tables/toy.yaml"
    content = yaml.safe_load(path.read_text())
    corpus = {"class_path": "depgen.data.corpora.TextLines", "init_args": {"folder": "mine"}}
    corpus["init_args"] |= {split: f"{split}.txt" for split in ("train", "valid", "test")}
    row = next(row for row in content["rows"] if row["name"] == "DM-Base")
    row["options"] = {"data.init_args.corpus": corpus, "data.init_args.corpus.init_args.folder": "ours"}
    path.write_text(yaml.safe_dump(content))
    definition = load_definition("toy")
    check_options(definition, rows_of(definition, "small"), size="small")


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("perplexty", "'perplexty'. Did you mean 'perplexity'?"),
        ("dev_perplexty", "Did you mean 'dev_perplexity'?"),
        ("dda_tree", "gives 'dda_tree'"),
        ("selfbleu_2", "Did you mean 'selfbleu2'?"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_misspelt_column_is_refused_before_training(project, monkeypatch, capsys, key, found, check):
    path = project / "experiments/tables/toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"][-1]["key"] = key
    path.write_text(yaml.safe_dump(content))
    monkeypatch.setattr(reproduce, "run_depgen", lambda *_: pytest.fail("trained"))
    assert main(["reproduce", "toy", *check]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert found in line
    assert "experiments/tables/toy.yaml: columns" in line
    assert "word_perplexity" in line
    assert "Nothing was trained" in line


class Own(CausalLM):
    """A system outside the package, which may log what it likes."""


class Declared(CausalLM):
    """One that says what it logs."""

    @classmethod
    def figure_names(cls):
        return (*super().figure_names(), "mine")


@pytest.mark.parametrize(
    ("system", "key", "known"),
    [(Own, "mine", True), (Declared, "mine", True), (Declared, "other", False), (CausalLM, "mine", False)],
)
def test_a_system_outside_the_package_may_log_what_it_likes(project, system, key, known):
    path = project / "experiments/base_toy.yaml"
    path.write_text(
        path.read_text().replace("depgen.models.causal_lm.CausalLM", f"{system.__module__}.{system.__name__}")
    )
    path = project / "experiments/tables/toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"] = [{"key": key, "header": "Mine", "higher_better": None}]
    content["rows"] = [{"name": "Base", "experiment": "base_toy", "in_paper": False}]
    path.write_text(yaml.safe_dump(content))
    definition = load_definition("toy")
    with nullcontext() if known else pytest.raises(UserError, match="figure_names"):
        check_keys(definition, rows_of(definition, "small"), size="small")
