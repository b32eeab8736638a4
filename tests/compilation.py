"""What `torch.compile` makes of the networks; run by `python -m tests.compilation`, without the checks of shapes.

Compiled functions can't be type-checked. Prints a JSON object; the backend is torch's own without code generation.
"""

import copy
import json
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem
from depgen.language_models.left_to_right import LeftToRight
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import DMLM
from depgen.nn.vocabulary import vocabulary_logsumexp
from tests.vocabularies import NO_WORDS

BACKEND = "aot_eager"
NETWORK = partial(Transformer, layers=1, width=16, attention_heads=2, feedforward=16, dropout=0.0)


def batch_of(model: LeftToRight, lengths: tuple[int, ...]) -> Any:
    """Sentences of some lengths, each with a chain for its tree."""
    rng = np.random.default_rng(sum(lengths))
    items = [TokenItem(k, rng.integers(3, 30, n), np.arange(n, dtype=np.int32)) for k, n in enumerate(lengths)]
    return model.collate(ItemBatch(items, sum(lengths) + len(lengths), NO_WORDS))


def loss_and_gradient(model: LeftToRight, batch: Any) -> tuple[float, torch.Tensor]:
    """Of a training step."""
    model.zero_grad()
    loss = model.training_step(batch, 0)
    loss.backward()
    return loss.item(), model.backbone.embedding.weight.grad.clone()


def compiled_as_eager(make: Any, phase: int) -> dict[str, Any]:
    """How far a compiled network's losses and gradients are from the others, and how often it was compiled."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    eager = make(30)
    eager.configure_model()
    eager.enter_phase(phase)
    eager.train()
    compiled, counter = copy.deepcopy(eager), CompileCounterWithBackend(BACKEND)
    compiled.compile_network(backend=counter)
    apart, slopes = [], []
    for lengths in ((5, 3), (7, 2), (9, 9, 4), (12, 1), (6, 6, 6, 5)):
        batch = batch_of(eager, lengths)
        (one, slope), (other, found) = loss_and_gradient(eager, batch), loss_and_gradient(compiled, batch)
        apart.append(abs(one - other) / one)
        slopes.append(float((slope - found).abs().max() / slope.abs().max()))
    same_names = [*compiled.state_dict()] == [*eager.state_dict()]
    return {"apart": max(apart), "slopes": max(slopes), "compiled": counter.frame_count, "same_names": same_names}


def main() -> dict[str, Any]:
    """All figures."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(40, 6, requires_grad=True), torch.randn(9, 6, requires_grad=True)
    network, tokens = NETWORK(30), torch.randint(0, 30, (2, 7))
    explain = torch._dynamo.explain
    found: dict[str, Any] = {
        "breaks": {
            "vocabulary": explain(vocabulary_logsumexp)(hidden, weight, torch.zeros(9), chunk=7).graph_break_count,
            "Transformer": explain(network)(tokens).graph_break_count,
            "Transformer with attention": explain(network)(tokens, attention_layer=-1).graph_break_count,
        }
    }
    for name, make, phase in (
        ("CausalLM", partial(CausalLM, NETWORK), 0),
        ("Transformer-XL", partial(CausalLM, partial(NETWORK, positions="relative", attention_bias=False)), 0),
        ("DMLM, dependencies", partial(DMLM, NETWORK, attention_layer=-1), 0),
        ("DMLM, mixture", partial(DMLM, NETWORK, attention_layer=-1), 1),
    ):
        found[name] = compiled_as_eager(make, phase)
    return found


if __name__ == "__main__":
    print(json.dumps(main()))
