"""Weights of future dependents by the relations of their arcs."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int, Shaped

from depgen.errors import UserError


def dependent_weights(
    positions: Int[np.ndarray, " arcs"],
    places: Int[np.ndarray, " arcs"],
    heads: Int[np.ndarray, " words"],
    relations: Shaped[np.ndarray, " words"] | None,
    by_relation: Mapping[str, float],
) -> Float[np.ndarray, " arcs"]:
    """The weight of each future dependent: that of its arc's relation, 1 where the relation is not named.

    A relation is named by its subtype (`nsubj:pass`) or, for all subtypes, by its type (`nsubj`).

    Args:
        positions: the word before which each future dependent is predicted, 1-based; 0: before the first word.
        places: the future dependent, 1-based; the number of words + 1: the end of the sentence.
        heads: 1-based heads, 0 = root.
        relations: of the words to their heads.
        by_relation: weights by relation.

    Raises:
        UserError: the trees have no relations.
    """
    if relations is None or (len(relations) and set(relations) <= {"_", ""}):
        raise UserError("relation_weights need labelled trees, but the annotator gives heads without relations.")
    weights = np.array([by_relation.get(each, by_relation.get(each.split(":")[0], 1.0)) for each in (*relations, "")])
    # an arc between i and j > i belongs to j if i is j's head, else to i; the end of the sentence has no head
    of_later = (places > len(heads)) | (np.append(heads, -1)[places - 1] == positions)
    found: Float[np.ndarray, " arcs"] = weights[np.where(of_later, places, positions) - 1]
    return found
