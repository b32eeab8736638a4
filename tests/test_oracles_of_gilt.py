"""The slow versions of GiLT against cases computed by hand."""

import math

import pytest
import torch

from tests import oracles_of_gilt as oracle


def small_scorer():
    """d = 1. MLP1 gives (1.22, 0) for a word and (0, 1.22) for the root; MLP2 says which of two numbers is larger."""
    eye, weights = torch.eye(3, dtype=torch.float64), {"root": torch.tensor([-1.0, 1.0, 0.0]).double()}
    for side in ("parent", "child"):
        weights |= {f"{side}.norm1": torch.ones(3).double(), f"{side}.norm2": torch.ones(2).double()}
        weights |= {f"{side}.mlp1.in": eye, f"{side}.mlp1.out": eye[:2], f"{side}.mlp2.in": eye[:2, :2]}
        weights |= {f"{side}.position": eye[:2, :2] / 2, f"{side}.tape": torch.tensor([[1.0], [0.0]]).double()}
    weights |= {"parent.mlp2.out": torch.tensor([[2.0, 3.0]]).double(), "parent.mlp2.out.bias": torch.ones(1).double()}
    weights |= {"child.mlp2.out": torch.tensor([[1.0, -1.0]]).double(), "degree": torch.arange(151.0)[:, None] / 10}
    weights["degree"] = weights["degree"].double()
    weights |= {"arc": torch.tensor([0.5]).double(), "pair": torch.tensor([2.0]).double()}
    weights |= {"count": torch.tensor([[0.0], [1.0], [0.1], [0.2]]).double()}
    return weights | {"count.bias": torch.tensor([0.0, 0.0, 1.0, 0.0]).double()}


WORDS = torch.tensor([[1.0, -1.0, 0.0], [1.0, -1.0, 0.0]]).double()


def test_arc_logits_of_two_words():
    # word 1: root (0.42, 1.49) -> 2·0 + 3·1 + 1 = 4; itself (1.22, 0.5) -> 2 + 1 = 3; as child 1
    # word 2: the root's degree, 10, adds 1: (1.45, 1.02) -> 3; LayerNorm's epsilon takes up to a thousandth
    tape = oracle.tapes({(0, 1)}, 2)
    found = oracle.arc_logits(small_scorer(), WORDS, tape, 1)
    assert found == pytest.approx({(0, 1): 4 * 0.5 * 1, (1, 1): 3 * 0.5 * 1}, rel=1e-3)
    found = oracle.arc_logits(small_scorer(), WORDS, tape, 2)
    assert found == pytest.approx({(0, 2): 1.5, (1, 2): 1.5, (2, 2): 1.5, (2, 1): 1.5}, rel=1e-3)
    without = oracle.arc_logits(small_scorer(), WORDS, oracle.tapes(set(), 2), 2)
    assert without == pytest.approx({(0, 2): 2.0, (1, 2): 1.5, (2, 2): 1.5, (2, 1): 1.5}, rel=1e-3)


def test_count_logits_of_two_words():
    # word 1: 2·(4·1 + 3·1) = 14 of two terms; word 2: 2·4·3 = 24 of four
    tape = oracle.tapes({(0, 1)}, 2)
    assert oracle.count_logits(small_scorer(), WORDS, tape, 1) == pytest.approx(
        [0, 14 / math.sqrt(2), -math.inf, -math.inf], rel=1e-3
    )
    found = oracle.count_logits(small_scorer(), WORDS, tape, 2)
    assert found == pytest.approx([0, 12, 1.2 + 1, 2.4], rel=1e-3)


def one_head():
    eye = torch.eye(2, dtype=torch.float64)
    weights = {"query": eye, "key": eye, "value": eye, "relative": eye, "output": 2 * eye}
    weights |= {
        "content_bias": torch.tensor([[1.0, 0.0]]).double(),
        "position_bias": torch.tensor([[0.0, 1.0]]).double(),
    }
    weights |= {"degree": torch.tensor([[0.0], [1.0]]).double(), "degree.to_key": torch.tensor([[3.0], [1.0]]).double()}
    return weights


def test_attention_of_two_tokens():
    # q1 + u = (1, 1), q1 + v = (0, 2); r_1 = (sin 1, cos 1), r_0 = (0, 1); the tape's term at key 0 is (3, 1)
    hidden, codes = torch.eye(2, dtype=torch.float64), torch.zeros(3, 2, 2, dtype=torch.long)
    codes[0, 1, 0] = 1
    root = math.sqrt(2)
    plain = [(1 + 2 * math.cos(1)) / root, 3 / root]
    assert oracle.attention_scores(one_head(), hidden, None)[0, 1].tolist() == pytest.approx(plain)
    with_tape = [plain[0] + 4 / root, plain[1]]
    assert oracle.attention_scores(one_head(), hidden, codes)[0, 1].tolist() == pytest.approx(with_tape)
    share = math.exp(with_tape[0]) / (math.exp(with_tape[0]) + math.exp(with_tape[1]))
    mixed = oracle.attention(one_head(), hidden, codes)
    assert mixed.tolist() == [[2.0, 0.0], pytest.approx([2 * share, 2 * (1 - share)])]


def test_joint_loss_of_one_word():
    log2 = math.log(2)
    given = ([-log2, -2 * log2], {(0, 1)}, {(0, 1): math.log(3), (1, 1): math.log(4)}, [[math.log(0.4), math.log(0.6)]])
    arcs, counts = math.log(4 / 3) + math.log(5), -math.log(0.6)
    found = oracle.joint_loss(*given, weights=(1, 0.2, 0.3))
    assert found == pytest.approx(3 * log2 + 0.2 * arcs + 0.3 * counts)
