"""What a system that generates returns for each text."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Generated:
    """A text that a system has generated.

    Attributes:
        ids: its tokens, without the prompt and without the closing `<eos>`.
        structure: what the system has built over them, as plain values that JSON can hold (numbers, strings, and tuples
            and mappings of such), for instance edges `(head, dependent, label)`. Where it ties them to the prompt's, it
            is over prompt and text as one sentence. None from systems without structure.
        log_prob: of the tokens given the prompt, in nats, under the system's own distribution, whatever filters they
            were drawn through; with that of `<eos>`, unless the text was cut before it. Where a system builds a
            structure, the joint log-probability of both.
    """

    ids: list[int]
    structure: Any
    log_prob: float
