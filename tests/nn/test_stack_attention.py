"""Attention to a stack against tables written by hand, and the Transformer's scores by it against loops."""

import pytest
import torch

from depgen.nn.attention import Visibility
from depgen.nn.stack_attention import FARTHEST, StackAttention, stack_attention
from tests.backbones.test_relative_positions import close, literal, small, some_tokens


def table(text: str) -> torch.Tensor:
    """Rows of a table; a dot is a key that is not seen."""
    return torch.tensor([[-9 if each == "." else int(each) for each in row.split()] for row in text.split("\n")])


# (S (NP the dog NP) (VP barks VP) S), closings twice, as Sartran et al. (2022) read it
DEPTHS = [0, 1, 2, 3, 3, 2, 2, 2, 3, 2, 2, 1, 1]  # <bos> (S (NP the dog NP) NP) (VP barks VP) VP) S) S)
POPPED = [99, 11, 5, 5, 5, 11, 6, 9, 9, 11, 10, 99, 12]
COMPOSES = [5, 9, 11]
EXPECTED = table(
    """0 . . . . . . . . . . . .
1 0 . . . . . . . . . . .
2 1 0 . . . . . . . . . .
3 2 1 0 . . . . . . . . .
3 2 1 0 0 . . . . . . . .
. . 0 -1 -1 0 . . . . . . .
2 1 . . . 0 0 . . . . . .
2 1 . . . 0 . 0 . . . . .
3 2 . . . 1 . 1 0 . . . .
. . . . . . . 0 -1 0 . . .
2 1 . . . 0 . . . 0 0 . .
. 0 . . . -1 . . . -1 . 0 .
1 . . . . . . . . . . 0 0"""
)


def test_a_constituency_string_sees_what_the_table_says():
    composes = torch.zeros(1, 13, dtype=torch.bool)
    composes[0, COMPOSES] = True
    found = stack_attention(torch.tensor([POPPED]), composes, torch.tensor([DEPTHS]))
    assert torch.equal(found.visible[0], EXPECTED > -9)
    assert torch.equal(found.distances[0].where(found.visible[0], -9), EXPECTED)


def test_distances_are_clipped_and_those_of_joined_positions_may_be_given():
    depths = torch.tensor([[0, 80, 3, 0]])
    popped, composes = torch.tensor([[9, 9, 3, 9]]), torch.tensor([[False, False, False, True]])
    found = stack_attention(popped, composes, depths)
    assert found.distances[0, :, 0].tolist() == [0, 62, 3, 0]
    assert found.distances[0, 0].tolist() == [0, -1, -1, 0]
    given = stack_attention(popped, composes, depths, composed_distances=torch.tensor([[0, 0, 5, 0]]))
    assert given.distances[0, 3].tolist() == [0, -1, 5, 0]


def some_stack(batch: int, length: int) -> StackAttention:
    torch.manual_seed(2)
    visible = torch.rand(batch, length, length).tril() > 0.4
    visible |= torch.eye(length, dtype=torch.bool)
    far = torch.tensor([-1, 0, 1, 7, FARTHEST])
    return StackAttention(visible, far[torch.randint(len(far), (batch, length, length))])


@torch.no_grad()
@pytest.mark.parametrize("attention_layer", [None, 1])
def test_states_and_steps_equal_the_formula_in_loops(attention_layer):
    model, tokens = small(), some_tokens(2, 7)
    stack = some_stack(2, 7)
    found = model(tokens, stack=stack, attention_layer=attention_layer).hidden
    seen = [
        [[(j, int(far[i, j])) for j in range(7) if visible[i, j]] for i in range(7)]
        for visible, far in zip(stack.visible, stack.distances, strict=True)
    ]
    close(found, literal(model, tokens, seen=seen))
    for sizes in ([3, 1, 2, 1], [1] * 7):
        state, hidden, start = None, [], 0
        for part in tokens.split(sizes, 1):
            stop = start + part.size(1)
            own = StackAttention(stack.visible[:, start:stop, :stop], stack.distances[:, start:stop, :stop])
            output = model(part, state=state, carry=True, attention_layer=attention_layer, stack=own)
            state, start = output.state, stop
            hidden.append(output.hidden)
        close(torch.cat(hidden, 1), found)


@torch.no_grad()
def test_hypotheses_that_share_a_past_see_their_own_stacks():
    model, tokens, stack = small(), some_tokens(1, 4), some_stack(1, 6)
    whole = StackAttention(stack.visible[:, :4, :4], stack.distances[:, :4, :4])
    state = model(tokens, carry=True, stack=whole).state.select(torch.tensor([0, 0]))
    texts, visible, distances = tokens.repeat(2, 1), whole.visible.repeat(2, 1, 1), whole.distances.repeat(2, 1, 1)
    for step in range(2):
        new, seen = torch.tensor([[3 + step], [5]]), torch.rand(2, 1, 5 + step) > 0.5
        seen[:, 0, -1] = True
        far = torch.randint(-1, 9, (2, 1, 5 + step))
        output = model(new, state=state, carry=True, stack=StackAttention(seen, far))
        state, texts = output.state, torch.cat((texts, new), 1)
        pad = torch.nn.functional.pad
        visible, distances = (
            torch.cat((pad(before, (0, 1)), each), 1) for before, each in ((visible, seen), (distances, far))
        )
        expected = model(texts, stack=StackAttention(visible, distances)).hidden[:, -1:]
        close(output.hidden, expected)
    assert state.layers[0].places is not None


@torch.no_grad()
def test_distances_of_tokens_are_a_special_case():
    model, tokens = small(), some_tokens(2, 7)
    steps = torch.arange(7)
    far = (steps[:, None] - steps).clamp_min(-1).expand(2, -1, -1)
    mask = Visibility.of(7, None, causal=True, context=7, device=tokens.device).explicit(7, 7, tokens.device)
    close(model(tokens, stack=StackAttention(mask[0].expand(2, -1, -1), far)).hidden, model(tokens).hidden)
