"""One text scored by systems of every kind: per word, by document, exact and pseudo apart; and how fast."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.parsing import ParsingOptions
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext
from depgen.models.masked_transformer import MaskedTransformer
from depgen.reporting.measures.scoring import scores_of
from depgen.reporting.results import Budget, DataSource, RunFacts
from depgen.reporting.table import TOKENS
from depgen.trees.sentence import Document, Sentence
from tests.models.encoders import encoder, spread

TEXT = [["the cat ran", "a plugh"], ["the cats ran the cats"], ["xyzzy", "a cat", "ran"]]


class Texts:
    """A corpus whose validation split nobody has asked for."""

    name, published = "Texts", {}

    def fingerprint(self, split):
        return split

    def documents(self, split):
        assert split == "test"
        for number, lines in enumerate(TEXT):
            yield Document(tuple(Sentence(tuple(line.split())) for line in lines), str(number))


class Plurals(Vocabulary):
    """Some words have two pieces."""

    def pieces(self, word):
        if word != "cats":
            return super().pieces(word)
        return (*super().pieces("cat"), *super().pieces("-s"))


VOCABULARY = Plurals.of_words(["the", "cat", "-s", "ran", "a"], specials=["mask_id", "start"])
FACTS = RunFacts(
    DataSource("Texts", reduced=False),
    None,
    1000,
    Budget(2, 800),
    ((400.0, 9.0), (800.0, 8.0)),
    ((5.0, 3.0), (10.0, 16.0)),
)
SYSTEMS = {
    "sentences": partial(CausalLM, partial(Transformer, layers=1, width=12, attention_heads=2, feedforward=6)),
    "documents": partial(DCLM, context=partial(ContextToContext, size=5), embedding_size=4),
    "masked": partial(MaskedTransformer, encoder()),
}


def trained(name):
    model = spread(SYSTEMS[name](VOCABULARY.size)).eval()
    return Trained(model, VOCABULARY, Path("run"), Path("run/best.ckpt"))


def scores(name, facts=FACTS):
    return scores_of(trained(name), ParsingOptions(Texts()), facts)


def ids_of(lines):
    return [[piece for word in line.split() for piece in VOCABULARY.pieces(word)] for line in lines]


@pytest.mark.parametrize("name", ["sentences", "documents"])
def test_exact_perplexity_is_per_word_and_of_each_document(name):
    model, found = trained(name).model, scores(name)
    nll = []
    for lines in TEXT:
        units = [ids_of(lines)] if name == "documents" else [[ids] for ids in ids_of(lines)]
        nll.append(
            -sum(each.sum() for unit in units for each in model.sentence_log_probs([unit], vocabulary=VOCABULARY)[0])
        )
    words = [sum(len(line.split()) + 1 for line in lines) for lines in TEXT]
    assert found.metrics["perplexity"] == pytest.approx(math.exp(sum(nll) / sum(words)), rel=1e-5)
    np.testing.assert_allclose(found.items["perplexity"], np.array(nll) / words, rtol=1e-5)
    assert found.items[TOKENS].tolist() == words
    assert found.metrics["unk_rate"] == 2 / 20
    assert "pseudo_perplexity" not in found.metrics
    assert found.not_computed["pseudo_perplexity"] == "its likelihood is exact"


def test_pseudo_perplexity_is_of_known_words_and_never_in_the_column_of_exact_ones():
    model, found = trained("masked").model, scores("masked")
    costs = []
    for lines in TEXT:
        for ids, log_probs in zip(
            ids_of(lines), model.sentence_log_probs([ids_of(lines)], vocabulary=VOCABULARY)[0], strict=True
        ):
            costs += [-log_prob for token, log_prob in zip(ids, log_probs, strict=True) if token != VOCABULARY.unk]
    words = sum(
        VOCABULARY.pieces(word) != (VOCABULARY.unk,) for lines in TEXT for line in lines for word in line.split()
    )
    assert found.metrics["pseudo_perplexity"] == pytest.approx(math.exp(sum(costs) / words), rel=1e-5)
    assert not {"perplexity", "unk_rate"} & found.metrics.keys()
    assert not found.items
    assert found.not_computed["perplexity"] == "its likelihood is pseudo"


def test_inner_parameters_have_no_row_a_word():
    model = trained("documents").model
    outside = model.embedding.weight.numel() + model.output.weight.numel() + model.output.bias.numel()
    assert scores("documents").metrics["inner_parameters"] == pytest.approx(
        (sum(each.numel() for each in model.parameters()) - outside) / 1e6
    )


def test_speeds_are_tokens_over_seconds(monkeypatch):
    ticks = iter([10.0, 14.0])
    with monkeypatch.context() as patch:
        patch.setattr("depgen.reporting.measures.scoring.now", lambda device: next(ticks))
        metrics = scores("sentences").metrics
    assert metrics["scoring_speed"] == (14 + 2 + 6) / 4, "words, second pieces and ends"
    assert metrics["training_speed"] == 800 / 16
    assert scores("sentences", replace(FACTS, curve=())).metrics["training_speed"] == 800 / 16
    assert "no wall time" in scores("sentences", replace(FACTS, clock=())).not_computed["training_speed"]
