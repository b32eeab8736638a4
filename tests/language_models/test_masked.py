"""Masked language models: which words are masked, what the loss divides by, and figures that depend on no batch; scores
of documents by hiding each word in turn."""

import lightning as L
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.unit_scores import score_documents
from depgen.language_models.masked import MaskedLanguageModel, MaskedOutput
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.structformer import StructFormer
from depgen.models.udgn import UDGN
from tests.models.encoders import encoder, spread
from tests.models.masked import MASK, UNK, alone, batch_of

WORDS = 8
SENTENCES = [[3, 4, 5, 1, 7], [6, 3], [1], [5], [7, 7, 1, 4], [1, 1, 3, 6, 5, 4]]


class Neighbours(MaskedLanguageModel):
    """Predicts a word from the mean of the two beside it."""

    def __init__(self, **options):
        super().__init__(**options)
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(WORDS, 5).double()
        self.bias = torch.nn.Parameter(torch.randn(WORDS, dtype=torch.float64))
        self.seen = []

    output_weight = property(lambda self: self.embedding.weight)
    output_bias = property(lambda self: self.bias)

    def encode(self, tokens, lengths, *, heads=None, attention=False):
        self.seen.append(tokens.clone())
        words = torch.arange(tokens.shape[1]) < lengths[:, None]
        states = self.embedding(tokens) * words[:, :, None]
        beside = torch.nn.functional.pad(states, (0, 0, 1, 1))
        return MaskedOutput((beside[:, :-2] + beside[:, 2:]) / 2)


def by_hand(model, batch, chosen):
    """Summed nats and words, sentence by sentence."""
    hidden = model.encode(batch.tokens.where(~chosen, torch.tensor(MASK)), batch.lengths).hidden
    logs = (hidden @ model.output_weight.T + model.output_bias).log_softmax(-1)
    nats = -logs.gather(2, batch.tokens[:, :, None])[:, :, 0]
    return (nats * chosen).sum(1), chosen.sum(1)


# -- training ----------------------------------------------------------------------------------------------------------


def test_the_loss_is_the_mean_over_masked_words():
    model, batch = alone(Neighbours(mask_rate=0.5)), batch_of(*SENTENCES)
    torch.manual_seed(3)
    loss = model.training_step(batch, 0)
    chosen = model.seen[0] != batch.tokens
    nats, words = by_hand(model, batch, chosen)
    assert words.sum() > 3
    assert loss.item() == pytest.approx((nats.sum() / words.sum()).item(), abs=1e-10)
    assert model.logged["train/loss"] == loss


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
def test_each_known_word_is_masked_as_often_as_said_and_unknown_ones_never(rate):
    batch, draws = batch_of(*SENTENCES), 1500
    model = alone(Neighbours(mask_rate=rate))
    torch.manual_seed(0)
    model.training_step(batch_of(*SENTENCES * draws), 0)
    seen = model.seen[0].view(draws, *batch.tokens.shape)
    changed = (seen != batch.tokens).double()
    assert (seen[changed.bool()] == MASK).all(), "always <mask>, never another word or the word itself"
    known = batch.is_word & (batch.tokens != UNK)
    assert not changed[:, ~known].any()
    assert (changed[:, known].mean(0) - rate).abs().max() < 4 * (rate * (1 - rate) / draws) ** 0.5
    one, other = changed[:, 0, 0], changed[:, 0, 1]
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / draws**0.5, "each by itself"


def test_nothing_masked_costs_nothing_and_leaves_gradients_of_zero():
    model = alone(Neighbours())
    loss = model.training_step(batch_of([UNK], [UNK, UNK]), 0)
    loss.backward()
    assert loss.item() == 0
    assert all(not each.grad.any() for each in model.parameters())


# -- evaluation --------------------------------------------------------------------------------------------------------


def masks_of(model, batch):
    passes = [model.drawn_mask(batch, 0, number) for number in range(model.evaluation_masks)]
    return {
        int(item): torch.stack(passes)[:, row, :length].tolist()
        for row, (item, length) in enumerate(zip(batch.items, batch.lengths, strict=True))
    }


def test_evaluation_masks_depend_on_place_and_pass_alone():
    model = Neighbours(mask_rate=0.4)
    together = masks_of(model, batch_of(*SENTENCES))
    reverse = masks_of(model, batch_of(*SENTENCES[::-1], items=[5, 4, 3, 2, 1, 0], length=11))
    single = masks_of(model, batch_of(SENTENCES[4], items=[4]))
    torch.manual_seed(99)
    again = masks_of(model, batch_of(*SENTENCES))
    assert together == reverse == again
    assert together[4] == single[4]
    assert len({str(one) for one in together[5]}) > 1, "passes differ"
    assert masks_of(model, batch_of(SENTENCES[4], items=[7]))[7] != together[4]


def evaluated(model, *groups, stage="test"):
    """Logged figures and the sentences' scores where the split comes in these groups of sentences."""
    batches = [batch_of(*[SENTENCES[k] for k in group], items=list(group)) for group in groups]
    loader = DataLoader(batches, batch_size=None)
    options = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = L.Trainer(**options, enable_model_summary=False)
    verb = trainer.test if stage == "test" else trainer.validate
    (figures,) = verb(model, loader, verbose=False)
    return figures, (model.test_scores() if stage == "test" else None)


def test_figures_are_means_of_logarithms_whatever_the_batches(caplog):
    model = Neighbours(mask_rate=0.4, evaluation_masks=3).eval()
    figures, scores = evaluated(model, (0, 1, 2, 3, 4, 5))
    batch = batch_of(*SENTENCES)
    passes = [by_hand(model, batch, model.drawn_mask(batch, 0, number)) for number in range(3)]
    loss = sum((nats.sum() / words.sum()).item() for nats, words in passes) / 3
    assert figures["test/loss"] == pytest.approx(loss, rel=1e-9)
    assert figures["test/perplexity"] == pytest.approx(np.exp(loss), rel=1e-6)
    assert figures["test/unk_rate"] == pytest.approx(5 / 19, rel=1e-6)
    assert "26.32 % of the test's targets are <unk>" in caplog.text
    items, nll, tokens, words = scores
    assert items.tolist() == [0, 1, 2, 3, 4, 5]
    assert nll == pytest.approx(sum(nats for nats, _ in passes).detach().numpy(), abs=1e-9)
    assert words.tolist() == tokens.tolist() == sum(count for _, count in passes).tolist()
    others, other_scores = evaluated(model, (5, 2), (4,), (1, 0, 3))
    assert others == pytest.approx(figures, rel=1e-9)
    for one, other in zip(scores, other_scores, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    validated, _ = evaluated(model, (5, 2), (4,), (1, 0, 3), stage="val")
    assert validated["val/loss"] == pytest.approx(loss, rel=1e-9)


# -- scores of documents -----------------------------------------------------------------------------------------------

SMALL_UDGN = {"width": 4, "layers": 2, "attention_heads": 2, "head_size": 3, "parser_layers": 1}
SYSTEMS = {
    "masked Transformer": lambda: MaskedTransformer(encoder(max_length=12), VOCABULARY.size),
    "StructFormer": lambda: StructFormer(encoder(max_length=12), VOCABULARY.size),
    "UDGN": lambda: UDGN(VOCABULARY.size, **SMALL_UDGN),
    "UDGN, positions": lambda: UDGN(VOCABULARY.size, **SMALL_UDGN, positions=True, max_length=12),
}
VOCABULARY = Vocabulary.of_words(list("abcdefgh"), specials=["mask_id"])
WITHOUT_MASK = Vocabulary.of_words(list("abcdefghi"))
DOCUMENTS = [[[3, 4, 5, UNK, 7], [6, 3], [10, 9, 8, 3]], [[UNK]], [[5], [7, 7, UNK, 4], [UNK, UNK, 3, 6, 5, 4]]]


@pytest.fixture(params=SYSTEMS)
def system(request):
    return spread(SYSTEMS[request.param]()).double().eval()


def scores_of(model, documents, **options):
    return score_documents(model, documents, vocabulary=VOCABULARY, **options)


@torch.no_grad()
def hidden_one_by_one(model, sentence):
    """Nats of each word, the sentence read once for each, by itself, with this word hidden."""
    found = []
    for place, word in enumerate(sentence):
        tokens = torch.tensor([[*sentence[:place], MASK, *sentence[place + 1 :]]])
        hidden = model.encode(tokens, torch.tensor([len(sentence)])).hidden[0, place]
        found.append((hidden @ model.output_weight.T + model.output_bias).log_softmax(-1)[word].item())
    return found


@pytest.mark.parametrize("at_once", [1, 13, 10_000])
def test_a_call_gives_the_log_probability_of_each_word_in_a_batch(system, monkeypatch, at_once):
    monkeypatch.setattr("depgen.language_models.masked.MASKED_AT_ONCE", at_once)
    found = system(batch_of(*SENTENCES))
    for row, sentence in zip(found.detach(), SENTENCES, strict=True):
        np.testing.assert_allclose(row[: len(sentence)], hidden_one_by_one(system, sentence), rtol=1e-6)
        assert not row[len(sentence) :].any()
    found.sum().backward()
    assert system.output_weight.grad.abs().sum() > 0


def udgn(**options):
    return UDGN(VOCABULARY.size, **SMALL_UDGN, **options).eval()


@pytest.mark.parametrize(("act", "said"), [
    (lambda: Neighbours(mask_rate=0.0), "above 0 and at most 1, found 0"),
    (lambda: Neighbours(mask_rate=1.1), "at most 1, found 1.1"),
    (lambda: Neighbours(evaluation_masks=0), "at least 1, found 0"),
    (lambda: scores_of(udgn(mask_from="trees"), DOCUMENTS), "mask_from: trees needs trees"),
    (lambda: score_documents(udgn(), DOCUMENTS, vocabulary=WITHOUT_MASK), "with <mask>"),
])  # fmt: skip
def test_what_can_not_be_masked_or_scored_is_refused(act, said):
    with pytest.raises(UserError, match=said):
        act()


@pytest.mark.parametrize("name", ["masked Transformer", "UDGN, positions"])
def test_a_sentence_longer_than_the_positions_is_refused_and_one_that_fills_them_is_not(name):
    model = SYSTEMS[name]().eval()
    assert model.longest_scored == 12
    assert len(scores_of(model, [[[3] * 12]])[0][0]) == 12
    with pytest.raises(UserError, match=r"13 .*(not fit into 12|but there are 12)"):
        scores_of(model, [[[3], [3] * 13]])
