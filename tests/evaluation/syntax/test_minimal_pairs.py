"""Accuracies of pairs by hand, against minicons, and the verb."""

import json
import math

import numpy as np
import pytest

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.syntax.minimal_pairs import score_pairs
from depgen.evaluation.syntax.pairs import read_pairs
from tests.evaluation.syntax.toys import unigrams
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


def row(scores, name):
    (found,) = (each for each in scores.rows() if each["name"] == name)
    return found


def test_accuracies_are_those_a_reader_counts(tmp_path):
    scores = score_pairs(unigrams(NATS), read_pairs(pairs_of(tmp_path)), tokens="rules")
    assert [item.is_right for item in scores.items] == [True, False, False, False, True]
    assert [item.log_probs[0] for item in scores.items] == [-6.75, -9.25, -6.75, -12.75, -6.75]
    assert [item.good.length(with_end=True) for item in scores.items] == [5, 5, 5, 5, 6]
    assert [item.has_unknown for item in scores.items] == [False, False, False, True, True]
    assert [item.is_identical for item in scores.items] == [False, False, True, True, False]
    assert [(each["level"], each["name"]) for each in scores.rows()] == [
        ("paradigm", "x"), ("paradigm", "y"), ("phenomenon", "p"), ("paradigm", "z"), ("phenomenon", "q"),
        ("overall", "all"),
    ]  # fmt: skip
    assert [each["accuracy"] for each in scores.rows()] == pytest.approx([50, 0, 25, 100, 100, 50])
    assert [each["chance"] for each in scores.rows()] == pytest.approx([50, 0, 25, 50, 50, 100 / 3])
    assert [each["unknown"] for each in scores.rows()] == pytest.approx([0, 50, 25, 100, 100, 40])
    assert [each["identical"] for each in scores.rows()] == [0, 2, 2, 0, 0, 2]
    assert [each["known_pairs"] for each in scores.rows()] == [2, 1, 3, 0, 0, 3]
    assert [each["known_accuracy"] for each in scores.rows()] == [50, 0, 25, None, None, 25]
    assert [each["decided"] for each in scores.rows()] == [True, False, False, False, False, False]
    assert {each["likelihood"] for each in scores.rows()} == {"exact"}


def test_the_same_tokens_tie_whatever_rounding_does(tmp_path):
    system = unigrams(NATS)
    system.model.noise = 1e-9
    items = score_pairs(system, read_pairs(pairs_of(tmp_path)), tokens="rules").items
    assert [item.log_probs[0] == item.log_probs[1] for item in items] == [False, False, True, True, False]


def test_further_columns_are_in_the_items(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("good\tbad\tcondition\tright\nthe cat sleeps .\tthe cat sleep .\tc1\tno\n")
    (item,) = score_pairs(unigrams(NATS), read_pairs(path)).items
    assert (item.row()["condition"], item.row()["right"]) == ("c1", True)


def test_a_fifth_of_pairs_with_unknown_words_still_decides(tmp_path):
    rows = [("p", "x", f"the cat sleeps {'?' * n}", "the cat") for n in range(4)]
    undecided = [("p", "x", "the cat sleeps", "the purrs")]
    for more, decided in ((undecided, True), (undecided * 2, False)):
        scores = score_pairs(unigrams(NATS), read_pairs(pairs_of(tmp_path, rows + more)), tokens="rules")
        assert row(scores, "all")["decided"] is decided


def test_length_normalised_scores_divide_by_tokens_and_end(tmp_path):
    pairs = read_pairs(pairs_of(tmp_path, [("p", "x", "the the the the cat", "cat")]))
    (item,) = score_pairs(unigrams(NATS), pairs).items
    assert (item.log_probs, item.means) == ((-6.5, -2.5), (-6.5 / 6, -2.5 / 2))
    assert (item.is_right, item.is_right_by_token) == (False, True)


def test_the_paper_leaves_the_end_out_and_plain_takes_it_in(tmp_path):
    pairs = read_pairs(pairs_of(tmp_path, [("p", "x", "the cat isn't.", "the cats?")]))
    paper = score_pairs(unigrams(NATS), pairs, protocol="paper", tokens="whitespace").items[0]
    assert paper.log_probs == (-1 - 2 - 9 - 0.25, -1 - 4 - 6)
    assert (paper.good.length(with_end=False), paper.pair.good.text) == (4, "the cat isn't .")
    plain = score_pairs(unigrams(NATS), pairs, tokens="rules").items[0]
    assert plain.log_probs == (-1 - 2 - 18 - 0.25 - 0.5, -1 - 4 - 6 - 0.5)


@pytest.mark.parametrize("likelihood", ["pseudo", "bound"])
def test_kinds_of_likelihood_are_named_and_some_have_no_end(tmp_path, likelihood):
    system = unigrams(NATS, end=None, likelihood=likelihood)
    scores = score_pairs(system, read_pairs(pairs_of(tmp_path)), tokens="rules")
    assert {each["likelihood"] for each in scores.rows()} == {likelihood}
    assert scores.items[0].log_probs == (-6.25, -6.75)


def test_scores_that_are_infinite_order_pairs_and_such_that_are_no_number_are_refused(tmp_path):
    pairs = read_pairs(pairs_of(tmp_path))
    endless = score_pairs(unigrams({**NATS, "sleep": -math.inf}), pairs, tokens="rules")
    assert [item.is_right for item in endless.items][:2] == [True, False]
    with pytest.raises(UserError, match=r"pairs\.tsv:2: .*nan.*another checkpoint"):
        score_pairs(unigrams({**NATS, "sleep": math.nan}), pairs, tokens="rules")


def test_a_sentence_of_which_nothing_is_read_is_refused(tmp_path):
    pairs = read_pairs(pairs_of(tmp_path, [("p", "x", "the cat", "?")]))
    with pytest.raises(UserError, match=r"pairs\.tsv:2: .*'\?'.*--form"):
        score_pairs(unigrams(NATS, form="bare"), pairs)


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
    pairs = read_pairs(invented(tmp_path, number=30))
    found = score_pairs(depgen.load(tiny, device="cpu"), pairs, tokens="whitespace")
    texts = [text for pair in pairs for text in (pair.good.text, pair.bad.text)]
    theirs = scorer.sequence_score(texts, bos_token=True, eos_token=True, reduction=lambda scores: scores.sum().item())
    ours = [nats for item in found.items for nats in item.log_probs]
    assert ours == pytest.approx(theirs, abs=1e-3)
    right = [good > bad for good, bad in zip(theirs[::2], theirs[1::2], strict=True)]
    assert [item.is_right for item in found.items] == right
    assert {*right} == {True, False}


def test_scores_do_not_depend_on_the_batch_and_the_same_tokens_tie(tiny, tmp_path):
    path = invented(tmp_path, number=20)
    lines = path.read_text().splitlines()
    same = "\t".join(("p", "x", "the cat sat.", "the  cat sat."))
    path.write_text("\n".join([*lines, same]))
    system, pairs = depgen.load(tiny, device="cpu"), read_pairs(path)
    one, many = (
        score_pairs(system, pairs, tokens="whitespace", tokens_per_batch=size).items for size in (1, 10_000)
    )  # fmt: skip
    for first, second in zip(one, many, strict=True):
        assert first.log_probs == pytest.approx(second.log_probs, abs=1e-4)
    assert many[-1].log_probs[0] == many[-1].log_probs[1]
    assert not many[-1].is_right


def test_the_verb_prints_rows_and_writes_items(tiny, tmp_path, capsys):
    path, items, table = invented(tmp_path, number=3), tmp_path / "items.jsonl", tmp_path / "rows.jsonl"
    options = [str(path), "--run", str(tiny), "--device", "cpu"]
    assert main(["minimal-pairs", *options, "--item_output", str(items)]) == 0
    out, err = capsys.readouterr()
    head, *lines = (line.split("\t") for line in out.splitlines())
    assert [dict(zip(head, line, strict=True))["name"] for line in lines] == ["x", "p", "all"]
    assert "3 pairs, exact log-likelihood" in err
    answers = [json.loads(line) for line in items.read_text().splitlines()]
    assert [each["right"] for each in answers] == [each["log_prob_good"] > each["log_prob_bad"] for each in answers]
    assert [each["id"] for each in answers] == ["2", "3", "4"]
    assert main(["minimal-pairs", *options, "--json", "--output", str(table), "--protocol", "paper"]) == 0
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    assert [(each["pairs"], each["protocol"], each["beam_size"]) for each in rows] == [(1, "paper", None)] * 3
    for wrong in (["--item_output", str(tmp_path / "items.csv")], ["--output", str(tmp_path / "rows.jsonl")]):
        assert main(["minimal-pairs", *options, *wrong]) == 2
        assert f"{wrong[1]} is to hold" in capsys.readouterr().err
