"""UDGN: the paper's equations by scalar loops, its size, what it may not depend on, and that it learns."""

import numpy as np
import pytest
import torch

from depgen.errors import UserError
from depgen.language_models import masked
from depgen.models.udgn import UDGN, mask_of_trees, supervised_nll, tree_marginals
from tests.models.masked import MASK, alone, batch_of, trained
from tests.oracles import all_trees, score_of_tree
from tests.oracles_of_udgn import (
    bilstm_by_loop,
    competitive_layer_by_loop,
    head_probabilities_by_loop,
    head_scores_by_loop,
    layer_norm_by_loop,
    linear_by_loop,
    masked_loss_by_loop,
    tagged_by_loop,
    undirected_by_loop,
)

VOCABULARY = 9
SIZES = {"width": 4, "layers": 2, "attention_heads": 2, "head_size": 3, "parser_layers": 1}
SENTENCES = [[3, 4, 5, 8], [6, 2, 7]]
HEADS = [[2, 0, 2, 3], [3, 1, 0]]


def model_of(*, precise=True, dropout=0.0, **options):
    torch.manual_seed(0)
    dropped = dict.fromkeys(("dropout", "attention_dropout", "parser_dropout"), dropout)
    made = UDGN(VOCABULARY, **{**SIZES, **dropped, **options})
    return made.double().eval() if precise else made.eval()


def words_of(batch):
    return batch.is_word[:, :, None] & batch.is_word[:, None, :]


# -- the equations -----------------------------------------------------------------------------------------------------


def mask_by_loop(model, words):
    parser = model.parser
    vectors = [parser.embedding.weight[word] for word in words]
    if parser.tag_logits is not None:
        pairs = zip(words, vectors, strict=True)
        vectors = [tagged_by_loop(word, vector, parser.tag_logits, parser.tag_vectors) for word, vector in pairs]
    (w_head, w_dependent), (b_head, b_dependent) = parser.arcs.weight.chunk(2), parser.arcs.bias.chunk(2)
    hidden = bilstm_by_loop(vectors, parser.lstm)
    scores = head_scores_by_loop(hidden, w_head, b_head, w_dependent, b_dependent)
    return [[m + 1e-6 for m in row] for row in undirected_by_loop(head_probabilities_by_loop(scores))]


def logits_by_loop(model, words):
    """Eq. 1-15 of one sentence: no normalisation between the layers, one after them, the embedding as output."""
    mask = mask_by_loop(model, words)
    states = [list(model.embedding.weight[word]) for word in words]
    if model.positions is not None:
        states = [[x + p for x, p in zip(*pair, strict=True)] for pair in zip(states, model.positions.weight)]  # noqa: B905
    for layer in model.layers:
        four = zip(layer.projection.weight.chunk(4), layer.projection.bias.chunk(4), strict=True)
        weights = [*four, (layer.output.weight, layer.output.bias)]
        states = competitive_layer_by_loop(states, mask, weights, heads=2, bias=layer.direction_bias)
    hidden = [layer_norm_by_loop(state, model.norm.weight, model.norm.bias) for state in states]
    return [linear_by_loop(state, model.embedding.weight, model.bias) for state in hidden]


@pytest.mark.parametrize("options", [{}, {"tags": 2}, {"positions": True}], ids=["plain", "tags", "positions"])
def test_logits_and_loss_are_the_papers_equations(options, monkeypatch):
    model, batch = model_of(**options), batch_of(*SENTENCES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    uniform = torch.tensor([[0.1, 0.9, 0.29, 0.0], [0.31, 0.2, 0.05, 0.0]])
    monkeypatch.setattr(masked, "hashed_uniform", lambda *_: uniform)
    loss = alone(model).training_step(batch, 0)
    corrupted = [[MASK, 4, MASK, MASK], [6, MASK, MASK]]
    expected = [logits_by_loop(model, words) for words in corrupted]
    hidden = model.encode(batch_of(*corrupted).tokens, batch.lengths).hidden
    for row, sentence in enumerate(expected):
        found = hidden[row, : len(sentence)] @ model.output_weight.T + model.output_bias
        assert (found - torch.stack([torch.stack(word) for word in sentence])).abs().max() < 1e-10
    hidden_words = [[True, False, True, True], [False, True, True]]
    by_loop = masked_loss_by_loop(expected, SENTENCES, hidden_words)
    assert abs(loss - by_loop) < 1e-10
    wanted = list(model.parameters())
    for one, other in zip(torch.autograd.grad(loss, wanted), torch.autograd.grad(by_loop, wanted), strict=True):
        assert (one - other).abs().max() < 1e-10


def test_given_trees_cost_their_arcs_surprisal_and_a_root_its_own_place():
    probabilities = torch.tensor([[[0.1, 0.7, 0.2], [0.3, 0.6, 0.1], [0.5, 0.25, 0.25]]])
    nll, count = supervised_nll(probabilities.log(), torch.tensor([[2, 0, -1]]))
    assert nll.item() == pytest.approx(-torch.tensor([0.7, 0.6]).log().sum().item())
    assert count == 2


def test_messages_pass_along_given_arcs_both_ways():
    expected = torch.zeros(3, 3)
    expected[0, 1] = expected[1, 0] = expected[2, 1] = expected[1, 2] = 1
    assert torch.equal(mask_of_trees(torch.tensor([[2, 0, 2]]))[0], expected)
    assert not mask_of_trees(torch.tensor([[0, -1, -1]])).any()


def test_uniform_heads_are_all_other_words_alike():
    model, batch = model_of(mask_from="uniform"), batch_of(*SENTENCES)
    attention = model.encode(batch.tokens, batch.lengths, attention=True).attention[0]
    for row, length in enumerate(map(len, SENTENCES)):
        share = 2 / (length - 1) - 1 / (length - 1) ** 2 + 1e-6  # Eq. 6 of equal probabilities, and D3
        expected = torch.full((length, length), share, dtype=torch.double).fill_diagonal_(1e-6)
        own = (attention.after / attention.before)[row, :, :length, :length]
        assert (own - expected).abs().max() < 1e-7
    assert not any(each.requires_grad for each in model.parser.parameters())


# -- its size ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 49_928_878),
        ({"tags": 5}, 49_928_878 + 67_348),
        ({"relative_bias": False}, 49_928_878 - 8 * 2 * 8),
        ({"relative_bias": False, "positions": True}, 49_928_878 - 8 * 2 * 8 + 500 * 512),
        ({"gates": False}, 49_928_878 - 8 * (512 + 1) * 1024),
        ({"attention_heads": 1, "head_size": 1024}, 49_928_878 - 8 * 2 * 7),
        ({"marginals": "kirchhoff"}, 49_928_878),
        ({"competition": False, "nonlinear": False}, 49_928_878),
    ],
)
def test_parameters_at_the_papers_vocabulary(options, count):
    with torch.device("meta"):
        assert sum(each.numel() for each in UDGN(10_798, **options).parameters()) == count


# -- what it may not depend on -----------------------------------------------------------------------------------------

TOLD = {"mask_from": "trees", "supervised_weight": 1.0}


def test_with_given_trees_padding_and_company_change_nothing():
    model, padded = model_of(**TOLD), batch_of(*SENTENCES, heads=HEADS, length=7)
    padded.tokens[0, 4:], padded.tokens[1, 3:] = 8, 5
    together = model.encode(padded.tokens, padded.lengths, heads=padded.heads, attention=True, all_layers=True)
    assert torch.equal(model.norm(together.layers[-1]), together.hidden)
    for row, sentence in enumerate(SENTENCES):
        single, n = batch_of(sentence, heads=HEADS[row : row + 1]), len(sentence)
        alone = model.encode(single.tokens, single.lengths, heads=single.heads, attention=True)
        assert (together.hidden[row, :n] - alone.hidden[0]).abs().max() < 1e-12
        for layer, own in zip(together.attention, alone.attention, strict=True):
            assert (layer.after[row, :, :n, :n] - own.after[0]).abs().max() < 1e-12


@pytest.mark.parametrize("options", [{}, {"marginals": "kirchhoff"}, {"supervised_weight": 1.0}])
def test_roots_are_known_where_they_were_taught(options):
    model, batch = model_of(**options), batch_of(*SENTENCES)
    roots = model.head_probabilities(batch.tokens, batch.lengths).diagonal(dim1=1, dim2=2)
    assert torch.equal(roots > 0, batch.is_word & ("supervised_weight" in options))


def weights_after(batches, **options):
    model = model_of(precise=False, dropout=0.2, **options)
    losses = trained(model, batches, steps=4)
    return losses, {name: value.clone() for name, value in model.state_dict().items()}


def test_trees_beside_the_sentences_change_nothing_at_all():
    plain, state = weights_after([batch_of(*SENTENCES)])
    for heads in (HEADS, [[0, 1, 2, 3], [0, 1, 1]]):
        losses, other = weights_after([batch_of(*SENTENCES, heads=heads)])
        assert losses == plain
        assert all(torch.equal(other[name], value) for name, value in state.items())
    supervised, _ = weights_after([batch_of(*SENTENCES, heads=HEADS)], supervised_weight=0.1)
    assert supervised != plain
    along, _ = weights_after([batch_of(*SENTENCES, heads=HEADS)], mask_from="trees")
    other, _ = weights_after([batch_of(*SENTENCES, heads=[[0, 1, 1, 1], [3, 3, 0]])], mask_from="trees")
    assert along != other


# -- it learns ---------------------------------------------------------------------------------------------------------


def test_marginals_are_those_of_trees():
    model, batch = model_of(marginals="kirchhoff"), batch_of(*SENTENCES, [5])
    logs = model.head_log_probs(batch.tokens, batch.lengths)
    shares = logs.exp() * words_of(batch)
    roots = shares.diagonal(dim1=1, dim2=2).sum(1)
    arcs = model.head_probabilities(batch.tokens, batch.lengths).sum((1, 2))
    assert torch.allclose(roots, torch.ones(3, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(arcs, batch.lengths.double() - 1, atol=1e-9)
    assert torch.allclose(shares.sum(2)[batch.is_word], torch.ones(8, dtype=torch.float64), atol=1e-9)


# -- refusals ----------------------------------------------------------------------------------------------------------


def probabilities(model, batch):
    return model.head_probabilities(batch.tokens, batch.lengths)


def one_step(model, batch):
    trained(model, [batch], steps=1)


SOME = batch_of(*SENTENCES, heads=[HEADS[0], [-1, -1, -1]])


@pytest.mark.parametrize(("options", "batch", "act", "said"), [
    ({"mask_from": "trees"}, batch_of(*SENTENCES), probabilities, "parser has learnt nothing"),
    ({"mask_from": "trees"}, batch_of(*SENTENCES), one_step, r"needs trees.*trees_for: \[train, valid, test\]"),
    ({"supervised_weight": 1.0}, batch_of(*SENTENCES), one_step, r"needs trees.*trees_for: \[train\]"),
    (TOLD, SOME, one_step, "mask_from: trees needs a tree of every sentence"),
    ({"supervised_weight": -1.0}, SOME, one_step, "supervised_weight: expected 0 or more, found -1"),
    ({"positions": True, "max_length": 3}, SOME, one_step, "A sentence has 4 words, but there are 3 positions"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(options, batch, act, said):
    with pytest.raises(UserError, match=said):
        act(model_of(**options), batch)


def test_some_trees_are_enough_to_learn_from():
    model = model_of(supervised_weight=1.0)
    one_step(model, SOME)
    assert model.logged["train/head_nll"] > 0


# -- marginals of trees with a single root: by enumeration, by SuPar, by sums and derivatives -------------------------


def drawn(seed, n, *, batch=1, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    numbers = scale * torch.randn(batch, n, n + 1, dtype=torch.double, generator=generator)
    return numbers[:, :, 1:].clone(), numbers[:, :, 0].clone()


def of_words(scores, roots):
    """The marginals where nothing is padding."""
    return tree_marginals(scores, roots, torch.ones(roots.shape, dtype=torch.bool))


def by_enumeration(scores, roots):
    """The marginals of one sentence's arcs and roots."""
    n = len(roots)
    trees = [heads for heads in all_trees(n) if heads.count(0) == 1]
    weights = np.array([score_of_tree(heads, scores, roots) for heads in trees])
    weights = np.exp(weights - weights.max())
    marginals = np.zeros((n, n + 1))
    for heads, weight in zip(trees, weights / weights.sum(), strict=True):
        marginals[np.arange(n), heads] += weight
    return marginals[:, 1:], marginals[:, 0]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_they_are_sums_over_all_trees(n, scale):
    for seed in range(4):
        scores, roots = drawn(seed, n, scale=scale)
        arcs, own_roots = of_words(scores, roots)
        expected_arcs, expected_roots = by_enumeration(scores[0].numpy(), roots[0].numpy())
        np.testing.assert_allclose(arcs[0].numpy(), expected_arcs, atol=1e-9)
        np.testing.assert_allclose(own_roots[0].numpy(), expected_roots, atol=1e-9)


@pytest.mark.parametrize("n", [2, 9, 30])
def test_supar_has_the_same(n):
    from supar.structs import MatrixTree

    scores, roots = drawn(0, n, batch=3)
    padded = torch.zeros(3, n + 1, n + 1, dtype=torch.double)
    padded[:, 1:, 1:], padded[:, 1:, 0] = scores, roots
    expected = MatrixTree(padded.clone(), torch.tensor([n] * 3)).marginals
    arcs, own_roots = of_words(scores, roots)
    torch.testing.assert_close(arcs, expected[:, 1:, 1:].detach(), atol=1e-9, rtol=0)
    torch.testing.assert_close(own_roots, expected[:, 1:, 0].detach(), atol=1e-9, rtol=0)


def test_the_derivatives_are_those_of_finite_differences():
    scores, roots = drawn(2, 4, batch=2)
    words = torch.tensor([[True] * 4, [True, True, False, False]])
    weights = torch.randn(2, 4, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0))

    def mixed(scores, roots):
        arcs, own_roots = tree_marginals(scores, roots, words)
        return (weights[:, :, 1:] * arcs).sum(), (weights[:, :, 0] * own_roots).sum()

    assert torch.autograd.gradcheck(mixed, (scores.requires_grad_(), roots.requires_grad_()))


def test_padding_and_diagonal_do_not_matter():
    long, short = drawn(3, 6), drawn(4, 3)
    scores, roots = torch.full((2, 8, 8), 1e30, dtype=torch.double), torch.full((2, 8), -1e30, dtype=torch.double)
    for item, (arcs, own_roots) in enumerate((long, short)):
        n = own_roots.shape[1]
        scores[item, :n, :n], roots[item, :n] = arcs[0], own_roots[0]
        scores[item].fill_diagonal_(7.0)
    words = torch.arange(8) < torch.tensor([[6], [3]])
    arcs, own_roots = tree_marginals(scores, roots, words)
    for item, (expected, n) in enumerate(((of_words(*long), 6), (of_words(*short), 3))):
        torch.testing.assert_close(arcs[item, :n, :n], expected[0][0])
        torch.testing.assert_close(own_roots[item, :n], expected[1][0])
        assert arcs[item].sum() == pytest.approx(n - 1)
        assert (own_roots[item, n:] == 0).all()


def test_one_word_is_the_root_and_learns_nothing_from_it():
    scores, roots = torch.zeros(1, 1, 1, requires_grad=True), torch.tensor([[-300.0]], requires_grad=True)
    arcs, own_roots = of_words(scores, roots)
    assert (arcs.tolist(), own_roots.tolist()) == ([[[0.0]]], [[1.0]])
    (arcs.sum() + own_roots.sum()).backward()
    assert (scores.grad.tolist(), roots.grad.tolist()) == ([[[0.0]]], [[0.0]])


def test_extreme_scores_are_neither_overflow_nor_underflow():
    arcs, roots = of_words(torch.tensor([[[0.0, 1000.0], [1000.0, 0.0]]]), torch.zeros(1, 2))
    assert (arcs.tolist(), roots.tolist()) == ([[[0.0, 0.5], [0.5, 0.0]]], [[0.5, 0.5]])
    chain = torch.full((1, 5, 5), -1000.0)
    for word in range(1, 5):
        chain[0, word, word - 1] = 1000.0
    arcs, roots = of_words(chain.requires_grad_(), torch.tensor([[1000.0, -1000.0, 0.0, 0.0, 0.0]]))
    torch.testing.assert_close(arcs[0], torch.diag(torch.ones(4), -1))
    torch.testing.assert_close(roots[0], torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]))
    arcs.square().sum().backward()
    assert torch.isfinite(chain.grad).all()


def test_forbidden_arcs_have_no_share():
    scores, roots = drawn(6, 4)
    scores[0, 2, :], roots[0, [0, 1, 3]] = -torch.inf, -torch.inf  # the third word is the root
    arcs, own_roots = of_words(scores, roots)
    expected_arcs, _ = by_enumeration(scores[0].numpy(), roots[0].numpy())
    np.testing.assert_allclose(arcs[0].numpy(), expected_arcs, atol=1e-12)
    assert own_roots[0].tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("pull", [20.0, 40.0, 300.0])
def test_words_that_take_each_other_for_heads_leave_a_tree(pull):
    scores = torch.zeros(1, 4, 4)
    scores[0, 1, 2] = scores[0, 2, 1] = pull
    scores.requires_grad_()
    arcs, roots = tree_marginals(scores, torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))
    assert arcs.sum().item() == pytest.approx(3, abs=1e-5)
    assert roots.sum().item() == pytest.approx(1, abs=1e-5)
    assert arcs[0, 1, 2].item() == pytest.approx(arcs[0, 2, 1].item(), abs=1e-5)
    arcs.square().sum().backward()
    assert scores.grad.isfinite().all()
