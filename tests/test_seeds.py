import pytest

from depgen.errors import UserError
from depgen.seeds import LARGEST_SEED, checked_seed


def test_what_every_generator_takes_is_a_seed():
    assert [checked_seed(seed) for seed in (0, 1, LARGEST_SEED)] == [0, 1, LARGEST_SEED]
    for seed in (-1, LARGEST_SEED + 1):
        with pytest.raises(UserError, match=f"training.seed: expected a seed from 0 to 4294967295, found {seed}"):
            checked_seed(seed, "training.seed")
