"""Surprisals of regions and accuracies of suites by hand, against a slow scorer, and the verb."""

import codecs
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import depgen
from depgen.errors import UserError
from depgen.evaluation.syntactic_suites import (
    CIRCUITS,
    OTHER,
    Condition,
    Region,
    SuiteOptions,
    chance_of,
    parse_formula,
    read_suite,
    read_suites,
    syntactic_suites,
)
from tests.evaluation.syntax_toys import suite_of, unigrams, write_suite
from tests.invented_models import write_gpt2

NATS = {"the": -1.0, "cat": -2.0, "cats": -4.0, "sleeps": -3.0, "sleep": -3.5, ".": -0.25, ",": -0.75}
ITEMS = (
    {"a": ["", "the cat", "", "sleeps"], "b": ["the  cats", "", " sleep .", ""]},
    {"a": ["the", "the", "cat", "purrs"], "b": ["the", "cats", "sleep", "the"]},
)


def suites_of(tmp_path, *contents):
    for number, content in enumerate(contents):
        write_suite(tmp_path / f"{number}.json", content)
    return tmp_path


def scored(system, suites, **options):
    return syntactic_suites(system, SuiteOptions(suites=suites, **options))


def surprisals(scores, item, condition):
    return list(scores.items["surprisals"][item][condition].values())


def test_surprisals_of_regions_are_sums_and_blank_regions_have_none(tmp_path):
    scores = scored(unigrams(NATS), suites_of(tmp_path, suite_of(*ITEMS)), tokens="whitespace")
    assert surprisals(scores, 0, "a") == [0, 3, 0, 3]
    assert surprisals(scores, 0, "b") == [5, 0, 3.75, 0]
    assert surprisals(scores, 1, "a") == [1, 1, 2, 9]
    assert scores.items["holds"].tolist() == [[True], [False]]


def test_a_word_across_a_border_belongs_to_the_region_of_its_first_character(tmp_path, monkeypatch):
    item = {"a": ["the cats", "' sleep"], "b": ["the", "the"]}  # the apostrophe joins the word before the border
    suites = suites_of(tmp_path, suite_of(item))
    (suite,) = read_suites(suites)
    suite.items[1]["a"] = Condition("x", "the cats' sleep", {1: (0, 8), 2: (8, 15)})
    monkeypatch.setattr("depgen.evaluation.syntactic_suites.read_suites", lambda _: [suite])
    scores = scored(unigrams({**NATS, "cats'": -5.0}), suites, tokens="whitespace")
    assert surprisals(scores, 0, "a") == [6, 3.5]


def test_rows_are_means_of_predictions_suites_and_circuits(tmp_path):
    always, never = "0 < 1", "1 < 0"
    first = "(4;%a%) < (1;%b%)"  # 3 < 5, 9 < 1
    suites = suites_of(
        tmp_path,
        suite_of(*ITEMS, formulas=[first, always], name="fgd_x"),
        suite_of(*ITEMS, formulas=[never], name="cleft"),
        suite_of(*ITEMS, formulas=[always], name="number_x"),
        suite_of(*ITEMS, formulas=[always], name="own"),
    )
    scores = scored(unigrams(NATS), suites, tokens="whitespace")
    found = list(scores.rows[["level", "name", "items", "accuracy"]].itertuples(index=False, name=None))
    assert found == [
        ("suite", "number_x", 2, 100),
        ("circuit", "agreement", 2, 100),
        ("suite", "fgd_x", 2, 75),
        ("prediction", "fgd_x:0", 2, 50),
        ("prediction", "fgd_x:1", 2, 100),
        ("suite", "cleft", 2, 0),
        ("circuit", "long_distance", 4, 37.5),
        ("suite", "own", 2, 100),
        ("overall", "2 circuits", 6, 68.75),
    ]
    rows = scores.rows.set_index("name").to_dict("index")
    assert [rows["fgd_x"][name] for name in ("chance", "unknown", "known_items", "known_accuracy")] == [75, 50, 1, 100]
    assert [rows["cleft"][name] for name in ("unknown", "decided", "known_items")] == [0, True, 2]
    assert (rows["fgd_x"]["decided"], rows["long_distance"]["unknown"]) == (False, 25)
    paper = scored(unigrams(NATS), suites, protocol="paper", tokens="whitespace")
    found = paper.rows.loc[paper.rows["level"] != "circuit", ["name", "accuracy", "protocol"]]
    found = list(found.itertuples(index=False, name=None))
    assert found == [(name, value, "paper") for name, value in (
        ("number_x", 100), ("fgd_x", 50), ("cleft", 0), ("2 circuits", 62.5))]  # fmt: skip


def test_the_chance_of_an_item_knows_its_blank_regions(tmp_path):
    formula = "(1;%a%) < (1;%b%)"
    items = ({"a": ["", "x"], "b": ["y", "x"]}, {"a": ["x"], "b": ["y"]})
    rows = scored(unigrams(NATS), suites_of(tmp_path, suite_of(*items, formulas=[formula]))).rows
    assert rows["chance"].item() == pytest.approx(75)


def test_a_region_of_which_nothing_is_read_is_counted(tmp_path):
    items = ({"a": ["the cat", "."], "b": ["the cat", ","]}, {"a": ["the cat", ""], "b": ["the cat", "sleep"]})
    suites = suites_of(tmp_path, suite_of(*items, formulas=["(2;%a%) < (2;%b%)"]))
    scores = scored(unigrams(NATS, form="bare"), suites, tokens="whitespace")
    assert scores.items["unread"].tolist() == [True, False]
    assert scores.items["holds"].tolist() == [[False], [True]], "both are 0, hence a tie"
    (row,) = scores.rows.to_dict("records")
    assert (row["unread"], row["accuracy"]) == (1, 50)


def test_infinite_surprisals_compare_and_what_is_no_number_is_refused(tmp_path):
    suites = suites_of(tmp_path, suite_of(ITEMS[0], formulas=["(1;%b%) > (2;%a%)", "(1;%b%) - (1;%b%) < 1"]))
    scores = scored(unigrams({**NATS, "cats": -math.inf}), suites, tokens="whitespace")
    assert scores.items["holds"][0] == [True, False]
    assert scores.items["surprisals"][0]["b"]["1"] is None
    with pytest.raises(UserError, match=r"nan.*another checkpoint"):
        scored(unigrams({**NATS, "cats": math.nan}), suites, tokens="whitespace")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_gpt2(folder)
    return folder


GPT2_ITEM = {
    "what": ["I know", "what", "our  uncle", "grabbed", "", "in front", ", of"],
    "that": ["I know", "that", "our uncle", "grabbed ", "the food", " in front", ", of"],
}


def by_transformers(folder, regions, *, stop):
    """Surprisals of regions, each of which is encoded by itself with the space before it."""
    from tokenizers import Tokenizer
    from transformers import GPT2LMHeadModel

    tokenizer, ids, owner = Tokenizer.from_file(str(folder / "tokenizer.json")), [0], []
    for number, region in enumerate([*regions, *stop]):
        text = " ".join(region.split())
        own = tokenizer.encode(f" {text}" if number and text else text).ids
        ids += own
        owner += [number] * len(own)
    with torch.no_grad():
        log_probs = GPT2LMHeadModel.from_pretrained(folder).eval()(torch.tensor([ids])).logits[0].log_softmax(-1)
    sums = [0.0] * len(regions)
    for place, number in enumerate(owner):
        if number < len(regions):
            sums[number] -= log_probs[place, ids[place + 1]].item()
    return sums


@pytest.mark.parametrize(("protocol", "stop"), [("plain", []), ("paper", ["."])])
def test_regions_equal_those_encoded_apart(tiny, tmp_path, protocol, stop):
    suites = suites_of(tmp_path, suite_of(GPT2_ITEM, formulas=["(5;%what%) < (5;%that%)"], name="fgd"))
    scores = scored(depgen.load(tiny, device="cpu"), suites, protocol=protocol, tokens="whitespace")
    for name, regions in GPT2_ITEM.items():
        expected = by_transformers(tiny, regions, stop=stop)
        assert surprisals(scores, 0, name) == pytest.approx(expected, abs=1e-4)


# -- files ------------------------------------------------------------------------------------------------------------

ITEM = {"a": ["The cat", "", " sat "], "b": ["", "the  dog", "ran", ""]}


def test_regions_become_one_sentence_with_their_characters(tmp_path):
    path = write_suite(tmp_path / "x.json", suite_of(ITEM))
    suite = read_suite(path)
    one, other = suite.items[1]["a"], suite.items[1]["b"]
    assert (one.text, other.text) == ("The cat sat", "the dog ran")
    assert one.spans == {1: (0, 7), 2: (7, 7), 3: (8, 11)}
    assert other.spans == {1: (0, 0), 2: (0, 7), 3: (8, 11), 4: (11, 11)}
    assert (suite.name, suite.circuit) == ("toy", OTHER)
    assert other.place == f"{path}: item 1, condition b"
    path.write_bytes(codecs.BOM_UTF8 + json.dumps(suite_of(ITEM), indent=1).replace("\n", "\r\n").encode())
    assert read_suite(path).items[1]["b"] == other


@pytest.mark.real_data
def test_the_suites_of_hu_et_al_are_read():
    suites = read_suites(Path(os.environ["DEPGEN_DATA"]) / "syntaxgym")
    sentences = [each for suite in suites for item in suite.items.values() for each in item.values()]
    assert (len(suites), sum(len(suite.items) for suite in suites), len(sentences)) == (34, 842, 3304)
    assert [sum(suite.circuit == name for suite in suites) for name in (*CIRCUITS, OTHER)] == [3, 10, 6, 4, 2, 8, 1]
    assert {suite.name for suite in suites if len(suite.predictions) > 1} == {"fgd_hierarchy", "nn-nv-rpl"}
    (first,) = (next(iter(suite.items.values())) for suite in suites if suite.name == "npz_ambig")
    assert first["ambig_comma"].text == "As the criminal shot , the woman yelled at the top of her lungs"


def test_all_regions_of_a_condition_leave_the_end_and_an_added_stop_out(tmp_path):
    formula = "(*;%a%) = 6 & (*;%b%) = 8.75"
    suites = suites_of(tmp_path, suite_of(ITEMS[0], formulas=[formula]))
    for protocol in ("plain", "paper"):
        scores = scored(unigrams(NATS), suites, protocol=protocol, tokens="whitespace")
        assert scores.items["holds"].tolist() == [[True]]


def test_suites_outside_the_circuits_have_a_mean(tmp_path):
    always, never = "0 < 1", "1 < 0"
    own = [suite_of(*ITEMS, formulas=[always, each], name=name) for name, each in (("mine", always), ("ours", never))]
    scores = scored(unigrams(NATS), suites_of(tmp_path, *own), tokens="whitespace")
    found = list(scores.rows[["level", "name", "items", "accuracy"]].itertuples(index=False, name=None))
    assert found[-1] == ("overall", "2 suites", 4, 75)
    assert [each[0] for each in found].count("suite") == 2


# -- formulas ---------------------------------------------------------------------------------------------------------

VALUES = {Region(1, "a"): 1.0, Region(2, "a"): 2.0, Region(1, "b-c"): 3.0, Region(None, "a"): 3.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1;%a%) < (2;%a%)", True),
        ("(1;%a%)>(2;%a%)", False),
        ("(*;%a%) = (1;%b-c%)", True),
        ("( 1 ; %a% ) + (2;%a%) = 3", True),
        ("(1;%b-c%) - (2;%a%) - (1;%a%) = 0", True),
        ("(1;%b-c%) - [(2;%a%) - (1;%a%)] = 2", True),
        ("-(1;%a%) < -.5", True),
        ("[(1;%a%) < (2;%a%)] & [(2;%a%) < (1;%a%)]", False),
        ("(1;%a%) < (2;%a%) & (2;%a%) > (1;%a%)", True),
        ("1 < 2 | 2 < 1 & 3 < 1", False),  # from the left, as in syntaxgym-core
        ("2 < 1 & 3 < 1 | 1 < 2", True),
        ("1 < 2 | [2 < 1 & 3 < 1]", True),
        ("(1;%a%) - 1 < 1e-3", True),
        ("(1;%a%) > 1.5E+0", False),
        ("[1 < 2 | 2 < 1] & 3 < 1", False),
        ("[([(1;%a%)] < ((2;%a%)))]", True),
        ("(1;%a%) = 1.0005", True),
        ("(1;%a%) = 1.002", False),
    ],
)
def test_formulas_are_worth_what_a_reader_works_out(text, expected):
    formula = parse_formula(text, place="x.json")
    assert formula.holds(VALUES.__getitem__) == expected
    assert parse_formula(f"[{text}]", place="x.json").holds(VALUES.__getitem__) == expected


def arithmetic():
    """Formulas of numbers, in our symbols and in Python's."""
    numbers = st.integers(0, 9).map(lambda number: (str(number), str(number)))
    sums = st.recursive(
        numbers,
        lambda inner: st.tuples(inner, st.sampled_from("+-"), inner).map(
            lambda parts: (f"[{parts[0][0]} {parts[1]} {parts[2][0]}]", f"({parts[0][1]} {parts[1]} {parts[2][1]})")
        ),
        max_leaves=6,
    )
    comparisons = st.tuples(sums, st.sampled_from("<>="), sums).map(
        lambda parts: (
            f"{parts[0][0]} {parts[1]} {parts[2][0]}",
            f"({parts[0][1]} {parts[1].replace('=', '==')} {parts[2][1]})",
        )
    )
    return st.recursive(
        comparisons,
        lambda inner: st.tuples(inner, st.sampled_from("&|"), inner).map(
            lambda parts: (
                f"({parts[0][0]} {parts[1]} {parts[2][0]})",
                f"({parts[0][1]} {'and' if parts[1] == '&' else 'or'} {parts[2][1]})",
            )
        ),
        max_leaves=6,
    )


@given(arithmetic())
def test_formulas_of_numbers_are_worth_what_python_makes_of_them(texts):
    ours, python = texts
    expected = eval(python, {"__builtins__": {}})
    assert parse_formula(ours, place="x.json").holds(VALUES.__getitem__) == expected


def test_infinite_and_undefined_surprisals():
    endless = {Region(1, "a"): math.inf, Region(2, "a"): math.inf, Region(1, "b"): 1.0}
    with np.errstate(all="raise"):
        for text, expected in {
            "(1;%a%) > (1;%b%)": True,
            "(1;%a%) > (2;%a%)": False,
            "(1;%a%) - (2;%a%) < 1": False,
            "(1;%a%) - (2;%a%) > (1;%b%)": False,
        }.items():
            assert parse_formula(text, place="x").holds(endless.__getitem__) == expected, text


def chance(text, **options):
    return chance_of(parse_formula(text, place="x"), **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1;%a%) < (1;%b%)", 1 / 2),
        ("[(1;%a%) < (1;%b%)] & [(1;%c%) < (1;%d%)]", 1 / 4),
        ("[(1;%a%) < (1;%b%)] & [(1;%c%) < (1;%d%)] & [(1;%a%) < (1;%d%)]", 5 / 24),  # the NPI suites
        ("[(1;%a%) < (1;%b%)] | [(1;%a%) > (1;%b%)]", 1),
    ],
)
def test_chances_of_orders_are_exact(text, expected):
    assert chance(text) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1;%a%) + (2;%a%) < (1;%b%) + (2;%b%)", 1 / 2),
        ("(1;%a%) - (1;%b%) > 0", 1 / 2),
        ("(1;%a%) < (1;%b%) + (2;%b%)", 3 / 4),  # the first of three that end by chance is not the sum of two others
        ("(1;%a%) = (1;%b%)", 0),
    ],
)
def test_chances_of_sums_are_drawn(text, expected):
    assert chance(text) == pytest.approx(expected, abs=0.006)
    assert chance(text) == chance(text)


def test_an_empty_region_has_no_surprisal_and_all_regions_have_more():
    text = "(1;%a%) < (2;%a%)"
    assert chance(text, empty=[Region(1, "a")]) == 1
    assert chance(text, empty=[Region(2, "a")]) == 0
    assert chance("(*;%a%) > (1;%b%)", parts=3) == pytest.approx(7 / 8, abs=0.006)
