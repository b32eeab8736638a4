"""Token-budget batches: budget, coverage, sharing between ranks, order as a function of seed and epoch, resuming."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data import sampler
from depgen.data.sampler import ResumableLoader, TokenBudgetBatches
from depgen.errors import UserError


@pytest.fixture(autouse=True, scope="module")
def small_pools():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "BATCHES_PER_POOL", 2)
        yield


lengths_of_items = st.lists(st.integers(1, 40), min_size=1, max_size=60).map(np.array)


@settings(max_examples=80, deadline=None)
@given(lengths_of_items, st.integers(40, 200), st.integers(0, 3), st.booleans())
def test_every_item_once_within_the_budget(lengths, budget, epoch, shuffle):
    batches = TokenBudgetBatches(lengths, tokens_per_batch=budget, epoch=epoch, shuffle=shuffle)
    shares = list(batches)
    assert sorted(np.concatenate([share.indices for share in shares]).tolist()) == list(range(len(lengths)))
    for share in shares:
        assert len(share.indices) * lengths[share.indices].max() <= budget
        assert share.global_tokens == lengths[share.indices].sum()
    assert len(shares) == len(batches)


@settings(max_examples=60, deadline=None)
@given(lengths_of_items, st.integers(2, 4))
def test_ranks_share_the_very_batches_of_one_device_and_none_goes_empty(lengths, world):
    if len(lengths) < world:
        with pytest.raises(UserError, match="fewer devices"):
            TokenBudgetBatches(lengths, tokens_per_batch=60, world=world)
        return
    ranks = [list(TokenBudgetBatches(lengths, tokens_per_batch=60, world=world, rank=r)) for r in range(world)]
    together = []
    for shares in zip(*ranks, strict=True):
        assert all(len(share.indices) for share in shares)
        assert len({share.global_tokens for share in shares}) == 1
        items = np.concatenate([share.indices for share in shares])
        assert shares[0].global_tokens == lengths[items].sum()
        together.extend(items.tolist())
    assert sorted(together) == list(range(len(lengths)))


def order(**options):
    batches = TokenBudgetBatches(np.arange(1, 31), tokens_per_batch=60, **options)
    return [share.indices.tolist() for share in batches]


def test_the_order_is_a_function_of_seed_and_epoch():
    assert order(seed=1, epoch=2) == order(seed=1, epoch=2)
    assert order(seed=1, epoch=2) != order(seed=1, epoch=3)
    assert order(seed=1, epoch=2) != order(seed=2, epoch=2)


def test_an_item_beyond_the_budget_is_named_in_training_and_evaluated_by_itself():
    lengths = np.array([5, 70, 6])
    with pytest.raises(UserError, match=r"Item 2 of the split has 70 tokens.*tokens_per_batch to at least 70"):
        TokenBudgetBatches(lengths, tokens_per_batch=60)
    batches = TokenBudgetBatches(lengths, tokens_per_batch=60, shuffle=False)
    assert [share.indices.tolist() for share in batches] == [[0, 2], [1]]


def test_many_ranks_do_not_gather_all_items_into_one_batch(monkeypatch):
    monkeypatch.setattr(sampler, "BATCHES_PER_POOL", 50)
    batches = TokenBudgetBatches(np.full(400, 500), tokens_per_batch=2048, world=8).batches
    assert {len(batch) for batch in batches} == {8, 12}  # 204 items a pool
    for world in (2, 4):  # one long item is not padded to with a full batch
        lengths = np.array([5] * 6400 + [500])
        batches = TokenBudgetBatches(lengths, tokens_per_batch=8000, world=world).batches
        assert all(world <= len(batch) and len(batch) * lengths[batch].max() <= 8000 for batch in batches)


@settings(max_examples=100, deadline=None)
@given(lengths_of_items, st.integers(40, 200), st.integers(2, 5), st.booleans())
def test_beyond_the_budget_there_are_few_items(lengths, budget, world, shuffle):
    if len(lengths) < world:
        return
    batches = TokenBudgetBatches(lengths, tokens_per_batch=budget, shuffle=shuffle, world=world).batches
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) >= world
        assert len(batch) * lengths[batch].max() <= budget or len(batch) < 2 * world


class Items:
    def __getitems__(self, share):
        return share.indices.tolist()


def loader(epoch=0):
    batches = TokenBudgetBatches(np.arange(1, 31), tokens_per_batch=60, epoch=epoch)
    return ResumableLoader(Items(), batch_sampler=batches, collate_fn=list)


@pytest.mark.parametrize("stop", [0, 1, 5])
def test_a_resumed_loader_goes_on_where_it_stopped_and_the_next_epoch_is_whole(stop):
    unbroken, first = list(loader()), loader()
    iterator = iter(first)
    before = [next(iterator) for _ in range(stop)]
    resumed = loader()
    resumed.load_state_dict(first.state_dict())
    assert before + list(resumed) == unbroken
    assert len(resumed) == len(unbroken)
    assert list(resumed) == unbroken
    other = loader(epoch=1)
    other.load_state_dict(first.state_dict())
    assert list(other) == list(loader(epoch=1))
