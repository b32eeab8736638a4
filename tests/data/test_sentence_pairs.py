from types import SimpleNamespace

import numpy as np
import pytest
import torch

from depgen.data.sentence_pairs import PairSplit, SentencePairs
from depgen.data.sts import SentencePair
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError

WORDS = ("a", "dog", "sings", "home")


class Pairs:
    """A corpus of the pairs given for every split."""

    name, published = "invented", {}

    def __init__(self, *pairs):
        self.given = pairs

    def pairs(self, split):
        yield from self.given

    def documents(self, split):
        raise NotImplementedError

    fingerprint = documents


def pair(first, second, score=1.0, test_set=-1, seen=False):
    return SentencePair("x", tuple(first.split()), tuple(second.split()), score, test_set, seen)


@pytest.fixture
def run(tmp_path):
    """A run folder with a vocabulary, as far as data need one."""
    folder = tmp_path / "runs" / "enc" / "one"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "run.json").write_text('{"started": "2026-01-01"}')
    (folder / "checkpoints" / "best.ckpt").write_bytes(b"")
    Vocabulary.of_words(WORDS, specials=["mask_id"]).save(folder / "vocabulary")
    return folder


def data_of(run, *pairs, world=1, rank=0, **options):
    data = SentencePairs(Pairs(*pairs), str(run), **options)
    data.trainer = SimpleNamespace(
        world_size=world, global_rank=rank, current_epoch=0, lightning_module=None,
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )  # fmt: skip
    return data


MANY = [pair("a dog " * (k % 4 + 1), "home " * (k % 3 + 1), float(k % 6), k % 7, k % 2 == 0) for k in range(50)]


def test_a_batch_is_the_first_sentences_and_then_the_second_ones(run):
    data = data_of(run, pair("a dog", "home", 2.0, 3, True), pair("sings", "a cat sings", 4.5, 1))
    (batch,) = data.test_dataloader()
    order = batch.items.tolist()
    assert sorted(order) == [0, 1]
    rows = {0: [[3, 4, 1], [6, 1, 1]], 1: [[5, 1, 1], [3, 1, 5]]}
    assert batch.tokens.tolist() == [rows[item][side] for side in (0, 1) for item in order]
    assert batch.lengths.tolist() == [[[2, 1], [1, 3]][item][side] for side in (0, 1) for item in order]
    assert batch.scores.tolist() == [[2.0, 4.5][item] for item in order]
    assert batch.test_sets.tolist() == [[3, 1][item] for item in order]
    assert batch.seen.tolist() == [item == 0 for item in order]


def test_a_sentence_without_words_is_one_unknown_word(run):
    split = data_of(run, pair("", "nothing known"), pair("a", "")).split("valid")
    assert isinstance(split, PairSplit)
    assert [(each.first.tolist(), each.second.tolist()) for each in split.pairs] == [([1], [1, 1]), ([3], [1])]
    assert split.lengths.tolist() == [3, 2]


@pytest.mark.parametrize("world", [1, 2])
def test_training_batches_are_so_many_pairs_in_another_order_each_epoch(run, world):
    data = [data_of(run, *MANY, pairs_per_batch=16, world=world, rank=rank) for rank in range(world)]

    def epoch(number):
        found = []
        for each in data:
            each.trainer.current_epoch = number
            found.append(list(each.train_dataloader()))
        return found

    first, second = epoch(0), epoch(1)
    sizes = [sum(len(batch.items) for batch in shares) for shares in zip(*first, strict=True)]
    assert sorted(sizes) == [2, 16, 16, 16]
    assert all(batch.global_pairs == size for shares in first for batch, size in zip(shares, sizes, strict=True))
    seen = [torch.cat([batch.items for shares in each for batch in shares]) for each in (first, second)]
    assert [sorted(items.tolist()) for items in seen] == [list(range(50))] * 2
    assert not torch.equal(*seen)


def test_evaluation_takes_every_pair_once_within_the_budget(run):
    batches = list(data_of(run, *MANY, eval_tokens_per_batch=64).val_dataloader())
    assert sorted(int(item) for batch in batches for item in batch.items) == list(range(50))
    assert all(batch.tokens.numel() <= 64 for batch in batches)
    assert len(batches) < 15


def test_the_vocabulary_is_the_encoders_until_a_run_has_its_own(run, tmp_path):
    for reference in (run, run / "checkpoints" / "best.ckpt"):
        data = data_of(reference, *MANY)
        assert data.vocabulary_size == 7
        assert data.encoder_checkpoint == run / "checkpoints" / "best.ckpt"
    data.save_into(tmp_path)
    alone = data_of("gone", *MANY)
    alone.use_vocabulary(tmp_path / "vocabulary")
    assert alone.vocabulary_size == 7
    np.testing.assert_array_equal(alone.split("train").pairs[0].first, [3, 4])


def test_what_is_missing_is_named(run):
    with pytest.raises(UserError, match=r"No run at .*nowhere"):
        _ = data_of("nowhere", *MANY).vocabulary_size
    with pytest.raises(UserError, match="train split of invented is empty"):
        data_of(run).split("train")
    with pytest.raises(UserError, match="pairs_per_batch: expected at least 1, found 0"):
        data_of(run, *MANY, pairs_per_batch=0)
    (run / "checkpoints" / "best.ckpt").unlink()
    with pytest.raises(UserError, match="holds no best checkpoint"):
        _ = data_of(run, *MANY).vocabulary


@pytest.mark.parametrize("option", ["workers", "seed"])
def test_what_is_below_nothing_is_refused(run, option):
    with pytest.raises(UserError, match=f"{option}: expected .* found -1"):
        data_of(run, **{option: -1})
