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
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from depgen.evaluation.pretrained import ModelWithTokenizer, load_pretrained
from depgen.evaluation.text.outcome import NotComputedError, TextScore, mean_score
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise

logger = logging.getLogger(__name__)


def lm_perplexity(
    texts: Sequence[str], *, model: str = "gpt2", batch_size: int = 16, device: str = "cpu", download: bool = False
) -> TextScore:
    """The mean perplexity of the texts under a causal language model, with every text's own.

    Args:
        texts: one string an item.
        model: a local folder or a hub name of any causal model that transformers can load.
        batch_size: texts read at once; it does not change the scores.
        device: where to compute.
        download: whether files that are not on this machine may be downloaded.
    """
    pretrained = load_pretrained(model, "causal", device=device, download=download)
    losses = _losses(pretrained, [text.strip().lower() for text in texts], batch_size=batch_size, device=device)
    short, overlong = (losses["tokens"] < 2).sum(), (losses["tokens"] > readable_tokens(pretrained)).sum()
    if short + overlong:
        logger.warning(
            "Perplexity under %s leaves out %d of %d texts: %d have fewer than two tokens, %d are too long for it.",
            model, short + overlong, len(texts), short, overlong,
        )  # fmt: skip
    settings = f"{pretrained.name}, no BOS, lower-cased, mean of text perplexities"
    return mean_score(np.exp(losses["nll"]).to_numpy(), settings)


def corpus_perplexity(
    texts: Sequence[str], *, model: str = "gpt2", batch_size: int = 16, device: str = "cpu", download: bool = False
) -> TextScore:
    """Exp of the nats of all texts over all their tokens, the first of a text given BOS (Casas et al., 2020, Table 2).

    Arguments are those of `lm_perplexity`; texts are raw. Those that are empty or too long for the model are left out.
    """
    pretrained = load_pretrained(model, "causal", device=device, download=download)
    begin = pretrained.tokenizer.bos_token_id
    if begin is None:
        raise NotComputedError(f"{pretrained.name} has no BOS token, which begins every text of this perplexity")
    filled = [text for text in texts if text]
    losses = _losses(pretrained, filled, batch_size=batch_size, device=device, begin=(begin,)).dropna()
    if losses.empty:
        raise NotComputedError(f"{pretrained.name} can score none of the texts")
    scored = losses["tokens"] - 1  # all but BOS
    value = float(np.exp((losses["nll"] * scored).sum() / scored.sum()))
    return TextScore(value, f"{pretrained.name}, after BOS, over all tokens of {len(losses):,} texts")


@torch.inference_mode()
def _losses(
    pretrained: ModelWithTokenizer, texts: Sequence[str], *, batch_size: int, device: str, begin: Sequence[int] = ()
) -> pd.DataFrame:
    """`tokens` of each text and mean `nll` of all but its first; NaN where it has fewer than two, or too many to read.

    No special token is added but `begin`.
    """
    encoded = [[*begin, *pretrained.tokenizer.encode(text, add_special_tokens=False)] if text else [] for text in texts]
    losses = pd.DataFrame({"tokens": [len(ids) for ids in encoded], "nll": np.nan})
    readable = np.flatnonzero(losses["tokens"].between(2, readable_tokens(pretrained)))
    batches = padded_batches([encoded[place] for place in readable], batch_size=batch_size, device=device)
    for batch, tokens, is_word in batches:
        logits = pretrained.model(input_ids=tokens, attention_mask=is_word.long()).logits
        losses.loc[readable[batch], "nll"] = mean_nll(logits, tokens, is_word).cpu().numpy()
    return losses


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
