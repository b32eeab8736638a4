"""What a system must keep whatever it computes: a check for systems of one's own, as for those of depgen.

check_system(model, data.filled_split("valid"), data.vocabulary)
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import lightning as L
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.batch import ItemBatch, SegmentItem, TokenItem
from depgen.data.table import EncodedSplit
from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.over_trees import ScoresTrees
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight

System = TypeVar("System", bound=LanguageModel)
Item = TypeVar("Item", TokenItem, SegmentItem)
TOLERANCE = 1e-4
"""What rounding may change in single precision."""
AT_ONCE = 256
"""Items in a batch of all tokens in a place."""


def check_system(
    model: LanguageModel, items: Sequence[Any] | EncodedSplit, vocabulary: Vocabulary, *, most: int = 4
) -> None:
    """Check the scores of a split's first items, sentences or documents; dropout and the like are off.

    1. An item's scores are those that it has alone, whatever else is in its batch.
    2. Of a system that reads from left to right, also sentence by sentence: another token changes no score before it,
       whatever `collate` makes of it. Where scores are exact, the probabilities of all tokens in a place sum to 1, so
       that none sees itself. Of a system that scores texts with their trees, in whatever order: no two tokens change
       each other's scores.
    3. A checkpoint holds all that the scores depend on.

    The scores of a document are those of its tokens and of the end of each of its sentences, in their order.

    Raises:
        AssertionError: one of these does not hold; names the item and the token.
    """
    model, texts = copy.deepcopy(model).eval(), [items[place] for place in range(min(most, len(items)))]
    alone = [scores_of(model, [item], vocabulary)[0] for item in texts]
    _compare(scores_of(model, texts, vocabulary), alone, "depends on the other items of its batch")
    reads_in_order = isinstance(model, (LeftToRight, DocumentLanguageModel))
    if reads_in_order:
        for place, (item, before) in enumerate(zip(texts, alone, strict=True)):
            for number, changed in _changed(item, texts):
                (after,) = scores_of(model, [changed], vocabulary)
                _compare([after[:number]], [before[:number]], f"depends on token {number + 1}", first=place)
    if isinstance(model, ScoresTrees):
        for place, (item, before) in enumerate(zip(texts, alone, strict=True), 1):
            moved = [scores_of(model, [other], vocabulary)[0] for _, other in _changed(item, texts)]
            moves = ~torch.isclose(torch.stack(moved), before, rtol=TOLERANCE, atol=TOLERANCE)
            if len(both := (moves & moves.T).triu(1).nonzero()):
                first, second = (both[0] + 1).tolist()
                raise AssertionError(f"The scores of tokens {first} and {second} of item {place} depend on each other.")
    if reads_in_order and model.likelihood == "exact":
        shortest = min(texts, key=lambda item: len(_ids(item)))
        for place, number in enumerate(_targets(shortest)):
            items = [_with_token(shortest, place, token) for token in range(vocabulary.size)]
            parts = [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]
            scores = [of_item[number] for part in parts for of_item in scores_of(model, part, vocabulary)]
            total = float(torch.stack(scores).double().exp().sum())
            if abs(total - 1) > TOLERANCE:
                raise AssertionError(f"The probabilities of all tokens in place {number + 1} sum to {total:.6f}.")
    model = model.float()  # as a checkpoint is loaded
    saved, loaded = (scores_of(each, texts, vocabulary) for each in (model, loaded_again(model)))
    _compare(loaded, saved, "is another one after saving and loading")


@torch.no_grad()
def scores_of(model: LanguageModel, items: Sequence[Item], vocabulary: Vocabulary) -> list[Float[Tensor, " _"]]:
    """The log-probabilities (nats) of each item's targets in one batch, with its tree if the system scores trees."""
    if isinstance(model, ScoresTrees):
        sentences: Any = items
        texts, trees = zip(*((item.ids.tolist(), (item.heads, item.relations)) for item in sentences), strict=True)
        (scores,) = model.sentence_log_probs([texts], vocabulary=vocabulary, structure=[trees])
        return [torch.from_numpy(of_item).to(model.dtype) for of_item in scores]
    targets = sum(len(_ids(item)) + 1 for item in items)
    batch: Any = model.collate(ItemBatch(items, targets, vocabulary, global_items=len(items)))
    batch = batch.to(model.device)
    return [row[here] for row, here in zip(model(batch), batch.is_word, strict=True)]


def loaded_again(model: System) -> System:
    """The system from a checkpoint, as Lightning writes one and reads it without running code from it."""
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    saved = copy.deepcopy(model)
    trainer.strategy.connect(saved)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "system.ckpt"
        trainer.save_checkpoint(path)
        loaded = type(model).load_from_checkpoint(path, map_location=model.device, weights_only=True)
    loaded.enter_phase(model.phase)
    return loaded.eval()


def _ids(item: Item) -> Int[np.ndarray, " tokens"]:
    """The tokens of a sentence, or of a document's sentences one after the other."""
    return item.ids if isinstance(item, TokenItem) else np.concatenate(item.sentences)


def _targets(item: Item) -> Int[np.ndarray, " tokens"]:
    """The place of each token among an item's scores; in a document the ends of sentences have some too."""
    lengths = [len(item.ids)] if isinstance(item, TokenItem) else [len(ids) for ids in item.sentences]
    return np.arange(sum(lengths)) + np.repeat(np.arange(len(lengths)), lengths)


def _with_token(item: Any, place: int, token: int) -> Any:  # noqa: ANN401, an `Item`
    """A copy of the item with another token at one place, without what `collate` had computed of it."""
    ids = np.where(np.arange(len(_ids(item))) == place, token, _ids(item))
    if isinstance(item, TokenItem):
        return replace(item, ids=ids, view=None)
    return replace(item, sentences=np.split(ids, np.cumsum([len(sentence) for sentence in item.sentences])[:-1]))


def _changed(item: Item, texts: Sequence[Item]) -> Iterator[tuple[int, Item]]:
    """An item with another token of the texts in its first place, in its second, and so on; and the place's target."""
    known = np.unique(np.concatenate([_ids(text) for text in texts]))
    others = known[(np.searchsorted(known, _ids(item)) + 1) % len(known)]
    for place, (number, other) in enumerate(zip(_targets(item).tolist(), others.tolist(), strict=True)):
        yield number, _with_token(item, place, other)


def _compare(found: Sequence[Tensor], expected: Sequence[Tensor], what: str, *, first: int = 0) -> None:
    """Raises AssertionError where scores differ by more than rounding."""
    for number, (one, other) in enumerate(zip(found, expected, strict=True), first):
        bound = 1e-9 if one.dtype == torch.float64 else TOLERANCE
        differs = ~torch.isclose(one, other, rtol=bound, atol=bound)
        if differs.any():
            place = int(differs.nonzero()[0])
            raise AssertionError(
                f"The score of token {place + 1} of item {number + 1} {what}: {float(one[place]):.6f} in place of "
                f"{float(other[place]):.6f}."
            )
