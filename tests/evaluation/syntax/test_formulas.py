"""Formulas by hand and against Python's own arithmetic, and what is no formula."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.evaluation.syntax.formulas import Region, parse_formula

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
        ("1 < 2 | 2 < 1 & 3 < 1", True),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(1;%a%) ? (2;%a%)", r"character 9 .*found '\? \(2;%a%\)'"),
        ("(1;%a%) < (2;%a%)) & 1 < 2", r"the end at character 18"),
        ("[(1;%a%) < (2;%a%)) & 1 < 2", r"'\]' at character 19"),
        ("[(1;%a%) < (2;%a%)", r"'\]' at character 19 .*found the end"),
        ("(x;%a%) < 1", r"region.* at character 2 "),
        ("", r"region.* at character 1 .*found the end"),
        ("(1;%a%) <", r"found the end"),
        ("(1;%a%) < 1 < 2", r"the end at character 13"),
        ("(1;%a%) - 2", r"expected a comparison"),
        ("(1;%a%)", r"expected a comparison"),
        ("(1;%a%) & 1 < 2", r"comparisons on both sides of &"),
        ("[1 < 2] + 3 > 1", r"numbers on both sides of \+"),
        ("[1 < 2] > 1", r"numbers on both sides of >"),
        ("__import__('os')", r"region.* at character 1 "),
        ("[" * 5000 + "1 < 2" + "]" * 5000, r"at most 100 brackets"),
        ("1" + " + 1" * 5000 + " > 0", r"at most 400 regions"),
        ("-" * 5000 + "1 < 2", r"at most 100 brackets"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_place(text, message):
    with pytest.raises(UserError, match=rf"^x\.json: .*{message}"):
        parse_formula(text, place="x.json")


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


def test_regions_are_listed_once_and_written_as_in_suites():
    text = "[(5;%a%) > (*;%b%)] & [(5;%a%) < 3]"
    formula = parse_formula(text, place="x")
    assert formula.regions == [Region(5, "a"), Region(None, "b")]
    assert all(str(region) in text for region in formula.regions)
