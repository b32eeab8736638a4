"""Pushdown against loops over its equations, and its beam against all bracketings of short sentences."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.backbones.transformer import Transformer, TransformerXLInit
from depgen.data.batch import ItemBatch, TokenItem
from depgen.models import pushdown
from depgen.models.pushdown import AttachmentHead, BracketingCollate, Pushdown, StackState, open_positions
from depgen.nn.attention import KeyValues
from depgen.trees.attachments import closed_at_the_end, depth_tape, spans_of_joins
from tests.contract.batches import PLAIN
from tests.contract.systems import TRANSFORMER_XL, System, built
from tests.models.bracketings import all_attachments, all_bracketings, spans_of

SENTENCES = [[4, 3, 7, 9], [5], [8, 9, 3], [3, 3]]
SPANS = [[(0, 4), (0, 2), (2, 4)], [(0, 1)], [(0, 3)], [(0, 2)]]
EXACT = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(params=[50, 2])
def model(request, monkeypatch):
    """A system whose attachments are all likely enough to be compared, with as many depths."""
    monkeypatch.setattr(pushdown, "DEPTHS", request.param)
    model = built(System(partial(Pushdown, TRANSFORMER_XL)))
    for parameter in model.attachment_head.parameters():
        parameter.data *= 0.4
    return model


def batch_of(sentences, spans=None, **columns):
    items = [TokenItem(k, np.array(ids), **columns) for k, ids in enumerate(sentences)]
    if spans is not None:
        items = [
            replace(item, spans=np.array(each, dtype=np.int64).reshape(-1, 2))
            for item, each in zip(items, spans, strict=True)
        ]
    return BracketingCollate()(ItemBatch(items, sum(len(ids) + 1 for ids in sentences), PLAIN))


def joint(model, ids, structures):
    """The joint log-probabilities of the tokens of a sentence, with each of some bracketings."""
    found = model.sentence_log_probs(
        [[ids]] * len(structures), vocabulary=PLAIN, structure=[[each] for each in structures]
    )
    return np.stack([each[0] for each in found])


# -- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_has_attachments_and_depths_from_the_first_token_on():
    batch = batch_of(SENTENCES, SPANS)
    assert batch.attachments.tolist() == [[0, 1, 1, 3, 2], [0, 1, 2, 3, 4], [0, 1, 2, 1, 4], [0, 1, 1, 3, 4]]
    assert batch.depths[0].tolist() == [[0] * 5, [0] * 5, [0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 2, 2, 2, 2]]
    assert not batch.depths[1].any()
    assert batch.depths[2, 3].tolist() == [0, 1, 2, 2, 0]


def test_words_of_several_tokens_are_constituents_of_a_batch():
    ends = np.array([False, True, True, False, False, True])
    batch = batch_of([[3, 4, 5, 6, 7, 8]], [[(0, 6)]], word_ends=ends)  # ((3 4) (5 (6 (7 8))))
    assert batch.attachments.tolist() == [[0, 1, 1, 3, 4, 5, 2]]


def test_positions_on_the_stack_are_those_of_a_stack():
    for labels in all_attachments(5):
        found, stack = open_positions(torch.tensor([[0, *(label + 1 for label in labels)]]))[0], []
        assert not found[:, 0].any()
        for token, label in enumerate(labels):
            stack = [*(each for each in stack if each < label), token]
            assert (found[token + 1].nonzero()[:, 0] - 1).tolist() == stack


# -- stacks -----------------------------------------------------------------------------------------------------------


@st.composite
def texts(draw):
    """For each row: columns of padding before it, and the number of constituents that each token is joined with."""
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        size, joins = 0, []
        for _ in range(draw(st.integers(1, 7))):
            joins.append(draw(st.integers(0, size)))
            size += 1 - joins[-1]
        rows.append((draw(st.integers(0, 3)), joins))
    return rows


def attachments_by_steps(joins):
    """The attachments of tokens by a stack of last tokens."""
    stack, found = [], []
    for token, count in enumerate(joins):
        found.append(stack[-count] if count else token)
        del stack[len(stack) - count :]
        stack.append(token)
    return found, stack


@given(texts())
def test_stacks_of_a_batch_are_those_of_each_row(rows):
    width = max(left + 1 + len(joins) for left, joins in rows)
    nothing = torch.zeros(len(rows), 0, dtype=torch.long)
    state = StackState(nothing, nothing.bool(), nothing)
    for column in range(width):
        here = [column - left - 1 for left, _ in rows]  # -1 is the beginning of the text
        is_token = torch.tensor([-1 <= k < len(joins) for k, (_, joins) in zip(here, rows, strict=True)])
        joins = torch.tensor([joins[k] if 0 <= k < len(joins) else 0 for k, (_, joins) in zip(here, rows, strict=True)])
        state = state.pushed(joins, is_token)
        for row, (left, joins) in enumerate(rows):
            count = column - left
            if 0 < count <= len(joins):
                labels, stack = attachments_by_steps(joins[:count])
                tape = depth_tape(labels)[-1].tolist()
                assert state.depths[row].tolist() == [0] * (left + 1) + tape
                last = {left, *(left + 1 + token for token in stack)}
                assert {*state.is_last[row].nonzero()[:, 0].tolist()} == last
                assert spans_of(labels) == spans_of_joins(joins[:count])


# -- equations --------------------------------------------------------------------------------------------------------


def naive_scores(head, hidden, embedded, keys, depths, distances):
    """Scores of one token, by networks of concatenated vectors: of positions before it, and of the token itself."""

    def sinusoid(distance):
        half = hidden.numel() // 2
        angles = torch.tensor([distance / 10000 ** (k / half) for k in range(half)]).double()
        return torch.cat((angles.sin(), angles.cos()))

    query = head.query_network(torch.cat((head.query(hidden), embedded)))
    found = []
    for state, depth, distance in zip(keys, depths, distances, strict=True):
        both = torch.cat((head.key(state), head.depth_embedding.weight[depth]))
        key = head.composed(torch.relu(head.compose(both)))
        found.append(query @ key + query @ head.position(sinusoid(distance)))
    own = head.own_network(torch.cat((query, embedded)))
    return torch.stack(found), query @ own + query @ head.position(sinusoid(0))


@torch.no_grad()
def test_the_attachment_head_is_that_of_the_paper():
    torch.manual_seed(3)
    head = AttachmentHead(6, depth_size=3, dropout=0.5).double().eval()
    hidden, embedded, states = (torch.randn(2, size, 6).double() for size in (4, 4, 5))
    depths, distances = torch.randint(0, 4, (2, 4, 5)), torch.randint(0, 6, (2, 4, 5))
    possible = torch.rand(2, 4, 5) < 0.7
    columns, own = head(hidden, embedded, head.keys(states), depths, distances, possible)
    for b, k in product(range(2), range(4)):
        scores, of_itself = naive_scores(
            head, hidden[b, k], embedded[b, k], states[b], depths[b, k], distances[b, k].tolist()
        )
        scores = torch.cat((scores.masked_fill(~possible[b, k], -torch.inf), of_itself[None])).log_softmax(0)
        found = torch.cat((columns[b, k], own[b, k][None]))
        torch.testing.assert_close(found, scores, rtol=0, atol=1e-6)  # sinusoids are single precision


@torch.no_grad()
def test_depths_are_added_to_the_keys_of_each_layer(model):
    depths = torch.randint(0, 2, (2, 4, 4))
    scores = model.depth_scores.of(depths)
    queries = torch.randn(2, 2, 4, 4).double()
    keys = KeyValues.of(queries, queries)
    for layer in range(model.backbone.attention_layers):
        table = model.depth_scores.embeddings[layer].weight
        for head in range(2):
            vectors = table[depths]  # of each query and key
            expected = torch.einsum("bqs,bqks->bqk", queries[:, head], vectors) / math.sqrt(4)
            torch.testing.assert_close(scores(layer, queries, keys)[:, head], expected, **EXACT)


def test_the_loss_is_the_sum_of_tokens_and_attachments(model):
    batch = batch_of(SENTENCES, SPANS)
    words, attachments = model.both_log_probs(batch)
    expected = sum(words[row, k] for row, ids in enumerate(SENTENCES) for k in range(len(ids) + 1))
    added = sum(attachments[row, k] for row, ids in enumerate(SENTENCES) for k in range(1, len(ids) + 1))
    loss = model.training_step(batch, 0)
    torch.testing.assert_close(loss, -(expected + added) / 14, **EXACT)
    assert float(model.joint_nll(batch).sum()) == pytest.approx(14 * loss.item())
    loss.backward()
    unused = {name for name, each in model.named_parameters() if each.grad is None}
    assert not unused
    assert model.depth_scores.embeddings[0].weight.grad.abs().sum() > 0


def test_the_number_of_parameters_is_that_of_the_network_and_what_is_added():
    network = partial(
        Transformer, layers=16, width=1024, attention_heads=8, feedforward=4096, dropout=0.0, norm_first=False,
        positions="relative", scale_embedding=False, output_bias=True, attention_bias=False, init=TransformerXLInit(),
    )  # fmt: skip
    with torch.device("meta"):
        model = Pushdown(network, 32772)
    maps, query_and_own = 3 * 1024 * 2048, 2 * (3072 * 2048 + 2048 + 2048 * 2048 + 2048)
    keys = 50 * 128 + (2176 * 2176 + 2176) + (2176 * 2048 + 2048)
    expected = 251_844_612 + 16 * 50 * 128 + maps + query_and_own + keys
    assert sum(each.numel() for each in model.parameters()) == expected


# -- beams ------------------------------------------------------------------------------------------------------------


# -- bracketings and texts --------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_bracketing_of_a_sentence_is_that_of_the_best_attachments(model):
    model.beam_size = 14
    for ids in ([8, 9, 3], [4, 3, 7, 9]):
        structures = all_bracketings(len(ids))
        best = structures[int(joint(model, ids, structures).sum(1).argmax())]
        expected = [(*span, "") for span in closed_at_the_end([span[:2] for span in best], len(ids))]
        found = model.bracketings([ids, [5], ids], vocabulary=PLAIN, word_starts=[])
        assert found == [expected, [], expected]
        assert len(expected) == len(ids) - 1
