"""Weights of future dependents by the relations of their arcs."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from depgen.errors import UserError


@dataclass(frozen=True)
class RelationWeights:
    """Weighs future dependents by the relation of their arc.

    Args:
        weights: by relation: `nsubj:pass` for a subtype alone, `nsubj` for a type with all its subtypes; relations that
            are not named have weight 1.
    """

    weights: dict[str, float]

    def of(
        self,
        positions: Int[np.ndarray, " arcs"],
        places: Int[np.ndarray, " arcs"],
        heads: Int[np.ndarray, " words"],
        relations: Shaped[np.ndarray, " words"] | None,
    ) -> Float[np.ndarray, " arcs"]:
        """The weight of each future dependent.

        Args:
            positions: the word before which each future dependent is predicted, 1-based; 0: before the first word.
            places: the future dependent, 1-based; the number of words + 1: the end of the sentence.
            heads: 1-based heads, 0 = root.
            relations: of the words to their heads.

        Raises:
            UserError: the trees have no relations.
        """
        if relations is None or (len(relations) and set(relations) <= {"_", ""}):
            raise UserError("relation_weights need labelled trees, but the annotator gives heads without relations.")
        weights = np.array([self._of_relation(each) for each in (*relations, "")])
        # an arc between i and j > i belongs to j if i is j's head, else to i; the end of the sentence has no head
        of_later = (places > len(heads)) | (np.append(heads, -1)[places - 1] == positions)
        found: Float[np.ndarray, " arcs"] = weights[np.where(of_later, places, positions) - 1]
        return found

    def _of_relation(self, relation: str) -> float:
        return self.weights.get(relation, self.weights.get(relation.split(":")[0], 1.0))
