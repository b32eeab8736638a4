"""What a notebook does first: batches without a trainer, and a plain Trainer without options."""

import warnings
from pathlib import Path

import lightning as L
import pytest
import torch

from depgen import build
from depgen.data.batch import DocumentBatch, TokenBatch, WordBatch, collate_words
from depgen.data.documents import DocumentData
from depgen.data.generated import GeneratedLanguage
from depgen.data.stream import StreamData
from depgen.data.text import TextData
from depgen.data.vocabulary import WordVocabulary
from depgen.errors import UserError
from depgen.models.dmlm import DMLM
from depgen.training.experiment import settings_of

STORIES = GeneratedLanguage(train=40, valid=6, test=5, sentences=(5, 5))
TEXT = {"tokens_per_batch": 250, "eval_tokens_per_batch": 200}
MODULES = {
    "text": (lambda **more: TextData(STORIES, **TEXT, **more), TokenBatch),
    "stream": (lambda **more: StreamData(STORIES, columns=4, bptt=20, **more), TokenBatch),
    "documents": (lambda **more: DocumentData(STORIES, tokens_per_batch=200, **more), DocumentBatch),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))


class Reader(L.LightningModule):
    """Counts the items of every batch; knows nothing of our systems."""

    def __init__(self, stop: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.stop, self.epochs, self.validated = stop, [], []

    def on_train_epoch_start(self) -> None:
        self.epochs.append([])

    def training_step(self, batch, batch_idx):
        if self.global_step == self.stop:
            raise KeyboardInterrupt
        if not self.epochs:  # resumed within an epoch, whose start Lightning does not announce again
            self.epochs.append([])
        self.epochs[-1].append(batch.items.tolist())
        return self.weight.sum()

    def validation_step(self, batch, batch_idx):
        if not self.trainer.sanity_checking:
            self.validated.append((self.current_epoch, batch.items.tolist()))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def plain_trainer(folder, **options):
    warnings.simplefilter("ignore")
    shown = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return L.Trainer(max_epochs=3, default_root_dir=folder, **shown, **options)


def flat(batches):
    return [item for batch in batches for item in batch]


@pytest.mark.parametrize("name", MODULES)
def test_a_loop_written_by_hand_names_its_epoch(name):
    make, kind = MODULES[name]
    data = make()

    def lengths(epoch=None):
        return [batch.lengths.tolist() for batch in data.train_dataloader(epoch)]

    assert isinstance(next(iter(data.train_dataloader())), kind)
    assert lengths() == lengths(0)
    assert lengths(1) != lengths(0)
    assert lengths(1) == lengths(1)


def test_a_model_without_a_collate_gets_plain_batches_and_the_given_collate_wins(tmp_path):
    class Masked(Reader):
        collate = staticmethod(collate_words)

        def training_step(self, batch, batch_idx):
            self.kind = type(batch)
            return super().training_step(batch, batch_idx)

    kinds = []
    for options in ({}, {"collate": lambda batch: collate_words(batch)}):
        data, model = TextData(STORIES, vocabulary=WordVocabulary(masks=True), **TEXT, **options), Masked()
        plain_trainer(tmp_path, fast_dev_run=True).fit(model, data)
        kinds.append(model.kind)
    assert kinds == [WordBatch, WordBatch]


@pytest.mark.parametrize("name", ["text", "documents"])
def test_a_plain_trainer_sees_every_item_once_an_epoch_in_a_new_order_and_validates_each(name, tmp_path):
    model, data = Reader(), MODULES[name][0]()
    plain_trainer(tmp_path).fit(model, data)
    orders = [flat(epoch) for epoch in model.epochs]
    assert len({tuple(order) for order in orders}) == 3
    assert [sorted(order) for order in orders] == 3 * [list(range(len(data.train_dataloader().dataset)))]
    assert [epoch for epoch, _ in model.validated] == sorted([0, 1, 2] * (len(model.validated) // 3))
    assert [sorted(flat(items for e, items in model.validated if e == epoch)) for epoch in range(3)] == 3 * [
        list(range(6))
    ]


@pytest.mark.parametrize("stop", [4, 11])
def test_a_plain_trainer_resumes_within_an_epoch(stop, tmp_path):
    def fit(model, **resumed):
        saved = L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True, every_n_train_steps=1)
        plain_trainer(tmp_path, callbacks=[saved]).fit(model, MODULES["text"][0](), **resumed)

    unbroken, broken, resumed = Reader(), Reader(stop), Reader()
    plain_trainer(tmp_path / "other").fit(unbroken, MODULES["text"][0]())
    with pytest.raises(SystemExit):
        fit(broken)
    assert stop % len(unbroken.epochs[0]) > 0, "the stop is within an epoch"
    fit(resumed, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    assert flat(broken.epochs) + flat(resumed.epochs) == flat(unbroken.epochs)


def test_a_trainer_that_would_repeat_a_loader_is_refused(tmp_path):
    data = MODULES["text"][0]()
    with pytest.raises(UserError, match=r"epoch 1 begins.*trainer\.fit\(model, datamodule=data\)"):
        plain_trainer(tmp_path).fit(Reader(), data.train_dataloader(), data.val_dataloader())


def test_several_devices_with_lightnings_own_sampler_are_refused_by_the_arguments_name(tmp_path):
    trainer = plain_trainer(tmp_path, devices=2, strategy="ddp_fork")
    with pytest.raises(Exception, match="use_distributed_sampler=False"):
        trainer.fit(Reader(), MODULES["text"][0]())


def test_systems_and_data_are_built_from_the_blocks_of_an_experiment(tmp_path):
    settings = settings_of(Path("experiments/dmlm_controlled.yaml"))
    settings["data"]["init_args"]["corpus"]["init_args"]["corpus"]["init_args"] |= {"train": 20, "valid": 2, "test": 2}
    data = build(settings["data"])
    model = build(settings["model"], vocabulary_size=data.vocabulary_size)
    assert isinstance(data, TextData)
    assert isinstance(model, DMLM)
    assert model.backbone.vocabulary_size == data.vocabulary.size
    with pytest.raises(UserError, match="windoww"):
        build(settings["model"], vocabulary_size=9, windoww=3)
    with pytest.raises(UserError, match="no_such"):
        build({"class_path": "depgen.models.no_such.System"})
