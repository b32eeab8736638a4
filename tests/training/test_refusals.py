"""Values that would train nothing, or something else than is meant."""

import pytest
import torch

from depgen.errors import UserError
from depgen.training.adagrad import ClippedAdagrad
from depgen.training.nt_asgd import NTASGD
from depgen.training.schedules import Cosine
from depgen.training.tree_regularization import TreeRegularization

WEIGHTS = [torch.nn.Parameter(torch.zeros(1))]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClippedAdagrad(WEIGHTS, clip=-1.0), "expected lr and clip above 0"),
        (lambda: NTASGD(WEIGHTS, patience=0), "patience"),
        (lambda: Cosine(torch.optim.SGD(WEIGHTS), 5, 5), "total_steps is 5, but the warm-up alone takes 5"),
        (lambda: TreeRegularization(layer=0), "layer"),
        (lambda: TreeRegularization(layer=1, share=0.0), "share"),
        (lambda: TreeRegularization(layer=1, every=0), "every"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()
