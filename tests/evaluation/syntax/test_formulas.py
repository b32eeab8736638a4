"""Formulas by hand and against Python's own arithmetic; chances by counting orders and by symmetry."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.evaluation.syntax.formulas import Region, chance_of, parse_formula

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
