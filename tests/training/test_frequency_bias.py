"""The bias that begins at the frequencies: counted over the batches of an epoch, and set once a run."""

from collections import Counter
from functools import partial

import lightning as L
import pytest
import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.data.documents import DocumentData
from depgen.data.generated import GeneratedLanguage
from depgen.data.stream import StreamData
from depgen.data.text import TextData
from depgen.data.vocabulary import SubwordPieces
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, HierarchicalContext
from depgen.training.frequency_bias import FrequencyBias

STORIES = GeneratedLanguage(train=12, valid=2, test=2, sentences=(5, 5))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))


def small_lstm(vocabulary_size: int, **settings) -> CausalLM:
    torch.manual_seed(0)
    network = partial(AWDLSTM, layers=1, embedding_size=8, hidden_size=8)
    return CausalLM(network, vocabulary_size, **settings)


def trainer(folder, *callbacks, **settings) -> L.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return L.Trainer(default_root_dir=folder, callbacks=list(callbacks), use_distributed_sampler=False,
                     enable_checkpointing=False, **quiet, **settings)  # fmt: skip


class CountTargets(L.Callback):
    """What an epoch's batches want predicted."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def on_train_batch_start(self, trainer, model, batch, batch_idx):
        self.counts.update(batch.targets[batch.is_word].tolist())


@pytest.mark.parametrize(
    "data",
    [
        lambda: TextData(STORIES, tokens_per_batch=200),
        lambda: TextData(STORIES, tokens_per_batch=400, vocabulary=SubwordPieces(size=300), max_documents=7),
        lambda: StreamData(STORIES, columns=3, bptt=10),
        lambda: DocumentData(STORIES, sentences_per_segment=2, tokens_per_batch=200),
        lambda: DocumentData(STORIES, duplicate_final_word=True, segmentation="code2015"),
    ],
    ids=["items", "pieces of some items", "a stream", "documents", "documents as in 2015"],
)
def test_the_bias_begins_at_what_an_epoch_wants_predicted(data, tmp_path):
    data, counted = data(), CountTargets()
    documents = isinstance(data, DocumentData)
    model = (
        DCLM(data.vocabulary_size, partial(HierarchicalContext, size=8), embedding_size=8)
        if documents
        else small_lstm(data.vocabulary_size)
    )
    trainer(tmp_path, FrequencyBias(), max_steps=0).fit(model, data)
    begun = [bias.detach().exp() for bias in model.output_biases]
    assert len(begun) == 1 + documents  # words, and HRNNLM's bags
    trainer(tmp_path, counted, max_epochs=1, limit_val_batches=0).fit(model, data)
    expected = torch.tensor([counted.counts[token] + 1.0 for token in range(data.vocabulary_size)])
    for found in begun:
        torch.testing.assert_close(found, expected / expected.sum(), rtol=1e-5, atol=1e-7)


def test_a_run_that_goes_on_keeps_what_it_has_learnt(tmp_path):
    data = TextData(STORIES, tokens_per_batch=200)
    first = trainer(tmp_path, FrequencyBias(), max_epochs=1, limit_val_batches=0)
    model = small_lstm(data.vocabulary_size)
    first.fit(model, data)
    first.save_checkpoint(tmp_path / "half.ckpt")
    learnt = model.output_bias.detach().clone()
    again = small_lstm(data.vocabulary_size)
    trainer(tmp_path, FrequencyBias(), max_epochs=1).fit(again, data, ckpt_path=tmp_path / "half.ckpt")
    assert torch.equal(again.output_bias, learnt)
