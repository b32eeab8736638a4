"""Whole tables on invented data, by the commands that make and print them: trees, their floors, similarity."""

import json

import pytest
import yaml

from depgen.cli import main
from depgen.locations import below_runs
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.results import read_result
from depgen.reporting.table import load_definition
from tests.fixtures.kinds import named
from tests.invented_similarity import write_similarity
from tests.reporting.commands import tables_made

pytestmark = pytest.mark.slow

STORIES = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])
SYSTEM = {"evaluation_masks": 1, "width": 16, "layers": 1, "attention_heads": 2, "head_size": 4, "parser_layers": 1}
WORDS = named("data.vocabulary.WordVocabulary", masks=True)
TRAINED = {
    "trainer": {"max_epochs": 1, "accelerator": "cpu"},
    "model": named("models.udgn.UDGN", **SYSTEM),
    "data": named("data.text.TextData", corpus=STORIES, vocabulary=WORDS),
}
TUNED = {
    "trainer": {"max_epochs": 1, "accelerator": "cpu"},
    "model": named("models.finetuned.SentenceSimilarity", finetune="frozen_parser"),
    "data": named("data.tasks.TaskData", encoder="udgn", corpus={"class_path": "depgen.data.tasks.SimilarityTasks"}),
}
MEASURES = [f"{kind}_{decoding}" for decoding in ("tree", "argmax") for kind in ("dda", "uda")]


def column(key, **more):
    return {"key": key, "header": key, "higher_better": True, **more}


PARSED = {
    "table": "parsed",
    "caption": "Invented trees",
    "source": "an invented paper, Table 2",
    "seeds": [1],
    "parsing": "parsing_stories",
    "measures": [
        "depgen.reporting.measures.parses.Trees",
        named("reporting.measures.parses.Correlations", treebank="correlations_stories"),
    ],
    "columns": [
        *(column(key, test="paired_bootstrap", weights="parsed_words") for key in MEASURES),
        column("child_to_parent_det"),
        {"key": "perplexity", "header": "PPL", "higher_better": False, "test": "paired_t"},
    ],
    "rows": [
        {"name": "next word", "floor": "next word", "in_paper": False},
        {"name": "random tree", "floor": "random tree", "in_paper": False},
        {"name": "DMV", "quoted": "Someone, 2004", "values": {"dda_tree": 35.8}},
        {"name": "UDGN", "experiment": "udgn", "against": ["next word"], "values": {"dda_tree": 49.9}},
    ],
}
TUNING = {
    "table": "tuned",
    "caption": "Invented similarity",
    "source": "an invented paper, Table 5",
    "seeds": [1],
    "columns": [column(f"{name}_spearman") for name in ("sts12", "sick", "mean")],
    "rows": [{"name": "UDGN", "experiment": "sts", "values": {"mean_spearman": 76.77}}],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which both tables were made."""
    folder = tmp_path_factory.mktemp("place")
    experiments = {
        "tables/parsed": PARSED,
        "tables/tuned": TUNING,
        "udgn": {**TRAINED, "small": {}},
        "sts": {**TUNED, "small": {}},
        "parsing_stories": {"corpus": STORIES, "splits": ["train", "test"], "seeds": 5},
        "correlations_stories": {"corpus": STORIES, "splits": ["test"]},
    }
    write_similarity(folder / "data" / "sts")
    with tables_made(folder, experiments, "parsed", "tuned"):
        yield


def job_of(table, row):
    definition = load_definition(table)
    return Job(definition, definition.row(row), "small", 1)


def table_of(made, name, capsys):
    """The printed lines of a table in Markdown: its cells by row and kind of numbers, and its notes."""
    assert main(["table", name, "--size", "small", "--format", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells, row = {}, None
    for line in lines:
        if line.startswith("| ") and not line.startswith("| System"):
            first, kind, *rest = [cell.strip() for cell in line.strip("|").split("|")]
            row = first or row
            cells[row, kind] = rest
    return cells, [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def test_a_systems_accuracies_stand_beside_floors_and_quoted_rows(made, capsys):
    cells, notes = table_of(made, "parsed", capsys)
    assert cells["DMV (quoted: Someone, 2004)", "paper"] == ["35.80", "", "", "", "", "", ""]
    assert ("next word†", "local") not in cells  # a floor is nobody's system, and not marked as ours
    floor = cells["next word", "local"]
    assert floor[0].split()[0] == floor[2].split()[0] != "", "a rule is decoded in no two ways"
    assert cells["UDGN", "paper"][0] == "49.90"
    metrics = read_result(job_of("parsed", "UDGN").result).metrics
    *figures, unknown = cells["UDGN", "local"]
    assert unknown == f"{100 * metrics['unk_rate']:.2f} %"
    for key, cell in zip([*MEASURES, "child_to_parent_det", "perplexity"], figures, strict=True):
        assert cell.split()[0] == f"{metrics[key]:.2f}"
        assert ("[" in cell) == (key != "child_to_parent_det"), "intervals where sentences have scores"
    assert cells["UDGN", "difference"][0] == f"{metrics['dda_tree'] - 49.9:+.2f}"
    assert cells["UDGN", "next word"], "a verdict"
    (judge,) = [note for note in notes if note.startswith("Settings: ")]
    assert "dda_tree, uda_tree, dda_argmax, uda_argmax: generated, train+test, 40 sentences" in judge
    (missing,) = [note for note in notes if note.startswith("Not computed")]
    assert "(next word, random tree): a rule gives heads and nothing else" in missing


def test_a_system_is_fine_tuned_from_the_run_of_its_row(made, capsys):
    job = job_of("tuned", "UDGN")
    run = finished_run(job)
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert settings["data"]["init_args"]["encoder"] == below_runs(str(finished_run(job_of("parsed", "UDGN"))))
    result, tested = read_result(job.result), json.loads((run / "test.json").read_text())["metrics"]
    assert {f"test/{key}": value for key, value in result.metrics.items()}.items() <= tested.items()
    assert (result.data.corpus, result.data.train_documents, result.trees) == ("STS", 48, None)
    cells, notes = table_of(made, "tuned", capsys)
    assert cells["UDGN", "paper"][-1] == "76.77"
    assert cells["UDGN", "local"][-1] == f"{tested['test/mean_spearman']:.2f}"
    assert any("less data than was published (all rows)" in note for note in notes)
