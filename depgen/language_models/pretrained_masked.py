"""Masked language models of the `transformers` library, such as BERT and RoBERTa, which score sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.vocabulary import Vocabulary
from depgen.language_models.base import LanguageModel, Likelihood, Masking, SentenceContext
from depgen.language_models.masked import MASKED_AT_ONCE
from depgen.nn.vocabulary import full_precision


class PretrainedMaskedLM(LanguageModel):
    """Scores each token of a sentence from the others, between the tokens that the model's tokenizer puts around it.

    Args:
        network: the library's network with its head.
        tokenizer: of the same folder.

    Attributes:
        masking: what is hidden besides.
    """

    likelihood: Likelihood = "pseudo"
    sentence_context: SentenceContext = "none"
    masking: Masking = "original"

    def __init__(self, network: Any, tokenizer: Any) -> None:  # noqa: ANN401 - untyped or slow to import
        super().__init__()
        self.network, self.tokenizer = network, tokenizer
        whole, plain = (tokenizer.encode("a", add_special_tokens=more).ids for more in (True, False))
        place = whole.index(plain[0])
        self.before, self.after = whole[:place], whole[place + len(plain) :]
        config = network.config
        positions = getattr(config, "max_position_embeddings", None)
        if positions is not None:
            offset = 0 if config.model_type not in COUNTED_FROM_PADDING else config.pad_token_id + 1
            self.longest_scored = positions - offset - len(self.before) - len(self.after)

    @torch.inference_mode()
    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LanguageModel`; each token is hidden in turn. Sentences are read one by one and have no `<eos>`."""
        self.refuse_structure(structure)
        return [[self._sentence(ids, vocabulary).cpu().numpy() for ids in document] for document in documents]

    def _sentence(self, ids: Sequence[int], vocabulary: Vocabulary) -> Float[Tensor, " tokens"]:
        """Nats of each token of a sentence."""
        assert vocabulary.mask_id is not None
        tokens, positions = torch.tensor([*self.before, *ids, *self.after]), torch.arange(len(ids))
        hidden = torch.eye(len(ids), dtype=torch.bool)
        if self.masking == "within_word_l2r":
            words = torch.from_numpy(self._words(ids))
            hidden = (words[:, None] == words) & (positions >= positions[:, None])
        own, scores = slice(len(self.before), len(self.before) + len(ids)), []
        for rows in positions.split(max(1, MASKED_AT_ONCE // len(tokens))):  # type: ignore[no-untyped-call]
            copies = tokens.repeat(len(rows), 1)
            copies[:, own] = copies[:, own].masked_fill(hidden[rows], vocabulary.mask_id)
            logits = self.network(input_ids=copies.to(self.device)).logits[:, own]
            log_probs = full_precision(logits[torch.arange(len(rows)), rows]).log_softmax(-1)
            scores.append(log_probs.gather(1, tokens[own][rows, None].to(self.device))[:, 0])
        return torch.cat(scores)

    def _words(self, ids: Sequence[int]) -> Int[np.ndarray, " tokens"]:
        """The number of each token's word by the tokenizer itself; by WordPiece's `##` where it can't read it back."""
        encoding = self.tokenizer.encode(
            self.tokenizer.decode(ids, skip_special_tokens=False), add_special_tokens=False
        )
        if encoding.ids == [*ids]:
            return np.array(encoding.word_ids)
        return np.cumsum([not str(self.tokenizer.id_to_token(token)).startswith("##") for token in ids])


COUNTED_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet")
"""Architectures whose first position is the one after their id of padding."""
