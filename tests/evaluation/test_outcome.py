import doctest
import math

import numpy as np

from depgen.evaluation import outcome as module
from depgen.evaluation.outcome import mean_of_defined


def test_mean_without_any_score_is_nan():
    assert math.isnan(mean_of_defined(np.array([np.nan])))


def test_doctests():
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
