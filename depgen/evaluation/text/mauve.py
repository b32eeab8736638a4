"""MAUVE of texts against references: feature vectors of texts by a language model, then `depgen.metrics.mauve`.

Pillutla et al. (2021) take GPT-2 large. Here it is any model of the transformers library that lies in a folder, or the
oracle (`oracle.py`), a language model of our own, where such weights are not at hand. Figures of two models do not
compare.

Deviations from the paper, or from its authors' package mauve-text 0.4, with those of `depgen.metrics.mauve`:
    D1. The feature vector of a text is the last layer's hidden state (after its final norm) at the text's last token,
        as in the package. Of the oracle it is the state after the last word, which predicts `<eos>`.
    D2. Texts and references without a word are left out and counted; the package stops at one.
    D3. Of a text that is longer than the model can encode, or than 1,024 tokens, the first tokens count, as in the
        package, and the log says so.
    D4. The figure is times 100, as the other measures of text are.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from depgen.data.vocabulary import encode
from depgen.evaluation.pretrained import ModelWithTokenizer, load_pretrained
from depgen.evaluation.text.gpt2_perplexity import padded_batches, readable_tokens
from depgen.evaluation.text.oracle import TOKENS_PER_BATCH, name_of
from depgen.evaluation.text.outcome import MeasuredSet, NotComputed
from depgen.evaluation.token_states import token_states
from depgen.evaluation.trained import load_trained
from depgen.metrics.mauve import mauve, usual_clusters

logger = logging.getLogger(__name__)

LONGEST = 1024
ENOUGH = 1000
"""Texts from which on a figure changes little with the seed: the paper has 5,000."""

Features = Float[np.ndarray, "texts width"]


def mauve_score(
    texts: Sequence[str],
    references: Sequence[str],
    *,
    model: str | Path,
    seed: int = 0,
    batch_size: int = 16,
    device: str = "cpu",
    download: bool = False,
) -> MeasuredSet | NotComputed:
    """MAUVE times 100 of texts against references, which need not correspond.

    Args:
        texts: one string an item.
        references: one string an item, such as human texts.
        model: a local folder or a hub name (str), or the run folder of an oracle (Path).
        seed: of the clusters.
        batch_size: texts encoded at once by a pretrained model; it does not change the features.
        device: where to compute.
        download: whether files that are not on this machine may be downloaded.

    Raises:
        UserError: the oracle's run holds a system that does not predict from left to right.
    """
    sides = [[text for text in side if text.strip()] for side in (texts, references)]
    if min(map(len, sides)) < 2:
        return NotComputed(f"it compares two sets of texts, and {len(sides[0])} texts and {len(sides[1])} references "
                           "have a word")  # fmt: skip
    if min(map(len, sides)) < ENOUGH:
        logger.warning("MAUVE of %d texts and %d references is noisy: give %d or more of each.",
                       *map(len, sides), ENOUGH)  # fmt: skip
    if isinstance(model, Path):
        name, features = name_of(model), [oracle_features(model, side, device=device) for side in sides]
    else:
        pretrained = load_pretrained(model, "encoder", device=device, download=download)
        if isinstance(pretrained, NotComputed):
            return pretrained
        name = pretrained.name
        features = [pretrained_features(pretrained, side, batch_size=batch_size, device=device) for side in sides]
    clusters = usual_clusters(*map(len, sides))
    value = 100 * mauve(*features, clusters=clusters, seed=seed)
    description = f"{name}, {len(sides[0])} texts, {len(sides[1])} references, {clusters} clusters, seed {seed}"
    return MeasuredSet(value, description)


@torch.inference_mode()
def pretrained_features(
    pretrained: ModelWithTokenizer, texts: Sequence[str], *, batch_size: int, device: str
) -> Features:
    """The last layer's state at the last token of each text, float32; no text is without a token."""
    limit = min(LONGEST, readable_tokens(pretrained))
    encoded: list[list[int]] = [pretrained.tokenizer.encode(text) for text in texts]
    if cut := sum(len(ids) > limit for ids in encoded):
        logger.warning("MAUVE encodes the first %d tokens of %d of %d texts.", limit, cut, len(texts))
    encoded = [ids[:limit] for ids in encoded]
    found: list[np.ndarray] = [np.empty(0)] * len(texts)
    for batch, tokens, is_word in padded_batches(encoded, batch_size=batch_size, device=device):
        states = pretrained.model(input_ids=tokens, attention_mask=is_word.long()).last_hidden_state
        for row, place in enumerate(batch):
            found[place] = states[row, len(encoded[place]) - 1].float().cpu().numpy()
    return np.stack(found)


def oracle_features(run: Path, texts: Sequence[str], *, device: str) -> Features:
    """The state of an oracle's last layer after the last word of each text.

    Raises:
        UserError: the run holds a system that does not predict from left to right.
    """
    trained = load_trained(run, device=device)
    trained.check_exact()
    documents = [[encode(trained.vocabulary, text.split()).ids.tolist()] for text in texts]
    states = token_states(trained.model, documents, vocabulary=trained.vocabulary, tokens_per_batch=TOKENS_PER_BATCH)
    return np.stack([sentence[-1] for (sentence,) in states])
