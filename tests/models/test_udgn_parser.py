"""Selected heads and their undirected mask against Eq. 1-6 by scalar loops: values, gradients, padding."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from depgen.models.udgn import HeadSelection, head_log_softmax, undirected
from depgen.nn.head_probabilities import without_own_place
from tests.oracles_of_udgn import (
    bilstm_by_loop,
    head_probabilities_by_loop,
    head_scores_by_loop,
    tagged_by_loop,
    undirected_by_loop,
)

VOCABULARY, WIDTH, HIDDEN = 7, 4, 3
TOKENS = torch.tensor([[2, 3, 2, 6], [5, 1, 1, 1], [4, 6, 3, 1]])
LENGTHS = torch.tensor([4, 1, 3])
WORDS = torch.arange(4) < LENGTHS[:, None]


def parser(tags=0, layers=2):
    torch.manual_seed(1)
    made = HeadSelection(VOCABULARY, width=WIDTH, layers=layers, hidden_size=HIDDEN, tags=tags).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(-1, 1)
    return made.eval()


def by_loop(made, words):
    vectors = [made.embedding.weight[word] for word in words]
    if made.tag_logits is not None:
        pairs = zip(words, vectors, strict=True)
        vectors = [tagged_by_loop(word, vector, made.tag_logits, made.tag_vectors) for word, vector in pairs]
    hidden = bilstm_by_loop(vectors, made.lstm)
    (w_head, w_dependent), (b_head, b_dependent) = made.arcs.weight.chunk(2), made.arcs.bias.chunk(2)
    return head_probabilities_by_loop(head_scores_by_loop(hidden, w_head, b_head, w_dependent, b_dependent))


def square(rows):
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("tags", [0, 2], ids=["no tags", "tags"])
def test_heads_and_mask_are_the_papers_equations(tags):
    made = parser(tags)
    probabilities = without_own_place(head_log_softmax(made(TOKENS, LENGTHS), WORDS).exp(), WORDS)
    mask = undirected(probabilities)
    weigh = torch.randn_like(mask)
    loss = 0.0
    for row, n in enumerate(LENGTHS.tolist()):
        expected = by_loop(made, TOKENS[row, :n].tolist())
        both = square(undirected_by_loop(expected))
        assert (probabilities[row, :n, :n] - square(expected)).abs().max() < 1e-10
        assert (mask[row, :n, :n] - both).abs().max() < 1e-10
        loss = loss + (both * weigh[row, :n, :n]).sum()
        assert not mask[row, n:].any()
        assert not mask[row, :, n:].any()
    wanted = list(made.parameters())
    found = torch.autograd.grad((mask * weigh).sum(), wanted)
    for one, other in zip(found, torch.autograd.grad(loss, wanted), strict=True):
        assert (one - other).abs().max() < 1e-10


def test_tags_start_as_one_share_of_the_mean_of_their_vectors():
    """Logits begin at 0: every word gets the five vectors' sum over six, the sixth being zero."""
    made = HeadSelection(VOCABULARY, width=WIDTH, hidden_size=HIDDEN, tags=5, dropout=0.0).eval()
    plain = HeadSelection(VOCABULARY, width=WIDTH, hidden_size=HIDDEN, dropout=0.0).eval()
    state = {name: value for name, value in made.state_dict().items() if not name.startswith("tag")}
    plain.load_state_dict(state)
    with torch.no_grad():
        plain.embedding.weight += made.tag_vectors.sum(0) / 6
    assert torch.allclose(made(TOKENS, LENGTHS), plain(TOKENS, LENGTHS), atol=1e-6)


def test_a_words_own_place_takes_its_share_and_is_not_made_up_for():
    logs = head_log_softmax(torch.zeros(1, 4, 4), torch.ones(1, 4, dtype=torch.bool))
    assert torch.allclose(logs.exp(), torch.full((1, 4, 4), 0.25))
    kept = without_own_place(logs.exp(), torch.ones(1, 4, dtype=torch.bool))
    assert torch.allclose(kept.sum(2), torch.full((1, 4), 0.75))
    assert not kept.diagonal(dim1=1, dim2=2).any()


def test_a_mask_is_symmetric_and_a_probability():
    p = torch.rand(3, 5, 5, dtype=torch.float64)
    mask = undirected(p)
    assert torch.equal(mask, mask.mT)
    assert mask.max() <= 1
    assert mask.min() >= 0
    assert torch.allclose(1 - mask, (1 - p) * (1 - p.mT))
    assert undirected(torch.ones(1, 2, 2)).tolist() == [[[1, 1], [1, 1]]]


@pytest.mark.parametrize("tags", [0, 2], ids=["no tags", "tags"])
def test_padding_and_company_change_nothing(tags):
    """Neither how far a batch is padded nor with what, nor whose sentences are beside."""
    made = parser(tags, layers=3)
    whole = head_log_softmax(made(TOKENS, LENGTHS), WORDS)
    more = torch.cat((TOKENS, torch.full((3, 2), 6)), 1)
    more[1, 1:], more[2, 3:] = 3, 5
    words = torch.arange(6) < LENGTHS[:, None]
    padded = head_log_softmax(made(more, LENGTHS), words)
    for row, n in enumerate(LENGTHS.tolist()):
        alone = head_log_softmax(made(TOKENS[row : row + 1, :n], LENGTHS[row : row + 1]), WORDS[row : row + 1, :n])
        for other in (padded[row], alone[0]):
            assert (whole[row, :n, :n] - other[:n, :n]).abs().max() < 1e-12


def test_gradients_stay_finite_where_padding_is_infinitely_improbable():
    made = parser().train()
    loss = without_own_place(head_log_softmax(made(TOKENS, LENGTHS), WORDS).exp(), WORDS).sum()
    loss.backward()
    assert all(torch.isfinite(each.grad).all() for each in made.parameters())


def test_what_is_read_without_packing_is_what_packing_reads():
    made = parser(layers=3)
    embedded = torch.randn(3, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    packed = pack_padded_sequence(embedded, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(made.lstm(packed)[0], batch_first=True)
    found = made._contextual(embedded, LENGTHS) * WORDS[:, :, None]
    assert (found - expected).abs().max() < 1e-12
    weigh, wanted = torch.randn_like(expected), [embedded, *made.lstm.parameters()]
    one, other = (torch.autograd.grad((each * weigh).sum(), wanted) for each in (found, expected))
    assert max((a - b).abs().max() for a, b in zip(one, other, strict=True)) < 1e-12


def test_the_reading_drops_as_much_between_layers_as_torch_does():
    torch.manual_seed(0)
    made = parser(layers=2).train()
    made.lstm.dropout = 0.5
    many = torch.randn(1, 4, WIDTH, dtype=torch.float64).expand(1500, -1, -1)
    lengths = torch.tensor([3, 4]).repeat(750)
    packed = pack_padded_sequence(many, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(made.lstm(packed)[0], batch_first=True)
    found = made._contextual(many, lengths)
    for n in (3, 4):
        one, other = (each[lengths == n, :n] for each in (found, expected))
        error = (one.var(0) + other.var(0)).div(750).sqrt()
        assert ((one.mean(0) - other.mean(0)).abs() / error).max() < 5
        assert (one.std(0) / other.std(0) - 1).abs().max() < 0.25
