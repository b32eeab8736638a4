"""What every system has from its base."""

import torch

from depgen.language_models.base import LanguageModel


def test_a_system_that_has_tested_nothing_has_no_scores():
    assert LanguageModel().test_scores() is None


def test_the_default_optimiser_is_fairseqs_adam():
    """Two steps against the formula: betas 0.9 and 0.98, decoupled weight decay 0.01, learning rate 5e-4."""
    model = LanguageModel()
    model.weight = torch.nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.float64))
    optimizer = model.configure_optimizers()
    expected, mean, square = model.weight.detach().clone(), 0.0, 0.0
    for step, gradient in enumerate(torch.tensor([[1.0, -4.0], [-3.0, 0.5]], dtype=torch.float64), start=1):
        model.weight.grad = gradient
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.98 * square + 0.02 * gradient**2
        expected = expected * (1 - 5e-4 * 0.01)
        expected -= 5e-4 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.98**step)).sqrt() + 1e-8)
    torch.testing.assert_close(model.weight.detach(), expected, rtol=1e-12, atol=0)
