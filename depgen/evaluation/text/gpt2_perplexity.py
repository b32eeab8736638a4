"""Perplexity of texts under a pretrained causal language model, by default GPT-2: a measure of fluency.

As in the DMLM paper's code: each text is lower-cased and stripped, not detokenised, and read without BOS, so that its
first token is not scored; its perplexity is exp(mean nll of the other tokens), and the figure is the *arithmetic mean*
of the texts' perplexities. That mean has a heavy tail: one odd text can move it, which the interval shows.

Deviations:
    D1. A text of fewer than two tokens has no scored token, hence no perplexity; the authors' code yields NaN for the
        whole set. Here it is left out, counted and logged.
    D2. A text that is longer than the model can read is left out, counted and logged, not cut.
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from depgen.evaluation.pretrained import ModelWithTokenizer, load_pretrained
from depgen.evaluation.text.outcome import MeasuredItems, MeasuredSet, NotComputed
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise

logger = logging.getLogger(__name__)


def lm_perplexity(
    texts: Sequence[str],
    *,
    model: str = "gpt2",
    batch_size: int = 16,
    device: str = "cpu",
    download: bool = False,
) -> MeasuredItems | NotComputed:
    """The mean perplexity of the texts under a causal language model, with every text's own.

    Args:
        texts: one string an item.
        model: a local folder or a hub name of any causal model that transformers can load.
        batch_size: texts read at once; it does not change the scores.
        device: where to compute.
        download: whether files that are not on this machine may be downloaded.
    """
    pretrained = load_pretrained(model, "causal", device=device, download=download)
    if isinstance(pretrained, NotComputed):
        return pretrained
    prepared = [text.strip().lower() for text in texts]
    perplexities, overlong = text_perplexities(pretrained, prepared, batch_size=batch_size, device=device)
    excluded = int(np.isnan(perplexities).sum())
    if excluded:
        logger.warning(
            "Perplexity under %s leaves out %d of %d texts: %d have fewer than two tokens, %d are too long for it.",
            model, excluded, len(texts), excluded - overlong, overlong,
        )  # fmt: skip
    description = f"{pretrained.name}, no BOS, lower-cased, mean of text perplexities"
    return MeasuredItems(perplexities, description)


def corpus_perplexity(
    texts: Sequence[str], *, model: str = "gpt2", batch_size: int = 16, device: str = "cpu", download: bool = False
) -> MeasuredSet | NotComputed:
    """Exp of the nats of all texts over all their tokens, the first of a text given BOS (Casas et al., 2020, Table 2).

    Args:
        texts: raw text, one string an item; texts that are empty or too long for the model are left out.
        model: a local folder or a hub name of a causal model with a BOS token.
        batch_size: texts read at once; it does not change the figure.
        device: where to compute.
        download: whether files that are not on this machine may be downloaded.
    """
    pretrained = load_pretrained(model, "causal", device=device, download=download)
    if isinstance(pretrained, NotComputed):
        return pretrained
    begin = pretrained.tokenizer.bos_token_id
    if begin is None:
        return NotComputed(f"{pretrained.name} has no BOS token, which begins every text of this perplexity")
    filled = [text for text in texts if text]
    perplexities, _ = text_perplexities(pretrained, filled, batch_size=batch_size, device=device, begin=(begin,))
    tokens = np.array([len(pretrained.tokenizer.encode(text, add_special_tokens=False)) for text in filled])
    scored = ~np.isnan(perplexities)
    if not scored.any():
        return NotComputed(f"{pretrained.name} can score none of the texts")
    mean = (np.log(perplexities[scored]) * tokens[scored]).sum() / tokens[scored].sum()
    return MeasuredSet(float(np.exp(mean)), f"{pretrained.name}, after BOS, over all tokens of {scored.sum():,} texts")


@torch.inference_mode()
def text_perplexities(
    pretrained: ModelWithTokenizer,
    texts: Sequence[str],
    *,
    batch_size: int,
    device: str,
    begin: Sequence[int] = (),
) -> tuple[Float[np.ndarray, " texts"], int]:
    """exp(mean nll) of each text, its first token unscored, NaN if too short or too long; and how many are too long.

    Args:
        pretrained: a causal model.
        texts: texts as they are to be tokenised; no special token is added but `begin`.
        batch_size: texts read at once, of similar lengths.
        device: where the model is.
        begin: tokens before each text.
    """
    encoded = [[*begin, *pretrained.tokenizer.encode(text, add_special_tokens=False)] if text else [] for text in texts]
    limit = readable_tokens(pretrained)
    readable = np.array([index for index, ids in enumerate(encoded) if 2 <= len(ids) <= limit], dtype=np.int64)
    perplexities = np.full(len(texts), np.nan)
    batches = padded_batches([encoded[index] for index in readable], batch_size=batch_size, device=device)
    for batch, tokens, is_word in batches:
        logits = pretrained.model(input_ids=tokens, attention_mask=is_word.long()).logits
        perplexities[readable[batch]] = mean_nll(logits, tokens, is_word).exp().cpu().numpy()
    return perplexities, sum(len(ids) > limit for ids in encoded)


def mean_nll(
    logits: Float[Tensor, "batch length vocab"],
    tokens: Int[Tensor, "batch length"],
    is_word: Bool[Tensor, "batch length"],
) -> Float[Tensor, " batch"]:
    """Nats per scored token of each text, float64; the first token and padding are not scored.

    Args:
        logits: position t predicts token t + 1.
        tokens: token ids, padded at the right.
        is_word: True at tokens.

    >>> nll = mean_nll(torch.zeros(1, 3, 4), torch.tensor([[0, 1, 2]]), torch.tensor([[True, True, False]]))
    >>> round(nll.exp().item(), 4)
    4.0
    """
    targets, scored = tokens[:, 1:], is_word[:, 1:]
    nll = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets.flatten(), reduction="none")
    summed = precise(nll.view_as(targets).masked_fill(~scored, 0.0)).sum(dim=1)
    return summed / scored.sum(dim=1).to(summed.device)


def pad_right(sequences: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """The sequences padded at the right with zeros, and True where tokens are."""
    longest = max(len(ids) for ids in sequences)
    tokens = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in sequences])
    lengths = torch.tensor([len(ids) for ids in sequences])
    return tokens, mask_of(lengths, longest)


def padded_batches(
    sequences: Sequence[Sequence[int]], *, batch_size: int, device: str
) -> Iterator[tuple[list[int], Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]]:
    """Sequences of like length: their places, the tokens as `pad_right` pads them, and True where tokens are."""
    by_length = sorted(range(len(sequences)), key=lambda place: len(sequences[place]))
    for start in range(0, len(by_length), batch_size):
        batch = by_length[start : start + batch_size]
        tokens, is_word = pad_right([sequences[place] for place in batch])
        yield batch, tokens.to(device), is_word.to(device)


def readable_tokens(pretrained: ModelWithTokenizer) -> int:
    """How many tokens a model can read; a very large number when its configuration does not say."""
    limit = getattr(pretrained.model.config, "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else 1 << 30
