"""Masked language models, which predict hidden words from all others.

`MaskedLanguageModel` is the base of the systems that are trained here; `PretrainedMaskedLM` scores sentences by a model
of the `transformers` library, such as BERT and RoBERTa.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem, WordBatch, collate_words
from depgen.data.sampler import TokenBudgetBatches
from depgen.data.text import TextData
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel, Likelihood, Masking, SentenceContext
from depgen.metrics.item_scores import ItemScores
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise, precise_device
from depgen.nn.vocabulary import full_precision, word_log_probs
from depgen.training.randomness import hashed_uniform, shared_seed

log = logging.getLogger(__name__)

Tokens = Int[Tensor, "batch length"]
"""Ids of words, or their heads, padded at the right."""
Lengths = Int[Tensor, " batch"]
"""Words of each sentence."""
HeadScores = Float[Tensor, "batch dependents heads"]
"""How much speaks for each word (last axis) as the head of each other one."""

MASKED_AT_ONCE = 16384
"""Tokens of the masked copies of sentences that are read at once, padding included."""

COUNTED_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet")
"""Architectures whose first position is the one after their id of padding."""


@dataclass(frozen=True)
class LayerAttention:
    """The weights of a layer's attention heads, in evaluation.

    Attributes:
        before: each head's weights before a structural mask: over heads where heads compete, over keys elsewhere.
        after: the weights that values are summed by.
    """

    before: Float[Tensor, "batch attention_heads queries keys"]
    after: Float[Tensor, "batch attention_heads queries keys"]


@dataclass(frozen=True)
class MaskedOutput:
    """What a masked language model's network returns.

    Attributes:
        hidden: of every position, ready for the output matrix.
        head_log_probs: the logarithm of how probable it is that the first position depends on the second; a word's own
            position means that it has no head, or is the root where roots were learnt. Not normalised. None in other
            models than UDGN, and in UDGN where trees are given and its parser does not learn.
        attention: one a layer, on request.
        layers: of every position, the embedding's first and then each layer's before a final norm, on request.
    """

    hidden: Float[Tensor, "batch length width"]
    head_log_probs: HeadScores | None = None
    attention: tuple[LayerAttention, ...] | None = None
    layers: tuple[Float[Tensor, "batch length width"], ...] | None = None


@runtime_checkable
class HeadNetwork(Protocol):
    """A network that gives the probability of each word to be each other's head."""

    def head_probabilities(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """p[b, i, j]: word i depends on word j; p[b, i, i]: word i is the root. 0 at padding. In evaluation mode.

        The diagonal is 0 in networks that have not learnt roots from trees.
        """
        ...


def without_own_place(probabilities: HeadScores, is_word: Bool[Tensor, "batch length"]) -> HeadScores:
    """The probabilities with zeros on the diagonal and at padding, not normalised again.

    A word that is its own head has no head, so each row keeps the missing mass as "no head".

    >>> without_own_place(torch.full((1, 2, 2), 0.5), torch.tensor([[True, True]])).tolist()
    [[[0.0, 0.5], [0.5, 0.0]]]
    """
    others = ~torch.eye(is_word.shape[1], dtype=torch.bool, device=is_word.device)
    return probabilities.masked_fill(~(others & is_word[:, :, None] & is_word[:, None, :]), 0)


class MaskedLanguageModel(LanguageModel):
    """Base of the systems that are trained by predicting masked words.

    Logged: `loss` (nats per masked word, the mean over the passes), its exponential `perplexity`, and the share of
    words that are `<unk>`.

    Args:
        mask_rate: the probability of each word to be masked; `<unk>` never is.
        evaluation_masks: passes over every sentence, each with other masks, where perplexity is measured; they depend
            on the sentence's place in its split and the pass alone.
        kwargs: see `LanguageModel`.

    Attributes:
        backbone: the network that reads, in systems that take one.
    """

    likelihood: Likelihood = "pseudo"
    sentence_context: SentenceContext = "none"
    backbone: Transformer

    def __init__(
        self,
        *,
        mask_rate: float = 0.3,
        evaluation_masks: int = 5,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        if not 0 < mask_rate <= 1:
            raise UserError(f"mask_rate: expected a share above 0 and at most 1, found {mask_rate}.")
        if evaluation_masks < 1:
            raise UserError(f"evaluation_masks: expected at least 1, found {evaluation_masks}.")
        self.mask_rate, self.evaluation_masks = mask_rate, evaluation_masks
        self._measure_in(passes=evaluation_masks)

    @property
    def collate(self) -> Callable[[ItemBatch], WordBatch]:
        """Sentences as they are, padded."""
        return collate_words

    def use_backbone(self, backbone: Transformer) -> None:
        """Take a network that sees both sides as `backbone`."""
        if backbone.causal:
            raise UserError(
                f"{type(self).__name__} reads from both sides: set model.init_args.backbone.init_args.causal to false."
            )
        self.backbone, self.longest_scored = backbone, backbone.max_length

    # -- what a system provides -----------------------------------------------------------------------------------

    def encode(
        self,
        tokens: Tokens,
        lengths: Lengths,
        *,
        heads: Tokens | None = None,
        attention: bool = False,
        all_layers: bool = False,
    ) -> MaskedOutput:
        """The network's output over sentences, padded at the right; `heads` are for systems that need trees."""
        raise NotImplementedError(f"{type(self).__name__} has no encode")

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """The output matrix; the backbone's, in systems that take one."""
        return self.backbone.output_weight

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        return self.backbone.output_bias

    def parser_parameters(self) -> Iterator[nn.Parameter]:
        """All parameters that the system's trees depend on; none in systems without a parser."""
        yield from ()

    def extra_loss(self, output: MaskedOutput, batch: WordBatch) -> Float[Tensor, ""] | None:
        """An auxiliary loss in training; None if there is none."""
        return None

    @property
    def learns_from_trees(self) -> bool:
        """Not by default."""
        return False

    # -- training -------------------------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Warn of documents that are read as single sentences."""
        data = getattr(self.trainer, "datamodule", None)
        if not isinstance(data, TextData):
            return
        joined = data.joined_items("train")
        if joined:
            log.warning(
                "%s reads sentences, but %d training documents of %s have several and are read as one sentence each, "
                "trees included. The step depgen.data.steps.SingleSentences of the corpus has them read by themselves.",
                type(self).__name__, joined, data.corpus.name,
            )  # fmt: skip

    def training_step(self, batch: WordBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The mean nll of the masked words of the global batch; 0, with a gradient of 0, where none is masked."""
        step = None if self._attached is None else self.global_step
        chosen = self.drawn_mask(batch, shared_seed(step, batch_idx))
        output, places = self._masked(batch, chosen)
        words = self.summed_over_devices(torch.tensor(len(places)))
        loss = self.log_train(self._nll(output, batch.tokens, places).sum(), words)
        extra = self.extra_loss(output, batch)
        return loss if extra is None else loss + extra

    def drawn_mask(self, batch: WordBatch, *keys: int) -> Bool[Tensor, "batch length"]:
        """Each word except `<unk>` with probability `mask_rate`, drawn from the keys, its sentence and its position.

        On the CPU, so that nothing waits for a GPU.
        """
        assert batch.known is not None
        uniform = hashed_uniform(*keys, batch.items[:, None], torch.arange(batch.tokens.shape[1])[None, :])
        return (uniform < self.mask_rate) & batch.known

    def _masked(
        self, batch: WordBatch, chosen: Bool[Tensor, "batch length"]
    ) -> tuple[MaskedOutput, Int[Tensor, " words"]]:
        """The network's output where chosen words are masked, and their places, counted through the whole batch."""
        places = chosen.flatten().nonzero()[:, 0].to(batch.tokens.device, non_blocking=True)
        tokens = batch.tokens.flatten().index_fill(0, places, batch.mask_id).view(batch.tokens.shape)
        return self.encode(tokens, batch.lengths, heads=batch.heads), places

    def summed_over_devices(self, count: Int[Tensor, ""]) -> int | Float64[Tensor, ""]:
        """What the global batch counts, at least 1, so that a sum over nothing can be divided by it.

        A number where the count lies on the CPU of one process; else a tensor, so that nothing waits for a GPU.
        """
        if self.processes > 1:
            count = cast(Tensor, self.all_gather(count.to(self.device, non_blocking=True))).sum()
        elif precise_device(count.device).type == "cpu":
            return max(1, int(count))
        return count.clamp_min(1).double()

    def _nll(self, output: MaskedOutput, tokens: Tokens, places: Int[Tensor, " words"]) -> Float[Tensor, " words"]:
        """Nats of the words at some places, counted through the whole batch."""
        hidden, targets = output.hidden.flatten(0, 1)[places], tokens.flatten()[places]
        return -word_log_probs(hidden, self.output_weight, self.output_bias, targets)

    # -- scoring --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LanguageModel`; each word is hidden in turn and predicted from all others of its sentence.

        Salazar, Liang, Nguyen & Kirchhoff (2020), Eq. 1. Sentences are read one by one, whatever the document, and have
        no `<eos>`; a sentence of n words is read n times. An unknown word is hidden too and scored as `<unk>`, which
        training never predicts: its probability is close to 0.
        """
        self.refuse_structure(structure)
        sentences = [np.asarray(ids) for document in documents for ids in document]
        lengths = np.array([len(ids) for ids in sentences])
        scores: list[Any] = [None] * len(sentences)
        for share in TokenBudgetBatches(lengths**2, tokens_per_batch=MASKED_AT_ONCE, shuffle=False, tokens=lengths):
            items = [TokenItem(int(place), sentences[place]) for place in share.indices]
            batch = collate_words(ItemBatch(items, share.global_tokens, vocabulary)).to(self.device)
            assert isinstance(batch, WordBatch)
            for item, log_probs in zip(items, self(batch).cpu().double().numpy(), strict=True):
                scores[item.index] = log_probs[: len(item.ids)]
        in_order = iter(scores)
        return [[next(in_order) for _ in document] for document in documents]

    def forward(self, batch: WordBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each word given all others of its sentence; 0 at padding.

        Each word is masked in turn, so that a sentence of n words is encoded n times, in batches of bounded size.
        """
        rows, places = mask_of(batch.lengths, batch.tokens.shape[1]).nonzero(as_tuple=True)
        at_once = max(1, MASKED_AT_ONCE // batch.tokens.shape[1])
        log_probs = batch.tokens.new_zeros(batch.tokens.shape, dtype=self.output_weight.dtype)
        for row, place in zip(rows.split(at_once), places.split(at_once), strict=True):  # type: ignore[no-untyped-call]
            there = row.to(log_probs.device, non_blocking=True)
            copies = replace(
                batch, tokens=batch.tokens[there], lengths=batch.lengths[row], items=batch.items[row], known=None,
                heads=None if batch.heads is None else batch.heads[there],
            )  # fmt: skip
            output, hidden = self._masked(copies, F.one_hot(place, batch.tokens.shape[1]).bool())
            where = there, place.to(log_probs.device, non_blocking=True)
            log_probs = log_probs.index_put(where, -self._nll(output, copies.tokens, hidden))
        return log_probs

    def predict_step(self, batch: WordBatch, batch_idx: int) -> HeadScores:
        """The probability of each word to be each other's head, of systems that parse."""
        if not isinstance(self, HeadNetwork):
            raise UserError(f"{type(self).__name__} has no trees to predict: take UDGN or StructFormer.")
        with torch.autocast(self.device.type, enabled=False):
            return self.head_probabilities(batch.tokens, batch.lengths)

    # -- evaluation -----------------------------------------------------------------------------------------------

    def item_scores(self, batch: WordBatch) -> ItemScores:
        """The nats of each sentence's masked words in every pass; no batch and no device changes what is masked."""
        nll = torch.zeros(
            len(batch.tokens), self.evaluation_masks, dtype=torch.float64, device=precise_device(self.device)
        )
        words = torch.zeros(nll.shape, dtype=torch.int64)
        for number in range(self.evaluation_masks):
            chosen = self.drawn_mask(batch, 0, number)
            output, places = self._masked(batch, chosen)
            row = chosen.nonzero()[:, 0].to(nll.device)
            nll[:, number].index_add_(0, row, precise(self._nll(output, batch.tokens, places)))
            words[:, number] = chosen.sum(1)
        assert batch.known is not None
        unknown = batch.lengths.sum() - batch.known.sum()
        return ItemScores(batch.items, nll, words, words.sum(1), unknown, batch.lengths.sum())


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
