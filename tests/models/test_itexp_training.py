"""Training of iterative expansion, and what it refuses."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch
from depgen.data.levels import LevelItem
from depgen.errors import UserError
from depgen.models.itexp import ITEXP, collate_levels
from tests.invented_levels import FULL, LIKES, batch_of_trees, built, item_of, small, written_levels


def gradients(model, items, vocabulary, divisor):
    """The gradient of a step of training, and its loss."""
    batch = collate_levels(ItemBatch(items, divisor, vocabulary))
    model.zero_grad()
    loss = model.training_step(batch, 0)
    loss.backward()
    return loss.item(), torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


def test_a_drawn_level_weighted_by_the_depth_has_the_gradient_of_all_levels_as_its_mean():
    vocabulary = built([LIKES, replace(LIKES, words=tuple("abcdef"), heads=(0, 1, 2, 3, 4, 1))])
    sentences = [LIKES, replace(LIKES, words=tuple("abcdef"), heads=(0, 1, 2, 3, 4, 1))]
    model = small(vocabulary)
    depths = [len(written_levels(each)) for each in sentences]
    assert depths == [3, 6]
    items = [item_of(k, each, vocabulary) for k, each in enumerate(sentences)]
    loss, expected = gradients(model, items, vocabulary, 30)
    drawn = [
        gradients(
            model,
            [
                LevelItem(item.sentence, level, float(depth))
                for item, level, depth in zip(items, levels, depths, strict=True)
            ],
            vocabulary, 30,
        )
        for levels in itertools.product(*(range(1, depth + 1) for depth in depths))
    ]  # fmt: skip
    torch.testing.assert_close(torch.stack([each for _, each in drawn]).mean(0), expected, rtol=1e-9, atol=1e-9)
    assert np.mean([each for each, _ in drawn]) == pytest.approx(loss, abs=1e-9)


def test_the_loss_is_of_words_and_expansions_over_the_whole_vocabulary():
    model, batch = small(FULL), replace(batch_of_trees([2, 0, 2], [0, 1]), global_tokens=7)
    with torch.no_grad():
        states, scores = model.encode(batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions)
        logits = states @ model.backbone.output_weight.T + model.backbone.output_bias
    here = batch.is_open
    words = torch.nn.functional.cross_entropy(logits[here], batch.targets[here], reduction="sum")
    patterns = torch.nn.functional.cross_entropy(scores[here], batch.expansions[here], reduction="sum")
    assert model.training_step(batch, 0).item() == pytest.approx((words + patterns).item() / 7, abs=1e-9)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expansion_layer": 2}, "expansion_layer: expected -2 to 1"),
        ({"expansion_layer": -3}, "expansion_layer"),
        ({"max_length": 0}, "max_length"),
    ],
)
def test_arguments_out_of_range_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        small(FULL, **options)


def test_a_network_that_sees_one_side_is_refused():
    with pytest.raises(UserError, match="causal to false"):
        ITEXP(
            partial(Transformer, layers=1, width=8, attention_heads=2, feedforward=8), 9, expansions=3, placeholders=1
        )


@pytest.mark.parametrize(
    ("ids", "tree", "message"),
    [
        ([2, 3], ([2, 1], ["left", "right"]), "cycle|no root"),
        ([2, 3, 4], ([0, 3, 2], ["root", "right", "left"]), "structure: .*cycle"),
        ([2, 3], ([0, 5], ["root", "right"]), "structure: token 2 has head 5"),
        ([2, 3], ([0], ["root"]), "2 tokens: .*1 heads"),
        ([2, 3], ([0, 1], ["root"]), "2 tokens: .*1 relations"),
        ([], ([], []), "one token or more"),
        ([2] * 41, ([0, *[1] * 40], ["right"] * 41), "41 tokens .*40 head positions"),
    ],
)
def test_structures_that_are_no_trees_are_refused(ids, tree, message):
    with pytest.raises(UserError, match=message):
        small(FULL).sentence_log_probs([[ids]], vocabulary=FULL, structure=[[tree]])
    with pytest.raises(UserError, match="give structure"):
        small(FULL).sentence_log_probs([[[2]]], vocabulary=FULL)
    assert small(FULL).sentence_log_probs([[]], vocabulary=FULL, structure=[[]]) == [[]]


@torch.no_grad()
def test_the_longest_text_has_its_positions():
    ids, tree = [2] * 40, ([0, *range(1, 40)], ["root", *["right"] * 39])
    ((found,),) = small(FULL).sentence_log_probs([[ids]], vocabulary=FULL, structure=[[tree]])
    assert np.isfinite(found).all()
