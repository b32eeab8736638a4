"""Documents scored whole or sentence by sentence, and pairs of sentences at once, where a system has such."""

from functools import partial

import lightning as L
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from depgen.data.documents import DocumentData
from depgen.data.generated import GeneratedLanguage
from depgen.data.vocabulary import Vocabulary, WordVocabulary
from depgen.evaluation.unit_scores import score_documents
from depgen.language_models import document as document_language_model
from depgen.models.dclm import DCLM, ContextToContext, ContextToOutput, NoContext
from depgen.training.adagrad import ClippedAdagrad
from tests.models.documents import CONTEXTS, batch_of, small_model

VOCABULARY = Vocabulary.of_words(list("abcdefghij"), specials=["start"])
SENTENCES = [[3, 4, 5], [6], [7, 8, 3, 3], [9, 4], [6, 6]]


def model(context, *, dtype=torch.float64):
    torch.manual_seed(0)
    found = DCLM(VOCABULARY.size, context=lambda size: context(size, size=5), embedding_size=4)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return found.to(dtype).eval()


def read(found, *documents):
    scores = score_documents(found, documents, vocabulary=VOCABULARY)
    return [[each.sum(dtype=np.float64) for each in document] for document in scores]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_table_of_pairs_is_what_reading_finds(dtype, tolerance):
    found = model(ContextToOutput, dtype=dtype)
    table = found.pair_log_likelihoods(SENTENCES, vocabulary=VOCABULARY)
    assert table.shape == (5, 6)
    for place, sentence in enumerate(SENTENCES):
        expected = [read(found, [sentence])[0][0]]
        expected += [read(found, [before, sentence])[0][1] for before in SENTENCES]
        np.testing.assert_allclose(table[place], expected, rtol=0, atol=tolerance)
    assert np.ptp(table, axis=1).min() > 0.01, "contexts that move nothing would prove nothing"


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_sentences_that_stand_alone_are_told_apart(context):
    found = model(context)
    (inside,), alone = read(found, SENTENCES), [scores[0] for scores in read(found, *([ids] for ids in SENTENCES))]
    same = np.allclose(inside, alone, rtol=0, atol=1e-12)
    assert (found.sentence_context == "none") == same == (context is NoContext)
    assert (found.sentence_context == "previous") == (context is ContextToOutput)


class Largest(TorchDispatchMode):
    """The most numbers of any tensor that is made."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        made = found if isinstance(found, (tuple, list)) else (found,)
        self.numbers = max(self.numbers, *(each.numel() for each in made if isinstance(each, torch.Tensor)), 0)
        return found


def small(name):
    found = small_model(name, VOCABULARY.size)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTEXTS)
def test_one_long_sentence_among_short_ones_makes_none_of_them_long(monkeypatch, name):
    """Neither in scores of texts nor in evaluation: of all positions, padding included, there are ids, never states."""
    found, document = small(name), [[4], [5, 6], [3, 4] * 20, *([3 + n % 8] for n in range(100))]
    documents = [document, SENTENCES, [[3]], document[:3], SENTENCES[::-1]]
    batch = batch_of(documents)

    def both():
        scores = found.sentence_log_probs(documents, vocabulary=VOCABULARY)
        return np.concatenate([np.concatenate(each) for each in scores]), found.item_scores(batch).nll

    with torch.no_grad():
        expected = both()
        monkeypatch.setattr(document_language_model, "PADDED_AT_ONCE", 500)
        with Largest() as largest:
            scores = both()
    np.testing.assert_allclose(scores[0], expected[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(scores[1], expected[1], rtol=0, atol=1e-10)
    assert largest.numbers <= batch.targets.numel() * 2


@pytest.mark.slow
@pytest.mark.parametrize("loss_per", ["segment", "token"])
def test_two_processes_train_as_one(loss_per, tmp_path):
    """In double precision: AdaGrad turns the rounding of single precision into differences of 1e-4 within epochs."""
    losses = []
    for devices in (1, 2):
        data = DocumentData(
            GeneratedLanguage(train=21, valid=5, test=1, sentences=(5, 5)),
            vocabulary=WordVocabulary(starts=True), segments_per_batch=4,
            sentences_per_segment=2,
        )  # fmt: skip
        torch.manual_seed(0)
        found = DCLM(
            data.vocabulary_size, context=partial(ContextToContext, size=5), embedding_size=4,
            loss_per=loss_per, optimizer=ClippedAdagrad,
        ).double()  # fmt: skip
        trainer = L.Trainer(
            max_epochs=2, accelerator="cpu", devices=devices, strategy="ddp_fork" if devices == 2 else "auto",
            logger=False, enable_progress_bar=False, enable_checkpointing=False, default_root_dir=tmp_path,
            use_distributed_sampler=False,
        )  # fmt: skip
        trainer.fit(found, datamodule=data)
        losses.append(trainer.callback_metrics["val/loss"].item())
    assert losses[0] < 6
    assert losses[1] == pytest.approx(losses[0], rel=1e-10)
