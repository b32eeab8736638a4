"""A Transformer that predicts masked words: what UDGN and StructFormer are compared with.

Devlin et al. (2019) in the shape that Shen, Tan, Sordoni, Li, Zhou & Courville (2022), "Unsupervised Dependency Graph
Network", give it: pre-LN layers, learned positions, tied output. The network is a backbone named in YAML, with the very
block that `StructFormer` takes.

Deviations
    D1. The layers' norms have no gains and no biases in the authors' code (`affine_norms: false`), and have them in the
        code of Shen et al. (2021). 30,999,086 parameters at 10,798 types, 500 positions and the first.
    D2. Attention dropout is 0.1 in the paper's Table 6, 0 in the published run script (`attention_dropout`).
    D3. Not in the paper: it parses by one attention head. A word's head is the word that its query weighs most; which
        head of which layer does so is `parses_by`, given or chosen on a treebank by `choose_attention_head`. Other
        systems get no such help from trees: its figures are to be marked, and the treebank must not be the one that it
        is judged by.
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.backbones.transformer import TransformerFactory
from depgen.data.batch import WordBatch
from depgen.errors import UserError
from depgen.language_models.masked import (
    HeadScores,
    LayerAttention,
    Lengths,
    MaskedLanguageModel,
    MaskedOutput,
    Tokens,
    without_own_place,
)
from depgen.nn.lengths import mask_of
from depgen.training.hyper_parameters import factory


def undirected_matches(
    weights: Float[Tensor, "*some batch dependents heads"], heads: Tokens, is_word: Bool[Tensor, "batch length"]
) -> Int[Tensor, "*some"]:
    """How many given arcs join a word to the one that either of the two weighs most, itself left out.

    Over the number of words this is UDA of the argmax decoding: a root is never right, a mutual pair counts once. Given
    heads are 1-based, 0 = root, and no two words are each other's.
    """
    places = torch.arange(1, heads.shape[1] + 1, device=heads.device)
    arcs = (heads[:, :, None] == places) & is_word[:, :, None]
    allowed = is_word[:, None, :] & ~torch.diag_embed(torch.ones_like(is_word))
    most = weights.masked_fill(~allowed, -1).argmax(-1)
    chosen = (most[..., None] == places - 1) & allowed & is_word[:, :, None]
    return ((chosen | chosen.mT) & arcs).sum((-3, -2, -1))


class MaskedTransformer(MaskedLanguageModel):
    """A Transformer that sees both sides, and a softmax over the vocabulary at masked words.

    Args:
        backbone: makes the network from the vocabulary size; in YAML a class path with all its other arguments, among
            them `causal: false`.
        vocabulary_size: number of token types; linked from the data.
        parses_by: layer and attention head, 0-based, by which it parses (D3); None: chosen later.
        kwargs: see `MaskedLanguageModel`.
    """

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        parses_by: tuple[int, int] | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, TransformerFactory)(vocabulary_size))
        self.parses_by: tuple[int, int] | None = None
        if parses_by is not None:
            self.parse_by(parses_by)

    def encode(
        self,
        tokens: Tokens,
        lengths: Lengths,
        *,
        heads: Tokens | None = None,
        attention: bool = False,
        all_layers: bool = False,
    ) -> MaskedOutput:
        """Last states; see `MaskedLanguageModel.encode`. Nothing masks attention: before and after are the same."""
        seen = list[LayerAttention]()

        def weigh(layer: int, scores: Tensor) -> Tensor:
            weights = scores.softmax(-1)
            seen.append(LayerAttention(weights, weights))
            return weights

        padding = ~mask_of(lengths, tokens.shape[1], device=tokens.device)
        output = self.backbone(tokens, padding=padding, weigh=weigh if attention else None, all_layers=all_layers)
        return MaskedOutput(output.hidden, attention=tuple(seen) if attention else None, layers=output.layers)

    # -- trees, which the paper does not take from it (D3) ----------------------------------------------------------

    def parse_by(self, attention_head: tuple[int, int]) -> None:
        """Parse by this layer's attention head from here on, both 0-based."""
        sizes = self.backbone.attention_layers, self.backbone.attention_heads
        if not all(0 <= part < size for part, size in zip(attention_head, sizes, strict=True)):
            raise UserError(
                f"Parsing by an attention head: expected [layer, head] below {list(sizes)} and not negative, found "
                f"{list(attention_head)}."
            )
        self.parses_by = attention_head

    def head_probabilities(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """What the attention head that it parses by weighs, without the diagonal (`HeadNetwork`)."""
        if self.parses_by is None:
            raise UserError(
                "A masked Transformer parses by one of its attention heads, and none is chosen: `depgen parse` and "
                "`depgen plot trees` take --attention_head [layer,head], an InducedTrees annotator attention_head, a "
                "training model.init_args.parses_by. `depgen evaluate parsing` chooses one and says which."
            )
        layer, head = self.parses_by
        attention = self.encode(tokens, lengths, attention=True).attention
        assert attention is not None
        return without_own_place(
            attention[layer].after[:, head], mask_of(lengths, tokens.shape[1], device=tokens.device)
        )

    @torch.no_grad()
    def choose_attention_head(self, batches: Iterable[WordBatch]) -> tuple[int, int]:
        """Parse by the attention head of the highest argmax UDA on these sentences, the lowest and first of equals."""
        training, counts = self.training, list[Tensor]()
        self.eval()
        for batch in batches:
            if batch.heads is None:
                raise UserError("An attention head is chosen on sentences with trees: name a treebank that has heads.")
            here = batch.to(self.device)
            assert isinstance(here, WordBatch)
            assert here.heads is not None
            attention = self.encode(here.tokens, here.lengths, attention=True).attention
            assert attention is not None
            weights = torch.stack([layer.after for layer in attention]).transpose(1, 2)  # [layers, heads, B, T, T]
            counts.append(undirected_matches(weights, here.heads, here.is_word))
        self.train(training)
        if not counts:
            raise UserError("An attention head is chosen on sentences with trees: the treebank has none.")
        best = torch.stack(counts).sum(0)
        layer, head = divmod(int(best.flatten().argmax()), best.shape[1])
        self.parses_by = (layer, head)
        return self.parses_by
