"""What pretrained models say of texts: the perplexity of a causal language model, and BERTScore of an encoder.

*Perplexity* (by default of GPT-2), a measure of fluency, is as in the DMLM paper's code: each text is lower-cased and
stripped, not detokenised, and read without BOS, so that its first token is not scored; its perplexity is exp(mean nll
of the other tokens), and the figure is the *arithmetic mean* of the texts' perplexities. That mean has a heavy tail:
one odd text can move it, which the interval shows.

*BERTScore* (Zhang et al., 2020) is the F1 of greedily matched contextual token embeddings. It follows the code of its
authors (package bert-score 0.3.13): roberta-large, layer 17, no idf, a space before the first word for byte-level
tokenisers, `[CLS]` and `[SEP]` without weight but open to matching.

Deviations:
    D1. A text of fewer than two tokens has no scored token, hence no perplexity; the authors' code yields NaN for the
        whole set. Here it is left out, counted and logged.
    D2. A text that is longer than the causal model can read is left out, counted and logged, not cut.
    D3. BERTScore is computed here: a text without a token scores 0 (the authors' package ends in an error on it with
        transformers 5), and torchmetrics 1.9 compares texts with the wrong references: it sorts each side by length. On
        one pair ours equals both.
    D4. Padding never matches; in the code of BERTScore's authors a padded position counts as similarity 0, which would
        make a negative best similarity depend on the batch.
    D5. BERTScore is unrescaled unless a baseline file is given. The DMLM paper's 27 to 30 are only plausible with
        rescaling.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from depgen import __version__
from depgen.errors import UserError
from depgen.hub import TRANSFORMERS_MISSING, has_transformers, load_weights, model_folder, names_a_folder, one_line
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise

logger = logging.getLogger(__name__)


class NotComputedError(UserError):
    """A measure can't be computed: says what is missing and what to do about it. Tables print it, and go on."""


@dataclass(frozen=True)
class TextScore:
    """A measure of texts.

    Attributes:
        value: the figure.
        settings: model, versions and whatever else it depends on.
        items: a score a text, NaN where it has none; None where only all texts together have a score.
    """

    value: float
    settings: str | None = None
    items: Float[np.ndarray, " texts"] | None = None


def mean_score(items: Float[np.ndarray, " texts"], settings: str | None = None) -> TextScore:
    """The mean of the scores that are not NaN; NaN where all are.

    >>> mean_score(np.array([1.0, np.nan, 3.0])).value
    2.0
    """
    defined = items[~np.isnan(items)]
    return TextScore(float(defined.mean()) if len(defined) else float("nan"), settings, items)


# -- pretrained models ------------------------------------------------------------------------------------------------

Kind = Literal["encoder", "causal"]


@dataclass(frozen=True)
class ModelWithTokenizer:
    """A network of the kinds that transformers has, and its tokeniser.

    Attributes:
        model: the network.
        tokenizer: its tokeniser.
        name: what results call it, without machine paths.
    """

    model: Any
    tokenizer: Any
    name: str


def load_pretrained(name: str, kind: Kind, *, device: str = "cpu", download: bool = False) -> ModelWithTokenizer:
    """The model, in evaluation mode and float32, and the tokeniser of that name.

    It is sought as `depgen.hub` says; only if it is not found and `download` is true is it fetched from the hub.
    Results call it by the hub name, or by the last part of the folder's path.

    Args:
        name: a folder with `config.json`, weights and tokeniser files, or a name on the hub.
        kind: whether hidden states (`encoder`) or next-token logits (`causal`) are wanted.
        device: where the model is put.
        download: whether files that are not on this machine may be downloaded.

    Raises:
        NotComputedError: they cannot be had; says why.
    """
    if not has_transformers():
        raise NotComputedError(TRANSFORMERS_MISSING)
    folder = model_folder(name)
    if folder is None and names_a_folder(name):
        raise NotComputedError(f"no weights at {name}: no such folder")
    if folder is not None and not (folder / "config.json").is_file():
        raise NotComputedError(f"no weights at {name}: the folder has no config.json")
    if folder is None and not download:
        raise NotComputedError(
            f"no weights at {name}: neither a folder nor in the local hub cache; fetch them with `hf download {name}`, "
            "name a folder, or allow the download"
        )
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    auto, source = AutoModelForCausalLM if kind == "causal" else AutoModel, str(folder or name)
    try:
        model = load_weights(
            auto, source, bars=folder is None, local_files_only=folder is not None, dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=folder is not None)
    except (OSError, ValueError) as error:  # what transformers raises for missing or unreadable files, and ours
        raise NotComputedError(f"no weights at {name}: {one_line(error)}") from error
    label = folder.resolve().name if folder is not None and folder == Path(name).expanduser() else name
    return ModelWithTokenizer(model.to(device).eval(), tokenizer, label)


# -- perplexity -------------------------------------------------------------------------------------------------------


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


# -- BERTScore --------------------------------------------------------------------------------------------------------

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
