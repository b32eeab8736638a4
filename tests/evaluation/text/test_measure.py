"""Files of texts, measured by the verb and in Python."""

import json

import numpy as np
import pytest

from depgen.cli import main
from depgen.evaluation.text.measure import TextFiles, text
from depgen.evaluation.text.measures import NAMES, text_metrics
from tests.evaluation.text.test_measures import NO_MODELS, REFERENCES, TEXTS

NONE = {"bertscore_model": None, "perplexity_model": None}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "references.txt").write_text("\n".join(REFERENCES) + "\n")
    lines = "".join(f"{json.dumps({'prompt': 'x', 'text': each})}\n" for each in TEXTS)
    (tmp_path / "texts.jsonl").write_text(lines)
    return tmp_path


def test_rows_are_figures_or_reasons_and_items_their_scores(here, capsys):
    files = [here / "texts.txt", here / "texts.jsonl"]
    measured = text(TextFiles(texts=files, references=here / "references.txt", prompts=files[1], **NONE))
    first, second = (rows.set_index("name") for _, rows in measured.rows.groupby("level", sort=False))
    assert first.drop(columns="level").equals(second.drop(columns="level"))
    assert list(first.index) == list(NAMES)
    expected = text_metrics(TEXTS, REFERENCES, NO_MODELS)
    assert first["value"].dropna().to_dict() == {
        name: expected.metrics[name] for name in NAMES if name in expected.metrics
    }
    interval = expected.intervals["bleu2"]
    assert first.loc["bleu2", ["low", "high", "texts"]].tolist() == [interval.low, interval.high, 4]
    assert first.loc["bertscore", "not_computed"] == "switched off: no model was named"
    assert "over the border" in first.loc["distinct2", "settings"]
    assert measured.items["bleu1"].tolist() == [*expected.items["bleu1"]] * 2
    options = ["--references", "references.txt", "--bertscore_model", "null", "--perplexity_model", "null"]
    assert main(["evaluate", "text", "--texts", "texts.txt", "texts.jsonl", *options, "--device", "cpu", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["value"] for row in rows[: len(NAMES)]] == pytest.approx(
        [None if np.isnan(value) else value for value in first["value"]]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--references", "short.txt"], "texts.txt has 4 texts and short.txt has 3"),
        (["--reverse"], "--oracle"),
        (["--seed", "-1"], "seed: expected"),
        (["--device", "abacus"], "no device 'abacus' here"),
    ],
)
def test_what_can_not_be_measured_is_refused(here, capsys, options, message):
    (here / "short.txt").write_text("one\ntwo\nthree\n")
    assert main(["evaluate", "text", "--texts", "texts.txt", *options]) == 2
    assert message in capsys.readouterr().err
