"""Attention of systems that search for a structure: that with the likeliest one."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.system import System
from depgen.models.gilt import GiLT
from depgen.models.pushdown import Pushdown
from depgen.models.tg import TransformerGrammar
from depgen.nn.feature_tapes import FEATURES
from tests.models.test_gilt import batch_of

LETTERS = Vocabulary.of_words("abcdefghijkl", tables={"labels": ["TOP", "NP"]})
WORDS = ["b", "c", "d", "e", "f", "g"]
BACKBONE = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8, dropout=0.0, positions="relative")


def system(kind, **options):
    """A small system, whose parameters are so large that each part shows."""
    torch.manual_seed(3)
    model = kind(BACKBONE, LETTERS.size, **options).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def attention_of(model, **options):
    own = System(model, LETTERS, Path("run"), Path("best.ckpt"))
    frame = own.attention(" ".join(WORDS), layer=0, **options)
    return frame.pivot(index="position", columns="context_position", values="weight").fillna(0).to_numpy()


def test_gilt_attends_with_the_graph_that_it_finds():
    model = system(GiLT, feature_size=4, max_count=5, beam_size=3)
    ids = [LETTERS.pieces(word)[0] for word in WORDS]
    (edges,) = model.parse([ids], vocabulary=LETTERS)
    assert edges
    batch = batch_of(model, [(ids, [edge[:2] for edge in edges])])
    rows = batch.tapes.gather(2, batch.word[:, None, :, None].expand(-1, len(FEATURES), -1, batch.tapes.size(3)))
    with torch.no_grad():
        expected = model.encode_tokens(batch.inputs, rows, batch.word, attention_layer=0).attention[0].exp()
        without = model.backbone(batch.inputs, attention_layer=0).attention[0].exp()
    found = attention_of(model)
    np.testing.assert_allclose(found, expected.mean(0)[:-1, :-1], atol=1e-6)
    np.testing.assert_allclose(attention_of(model, attention_head=1), expected[1, :-1, :-1], atol=1e-6)
    assert np.abs(found - without.mean(0)[:-1, :-1].numpy()).max() > 1e-2
    assert model.backbone(batch.inputs).attention is None, "nothing is left in the network"


def test_pushdown_attends_with_the_bracketing_that_it_finds(monkeypatch):
    model = system(Pushdown, beam_size=3)
    found = attention_of(model)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    spans = {}
    for name, starts in (
        ("left", zip([0] * 5, range(2, 7), strict=True)),
        ("right", zip(range(5), [6] * 5, strict=True)),
    ):
        monkeypatch.setattr(model, "bracketings", lambda *_, of=list(starts), **options: [of])
        spans[name] = attention_of(model)
    assert np.abs(spans["left"] - spans["right"]).max() > 1e-3


def test_attention_over_words_and_brackets_is_refused():
    model = system(partial(TransformerGrammar, labels=2), beam_size=3)
    with pytest.raises(UserError, match="words and brackets"):
        attention_of(model)
