"""Accuracies of pairs by hand, against minicons, by the verb; and files of pairs in every shape."""

import gzip
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

import depgen
from depgen.errors import UserError
from depgen.evaluation.minimal_pairs import PairOptions, minimal_pairs, pairs_of_protocol, read_pairs
from tests.evaluation.syntax_toys import unigrams
from tests.invented_models import write_gpt2

NATS = {"the": -1.0, "cat": -2.0, "cats": -4.0, "sleeps": -3.0, "sleep": -3.5, ".": -0.25, "?": -6.0}
PAIRS = [
    ("p", "x", "the cat sleeps.", "the cat sleep."),  # right
    ("p", "x", "the cats sleep.", "the cat sleep."),  # wrong
    ("p", "y", "the cat sleeps.", "the cat sleeps."),  # identical: wrong
    ("p", "y", "the cat snores.", "the cat snore."),  # identical to the system: wrong
    ("q", "z", "the cat the cat.", "the purrs."),  # -6.25 against -10.25
]


def pairs_of(tmp_path, rows=PAIRS):
    path = tmp_path / "pairs.tsv"
    lines = ["\t".join(("phenomenon", "paradigm", "good", "bad")), *map("\t".join, rows)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def answers_of(system, pairs, **options):
    return minimal_pairs(system, PairOptions(pairs=pairs, **options))


def log_probs(items):
    return items[["log_prob_good", "log_prob_bad"]].to_numpy().tolist()


def test_accuracies_are_those_a_reader_counts(tmp_path):
    found = answers_of(unigrams(NATS), pairs_of(tmp_path), tokens="rules")
    items, rows = found.items, found.rows
    assert items["right"].tolist() == [True, False, False, False, True]
    assert items["log_prob_good"].tolist() == [-6.75, -9.25, -6.75, -12.75, -6.75]
    assert items["tokens_good"].tolist() == [5, 5, 5, 5, 6]
    assert items["unknown"].tolist() == [False, False, False, True, True]
    assert items["identical"].tolist() == [False, False, True, True, False]
    assert rows[["level", "name"]].to_numpy().tolist() == [
        ["paradigm", "x"], ["paradigm", "y"], ["phenomenon", "p"], ["paradigm", "z"], ["phenomenon", "q"],
        ["overall", "all"],
    ]  # fmt: skip
    expected = {
        "accuracy": [50, 0, 25, 100, 100, 50], "chance": [50, 0, 25, 50, 50, 100 / 3],
        "unknown": [0, 50, 25, 100, 100, 40], "identical": [0, 2, 2, 0, 0, 2], "known_pairs": [2, 1, 3, 0, 0, 3],
        "known_accuracy": [50, 0, 25, np.nan, np.nan, 25], "decided": [True, False, False, False, False, False],
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_allclose(rows[name], values)
    assert set(rows["likelihood"]) == {"exact"}


def test_the_same_tokens_tie_whatever_rounding_does(tmp_path):
    system = unigrams(NATS)
    system.model.noise = 1e-9
    items = answers_of(system, pairs_of(tmp_path), tokens="rules").items
    assert (items["log_prob_good"] == items["log_prob_bad"]).tolist() == [False, False, True, True, False]


def test_after_a_context_the_sentence_alone_counts(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = ["the cats\tthe cat\tthe cat sleeps\tthe cat sleeps", "the cat\tthe cats\tthe cat sleeps\tthe cat sleep"]
    path.write_text("\n".join(["context_good\tcontext_bad\tsentence_good\tsentence_bad", *rows]))
    found = answers_of(unigrams(NATS), path)
    assert log_probs(found.items) == [[-6.5, -6.5], [-6.5, -7.0]]
    assert found.rows["accuracy"].iloc[-1] == 75
    assert not found.items["identical"].any()


def test_a_fifth_of_pairs_with_unknown_words_still_decides(tmp_path):
    rows = [("p", "x", f"the cat sleeps {'?' * n}", "the cat") for n in range(4)]
    undecided = [("p", "x", "the cat sleeps", "the purrs")]
    for more, decided in ((undecided, True), (undecided * 2, False)):
        found = answers_of(unigrams(NATS), pairs_of(tmp_path, rows + more), tokens="rules")
        assert found.rows["decided"].iloc[-1] == decided


def test_length_normalised_scores_divide_by_tokens_and_end(tmp_path):
    pairs = pairs_of(tmp_path, [("p", "x", "the the the the cat", "cat")])
    items = answers_of(unigrams(NATS), pairs).items
    assert log_probs(items) == [[-6.5, -2.5]]
    assert items[["tokens_good", "tokens_bad"]].to_numpy().tolist() == [[6, 2]]
    assert (items["right"].item(), items["right_by_token"].item()) == (False, True)


def test_the_paper_leaves_the_end_out_and_plain_takes_it_in(tmp_path):
    pairs = pairs_of(tmp_path, [("p", "x", "the cat isn't.", "the cats?")])
    paper = answers_of(unigrams(NATS), pairs, protocol="paper", tokens="whitespace").items
    assert log_probs(paper) == [[-1 - 2 - 9 - 0.25, -1 - 4 - 6]]
    assert (paper["tokens_good"].item(), paper["good"].item()) == (4, "the cat isn't .")
    plain = answers_of(unigrams(NATS), pairs, tokens="rules").items
    assert log_probs(plain) == [[-1 - 2 - 18 - 0.25 - 0.5, -1 - 4 - 6 - 0.5]]


@pytest.mark.parametrize("likelihood", ["pseudo", "bound"])
def test_kinds_of_likelihood_are_named_and_some_have_no_end(tmp_path, likelihood):
    system = unigrams(NATS, end=None, likelihood=likelihood)
    found = answers_of(system, pairs_of(tmp_path), tokens="rules")
    assert set(found.rows["likelihood"]) == {likelihood}
    assert log_probs(found.items)[0] == [-6.25, -6.75]


def test_scores_that_are_infinite_order_pairs_and_such_that_are_no_number_are_refused(tmp_path):
    pairs = pairs_of(tmp_path)
    endless = answers_of(unigrams({**NATS, "sleep": -math.inf}), pairs, tokens="rules").items
    assert endless["right"].tolist()[:2] == [True, False]
    with pytest.raises(UserError, match=r"nan.*another checkpoint"):
        answers_of(unigrams({**NATS, "sleep": math.nan}), pairs, tokens="rules")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_gpt2(folder)
    return folder


def invented(tmp_path, *, number):
    """Pairs of sentences of different lengths, the bad one with two words in the other order."""
    generator, rows = np.random.default_rng(0), []
    words = ["the", "cat", "sat", "on", "a", "mat", "again", "and", "quizzical"]
    for _ in range(number):
        good = generator.choice(words, size=generator.integers(4, 14)).tolist()
        place = int(generator.integers(len(good) - 1))
        bad = [*good[:place], good[place + 1], good[place], *good[place + 2 :]]
        rows.append(("p", "x", " ".join(good) + ".", " ".join(bad) + "."))
    return pairs_of(tmp_path, rows)


def test_answers_are_those_of_minicons(tiny, tmp_path):
    from minicons.scorer import IncrementalLMScorer
    from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(tiny / "tokenizer.json"), bos_token=end, eos_token=end, pad_token=end
    )
    scorer = IncrementalLMScorer(GPT2LMHeadModel.from_pretrained(tiny).eval(), "cpu", tokenizer=tokenizer)
    pairs = invented(tmp_path, number=30)
    found = answers_of(depgen.load(tiny, device="cpu"), pairs, tokens="whitespace")
    texts = read_pairs(pairs)[["good", "bad"]].to_numpy().ravel().tolist()
    theirs = scorer.sequence_score(texts, bos_token=True, eos_token=True, reduction=lambda scores: scores.sum().item())
    np.testing.assert_allclose(np.ravel(log_probs(found.items)), theirs, atol=1e-3)
    right = [good > bad for good, bad in zip(theirs[::2], theirs[1::2], strict=True)]
    assert found.items["right"].tolist() == right
    assert {*right} == {True, False}


# -- files ------------------------------------------------------------------------------------------------------------

BLIMP = {
    "sentence_good": "The cat sleeps.",
    "sentence_bad": "The cat sleep.",
    "field": "morphology",
    "linguistics_term": "agreement",
    "UID": "regular_1",
    "pairID": "0",
}
COLUMNS = ["good", "bad", "paradigm", "phenomenon", "id"]


def facts(path):
    return list(read_pairs(path)[COLUMNS].itertuples(name=None))


def test_fields_of_blimp_are_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(BLIMP) + "\n\n" + json.dumps({**BLIMP, "pairID": 1}) + "\n")
    expected = ("The cat sleeps.", "The cat sleep.", "regular_1", "agreement")
    assert facts(path) == [(f"{path}:1", *expected, "0"), (f"{path}:3", *expected, "1")]
    assert read_pairs(path)["field"].tolist() == ["morphology"] * 2


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("separator", "ending"), [("\t", "tsv"), (",", "csv"), ("\t", "tsv.gz")])
def test_columns_of_any_kind_of_file(tmp_path, begin, end, separator, ending):
    lines = [f'{begin}bad{separator}"good"', f'The  cat sleep .{separator}"The ""cat""  sleeps . "', ""]
    path, text = tmp_path / f"own.{ending}", end.join(lines).encode()
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    assert facts(path) == [(f"{path}:2", 'The "cat" sleeps .', "The cat sleep .", "own", "own", "2")]


def test_conditions_are_paradigms_where_nothing_else_is(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("good\tbad\tcondition\na\tb\tnpi\nc\td\tagreement\n")
    assert read_pairs(path)[["paradigm", "phenomenon", "condition"]].values.tolist() == [["npi"] * 3, ["agreement"] * 3]
    path.write_text("good\tbad\tcondition\tparadigm\na\tb\tnpi\tp\n")
    assert read_pairs(path)[["paradigm", "condition"]].values.tolist() == [["p", "npi"]]


def test_all_files_of_a_folder_are_read_and_blimp_is_the_default(tmp_path, monkeypatch):
    folder = tmp_path / "blimp"
    folder.mkdir()
    (folder / "b.tsv").write_text("good\tbad\na\tb\n")
    (folder / "a.jsonl").write_text(json.dumps(BLIMP))
    (folder / "readme.txt").write_text("no pairs")
    assert read_pairs(folder)["paradigm"].tolist() == ["regular_1", "b"]
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    assert read_pairs().equals(read_pairs(folder))


def test_the_paper_takes_every_tenth_pair_of_a_paradigm_and_cuts_its_end_off(tmp_path):
    rows = [
        (f"{number}", paradigm, f"it is {number}?", f"it are {number} !") for number in range(25) for paradigm in "ab"
    ]
    pairs = read_pairs(pairs_of(tmp_path, rows))
    assert pairs_of_protocol(pairs, "plain") is pairs
    assert pairs_of_protocol(pairs, "paper")[COLUMNS[:3]].to_numpy().tolist() == [
        [f"it is {number} ?", f"it are {number} !", paradigm] for number in (0, 10, 20) for paradigm in "ab"
    ]


@pytest.mark.real_data
def test_blimp_is_read_whole_and_every_tenth_pair():
    pairs = read_pairs(Path(os.environ["DEPGEN_DATA"]) / "blimp")
    assert (len(pairs), pairs["paradigm"].nunique()) == (67_000, 67)
    assert (pairs["good"] == pairs["bad"]).sum() == 7
    paper = pairs_of_protocol(pairs, "paper")
    assert (len(paper), {int(each) % 10 for each in paper["id"]}) == (6_700, {0})


def test_further_columns_are_in_the_items(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("good\tbad\tcondition\tright\nthe cat sleeps .\tthe cat sleep .\tc1\tno\n")
    (item,) = answers_of(unigrams(NATS), path).items.to_dict("records")
    assert (item["condition"], item["right"]) == ("c1", True)
