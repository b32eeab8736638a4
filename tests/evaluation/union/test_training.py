import lightning as L
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from depgen.data.sampler import RankBatch
from depgen.errors import UserError
from depgen.evaluation.pretrained import ModelWithTokenizer
from depgen.evaluation.union.encoders import PretrainedEncoder
from depgen.evaluation.union.stories import text_of
from depgen.evaluation.union.training import (
    IGNORED,
    UnionModule,
    UnionTraining,
    fit,
    mask_words,
    reconstruction_targets,
)
from tests.evaluation.union.conftest import small_encoder


def batch_of(data, encoder, stories=8):
    data.tokenizer = encoder.tokenizer
    return data.pairs("train", epoch=0).__getitems__(RankBatch(np.arange(stories), 0, stories))


@pytest.fixture
def encoder(data):
    torch.manual_seed(0)
    return small_encoder(layers=2).build([text_of(story) for story in data.stories("train")], max_length=60)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"pooling": "first_mean_max", "reconstruction": 0.0}])
def test_it_overfits_eight_stories(data, encoder, options, monkeypatch):
    batch = batch_of(data, encoder)
    module = UnionModule(encoder, UnionTraining(**options))
    monkeypatch.setattr(module, "log", lambda *args, **others: None)
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    module.train()
    first = None
    for _ in range(80):
        loss = module.training_step(batch, 0)
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    module.eval()
    probabilities = module.network(batch.tokens, batch.is_word).softmax(-1)[:, 1]
    assert probabilities[:8].min() > 0.9 > 0.1 > probabilities[8:].max()
    assert loss.item() < 0.8 * first


def test_masked_word_training_learns_the_words(data, encoder, monkeypatch):
    batch = batch_of(data, encoder)
    module = UnionModule(encoder, UnionTraining(masked_word_epochs=1))
    monkeypatch.setattr(module, "log", lambda *args, **others: None)
    assert [phase.name for phase in module.phases] == ["masked_words", "telling_apart"]
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = module.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.5 * losses[0]
    assert module.network.output.weight.grad is None
    module.enter_phase(1)
    assert not module.masks_words


def test_reconstruction_asks_for_the_human_word_at_each_later_place():
    tokens = torch.tensor([[2, 5, 6, 7, 3, 0], [2, 5, 8, 3, 0, 0], [2, 5, 7, 6, 9, 3], [2, 5, 3, 0, 0, 0]])
    mask = tokens != 0
    untouched = torch.tensor([2, 3, 2, 3])
    found = reconstruction_targets(tokens, mask, untouched)
    for text in range(4):
        for place in range(6):
            human = text % 2
            scored = place >= untouched[human] and mask[text, place] and mask[human, place]
            assert found[text, place] == (tokens[human, place] if scored else IGNORED)
    assert found[3].eq(IGNORED).all()


def test_the_loss_is_that_of_the_equations(data, encoder, monkeypatch):
    batch = batch_of(data, encoder, stories=3)
    module = UnionModule(encoder, UnionTraining(reconstruction=0.1)).eval()
    monkeypatch.setattr(module, "log", lambda *args, **others: None)
    states = module.network.states(batch.tokens, batch.is_word)
    logits = module.network.classify(states, batch.is_word)
    expected = torch.stack([-logits[i].log_softmax(-1)[int(i < 3)] for i in range(6)]).mean()
    targets = reconstruction_targets(batch.tokens, batch.is_word, batch.untouched)
    embedding = encoder.model.get_input_embeddings().weight
    for text in range(6):
        nats = [
            -module.token_head(states[text, place], embedding).log_softmax(-1)[target]
            for place, target in enumerate(targets[text].tolist())
            if target != IGNORED
        ]
        expected = expected + 0.1 * torch.stack(nats).mean() / 6
    assert module.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-5)


def test_detection_is_the_mean_over_tokens_of_telling_which_are_altered(data, encoder, monkeypatch):
    data.marked = True
    batch = batch_of(data, encoder, stories=3)
    module = UnionModule(encoder, UnionTraining(reconstruction=0.0, detection=0.5)).eval()
    monkeypatch.setattr(module, "log", lambda *args, **others: None)
    states = module.network.states(batch.tokens, batch.is_word)
    told = F.cross_entropy(module.network.classify(states, batch.is_word), batch.human.long())
    nats = []
    for text, place in batch.is_word.nonzero().tolist():
        probability = module.detector(states[text, place]).sigmoid()
        nats.append(-(probability if batch.altered[text, place] else 1 - probability).log())
    expected = told + 0.5 * torch.stack(nats).mean()
    assert module.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-5)
    assert UnionModule(encoder, UnionTraining()).detector is None


def test_masking_follows_devlin():
    tokens = torch.arange(10, 50).repeat(500, 1)
    words = torch.ones_like(tokens, dtype=torch.bool)
    words[:, :20] = False
    generator = torch.Generator().manual_seed(0)
    read, asked = mask_words(tokens, words, mask_token=4, vocabulary_size=1000, generator=generator)
    assert not asked[:, :20].any()
    assert torch.equal(read[~asked], tokens[~asked])
    assert asked[:, 20:].float().mean().item() == pytest.approx(0.15, abs=0.015)
    assert (read[asked] == 4).float().mean().item() == pytest.approx(0.8, abs=0.04)
    assert (read[asked] == tokens[asked]).float().mean().item() == pytest.approx(0.1, abs=0.03)
    one = torch.tensor([[False, True]])
    for seed in range(20):
        _, asked = mask_words(
            torch.tensor([[1, 2]]), one, mask_token=4, vocabulary_size=9, generator=torch.Generator().manual_seed(seed)
        )
        assert asked.tolist() == [[False, True]]


def test_any_encoder_can_be_trained(data, tiny_bert, monkeypatch):
    encoder = PretrainedEncoder(str(tiny_bert)).build([], max_length=24)
    data.max_length = 24
    batch = batch_of(data, encoder, stories=2)
    assert batch.tokens.size(1) == 24
    module = UnionModule(encoder, UnionTraining())
    monkeypatch.setattr(module, "log", lambda *args, **others: None)
    loss = module.training_step(batch, 0)
    loss.backward()
    assert loss.item() > F.cross_entropy(torch.zeros(1, 2), torch.tensor([0])).item() / 2
    assert encoder.model.get_input_embeddings().weight.grad.abs().sum() > 0


def test_an_encoder_without_a_mask_has_no_masked_words(encoder):
    class Maskless:
        mask_token_id = None
        all_special_ids = ()

    with pytest.raises(UserError, match="no mask token"):
        UnionModule(ModelWithTokenizer(encoder.model, Maskless(), "plain"), UnionTraining(masked_word_epochs=1))


def test_a_pretrained_encoder_trains_with_its_dropout(data, tiny_bert, tmp_path, monkeypatch):
    class BeganError(Exception):
        pass

    def began(self, module, *args, **others):
        assert all(part.training for part in module.modules())
        raise BeganError

    encoder = PretrainedEncoder(str(tiny_bert)).build([], max_length=24)
    assert not encoder.model.training
    monkeypatch.setattr(L.Trainer, "fit", began)
    with pytest.raises(BeganError):
        fit(UnionModule(encoder, UnionTraining()), data, tmp_path, seed=1, progress=False)


@pytest.mark.parametrize("devices", [0, 2, -1])
def test_it_trains_on_one_device(devices):
    with pytest.raises(UserError, match=f"one device, found {devices}"):
        UnionTraining(devices=devices)


@pytest.mark.parametrize(("name", "number"), [("epochs", 0), ("masked_word_epochs", -1)])
def test_fewer_epochs_than_there_can_be_are_refused(name, number):
    with pytest.raises(UserError, match=f"{name}: expected at least {number + 1}, found {number}"):
        UnionTraining(**{name: number})
