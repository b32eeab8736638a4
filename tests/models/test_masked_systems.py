"""What holds for all masked language models: sentences of one word or of unknown ones, and batches without a mask."""

import math
from functools import partial

import pytest
import torch

from depgen.language_models import masked
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.structformer import StructFormer
from depgen.models.udgn import UDGN
from tests.models.encoders import encoder
from tests.models.masked import UNK, batch_of, trained

SMALL = {"width": 4, "layers": 2, "attention_heads": 2, "head_size": 3, "parser_layers": 1}
SYSTEMS = {
    "UDGN": partial(UDGN, **SMALL),
    "UDGN, tags and positions": partial(UDGN, **SMALL, tags=2, positions=True),
    "UDGN, taught kirchhoff": partial(UDGN, **SMALL, marginals="kirchhoff", supervised_weight=1.0),
    "UDGN, trees": partial(UDGN, **SMALL, mask_from="trees", supervised_weight=1.0),
    "StructFormer": partial(StructFormer, encoder()),
    "StructFormer, batch": partial(StructFormer, encoder(), calibration="batch"),
    "masked Transformer": partial(MaskedTransformer, encoder()),
}


@pytest.fixture(params=SYSTEMS)
def model(request):
    torch.manual_seed(0)
    return SYSTEMS[request.param](9)


@pytest.mark.parametrize(
    "sentences",
    [[[3]], [[3], [3, 4, 5, 8]], [[UNK, UNK, UNK]], [[UNK], [UNK, UNK]], [[3, 4, 5, 6, 7] * 100]],
    ids=["one word", "one word beside others", "all unknown", "all unknown, one word", "500 words"],
)
def test_odd_sentences_have_finite_losses_and_gradients(model, sentences):
    chains = [range(len(sentence)) for sentence in sentences]
    losses = trained(model, [batch_of(*sentences, heads=chains)], steps=2)  # which looks at the gradients
    assert all(map(math.isfinite, losses))
    assert all(each.isfinite().all() for each in model.parameters())
    known = getattr(model, "supervised_weight", 0) or any(word != UNK for sentence in sentences for word in sentence)
    assert known or losses == [0, 0]


@pytest.mark.parametrize("name", ["UDGN", "StructFormer", "masked Transformer"])
def test_a_batch_without_a_masked_word_moves_nothing(name, monkeypatch):
    model = SYSTEMS[name](9)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    monkeypatch.setattr(masked, "hashed_uniform", lambda *_: torch.ones(2, 1))
    assert trained(model, [batch_of([3, 4, 5, 8], [6, 2, 7])], steps=2) == [0, 0]
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
