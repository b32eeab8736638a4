"""Precision, recall and F1 of labelled edges of graphs or constituents."""

from collections.abc import Collection, Sequence

Labelled = tuple[int, int, str]
"""An edge (head, dependent, label) or a constituent (start, end, label)."""


def labelled_scores(gold: Sequence[Collection[Labelled]], found: Sequence[Collection[Labelled]]) -> dict[str, float]:
    """Precision, recall and F1 in per cent over all sentences (micro average), and how many are `gold` and `found`.

    Unlabelled, a pair of words (or a span) counts once, whatever number of labels it has. A share of nothing is 100.

    >>> scores = labelled_scores([[(0, 2, "root"), (2, 1, "nsubj")]], [[(2, 1, "obj")]])
    >>> scores["unlabelled_precision"], scores["unlabelled_recall"], scores["labelled_f1"]
    (100.0, 50.0, 0.0)
    """
    scores: dict[str, float] = {}
    for name, length in (("unlabelled", 2), ("labelled", 3)):
        right = wanted = given = 0
        for references, guesses in zip(gold, found, strict=True):
            one, other = ({item[:length] for item in items} for items in (references, guesses))
            right, wanted, given = right + len(one & other), wanted + len(one), given + len(other)
        shares = {"precision": (right, given), "recall": (right, wanted), "f1": (2 * right, given + wanted)}
        scores |= {f"{name}_{key}": 100 * part / whole if whole else 100.0 for key, (part, whole) in shares.items()}
        scores |= {"gold": wanted, "found": given}
    return scores
