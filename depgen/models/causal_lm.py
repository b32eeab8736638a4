"""The plain causal language model: the base of every dependency-aware twin.

Vaswani et al. (2017), Radford et al. (2019): next-token prediction by one softmax over the vocabulary. Whatever
backbone is named in YAML gives the hidden states; a twin such as `DMLM` takes the very same block.

Deviations
    D1. Stories are scored whole, context and ending, as in the code of Yang & Wan (2022); nothing is masked.
    D2. Padding has no embedding and no class; fairseq gives it both.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.backbones.backbone import BackboneFactory, BackboneOutput, BackboneState
from depgen.data.batch import ItemBatch, TokenBatch, collate_tokens
from depgen.language_models.left_to_right import LeftToRight
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory


class CausalLM(LeftToRight):
    """A backbone and a softmax over the vocabulary.

    Args:
        backbone: makes the network from the vocabulary size; in YAML a class path with all its other arguments.
        vocabulary_size: number of token types; linked from the data.
        kwargs: see `LeftToRight`.
    """

    def __init__(
        self,
        backbone: BackboneFactory,
        vocabulary_size: int,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))

    @property
    def collate(self) -> Callable[[ItemBatch], TokenBatch]:
        """Padded sequences, read from `<eos>` on."""
        return collate_tokens

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target; without meaning at padding."""
        return self._log_probs(self.encode(batch), batch)

    def _log_probs(self, output: BackboneOutput, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        return word_log_probs(output.hidden, weight, bias, batch.targets)

    def training_step(self, batch: TokenBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Negative log-likelihood, nats per token of the global batch."""
        output = self.encode(batch)
        nll = -self._log_probs(output, batch).masked_fill(~batch.is_word, 0).sum()
        return self.log_train(nll, batch.global_tokens) + self.penalty(output, batch)

    def generation_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: BackboneState | None,
    ) -> tuple[Float[Tensor, "batch vocab"], BackboneState]:
        """Log-probabilities of the next token after `tokens`, and the next state."""
        output = self.backbone(tokens, padding=padding, state=state, carry=True)
        assert output.state is not None
        last = output.hidden[:, -1]
        return (
            log_softmax_over_vocabulary(last, self.backbone.output_weight, self.backbone.output_bias),
            output.state,
        )
