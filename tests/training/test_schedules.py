import math

import pytest
import torch

from depgen.errors import UserError
from depgen.training.schedules import Constant, Cosine, InverseSquareRoot


def rates(schedule, steps, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler = schedule(optimizer, **options)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


def test_constant():
    assert rates(Constant, 3) == [2.0, 2.0, 2.0]
    assert rates(Constant, 6, warmup_steps=4) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_inverse_square_root_peaks_at_the_end_of_the_warm_up():
    seen = rates(InverseSquareRoot, 16, warmup_steps=4)
    assert seen == pytest.approx([2 * min(s / 4, math.sqrt(4 / s)) for s in range(1, 17)])
    assert rates(InverseSquareRoot, 4, warmup_steps=0) == pytest.approx([2 / math.sqrt(s) for s in range(1, 5)])


def test_cosine_falls_to_its_final_fraction_and_stays():
    seen = rates(Cosine, 12, warmup_steps=2, total_steps=10, final_fraction=0.1)
    assert seen[:3] == pytest.approx([1.0, 2.0, 2.0])
    assert seen[6] == pytest.approx(2 * (0.1 + 0.9 / 2))
    assert seen[10:] == pytest.approx([0.2, 0.2])


def test_impossible_lengths_are_refused():
    with pytest.raises(UserError, match="total_steps is 5, but the warm-up alone takes 5"):
        rates(Cosine, 1, warmup_steps=5, total_steps=5)
    with pytest.raises(UserError, match="must not be negative"):
        rates(Constant, 1, warmup_steps=-1)


def test_a_schedules_state_can_be_loaded_without_code(tmp_path):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    torch.save(Cosine(optimizer, total_steps=10).state_dict(), tmp_path / "s")
    assert torch.load(tmp_path / "s", weights_only=True)["last_epoch"] == 0
