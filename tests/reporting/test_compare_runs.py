"""Existing runs compared: hand-computed tests over three items and over seeds, and what is refused."""

import hashlib
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from depgen.cli import main
from depgen.locations import file_sha256
from tests.fixtures.make import trained

KINDS = ("transformer", "dmlm", "udgn", "dm_gpt2")
ITEMS = {"first": [1.0, 2.0, 3.0], "second": [1.5, 2.0, 4.0], "third": [3.0, 4.1, 5.0]}
"""Mean nats per token of three items under three systems."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finished runs of four kinds of system, without tests."""
    return trained(tmp_path_factory.mktemp("finished"), *KINDS)


@pytest.fixture
def runs(finished, tmp_path, monkeypatch):
    """Puts a run into the folder of runs, with the test numbers that its items give."""
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)

    def add(
        name, nll=None, *, kind="transformer", seed=1, tokens=2, words=2, perplexity=None, data="d" * 64, sentences=None
    ):
        run = tmp_path / "runs" / name
        shutil.copytree(finished[kind], run)
        record = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**record, "seed": seed}))
        if nll is not None:
            each = np.asarray(nll) * tokens
            arrays = {"items": range(len(nll)), "nll": each, "tokens": [tokens] * len(nll), "words": [words] * len(nll)}
            arrays["words"] = words if isinstance(words, list) else arrays["words"]
            digests = {"data": data, "sentences": sentences}
            known = {name: np.asarray(each) for name, each in digests.items() if each is not None}
            np.savez(run / "test_items.npz", **arrays, **known)
            perplexity = math.exp(each.sum() / (tokens * len(nll)))
        if perplexity is not None:
            best = run / "checkpoints" / "best.ckpt"
            content = {
                "checkpoint": "best.ckpt",
                "checkpoint_sha256": file_sha256(best),
                "metrics": {"test/perplexity": perplexity},
            }
            if nll is not None:
                content["metrics"]["test/word_perplexity"] = math.exp(each.sum() / np.sum(arrays["words"]))
            (run / "test.json").write_text(json.dumps(content))
        return run

    return add


def compared(capsys, *arguments):
    """The verdicts, and the cells by system and measure."""
    assert main(["compare", *arguments, "--format", "json"]) == 0
    page = json.loads(capsys.readouterr().out)
    cells: dict[str, dict[str, dict[str, object]]] = {}
    for cell in page["cells"]:
        cells.setdefault(cell["row"], {})[cell["measure"]] = cell
    return page["verdicts"], cells


def refused(capsys, *arguments):
    assert main(["compare", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def p_value(first, second):
    """Two-sided, of the paired t-test over three items: with two degrees of freedom it is 1 - t / sqrt(2 + t^2)."""
    differences = np.subtract(first, second)
    t = abs(differences.mean()) / (differences.std(ddof=1) / math.sqrt(3))
    return 1 - t / math.sqrt(2 + t * t)


def test_three_systems_are_compared_item_by_item_and_corrected_for_three_tests(runs, capsys):
    for number, (name, nll) in enumerate(ITEMS.items()):
        runs(f"{name}/2026-01-0{number + 1}", nll, kind=("transformer", "dmlm", "transformer")[number])
    runs("first/again", ITEMS["first"])
    _, again = compared(capsys, "first/again", "first/2026-01-01")
    assert {*again} == {"first/again", "first/2026-01-01"}, "the same seed again"
    verdicts, cells = compared(capsys, "first/2026-01-01", "second", "third")
    values = {system: measures["perplexity"]["value"] for system, measures in cells.items()}
    assert values == {name: pytest.approx(math.exp(np.mean(nll))) for name, nll in ITEMS.items()}
    raw = {pair: p_value(*(ITEMS[name] for name in pair)) for pair in (("first", "second"), ("first", "third"))}
    last = p_value(ITEMS["second"], ITEMS["third"])
    assert [round(p, 4) for p in (*raw.values(), last)] == [0.2254, 0.0003, 0.0404]
    compared_pairs = {(each["row"], each["other"]): each for each in verdicts}
    assert {pair: (each["p_items"], each["verdict"]) for pair, each in compared_pairs.items()} == {
        ("first", "second"): (pytest.approx(raw["first", "second"], rel=1e-4), "undecided"),
        ("first", "third"): (pytest.approx(3 * raw["first", "third"], rel=1e-4), "ahead over items only"),
        ("second", "third"): (pytest.approx(2 * last, rel=1e-4), "undecided"),
    }
    assert compared_pairs["first", "second"]["gain"] == pytest.approx(math.exp(2.5) - math.exp(2))
    for system, measures in cells.items():
        low, high = measures["perplexity"]["low"], measures["perplexity"]["high"]
        assert math.exp(min(ITEMS[system])) - 1e-3 <= low < values[system] < high


def test_seeds_of_one_configuration_are_one_system(runs, capsys):
    for seed, (first, second) in enumerate([(50.0, 44.0), (52.0, 45.0)], start=1):
        runs(f"transformer_toy/small/seed{seed}/2026-01-0{seed}", seed=seed, perplexity=first)
        runs(f"dmlm_toy/2026-01-0{seed}", kind="dmlm", seed=seed, perplexity=second)
    runs("dmlm_toy/2026-01-03", kind="udgn", seed=3, perplexity=30.0)  # another configuration in the same folder
    one, other = (
        [f"transformer_toy/small/seed{seed}" for seed in (1, 2)],
        [f"dmlm_toy/2026-01-0{day}" for day in (1, 2)],
    )
    (item,), cells = compared(capsys, *one, *other)
    measures = {system: measures["perplexity"] for system, measures in cells.items()}
    assert {name: (cell["value"], round(cell["deviation"], 4)) for name, cell in measures.items()} == {
        "transformer_toy": (51.0, 1.4142), "dmlm_toy": (44.5, 0.7071),
    }  # fmt: skip
    assert (item["row"], item["gain"], round(item["p_seeds"], 3)) == ("transformer_toy", -6.5, 0.055)
    assert "no per-item scores" in item["untested"]
    _, alone = compared(capsys, "transformer_toy/small", "dmlm_toy/2026-01-02")
    assert [measures["perplexity"]["value"] for measures in alone.values()] == [52.0, 45.0]


def test_other_vocabularies_are_compared_per_word(runs, capsys):
    runs("words/a", ITEMS["first"], tokens=2, words=2)
    runs("pieces/a", [0.5, 0.75, 1.0], kind="dm_gpt2", tokens=4, words=2)
    (item,), cells = compared(capsys, "words", "pieces")
    words, pieces = cells.values()
    assert pieces["perplexity"]["value"] == pytest.approx(math.exp(0.75))
    assert pieces["word_perplexity"]["value"] == pytest.approx(math.exp(1.5))
    assert words["word_perplexity"]["value"] == pytest.approx(math.exp(2))
    assert (item["column"], item["incomparable"]) == ("word_perplexity", None)
    assert item["p_items"] == pytest.approx(p_value([1.0, 1.5, 2.0], ITEMS["first"]), rel=1e-4)


def test_kinds_of_likelihood_and_numbers_of_words_do_not_compare(runs, capsys):
    runs("words/a", ITEMS["first"])
    runs("masked/a", ITEMS["second"], kind="udgn")
    runs("ends/a", ITEMS["third"], kind="dm_gpt2", words=3)
    verdicts, cells = compared(capsys, "words", "masked", "ends")
    assert {(each["row"], each["other"], each["verdict"], each["p_items"]) for each in verdicts} == {
        ("words", "ends", "not compared", None)
    }
    exact = ["word_perplexity", "perplexity"]
    columns = {row: [key for key, cell in own.items() if cell["value"] is not None] for row, own in cells.items()}
    assert columns == {"words": exact, "masked": ["perplexity_pseudo"], "ends": exact}
    assert main(["compare", "words", "masked"]) == 0
    shown = capsys.readouterr().out
    assert "masked words, drawn at random (rate 0.3, draws 2)" in " ".join(shown.split())
    assert "exact likelihood" in shown
    assert re.search(r"\d+ test tokens, vocabulary \w{8}\b", " ".join(shown.split()))


def test_the_table_is_printed_or_written(runs, capsys, tmp_path):
    first, _ = runs("first/a", ITEMS["first"]), runs("second/a", ITEMS["second"], kind="dmlm")
    assert main(["compare", "first", "second", "--format", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert "| first | local | 7.39" in shown
    assert f"first: {first}" in shown
    assert main(["compare", "first", "second", "--format", "markdown", "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text().strip() == shown.strip()


def test_what_is_refused(runs, capsys):
    for name in ("tested/a", "again/a"):
        runs(name, ITEMS["first"])
    runs("untested/a")
    runs("other/a", ITEMS["second"], data="e" * 64)
    runs("old/a", [*ITEMS["second"], 2.0], data=None)
    assert "depgen test --run" in refused(capsys, "tested", "untested")
    assert "No run at" in refused(capsys, "tested", "nowhere")
    assert "different data" in refused(capsys, "tested", "other")
    assert "their items are 3 and 4" in refused(capsys, "tested", "old")
    assert "at least two" in refused(capsys, "tested")
    (Path("runs/again/a/checkpoints/best.ckpt")).write_bytes(b"other weights")
    assert "was trained further since" in refused(capsys, "tested", "again")


def test_the_same_sentences_in_files_of_other_formats_are_compared(runs, capsys, tmp_path):
    runs("text/a", ITEMS["first"], sentences="s" * 64)
    runs("json/a", ITEMS["second"], kind="dmlm", data="e" * 64, sentences="s" * 64)
    ((item,), _) = compared(capsys, "text", "json")
    assert item["p_items"] == pytest.approx(p_value(ITEMS["first"], ITEMS["second"]), rel=1e-4)
    record = tmp_path / "runs" / "json" / "a" / "run.json"
    content = json.loads(record.read_text())
    content["data"]["fingerprint"] = "f" * 64
    record.write_text(json.dumps(content))
    assert main(["compare", "text", "json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "NOT the same data (text or reading options differ): text | json" in shown
    runs("others/a", ITEMS["second"], kind="dmlm", data="e" * 64, sentences="t" * 64)
    assert "digests of the test sentences" in refused(capsys, "text", "others")
    runs("divided/a", ITEMS["second"], kind="dmlm", data="e" * 64, sentences="s" * 64, words=[1, 3, 2])
    assert "other items" in refused(capsys, "text", "divided")
    runs("alike/a", ITEMS["second"], kind="dmlm", words=[1, 3, 2])  # of the same file
    assert "other items" in refused(capsys, "text", "alike")


def test_other_items_of_the_same_text_have_no_test_over_items(runs, capsys):
    runs("lines/a", ITEMS["first"])
    runs("stream/a", [*ITEMS["second"], 2.0, 2.0, 2.0], kind="dmlm", tokens=1, words=1)
    ((item,), _) = compared(capsys, "lines", "stream")
    assert (item["p_items"], item["untested"]) == (None, "lines has 3 items and stream 6")
    runs("parts/a", [*ITEMS["second"], 2.0, 1.0, 2.0], kind="dmlm", tokens=1, words=[2, 0, 1, 1, 1, 1])
    error = refused(capsys, "lines", "stream", "parts")
    assert all(each in error for each in ("runs/stream/a", "runs/parts/a", "divided into other items"))


def test_a_test_keeps_the_digest_of_its_split(finished, tmp_path, monkeypatch):
    run = tmp_path / "transformer" / "finished"
    shutil.copytree(finished["transformer"], run)
    monkeypatch.chdir(tmp_path)
    assert main(["test", "--run", str(run), "--trainer.accelerator", "cpu"]) == 0
    with np.load(run / "test_items.npz") as arrays:
        from depgen.data.generated import GeneratedLanguage

        stories = GeneratedLanguage(train=12, valid=4, test=4, sentences=(5, 5))
        assert str(arrays["data"]) == stories.fingerprint("test")
        sentences = [" ".join(each.words) for story in stories.documents("test") for each in story.sentences]
        assert str(arrays["sentences"]) == hashlib.sha256("\n".join(sentences).encode()).hexdigest()
