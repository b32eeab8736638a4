"""What is refused of tables, results and tracked lines: what a file holds, and what the message must name."""

import dataclasses
import json

import pytest

from depgen.errors import UserError
from depgen.reporting import reproduce
from depgen.reporting.record import record
from depgen.reporting.render import table
from depgen.reporting.results import (
    item_scores,
    measured_path,
    packed,
    read_result,
    read_results,
    result_path,
    write_result,
)
from depgen.reporting.run_facts import read_curve
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
        ("name: Later", "name: ..", "names a folder"),
        ("table: toy", "table: ../../escape", "'../../escape' names a folder"),
        ("seeds: [1, 2]", "sizes: [../x]", "names a folder"),
        ("seeds: [1, 2]", "sizes: []", "sizes: "),
        ("seeds: [1, 2]", "seeds: [one]", r"seeds"),
        ("seeds: [1, 2]", "seeds: {small: [1]}", "seeds: expected those of the sizes small, paper"),
        ("decimals: 1", "decimals: -1", r"columns\.1\.decimals"),
        ("decimals: 1", "top_p: 1.5", r"columns\.1\.top_p"),
        (GENERATION, "generation: {max_new_tokens: 0", "generation: .*max_new_tokens: expected at least 1"),
        (GENERATION, "generation: {temprature: 1", "generation.temprature"),
        (GENERATION, "generation: {samples: {small: 1}, prompt_sentences: 0", "samples: expected those of the sizes"),
        ("name: Later", "name: Later, experiment: dm_toy, options: {a: {small: 2}}", "Later: options: a: .*paper"),
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
            r"row DM-Base: options \(trainer.max_epoch\): .*'max_epoch' Nothing was",
        ),
        (
            "experiment: dm_toy",
            "experiment: dm_toy\n    options: {model.init_args.backbone.init_args.widht: 3}",
            r"row DM-Base: options (.|\n)*'widht'(.|\n)*Nothing was trained",
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
        (lambda: table("toy", size="large"), "No size 'large' here: expected one of small, paper"),
        (lambda: table(size="papr"), "No size 'papr' here: expected one of small, paper"),
        (lambda: table(size="small", output="x.md"), "--output"),
        (lambda: record("toy", size="small"), "depgen reproduce toy --size small"),
    ],
)
def test_a_slip_in_a_command(project, verb, message):
    with pytest.raises(UserError, match=message):
        verb()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": {"bleu1": "ten"}}, r"metrics\.bleu1: .*Delete it to make it again"),
        ({"colour": "red"}, "colour: .*Delete it"),
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


@pytest.mark.parametrize("change", [{"table": "other"}, {"row": "DM-Base"}, {"size": "paper"}, {"seed": 2}])
def test_a_result_in_anothers_place(store, change):
    result = store("Base", 1, {"bleu1": 1.0})
    path = result_path("toy", "Base", size="small", seed=1)
    path.write_text(json.dumps(dataclasses.asdict(result) | change))
    with pytest.raises(UserError, match=r"small-seed1\.json .*belongs at results/.*: move it"):
        read_results("toy", "Base", size="small")


def test_results_that_do_not_read_or_would_not(tmp_path):
    with pytest.raises(UserError, match=r"r\.json.*No such file"):
        read_result(tmp_path / "r.json")
    (tmp_path / "r.json").write_text('{"table": ')
    with pytest.raises(UserError, match=r"r\.json: expected JSON, found: .* Delete it"):
        read_result(tmp_path / "r.json")
    with pytest.raises(UserError, match="perplexity of Base are not finite"):
        write_result(make_result("Base", 1, {"perplexity": float("inf")}), tmp_path / "r.json")


@pytest.mark.parametrize("held", ["", "zlib:eJxj", "other:eJxj"])
def test_cut_scores_of_items(held):
    result = make_result("Base", 1, {"bleu1": 1.0}, items={"bleu1": held})
    with pytest.raises(UserError, match=r"Base, seed 1: bleu1: .*single items.* --remeasure"):
        item_scores([result], "bleu1")


def test_seeds_with_other_numbers_of_items(store):
    results = [store("Base", seed, {"bleu1": 1.0}, {"bleu1": [1.0] * seed}) for seed in (1, 2)]
    assert results[0].items["bleu1"] != packed(results[1].scores("bleu1"))
    with pytest.raises(UserError, match=r"bleu1 items: 1 of seed 1; 2 of seed 2\..*measure again"):
        item_scores(results, "bleu1")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "toy.jsonl:1: .*JSON"),
        ("[1]", "toy.jsonl:1: expected kind, row and size"),
        ('{"kind": "result", "row": "Base"}', "toy.jsonl:1: .*size"),
        ('{"kind": "result", "row": "Base", "size": "small", "seed": 2}', "toy.jsonl:1: metrics"),
        ('{"kind": "intervals", "row": "Base", "size": "small", "intervals": {}}', "toy.jsonl:1: seeds.*git checkout"),
        ('{"kind": "comparison", "row": "Base", "size": "small", "p": 0.1}', "toy.jsonl:1: against"),
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
        (None, "No curve at"),
        ("step,epoch\n", "holds no epoch"),
        ("", r"metrics\.csv: expected what `depgen fit` logs .* Copy it again"),
        ("step,epoch\n1,first\n", r"metrics\.csv: expected what `depgen fit` logs .* Copy it again"),
    ],
)
def test_a_curve_that_does_not_read(tmp_path, content, message):
    path = tmp_path / "metrics.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_curve(path, tokens_per_epoch=1)
