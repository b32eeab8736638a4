"""Chances by hand: by counting orders, and where differences are symmetric."""

import pytest

from depgen.evaluation.syntax.chance import chance_of
from depgen.evaluation.syntax.formulas import Region, parse_formula


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
