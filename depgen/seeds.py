"""What serves as a seed."""

import hashlib

from depgen.errors import UserError

LARGEST_SEED = 2**32 - 1
"""NumPy's global generator takes none beyond it."""


def seed_of(text: str) -> int:
    """A seed of 63 bits that depends on every character of a text.

    >>> seed_of("1 2 3") == seed_of("1 2 3"), seed_of("1 2 3") == seed_of("1 23")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def checked_seed(seed: int, name: str = "seed") -> int:
    """The seed, once it is certain that every generator takes it.

    Raises:
        UserError: it is negative or too large; `name` says which seed.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"{name}: expected a seed from 0 to {LARGEST_SEED}, found {seed}.")
    return seed
