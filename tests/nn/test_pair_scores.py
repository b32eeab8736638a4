"""Scores over pairs against their equation, their gradients, and what they hold at once."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import depgen.nn.pair_scores
from depgen.nn.pair_scores import Pairs, pair_scores


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
    monkeypatch.setitem(depgen.nn.pair_scores.CHUNK_ELEMENTS, "cpu", 6 * pairs_at_once)

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
    monkeypatch.setitem(depgen.nn.pair_scores.CHUNK_ELEMENTS, "cpu", 5000)
    with Largest() as seen:
        words, relative, bias, scale, queries = tensors.values()
        scores, sums = pair_scores(words, relative, bias, scale=scale, queries=queries, pairs=pairs)
        (scores.sum() + sums.sum()).backward()
    assert 4000 < seen.elements <= 8000  # the codes of all pairs are 8000 integers, their hidden layers 128,000
