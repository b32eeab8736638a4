import math

import numpy as np

from depgen.evaluation.text.outcome import mean_of_defined


def test_mean_without_any_score_is_nan():
    assert math.isnan(mean_of_defined(np.array([np.nan])))
