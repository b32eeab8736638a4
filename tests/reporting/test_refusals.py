"""What is refused of tables, results and tracked lines: what a file holds, and what the message must name."""

import dataclasses
import json

import pytest

from depgen.errors import UserError
from depgen.reporting import reproduce
from depgen.reporting.pages import table
from depgen.reporting.results import measured_path, read_curve, read_result
from depgen.reporting.table import load_definition
from tests.reporting.conftest import make_result, toy_results

GENERATION = "generation: {prompt_sentences: 4"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("caption: Invented numbers", "captoin: x", r"toy\.yaml: .*captoin"),
        ("test: paired_t}", "test: sign}", r"columns\.0\.test: .*paired_t"),
        ("values: {bleu1: 9.0}", "values: {bleu9: 9.0}", "row Old: bleu9: no columns"),
        ("stars: [bleu1]", "deviations: {bleu9: 1.0}", "row DM-Base: bleu9: no columns"),
        ("values: {bleu1: 9.0}", "values: {bleu1: nine}", r"rows\.0\.values\.bleu1"),
        ("values: {bleu1: 9.0}", "values: {bleu1: .nan}", r"rows\.0\.values\.bleu1: .*finite"),
        ("against: [Base]", "against: [Bass]", "row DM-Base: Bass: no rows"),
        ("against: [Base]", "against: [DM-Base]", "row DM-Base: DM-Base: no rows"),
        ("against: [Base]", "against: Base", r"rows\.2\.against"),
        ("quoted: Someone 1999", "consensus_of: Later", "row Old: expected `parsing`"),
        ("name: Later", "name: Old", "a row is there twice"),
        ("name: Later", "name: DM-Base left chain", "folder of rows is there twice"),
        ("seeds: [1, 2]", "sizes: []", "sizes: "),
        ("seeds: [1, 2]", "seeds: [one]", r"seeds"),
        ("decimals: 1", "decimals: -1", r"columns\.1\.decimals"),
        ("decimals: 1", "top_p: 1.5", r"columns\.1\.top_p"),
        (GENERATION, "generation: {max_new_tokens: 0", r"generation\.max_new_tokens: .*greater than 0"),
        (GENERATION, "generation: {temprature: 1", "generation.temprature"),
        ("table: toy", "[", "expected YAML"),
    ],
)
def test_a_slip_in_a_table(change, old, new, message):
    change(old, new)
    with pytest.raises(UserError, match=message):
        load_definition("toy")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("texts.Texts]", "texts.Text]", r"toy: measures: Problem (.|\n)*has no attribute 'Text'"),
        ("texts.Texts]", "coherence.Coherence]", r"toy: measures: (.|\n)*tasks"),
        ("texts.Texts]", "parses.Trees]", "toy: parsing must be given: Trees needs it"),
        ("generation: {prompt_sentences: 4, seed: 10}\n", "", "toy: generation must be given: Texts needs it"),
        ("experiment: dm_toy", "experiment: dn_toy", r"row DM-Base: No experiment file .*dn_toy\.yaml\..*'dm_toy'"),
        (
            "experiment: dm_toy",
            "experiment: dm_toy\n    options: {trainer.max_epoch: 3}",
            r"row DM-Base: (.|\n)*'max_epoch' Nothing was",
        ),
        (
            "experiment: dm_toy",
            "experiment: dm_toy\n    options: {model.init_args.backbone.init_args.widht: 3}",
            r"row DM-Base: (.|\n)*'widht'(.|\n)*Nothing was trained",
        ),
    ],
)
def test_what_could_not_be_trained_or_measured_is_refused_before_training(change, monkeypatch, old, new, message):
    change(old, new)
    monkeypatch.setattr(reproduce, "make_all", lambda *given, **options: pytest.fail("trained"))
    with pytest.raises(UserError, match=message):
        reproduce.reproduce("toy", size="small")


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (lambda: load_definition("tory"), r"Did you mean 'toy'\? Tables: toy"),
        (lambda: load_definition("toy").row("dm-bas"), r"no row 'dm-bas'\. Did you mean 'DM-Base'\?.*left-chain"),
        (lambda: table("toy", size="large"), "no size 'large': expected one of small, paper"),
    ],
)
def test_a_slip_in_a_command(project, verb, message):
    with pytest.raises(UserError, match=message):
        verb()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": {"bleu1": "ten"}}, r"r\.json: metrics\.bleu1"),
        ({"colour": "red"}, "colour"),
        ({"metrics": {"bleu1": float("nan")}}, r"metrics\.bleu1"),
        ({"curve": [[1.0]]}, r"curve\.0"),
        ({"seed": "1"}, "seed: "),
        ({"budget": {"epochs": "4"}}, r"budget\.epochs"),
        ({"data": {"corpus": "x"}}, r"data\.reduced"),
    ],
)
def test_a_slip_in_a_result(tmp_path, change, message):
    content = dataclasses.asdict(make_result("Base", 1, {"bleu1": 10.5})) | change
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        read_result(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "toy.jsonl:1: .*JSON"),
        ('{"kind": "result", "row": "Base", "size": "small", "seed": 2}', "toy.jsonl: Base: .*metrics"),
    ],
)
def test_a_slip_in_a_tracked_line(project, line, named):
    path = measured_path("toy")
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    with pytest.raises(UserError, match=named):
        toy_results()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected the log of `depgen fit`.*No such file"),
        ("step,epoch\n", "holds no epoch"),
        ("", r"metrics\.csv: expected the log of `depgen fit`"),
        ("step,epoch\n1,first\n", r"metrics\.csv: expected the log of `depgen fit`"),
    ],
)
def test_a_curve_that_does_not_read(tmp_path, content, message):
    path = tmp_path / "metrics.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_curve(path, tokens_per_epoch=1)
