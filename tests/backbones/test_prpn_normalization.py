"""Normalisations against their formulas."""

import torch

from depgen.backbones.prpn import DeviationNorm, batch_norm_of_tokens


def test_it_is_its_formula_and_so_is_its_gradient():
    torch.manual_seed(0)
    norm = DeviationNorm(5).double()
    with torch.no_grad():
        norm.gain.normal_()
        norm.bias.normal_()
    values = (1e-3 * torch.randn(4, 3, 5)).double().requires_grad_()  # small, so that 1e-6 tells
    direction = torch.randn(4, 3, 5).double()

    def formula(x):
        return norm.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + norm.bias

    torch.testing.assert_close(norm(values), formula(values), rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad((each(values) * direction).sum(), values)[0] for each in (norm, formula)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def test_equal_values_become_the_bias():
    norm = DeviationNorm(4)
    values = torch.full((2, 4), 3.0, requires_grad=True)
    norm(values).sum().backward()
    assert torch.equal(norm(values), norm.bias.expand(2, 4))
    assert values.grad.isfinite().all()


def test_batch_statistics_are_those_of_tokens():
    torch.manual_seed(0)
    layer, values, kept = torch.nn.BatchNorm1d(3), torch.randn(2, 4, 3), torch.rand(2, 4) < 0.6
    found = batch_norm_of_tokens(layer, values, kept.flatten().nonzero()[:, 0])
    tokens = values[kept]
    expected = (tokens - tokens.mean(0)) / (tokens.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(found[kept], expected)
    assert not found[~kept].any()
    whole = batch_norm_of_tokens(layer, values, None)
    torch.testing.assert_close(whole.flatten(0, 1).mean(0), torch.zeros(3), rtol=0, atol=1e-6)
