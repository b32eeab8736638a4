"""What every system has from its base."""

from types import SimpleNamespace

import lightning as L
import pytest
import torch
from torch.utils.data import DataLoader

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.models.causal_lm import CausalLM


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


class Related(LanguageModel):
    """A system with a size that is that of a table."""

    def __init__(self, relations: int | None = None):
        super().__init__()
        self.save_hyperparameters()

    def configure_model(self):
        self.take_table_sizes(relations="labels")
        if not hasattr(self, "embedding"):
            self.embedding = torch.nn.Embedding(self.hparams.relations, 2)


def attached(model, tables):
    """A system in a trainer whose data have a vocabulary with these tables."""
    vocabulary = Vocabulary.of_words(["a"], tables=tables)
    model.trainer = SimpleNamespace(datamodule=SimpleNamespace(vocabulary=vocabulary))
    return model


@pytest.mark.parametrize("given", [None, 3])
def test_a_size_comes_from_a_table_of_the_vocabulary_and_is_kept(given):
    model = attached(Related(given), {"labels": ["det", "nsubj", "root"]})
    for _ in range(2):  # a later call of the trainer
        model.configure_model()
    assert model.embedding.num_embeddings == model.hparams.relations == 3


def test_sizes_that_no_table_gives_are_refused():
    without = [attached(Related(given), {"expansions": ["det"]}) for given in (None, 1)]
    for model in (Related(), *without):
        with pytest.raises(UserError, match=r"relations: .*'labels' .* but there is none"):
            model.configure_model()
    with pytest.raises(UserError, match=r"relations: expected 2, .* found 3"):
        attached(Related(3), {"labels": ["det", "root"]}).configure_model()


@pytest.mark.parametrize("precision", ["64-true", "16-true", "bf16-true"])
def test_precisions_that_change_batches_are_refused(precision, tmp_path):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = L.Trainer(accelerator="cpu", default_root_dir=tmp_path, precision=precision, **quiet)
    with pytest.raises(UserError, match=f"trainer.precision: .* found {precision}"):
        trainer.test(Related(2), DataLoader([0]))


class Unsaved(LanguageModel):
    """A system that forgets the arguments of its constructor."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(size))

    def training_step(self, batch, batch_idx):
        return self.weight.sum()


def test_a_system_that_could_not_be_loaded_again_is_refused_before_training(tmp_path):
    trainer = L.Trainer(accelerator="cpu", default_root_dir=tmp_path, logger=False, max_epochs=1)
    with pytest.raises(UserError, match=r"Unsaved: call self.save_hyperparameters\(\)"):
        trainer.fit(Unsaved(2), DataLoader([0]))


def test_a_network_in_place_of_what_makes_one_is_named():
    network = Transformer(5, layers=1, width=4, attention_heads=2, feedforward=4)
    with pytest.raises(UserError, match="found a Transformer itself"):
        CausalLM(network, vocabulary_size=5)
