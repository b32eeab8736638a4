"""BERTScore (Zhang et al., 2020): F1 of greedily matched contextual token embeddings.

Follows the code of its authors (package bert-score 0.3.13): roberta-large, layer 17, no idf, a space before the
first word for byte-level tokenisers, `[CLS]` and `[SEP]` without weight but open to matching.

Deviations:
    D1. Computed here: a text without a token scores 0 (the authors' package ends in an error on it with transformers
        5), and torchmetrics 1.9 compares texts with the wrong references: it sorts each side by length. On one pair
        ours equals both.
    D2. Padding never matches; in the authors' code a padded position counts as similarity 0, which would make a
        negative best similarity depend on the batch.
    D3. Unrescaled unless a baseline file is given. The DMLM paper's 27 to 30 are only plausible with rescaling.
"""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from depgen import __version__
from depgen.errors import UserError
from depgen.evaluation.pretrained import ModelWithTokenizer, load_pretrained
from depgen.evaluation.text.gpt2_perplexity import pad_right
from depgen.evaluation.text.outcome import TextScore, mean_score

LAYERS = {
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "distilbert-base-uncased": 5,
    "distilroberta-base": 5,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
}
"""The layer of each model that agrees best with human judgement, from the authors' code."""
_PREFIX_SPACE = {"roberta", "gpt2", "bart", "longformer"}
_PADDED_POSITIONS = {"roberta", "xlm-roberta", "camembert", "longformer"}
"""Models that number positions from 2, so that they read two tokens fewer than they have positions."""

logger = logging.getLogger(__name__)


@torch.inference_mode()
def bertscore(
    texts: Sequence[str],
    references: Sequence[str],
    *,
    model: str = "roberta-large",
    layer: int | None = None,
    baseline: str | Path | None = None,
    batch_size: int = 64,
    device: str = "cpu",
    download: bool = False,
) -> TextScore:
    """The mean BERTScore F1 times 100 of texts against one reference each, with every text's own.

    `settings` are a hash string in the manner of the authors': model, layer, versions, rescaled or not. A text or
    reference without a token scores zero before rescaling. The scores do not depend on the batch.

    Args:
        texts: one string an item.
        references: one reference an item.
        model: a local folder or a hub name of an encoder.
        layer: which hidden states, 0 = embeddings; by default the authors' choice for that model, else the last.
        baseline: a baseline file of the bert-score package (`LAYER,P,R,F`), by which F1 is rescaled.
        batch_size: pairs read at once.
        device: where to compute.
        download: whether files that are not on this machine may be downloaded.
    """
    import transformers

    pretrained = load_pretrained(model, "encoder", device=device, download=download)
    layer = _choose_layer(pretrained, layer)
    encoded = pd.DataFrame({"text": texts, "reference": references}).map(partial(_encode, pretrained))
    f1 = np.zeros(len(encoded))
    by_length = encoded.map(len).max(axis=1).argsort(kind="stable")
    for start in range(0, len(encoded), batch_size):
        batch = by_length[start : start + batch_size]
        sides = (_embed(pretrained, list(encoded[side].iloc[batch]), layer, device) for side in encoded)
        f1[batch] = greedy_f1(*sides).cpu().double().numpy()
    floor = 0.0 if baseline is None else _baseline_f1(Path(baseline), layer)
    rescaled = "unrescaled" if baseline is None else f"rescaled({Path(baseline).name})"
    versions = f"depgen={__version__}(hug_trans={transformers.__version__})"
    return mean_score(100.0 * (f1 - floor) / (1.0 - floor), f"{pretrained.name}_L{layer}_no-idf_{versions}-{rescaled}")


class Embedded(NamedTuple):
    """The tokens of some texts.

    Attributes:
        states: contextual embeddings.
        keys: True at tokens that may be matched (all but padding).
        weighted: True at tokens that are averaged over (special tokens are not).
    """

    states: Float[Tensor, "batch words width"]
    keys: Bool[Tensor, "batch words"]
    weighted: Bool[Tensor, "batch words"]


def greedy_f1(text: Embedded, reference: Embedded) -> Float[Tensor, " batch"]:
    """F1 of precision (each text token's best match) and recall (each reference token's), 0 where a side is empty."""
    unit_text, unit_reference = (side.states / side.states.norm(dim=-1, keepdim=True) for side in (text, reference))
    similarity = unit_text @ unit_reference.transpose(1, 2)
    # Eqs. 1 and 2 of Zhang et al. (2020)
    precision = _weighted_mean(similarity.masked_fill(~reference.keys[:, None], -2.0).amax(dim=2), text.weighted)
    recall = _weighted_mean(similarity.masked_fill(~text.keys[:, :, None], -2.0).amax(dim=1), reference.weighted)
    f1 = 2 * precision * recall / (precision + recall)
    return f1.masked_fill(~(text.weighted.any(dim=1) & reference.weighted.any(dim=1)), 0.0)


def _baseline_f1(path: Path, layer: int) -> float:
    """The F1 of a layer in a baseline file of the bert-score package (header, then `LAYER,P,R,F`)."""
    values = pd.read_csv(path).set_index("LAYER")["F"]
    if layer not in values:
        raise UserError(f"{path}: has no baseline for layer {layer}; layers found: {sorted(values.index)}.")
    return float(values[layer])


def _weighted_mean(
    best: Float[Tensor, "batch words"], weighted: Bool[Tensor, "batch words"]
) -> Float[Tensor, " batch"]:
    return (best * weighted).sum(dim=1) / weighted.sum(dim=1).clamp(min=1)


def _choose_layer(pretrained: ModelWithTokenizer, layer: int | None) -> int:
    """The given layer, else the authors' for a model of that name, else the last."""
    layers = int(pretrained.model.config.num_hidden_layers)
    if layer is None:
        known = LAYERS.get(pretrained.name.rsplit("/", 1)[-1])
        if known is None or known > layers:
            logger.warning("BERTScore knows no best layer of %s and takes the last, %d.", pretrained.name, layers)
            return layers
        return known
    if not 0 <= layer <= layers:
        raise UserError(f"BERTScore: {pretrained.name} has layers 0 to {layers}, found {layer}.")
    return layer


def _encode(pretrained: ModelWithTokenizer, text: str) -> list[int]:
    """Token ids with special tokens, cut (with a warning) where the model can read no more."""
    text = text.strip()
    if text and pretrained.model.config.model_type in _PREFIX_SPACE:
        text = f" {text}"
    config = pretrained.model.config
    positions = int(config.max_position_embeddings) - (2 if config.model_type in _PADDED_POSITIONS else 0)
    limit = min(int(pretrained.tokenizer.model_max_length), positions)
    ids: list[int] = pretrained.tokenizer.encode(text, add_special_tokens=True)
    if len(ids) > limit:
        logger.warning("BERTScore reads the first %d of the %d tokens of a text: %.40s…", limit, len(ids), text)
        ids = pretrained.tokenizer.encode(text, add_special_tokens=True, max_length=limit, truncation=True)
    return ids


def _embed(pretrained: ModelWithTokenizer, sequences: Sequence[Sequence[int]], layer: int, device: str) -> Embedded:
    """Hidden states of a layer."""
    tokens, keys = pad_right(sequences)
    # Not all special tokens: an unknown word is a word.
    borders = (pretrained.tokenizer.cls_token_id, pretrained.tokenizer.sep_token_id)
    special = torch.isin(tokens, torch.tensor([border for border in borders if border is not None], dtype=torch.long))
    tokens, keys, special = tokens.to(device), keys.to(device), special.to(device)
    output = pretrained.model(input_ids=tokens, attention_mask=keys.long(), output_hidden_states=True)
    return Embedded(output.hidden_states[layer].float(), keys, keys & ~special)
