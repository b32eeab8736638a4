"""Keys of the values that features have, which steer attention: GiLT (Huang et al., 2026), Eq. 4."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from depgen.trees.feature_tapes import FEATURES


class TapeAttention(nn.Module):
    """What features add to the scores of attention (Eq. 4): a key for each value of each feature, in each layer.

    Args:
        features: those that count.
        graphs: whose features there are, those of a graph together.
        layers: number of layers.
        width: size of a hidden state.
        feature_size: of a feature's embedding; the paper's d~.
        codes: values of a feature.
        std: of the projections' initial weights, which are normally distributed around 0.
    """

    def __init__(
        self,
        features: Sequence[str],
        *,
        graphs: int = 1,
        layers: int,
        width: int,
        feature_size: int,
        codes: int,
        std: float,
    ) -> None:
        super().__init__()
        self.places = [len(FEATURES) * graph + FEATURES.index(each) for graph in range(graphs) for each in features]
        self.embeddings = nn.ModuleList(nn.Embedding(codes, feature_size) for _ in self.places)
        self.projections = nn.ModuleList(
            nn.ModuleList(nn.Linear(feature_size, width, bias=False) for _ in self.places) for _ in range(layers)
        )
        for weight in self.projections.parameters():
            nn.init.normal_(weight, std=std)

    def table(self, layer: int, key_weight: Tensor | None) -> Float[Tensor, "features codes width"]:
        """The key of each value of each feature.

        Args:
            layer: 0-based, among those with features.
            key_weight: what the projections pass through, [width width]; None: nothing.
        """
        projections: Any = self.projections[layer]
        of_layer = zip(self.embeddings, projections, strict=True)
        keys = torch.stack([projection(embedding.weight) for embedding, projection in of_layer])
        return keys if key_weight is None else F.linear(keys, key_weight)

    def codes(
        self,
        rows: UInt8[Tensor, "batch features length nodes"],
        word: Int[Tensor, "batch context"],
    ) -> UInt8[Tensor, "batch used length context"]:
        """The value that each query has for each key, of the features that count; 0 for what begins the sentence."""
        shown = torch.stack([rows[:, place] for place in self.places], 1)
        shown[..., 0] = 0  # the root's values are not shown to attention
        return shown.gather(3, word[:, None, None].expand(-1, *shown.shape[1:3], -1))
