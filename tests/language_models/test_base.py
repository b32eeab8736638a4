"""What every system has from its base."""

from depgen.language_models.base import LanguageModel


def test_a_system_that_has_tested_nothing_has_no_scores():
    assert LanguageModel().test_scores() is None
