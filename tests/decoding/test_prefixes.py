"""Sentences that begin alike: their leaders, and searches that go through common beginnings once."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import Beam
from depgen.decoding.prefixes import divided, leaders
from depgen.models.gilt import GiLT
from depgen.models.pushdown import Pushdown

LETTERS = Vocabulary.of_words("abcdefghij")
BACKBONE = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8, dropout=0.0, positions="relative")
SENTENCES = [
    [3, 4, 5, 6],
    [3, 4, 5],
    [3, 4, 5, 6],
    [3, 4, 7, 7, 7, 8],
    [9],
    [3],
    [8, 3, 4, 5],
    [3, 4, 5, 6, 6],
    [3, 4, 7],
]
"""Prefixes of others, a sentence twice, and two that share nothing with the others."""


@dataclass
class Rows:
    """A state that says where each row is from."""

    source: Tensor

    def select(self, rows):
        return Rows(self.source[rows])


def test_leaders_begin_alike():
    generator = np.random.default_rng(0)
    lengths = torch.from_numpy(generator.integers(1, 5, 40))
    targets = torch.from_numpy(generator.integers(2, 4, (40, 5)))
    opens = torch.from_numpy(generator.random((40, 5)) < 0.7)
    opens &= torch.arange(5) < lengths[:, None]
    targets[torch.arange(40), lengths - 1] = 0
    found = leaders(targets, opens, lengths).tolist()

    def beginning(item, count):
        return targets[item, :count].tolist(), opens[item, 1 : count + 1].tolist(), count == lengths[item]

    for item, length in enumerate(lengths.tolist()):
        for count in range(1, length + 1):
            alike = (
                each
                for each in range(40)
                if lengths[each] >= count and beginning(each, count) == beginning(item, count)
            )
            assert found[item][count] == next(alike)
        assert found[item][0] == 0
        assert found[item][length + 1 :] == [item] * (5 - length)
    assert len({row[2] for row in found}) > 4, "several beginnings"


def test_each_new_leader_takes_the_hypotheses_of_the_one_before():
    beam = Beam(Rows(torch.arange(5)), torch.tensor([0, 0, 2, 2, 2]), torch.tensor([-1.0, -2, -3, -4, -5]).double())
    before, after = torch.tensor([0, 0, 2, 0, 4, 2]), torch.tensor([0, 1, 2, 1, 4, 5])
    found = divided(beam, before, after)
    assert found.items.tolist() == [0, 0, 1, 1, 2, 2, 2, 5, 5, 5]
    assert found.state.source.tolist() == [0, 1, 0, 1, 2, 3, 4, 2, 3, 4]
    assert found.scores.tolist() == [-1, -2, -1, -2, -3, -4, -5, -3, -4, -5]
    assert divided(beam, before, before) is beam


def system(kind, beam_size):
    """A small system in double precision, whose parameters are so large that each part shows."""
    torch.manual_seed(1 if kind is GiLT else 8)
    options = {"feature_size": 4, "max_count": 4} if kind is GiLT else {}
    model = kind(BACKBONE, LETTERS.size, beam_size=beam_size, **options).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3, 20])
@pytest.mark.parametrize("kind", [GiLT, Pushdown])
def test_sentences_have_the_same_scores_and_structures_by_themselves(kind, beam_size):
    model = system(kind, beam_size)
    together = model.sentence_log_probs([[ids] for ids in SENTENCES], vocabulary=LETTERS)
    alone = [model.sentence_log_probs([[ids]], vocabulary=LETTERS)[0] for ids in SENTENCES]
    for (one,), (other,) in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    if kind is GiLT:
        find = partial(model.parse, vocabulary=LETTERS, beam_size=beam_size)
        assert any(find(SENTENCES))
    else:
        find = partial(model.best_joins, eos=LETTERS.eos, beam_size=beam_size)
        assert any(map(any, find(SENTENCES)))
    assert find(SENTENCES) == [find([ids])[0] for ids in SENTENCES]


@pytest.mark.parametrize("kind", [GiLT, Pushdown])
def test_a_common_beginning_is_read_once(kind, monkeypatch):
    model, rows = system(kind, 1), []
    read = model.backbone.forward
    monkeypatch.setattr(
        model.backbone, "forward", lambda tokens, **options: rows.append(len(tokens)) or read(tokens, **options)
    )
    model.sentence_log_probs([[[3, 4, 5, 6]], [[3, 4, 5, 7]], [[3, 4, 5, 6]]], vocabulary=LETTERS)
    assert rows[1:] == [1, 1, 1, 2]
