import json
from dataclasses import replace

import pytest

from depgen.errors import UserError
from depgen.evaluation.text.evaluate_text import WIDTH, evaluate_text
from depgen.evaluation.text.measures import NAMES, TextOptions, text_metrics
from depgen.metrics.bleu import bleu
from depgen.metrics.ngrams import distinct
from depgen.metrics.significance import bootstrap_interval
from tests.evaluation.text.test_measures import NO_MODELS, REFERENCES, TEXTS


@pytest.fixture
def files(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "references.txt").write_text("\n".join(REFERENCES) + "\n")
    return tmp_path / "texts.txt", tmp_path / "references.txt"


def test_table_is_aligned_and_says_what_is_missing(files):
    lines = evaluate_text(files[0], references=files[1], options=NO_MODELS).splitlines()
    assert lines[0] == "4 texts, 0 of them empty"
    rows = {line[:WIDTH].strip(): line for line in lines[3 : 3 + len(NAMES)]}
    assert list(rows) == list(NAMES.values())
    assert len({len(line[: WIDTH + 10]) for line in rows.values()}) == 1
    expected = bleu(TEXTS, REFERENCES)[1]
    interval = bootstrap_interval(expected)
    assert rows["BLEU-1"] == f"{'BLEU-1':<{WIDTH}}{expected.mean():10.2f}   {interval.low:.2f} to {interval.high:.2f}"
    assert rows["Distinct-2"] == f"{'Distinct-2':<{WIDTH}}{distinct(TEXTS, 2):10.2f}"
    assert "not computed: switched off" in rows["BERTScore"]


def test_what_the_figures_depend_on_is_said_once_for_like_measures(files):
    said = evaluate_text(files[0], references=files[1], options=NO_MODELS).splitlines()
    assert "BLEU-1, BLEU-2: by sentence, smoothing method 1 of Chen & Cherry (2014)" in said
    assert "Self-BLEU-2, Self-BLEU-3: against all other texts, without smoothing" in said
    assert "Distinct-2, Distinct-3: n-grams over the border of two texts count, as in the DMLM paper's code" in said
    within = evaluate_text(files[0], options=replace(NO_MODELS, within_texts=True)).splitlines()
    assert "Distinct-2, Distinct-3: n-grams inside texts only" in within
    assert not any(line.startswith("BLEU-1, BLEU-2:") for line in within), "without references there is no BLEU"
    found = json.loads(evaluate_text(files[0], json=True, options=NO_MODELS))
    assert "over the border" in found["settings"]["distinct2"]


def test_json_holds_the_same_figures(files):
    found = json.loads(
        evaluate_text(files[0], references=files[1], json=True, options=TextOptions(bertscore_model="/absent/model"))
    )
    expected = text_metrics(TEXTS, REFERENCES, NO_MODELS)
    assert found["metrics"] == pytest.approx(expected.metrics)
    assert found["intervals"]["bleu2"] == pytest.approx(
        [expected.intervals["bleu2"].low, expected.intervals["bleu2"].high]
    )
    assert (found["texts"], found["confidence"]) == (4, 0.95)
    assert found["not_computed"]["bertscore"] == "no weights at /absent/model: no such folder"
    assert found["references"] == str(files[1])


def test_json_lines_of_generation_are_texts_and_prompts(files):
    written = files[0].with_suffix(".jsonl")
    written.write_text("".join(f"{json.dumps({'prompt': 'x', 'text': text})}\n" for text in TEXTS))
    options = {"references": files[1], "prompts": written, "options": NO_MODELS}
    assert evaluate_text(written, **options) == evaluate_text(files[0], **options)


def test_unequal_files_are_refused_with_both_counts_and_names(files):
    files[1].write_text("one\ntwo\nthree\n")
    with pytest.raises(UserError, match=r"texts\.txt .*4 .*references\.txt .*3"):
        evaluate_text(files[0], references=files[1])


@pytest.mark.parametrize(("option", "named"), [({"reverse": True}, "--oracle"), ({"seed": -1}, "seed: expected")])
def test_an_option_that_can_have_no_effect_is_refused(option, named, files):
    with pytest.raises(UserError, match=named):
        evaluate_text(files[0], options=TextOptions(**option))
