"""UNION scores of texts, by a scorer that was trained here."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from depgen.errors import UserError
from depgen.evaluation.text.gpt2_perplexity import padded_batches
from depgen.evaluation.text.outcome import MeasuredItems, NotComputed
from depgen.evaluation.union.network import ENCODER, UnionNetwork
from depgen.evaluation.union.stories import StoryPairs, encode, text_of
from depgen.locations import cache_root, json_object
from depgen.metrics.roc import auc
from depgen.nn.precise import precise

DESCRIPTION = "union.json"
"""What a scorer is, and how well it tells human stories from corrupted ones."""
ROCSTORIES = "rocstories"
"""The scorer that `experiments/union_rocstories.yaml`, or its small twin, trains."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnionScorer:
    """A trained scorer.

    Attributes:
        network: in evaluation mode.
        tokenizer: its encoder's.
        max_length: tokens that are read of a text, the encoder's marks included.
        device: where it computes.
    """

    network: UnionNetwork
    tokenizer: Any
    max_length: int
    device: str = "cpu"

    @torch.inference_mode()
    def score(self, texts: Sequence[str], *, batch_size: int = 64) -> Float[np.ndarray, " texts"]:
        """The probability, times 100, that each text is a human's; texts are lower-cased, long ones cut.

        It depends neither on the batch nor on padding.
        """
        encoded = encode(self.tokenizer, [" ".join(text.lower().split()) for text in texts], max_length=self.max_length)
        full = sum(len(ids) >= self.max_length for ids in encoded)
        if full:
            logger.warning("UNION reads no more than %d tokens: %d texts may be cut.", self.max_length, full)
        scores = np.zeros(len(encoded))
        for batch, tokens, is_word in padded_batches(encoded, batch_size=batch_size, device=self.device):
            probabilities = precise(self.network(tokens, is_word)).softmax(-1)[:, 1]
            scores[batch] = 100.0 * probabilities.cpu().numpy()
        return scores


def scorer_folder(name: str) -> Path:
    """The folder of a trained scorer: `$DEPGEN_CACHE/union/<name>`."""
    return cache_root() / "union" / name


def find_scorer(name: str) -> Path | None:
    """The folder of a scorer: a path, or the name of one that was trained here."""
    own = Path(name).expanduser()
    for folder in (own,) if own.is_absolute() or name.startswith((".", "~")) else (scorer_folder(name), own):
        if (folder / DESCRIPTION).is_file():
            return folder
    return None


def read_scorer(folder: Path) -> dict[str, Any]:
    """What `union.json` says.

    Raises:
        UserError: there is none, or it is damaged.
    """
    return json_object(folder / DESCRIPTION, remedy="Train the UNION scorer again.")


def load_scorer(folder: Path, *, device: str = "cpu") -> UnionScorer:
    """The scorer of a folder; nothing but the folder is needed.

    Raises:
        UserError: files are missing or damaged.
    """
    from transformers import AutoTokenizer

    description = read_scorer(folder)
    network = UnionNetwork.load(folder, pooling=description["pooling"])
    tokenizer = AutoTokenizer.from_pretrained(folder / ENCODER, local_files_only=True)
    return UnionScorer(network.to(device), tokenizer, int(description["max_length"]), device)


def union_score(
    texts: Sequence[str],
    prompts: Sequence[str] | None = None,
    *,
    scorer: str,
    device: str = "cpu",
) -> MeasuredItems | NotComputed:
    """The mean UNION score of texts, with every text's own; each is read after its prompt, where there are prompts.

    An empty text scores zero: its prompt alone is a human's.

    Args:
        texts: one string an item.
        prompts: the context of each; None: texts are whole stories.
        scorer: the name of a trained scorer, or its folder.
        device: where to compute.

    Raises:
        UserError: unequal numbers, or a damaged scorer.
    """
    if prompts is not None and len(prompts) != len(texts):
        raise UserError(f"UNION wants one prompt a text: {len(texts)} texts, {len(prompts)} prompts.")
    folder = find_scorer(scorer)
    if folder is None:
        return NotComputed(
            f"no UNION scorer {scorer!r} in $DEPGEN_CACHE/union (by default ~/.cache/depgen/union); train one by "
            "`depgen train-union --config experiments/union_rocstories_small.yaml`"
        )
    stories = texts if prompts is None else [f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)]
    scores = load_scorer(folder, device=device).score(stories)
    scores[[not text.strip() for text in texts]] = 0.0
    return MeasuredItems(scores, describe(folder, prompted=prompts is not None))


def describe(folder: Path, *, prompted: bool) -> str:
    """What a UNION score depends on: that the scorer is ours, its encoder, data, areas under the curve, and digest."""
    found = read_scorer(folder)
    areas = ", ".join(f"{split} AUC {found['auc'][split]['all']:.3f}" for split in ("valid", "test"))
    read = "texts after their prompts" if prompted else "texts as whole stories"
    return (
        f"a scorer of our own, not the published one: {found['encoder']}, trained on {found['corpus']} "
        f"({found['train_stories']:,} stories), {areas}; {read}; {found['fingerprint'][:12]}"
    )


def areas(scorer: UnionScorer, pairs: StoryPairs) -> dict[str, float]:
    """The area under the ROC curve of human stories against their negative samples.

    `all`; those with one operation alone, by its form; and those with 2, 3 and 4.
    """
    corrupted = [pairs.corrupted(index) for index in range(len(pairs))]
    human = scorer.score([text_of(story) for story in pairs.stories])
    negative = scorer.score([text_of(each.story) for each in corrupted])
    kinds = [each.forms[0] if len(each.forms) == 1 else f"{len(each.forms)} operations" for each in corrupted]
    found = {"all": auc(human, negative)}
    for kind in sorted(set(kinds)):
        found[kind] = auc(human, negative[[each == kind for each in kinds]])
    return found
