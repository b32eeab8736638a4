"""What a verb's settings can't build: one line for what a user can mend, a traceback for a fault of ours."""

import pytest

from depgen.cli.unusable import usable
from depgen.errors import UserError

SETTINGS = {"trainer": {}, "model": {"init_args": {"layers": 0}}}


def test_a_refused_value_becomes_one_line():
    with pytest.raises(UserError, match="can't be built from these settings: no room"), usable(SETTINGS):
        raise ValueError("no room")


def test_a_fault_of_ours_keeps_its_kind_though_the_parser_wraps_it():
    def link():
        try:
            raise TypeError("ours")
        except TypeError as error:
            raise ValueError(f"Call to compute_fn failed: {error}") from error

    with pytest.raises(TypeError, match="ours"), usable(SETTINGS):
        link()
