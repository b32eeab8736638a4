"""The scorer of dependencies against pairs computed one by one, and what must not change its scores."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import depgen.nn.arc_pairs
from depgen.nn.arc_pairs import GraphScorer, Pairs, pair_scores
from tests import oracles_of_gilt as oracle

WIDTH, LENGTHS = 6, (5, 1, 3)
OPTIONS = {
    "all features": {},
    "some features": {"features": ("degree", "distance")},
    "no features": {"features": (), "max_count": 3},
}


def scorer_of(option, *, dtype=torch.double, seed=0):
    """A scorer of which no parameter is 0 or 1, as they partly are before training."""
    torch.manual_seed(seed)
    scorer = GraphScorer(WIDTH, feature_size=4, **{"max_count": 6} | OPTIONS[option]).to(dtype)
    for each in scorer.parameters():
        each.data += 0.2 * torch.randn_like(each)
    return scorer


def batch_of(lengths=LENGTHS, *, longest=None, dtype=torch.double, seed=1, codes=9):
    generator = torch.Generator().manual_seed(seed)
    words = max(lengths) if longest is None else longest
    vectors = torch.randn(len(lengths), words, 3 * WIDTH, generator=generator, dtype=torch.double).to(dtype)
    tapes = torch.randint(0, codes, (len(lengths), 3, words + 1, words + 1), generator=generator).to(torch.uint8)
    return vectors, tapes, torch.tensor(lengths)


def expected(scorer, batch):
    """What `forward` returns, in double precision, pair by pair."""
    vectors, tapes, lengths = batch[0].double(), *batch[1:]
    weights = {name: weight.double() for name, weight in oracle.scorer_weights(scorer).items()}
    sentences, words, _ = vectors.shape
    from_earlier, to_earlier = (vectors.new_full((sentences, words, words + 1), -math.inf) for _ in range(2))
    counts = vectors.new_zeros(sentences, words, scorer.count.out_features)
    for b, length in enumerate(lengths.tolist()):
        for i in range(1, length + 1):
            for (head, dependent), score in oracle.arc_scores(weights, vectors[b], tapes[b], i).items():
                side, other = (from_earlier, head) if head < dependent == i else (to_earlier, dependent)
                side[b, i - 1, other] = score
            counts[b, i - 1] = oracle.count_scores(weights, vectors[b], tapes[b], i)
    return from_earlier, to_earlier, counts


def parts(scores):
    return scores.from_earlier, scores.to_earlier, scores.counts


def finite(tensor):
    return torch.where(tensor.isinf(), 0, tensor)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.double, 1e-10), (torch.float, 1e-4)])
@pytest.mark.parametrize("option", OPTIONS)
def test_it_is_the_naive_form(option, dtype, tolerance):
    scorer, batch = scorer_of(option, dtype=dtype), batch_of(dtype=dtype)
    found, wanted = scorer(*batch), expected(scorer, batch)
    padding = torch.arange(5) >= batch[2][:, None]
    for name, ours, theirs in zip(("from", "to", "counts"), parts(found), wanted, strict=True):
        if name == "counts":
            ours, theirs = ours[~padding], theirs[~padding]
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("option", OPTIONS)
def test_its_gradients_are_those_of_the_naive_form(option, monkeypatch):
    monkeypatch.setitem(depgen.nn.arc_pairs.CHUNK_ELEMENTS, "cpu", 4 * 2 * WIDTH)  # four pairs at once
    scorer, (vectors, tapes, lengths) = scorer_of(option), batch_of()
    vectors.requires_grad_()
    inputs = [vectors, *scorer.parameters()]
    found, wanted = parts(scorer(vectors, tapes, lengths)), expected(scorer, (vectors, tapes, lengths))
    generator = torch.Generator().manual_seed(5)
    weighing = [torch.randn(each.shape, generator=generator, dtype=torch.double) for each in found]
    weighing[2] = weighing[2] * (torch.arange(5) < lengths[:, None])[..., None]
    ours, theirs = (
        torch.autograd.grad(sum((finite(each) * by).sum() for each, by in zip(outputs, weighing, strict=True)), inputs)
        for outputs in (found, wanted)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def steps(scorer, words, tapes, length, *, rows=1):
    """The incremental pass of a sentence in some equal rows: what each word gets."""
    state = scorer.root_state(rows, words=length)
    for t in range(length):
        features = tapes[:, t, : t + 1][:, None].expand(-1, rows, -1)
        found, state = scorer.step(state, words[t].expand(rows, -1), features, numbers=torch.full((rows,), t + 1))
        yield found


@torch.no_grad()
@pytest.mark.parametrize("option", OPTIONS)
def test_steps_are_the_training_pass(option):
    scorer, batch = scorer_of(option), batch_of()
    whole = scorer(*batch)
    for b, length in enumerate(LENGTHS):
        for t, found in enumerate(steps(scorer, batch[0][b], batch[1][b], length, rows=2)):
            wanted = whole.from_earlier[b, t, : t + 1], whole.to_earlier[b, t, : t + 1], whole.counts[b, t]
            for one, other in zip(parts(found), wanted, strict=True):
                torch.testing.assert_close(one, other.expand_as(one), rtol=0, atol=1e-10)


@torch.no_grad()
def test_hypotheses_that_branch_get_the_scores_of_their_own_past():
    scorer = scorer_of("all features")
    generator = torch.Generator().manual_seed(3)
    pasts, histories, state = [[]], [[]], scorer.root_state(1, words=5)
    for t, chosen in enumerate(([0, 0], [1, 0, 0], [2, 0, 1, 2, 2], [4, 1], [0, 0, 1])):
        rows = torch.tensor(chosen)
        state, pasts, histories = state.select(rows), [pasts[r] for r in rows], [histories[r] for r in rows]
        words = torch.randn(len(rows), 3 * WIDTH, generator=generator, dtype=torch.double)
        features = torch.randint(0, 9, (3, len(rows), t + 1), generator=generator)
        found, state = scorer.step(state, words, features, numbers=torch.full_like(rows, t + 1))
        pasts = [[*past, word] for past, word in zip(pasts, words, strict=True)]
        histories = [[*seen, features[:, k]] for k, seen in enumerate(histories)]
        for k, (past, seen) in enumerate(zip(pasts, histories, strict=True)):
            tape = torch.zeros(3, t + 2, t + 2, dtype=torch.long)
            for row, values in enumerate(seen):
                tape[:, row, : row + 1] = values
            alone = scorer(torch.stack(past)[None], tape[None], torch.tensor([t + 1]))
            torch.testing.assert_close(found.from_earlier[k], alone.from_earlier[0, t, : t + 1])
            torch.testing.assert_close(found.to_earlier[k], alone.to_earlier[0, t, : t + 1])
            torch.testing.assert_close(found.counts[k], alone.counts[0, t])


@torch.no_grad()
def test_hypotheses_open_words_at_different_times():
    scorer, (vectors, tapes, lengths) = scorer_of("all features"), batch_of((4, 4, 2))
    whole = scorer(vectors, tapes, lengths)
    state, numbers = scorer.root_state(3, words=4), [0, 0, 0]
    for opens in ([1, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]):
        nodes = max(numbers) + 1
        features = torch.full((3, 3, nodes), 7)  # of words that a row has not
        for row, t in enumerate(numbers):
            features[:, row, : t + 1] = tapes[row, :, t, : t + 1]
        words = torch.stack([vectors[row, min(t, 3)] for row, t in enumerate(numbers)])
        next_words = torch.tensor(opens) * (torch.tensor(numbers) + 1)
        found, state = scorer.step(state, words, features, numbers=next_words)
        for row, t in enumerate(numbers):
            arcs = found.from_earlier[row], found.to_earlier[row]
            if opens[row]:
                wanted = whole.from_earlier[row, t], whole.to_earlier[row, t]
                for one, other in zip(arcs, wanted, strict=True):
                    torch.testing.assert_close(one[: t + 1], other[: t + 1])
                    assert one[t + 1 :].isneginf().all()
                torch.testing.assert_close(found.counts[row], whole.counts[row, t])
            else:
                assert all(each.isneginf().all() for each in arcs)
                assert found.counts[row].softmax(0).tolist() == [1] + [0] * 6
        numbers = [t + opened for t, opened in zip(numbers, opens, strict=True)]
    assert numbers == state.lengths.tolist() == [4, 4, 2]


def test_mixed_precision_is_near_full_precision():
    scorer, (vectors, tapes, lengths) = scorer_of("all features", dtype=torch.float), batch_of(dtype=torch.float)
    full = scorer(vectors, tapes, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = scorer(vectors, tapes, lengths)
    sum(finite(each).sum() for each in parts(mixed)).backward()
    for one, other in zip(parts(full), parts(mixed), strict=True):
        assert other.dtype == torch.float
        real = one.isfinite()
        assert torch.equal(real, other.isfinite())
        assert not torch.equal(one, other)
        assert (one - other)[real].norm() < 0.03 * one[real].norm()
    assert all(each.grad.isfinite().all() for each in scorer.parameters())


# -- hidden layers of pairs -------------------------------------------------------------------------------------------


def arguments(*, words=5, codes=4, current=3, pairs=9, hidden=6):
    generator = torch.Generator().manual_seed(0)
    shapes = {"words": (words, hidden), "relative": (codes, hidden), "bias": (hidden,), "scale": (pairs,)}
    tensors = {name: torch.randn(shape, generator=generator).double() for name, shape in shapes.items()}
    tensors["queries"] = torch.randn(current, hidden, generator=generator).double()
    sizes = {"current": (current, (pairs,)), "earlier": (words, (pairs,)), "codes": (codes, (pairs, 2))}
    indices = {name: torch.randint(0, top, shape, generator=generator) for name, (top, shape) in sizes.items()}
    tensors["scale"] = tensors["scale"].abs() + 0.5
    return {name: each.requires_grad_() for name, each in tensors.items()}, Pairs(**indices)


@pytest.mark.parametrize("pairs_at_once", [1, 4, 100])
def test_scores_sums_and_gradients(pairs_at_once, monkeypatch):
    tensors, pairs = arguments()
    monkeypatch.setitem(depgen.nn.arc_pairs.CHUNK_ELEMENTS, "cpu", 6 * pairs_at_once)

    def run(words, relative, bias, scale, queries):
        return pair_scores(words, relative, bias, scale=scale, queries=queries, pairs=pairs)

    scores, sums = run(**tensors)
    wanted = torch.zeros_like(sums)
    for k in range(9):
        current, earlier, (one, other) = pairs.current[k], pairs.earlier[k], pairs.codes[k]
        row = tensors["words"][earlier] + tensors["relative"][one] + tensors["relative"][other]
        hidden = (tensors["scale"][k] * row + tensors["bias"]).clamp(min=0)
        torch.testing.assert_close(scores[k], hidden @ tensors["queries"][current])
        wanted[current] += hidden
    torch.testing.assert_close(sums, wanted)
    assert torch.autograd.gradcheck(run, tuple(tensors.values()))


class Largest(TorchDispatchMode):
    """The most elements of a tensor that an operation returns."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, tuple) else (found,):
            if isinstance(each, torch.Tensor):
                self.elements = max(self.elements, each.numel())
        return found


def test_hidden_layers_of_all_pairs_are_never_there_at_once(monkeypatch):
    tensors, pairs = arguments(pairs=4000, hidden=32)
    monkeypatch.setitem(depgen.nn.arc_pairs.CHUNK_ELEMENTS, "cpu", 5000)
    with Largest() as seen:
        words, relative, bias, scale, queries = tensors.values()
        scores, sums = pair_scores(words, relative, bias, scale=scale, queries=queries, pairs=pairs)
        (scores.sum() + sums.sum()).backward()
    assert 4000 < seen.elements <= 8000  # the codes of all pairs are 8000 integers, their hidden layers 128,000
