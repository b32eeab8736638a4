"""A system as tools for models of the transformers library call one: token ids in, logits out, and a tokenizer."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.structured import StructuredLanguageModel
from depgen.models.causal_lm import CausalLM
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from depgen.trees.sentence import Sentence


class NextWordModel(nn.Module):
    """Log-probabilities of the next token at each position of a batch, as logits.

    Args:
        system: predicts words from left to right.

    Raises:
        UserError: the system does not, or builds a structure with its tokens.
    """

    def __init__(self, system: System) -> None:
        super().__init__()
        if not isinstance(system.model, LeftToRight):
            raise UserError(
                f"Expected a system that predicts each token from those before it, found a "
                f"{type(system.model).__name__} in {system.run}: score its texts by depgen.load(..).score."
            )
        if isinstance(system.model, StructuredLanguageModel):
            raise UserError(
                f"Expected a system that builds no structure with its tokens, found a {type(system.model).__name__} in "
                f"{system.run}, whose distribution over the next token depgen does not compute: score its "
                "texts by depgen.load(..).score."
            )
        self.model: LeftToRight = system.model
        longest = self.model.longest_scored
        positions = {} if longest is None else {"max_position_embeddings": longest + 1}  # <eos> in front
        self.config = PretrainedConfig(vocab_size=system.vocabulary.size, **positions)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    def tie_weights(self) -> None:
        """Nothing: the weights are tied already where they are to be."""

    @torch.inference_mode()
    def forward(
        self, input_ids: Int[Tensor, "batch length"], attention_mask: Int[Tensor, "batch length"] | None = None
    ) -> CausalLMOutput:
        """Log-probabilities [batch length vocab]; padding at the right has no part in those before it."""
        if isinstance(self.model, CausalLM):
            backbone = self.model.backbone
            hidden = backbone(input_ids).hidden
            return CausalLMOutput(
                logits=log_softmax_over_vocabulary(hidden, backbone.output_weight, backbone.output_bias)
            )
        columns, state = [], None
        for place in range(input_ids.size(1)):
            log_probs, state = self.model.generation_step(input_ids[:, place : place + 1], None, state)
            columns.append(log_probs)
        return CausalLMOutput(logits=torch.stack(columns, 1))


class SystemTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """A system's vocabulary as a tokenizer of the transformers library.

    The end of sequence is also the beginning and the padding. Texts for a run are words between white space, in the
    form of the run's corpus; a pretrained model gets texts as they are.

    Args:
        system: whose vocabulary and form it takes.
    """

    def __init__(self, system: System) -> None:
        end = system.vocabulary.specials["eos"]
        tokenizer = Tokenizer.from_str(system.vocabulary.tokenizer)
        super().__init__(
            tokenizer_object=tokenizer, bos_token=end, eos_token=end, pad_token=end, padding_side="right",
            model_input_names=["input_ids", "attention_mask"],
        )  # fmt: skip
        self._reading: Reading = system.reading
        self._pieces = system.vocabulary.splits_words

    def __call__(self, text: str | Sequence[str], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401, D102
        texts = self.spelt(text) if isinstance(text, str) else list(map(self.spelt, text))
        return super().__call__(texts, *arguments, **options)

    def encode(self, text: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401, D102
        return super().encode(self.spelt(text), *arguments, **options)

    def spelt(self, text: str) -> str:
        """A text in the form of the run's corpus; a token at its beginning or end that is none of its words stays."""
        if self._pieces and self._reading.form == "as_is" and not self._reading.first_word_space:
            return text
        end = str(self.eos_token)
        before, after = end if text.startswith(end) else "", end if text.endswith(end) else ""
        words = self._reading.words(Sentence(tuple(text.removeprefix(end).removesuffix(end).split())))
        space = " " if words and self._pieces and self._reading.first_word_space else ""
        return f"{before}{space}{' '.join(words)}{after}"
