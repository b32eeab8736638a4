"""What a language model's evaluation logs, and its scores of documents."""

import math
from functools import partial

import lightning as L
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem, collate_tokens
from depgen.data.stream import Segments, StreamColumns
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.evaluation.unit_scores import score_documents
from depgen.language_models.left_to_right import LeftToRight
from depgen.metrics.item_scores import KeptItems, Perplexity
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import DMLM
from tests.invented_tables import split_of
from tests.vocabularies import NO_WORDS

PIECES = [([2, 3, 4, 5], [False, True, True, True]), ([6, 7, 8], [False, False, True]), ([9], [True])]


@pytest.mark.parametrize("verb", ["test", "validate"])
def test_perplexity_of_words_is_that_of_tokens_where_each_token_is_a_word(verb):
    torch.manual_seed(0)
    backbone = partial(Transformer, layers=1, width=8, attention_heads=2, feedforward=8, dropout=0.0)
    model = CausalLM(backbone, 11)
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    found = {}
    for kind in ("words", "pieces"):
        items = [
            TokenItem(n, np.array(ids, np.int32), None, np.array(ends) if kind == "pieces" else None)
            for n, (ids, ends) in enumerate(PIECES)
        ]
        batches = [ItemBatch(items[:2], 9, NO_WORDS), ItemBatch(items[2:], 2, NO_WORDS)]
        loader = DataLoader(batches, batch_size=None, collate_fn=collate_tokens)
        (found[kind],) = getattr(trainer, verb)(model, loader, verbose=False)
        if verb == "test":
            _, scored, _, counted = model.test_scores()
            per_word = math.exp(scored.sum() / counted.sum())
            assert per_word == pytest.approx(found[kind]["test/word_perplexity"], rel=1e-6)
    stage = {"test": "test", "validate": "val"}[verb]
    words, pieces = found["words"], found["pieces"]
    assert words[f"{stage}/word_perplexity"] == words[f"{stage}/perplexity"] == pieces[f"{stage}/perplexity"]
    nll = 11 * math.log(words[f"{stage}/perplexity"])  # eight pieces and three ends
    assert pieces[f"{stage}/word_perplexity"] == pytest.approx(math.exp(nll / (5 + 3)), rel=1e-9)


class OfTargets(LeftToRight):
    """Gives each target a probability by its id alone, whatever precedes it."""

    def log_probs(self, batch):
        return -1.0 - batch.targets / 7


@pytest.mark.parametrize(("columns", "bptt"), [(1, 4), (3, 2), (2, 50)])
def test_items_of_a_stream_are_those_of_the_split_wherever_it_is_cut(columns, bptt):
    ids = np.concatenate([each for each, _ in PIECES]).astype(np.int32)
    split = split_of(ids, [0, 4, 7, 8], NO_WORDS, word_ends=np.concatenate([each for _, each in PIECES]))
    model = OfTargets()
    tables = []
    stream = StreamColumns(split, columns)
    segments = [stream.__getitems__(each) for each in Segments(stream, bptt, vary=False)]
    for batches in (segments, [ItemBatch([split[item] for item in range(3)], 11, NO_WORDS)]):
        kept, perplexity = KeptItems(), Perplexity()
        for batch in batches:
            scores = model.item_scores(collate_tokens(batch))
            kept.update(scores)
            perplexity.update(scores)
        tables.append((kept.compute(), perplexity.compute().item()))
    (items, nll, tokens, words), by_stream = tables[0]
    assert by_stream == pytest.approx(tables[1][1], rel=1e-12)
    assert (items.tolist(), tokens.tolist(), words.tolist()) == ([0, 1, 2], [5, 4, 2], [4, 2, 2])
    np.testing.assert_allclose(nll, tables[1][0][1], rtol=1e-6)


# -- scores of documents -----------------------------------------------------------------------------------------------

VOCABULARY = Vocabulary.of_words(list("abcdefghi"))
TRANSFORMER = partial(
    Transformer, layers=2, width=8, attention_heads=2, feedforward=8, positions="learned", max_length=24
)
GPT2 = partial(PretrainedTransformer, layers=2, width=8, attention_heads=2, max_length=24)
SYSTEMS = {"Transformer": partial(CausalLM, TRANSFORMER), "DM-GPT-2": partial(DMLM, GPT2)}


def scores_of(model, documents, **options):
    return score_documents(model, documents, vocabulary=VOCABULARY, **options)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_text_longer_than_the_positions_is_refused_and_one_that_fills_them_is_not(name):
    model = SYSTEMS[name](VOCABULARY.size).eval()
    assert model.longest_scored == 23
    ((scores,),) = scores_of(model, [[[2] * 23]])
    assert len(scores) == 24
    with pytest.raises(UserError, match="a text of 25 tokens does not fit into"):
        scores_of(model, [[[3]], [[2] * 20, [4] * 4]])


# -- a system without a backbone ---------------------------------------------------------------------------------------


class Bigrams(LeftToRight):
    """Nothing but a table: log_probs and a loss are all that the base needs."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.table = torch.nn.Parameter(torch.zeros(vocabulary_size, vocabulary_size))

    collate = property(lambda self: collate_tokens)

    def log_probs(self, batch):
        return self.table.log_softmax(-1)[batch.inputs].gather(2, batch.targets[..., None])[..., 0]

    def training_step(self, batch, batch_idx):
        return self.log_train(-self(batch).masked_fill(~batch.is_word, 0).sum(), batch.global_tokens)


def test_a_system_without_a_backbone_says_what_it_cannot_do():
    model = Bigrams(VOCABULARY.size)
    batch = collate_tokens(ItemBatch([TokenItem(0, np.array([3, 4], np.int32))], 3, NO_WORDS))
    assert model.training_step(batch, 0).item() == pytest.approx(math.log(VOCABULARY.size))
    assert model.sentence_log_probs([[[3, 4]]], vocabulary=VOCABULARY)[0][0].shape == (3,)
    assert model.output_biases == []
    with pytest.raises(UserError, match=r"Bigrams .*generation_step"):
        model.generate([[]], vocabulary=NO_WORDS, options=Sampling(), seeds=[1], max_new_tokens=1)
    with pytest.raises(UserError, match=r"Bigrams .*ON-LSTM"):
        model.predict_step(batch, 0)
