"""Systems in a plain Lightning Trainer and in a notebook, without the command line."""

import shutil
from functools import partial

import lightning as L
import pytest
import torch

import depgen
from depgen.annotation.controls import LeftChain
from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.transformer import Transformer
from depgen.data.corpora import TextLines
from depgen.data.corpus import WithSteps
from depgen.data.documents import DocumentData
from depgen.data.generated import GeneratedLanguage
from depgen.data.steps import BareWords, SingleSentences
from depgen.data.text import TextData
from depgen.data.vocabulary import SubwordPieces, WordVocabulary, vocabulary_of_checkpoint
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext
from depgen.models.dmlm import DMLM
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.structformer import StructFormer
from depgen.models.udgn import UDGN
from depgen.training.checkpoints import load_checkpoint
from tests.invented_models import END, write_gpt2
from tests.shape_checks import unchecked

TINY = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8)
LINES = {"train": 12, "valid": 4, "test": 4}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    for name, number in LINES.items():
        lines = (" ".join("abcdefg"[(n * 3 + k) % 7] for k in range(3 + n % 4)) for n in range(number))
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return TextData(TextLines(str(tmp_path), steps=[]), annotator=LeftChain(), tokens_per_batch=20)


def trainer(folder, **options):
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return L.Trainer(default_root_dir=folder, **{"max_epochs": 3, **quiet, **options})


class Phases(L.Callback):
    """Notes the phase that each epoch trains."""

    def __init__(self):
        self.seen = []

    def on_train_epoch_end(self, trainer, model):
        self.seen.append(model.phases[model.phase].name)


def test_phases_follow_each_other_from_the_best_weights(data, tmp_path):
    model, phases = DMLM(TINY, data.vocabulary_size, 1 / 3), Phases()
    fitted = trainer(tmp_path, callbacks=[phases])
    fitted.fit(model, data)
    assert phases.seen == ["dependency_modeling", "language_modeling", "language_modeling"]
    names = {path.name for path in (tmp_path / "checkpoints").glob("*best.ckpt")}
    assert names == {"dependency_modeling-best.ckpt", "best.ckpt"}
    (figures,) = fitted.test(model, data, verbose=False)
    assert {"test/loss", "test/perplexity", "test/word_perplexity", "test/unk_rate"} == figures.keys()
    items, *_ = model.test_scores()
    assert items.tolist() == list(range(LINES["test"]))


@pytest.mark.slow
def test_a_later_fit_begins_with_the_first_phase_and_takes_no_earlier_weights(data, tmp_path):
    model = DMLM(TINY, data.vocabulary_size, 1 / 3)
    trainer(tmp_path).fit(model, data)
    again, phases = DMLM(TINY, data.vocabulary_size, 1 / 3), Phases()
    before = load_checkpoint(tmp_path / "checkpoints" / "dependency_modeling-best.ckpt")["state_dict"]
    for each in (model, again):
        phases = Phases()
        trainer(tmp_path, callbacks=[phases], limit_val_batches=0).fit(each, data)
        assert phases.seen == ["dependency_modeling", "language_modeling", "language_modeling"]
    assert not torch.equal(before["backbone.embedding.weight"], again.state_dict()["backbone.embedding.weight"])


NAME = "depgen.backbones.transformer.Transformer"
SIZES = {"layers": 2, "width": 8, "attention_heads": 2, "feedforward": 8}
LSTM = {"class_path": "depgen.backbones.awd_lstm.AWDLSTM", "init_args": {"layers": 1, "embedding_size": 4}}
ADAM = {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.02}}
WARMUP = {"class_path": "depgen.training.schedules.InverseSquareRoot", "init_args": {"warmup_steps": 7}}
CONTEXT = {"class_path": "depgen.models.dclm.AttentionContext", "init_args": {"size": 4}}
OF_MIXTURE = {
    "attention": "depgen.models.dmlm.QueryKeyAttention",
    "window": 3,
}


def save(model, path):
    saving = L.Trainer(logger=False, accelerator="cpu")
    saving.strategy.connect(model)
    saving.save_checkpoint(path)


@pytest.mark.slow
@unchecked()  # the type checks of these tests know callables alone
def test_what_a_system_makes_is_given_by_class_path_too(tmp_path):
    path = tmp_path / "one.ckpt"
    for kind in (CausalLM, DMLM, MaskedTransformer, StructFormer):
        causal = kind not in (MaskedTransformer, StructFormer)
        block = {"class_path": NAME, "init_args": {**SIZES, "causal": causal}}
        model = kind(backbone=block, vocabulary_size=9)
        assert model.backbone.width == 8
        assert block["init_args"] == {**SIZES, "causal": causal}
        save(model, path)
        for loaded in (each.load_from_checkpoint(path, weights_only=True) for each in (kind, L.LightningModule)):
            assert type(loaded) is kind
            assert all(map(torch.equal, model.state_dict().values(), loaded.state_dict().values()))
    assert CausalLM(NAME, 9).backbone.width == 512
    for wrong, word in (({"class_path": NAME, "init_args": {"layerz": 2}}, "layerz"), ("no.such", "no.such"), (3, "3")):
        with pytest.raises(UserError, match=word):
            CausalLM(wrong, 9)
    for model in (
        DMLM(LSTM, 9, **OF_MIXTURE, optimizer=ADAM, scheduler=WARMUP),
        DCLM(9, CONTEXT, 4, optimizer=ADAM, scheduler=WARMUP),
    ):
        made = model.configure_optimizers()
        assert made["optimizer"].defaults["lr"] == 0.02
        assert type(made["lr_scheduler"]["scheduler"]).__name__ == "InverseSquareRoot"
        save(model, path)
        loaded = type(model).load_from_checkpoint(path, weights_only=True)
        assert loaded.configure_optimizers()["optimizer"].defaults["lr"] == 0.02
        assert all(map(torch.equal, model.state_dict().values(), loaded.state_dict().values()))
    with pytest.raises(UserError, match="lrr"):
        CausalLM(NAME, 9, optimizer={"class_path": "torch.optim.Adam", "init_args": {"lrr": 1.0}})


def of_pretrained(vocabulary_size: int) -> PretrainedTransformer:
    return PretrainedTransformer(vocabulary_size, pretrained="there")


@pytest.mark.parametrize("make", [partial(PretrainedTransformer, pretrained="there"), of_pretrained])
def test_a_checkpoint_of_a_pretrained_network_loads_where_that_is_not(make, data, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_MODELS", str(tmp_path / "models"))
    write_gpt2(tmp_path / "models" / "there")
    pieces = SubwordPieces(tokenizer=str(tmp_path / "models" / "there"), eos_token=END)
    data = TextData(TextLines(str(tmp_path)), vocabulary=pieces, tokens_per_batch=200)
    model, fitted = CausalLM(make, data.vocabulary_size), trainer(tmp_path, max_epochs=1)
    fitted.fit(model, data)
    fitted.save_checkpoint(tmp_path / "one.ckpt")
    shutil.rmtree(tmp_path / "models")
    loaded = depgen.load(tmp_path / "one.ckpt", device="cpu")
    assert all(map(torch.equal, model.state_dict().values(), loaded.model.state_dict().values()))
    assert (loaded.score("a b c")["log_prob"] < 0).all()
    assert loaded.generate(["a b"], max_new_tokens=2).prompt[0] == "a b"


def test_what_a_checkpoint_cannot_hold_is_refused_before_training(data, tmp_path):
    model = DMLM(lambda size: TINY(size), data.vocabulary_size, 1 / 3)
    with pytest.raises(UserError, match=r"backbone: expected .* functools\.partial"):
        trainer(tmp_path).fit(model, data)


def test_the_vocabulary_travels_in_the_checkpoint(data, tmp_path):
    fitted = trainer(tmp_path, max_epochs=1)
    model = CausalLM(TINY, data.vocabulary_size)
    fitted.fit(model, data)
    path = tmp_path / "checkpoints" / "best.ckpt"
    assert vocabulary_of_checkpoint(load_checkpoint(path)).types == data.vocabulary.types
    alone = depgen.load(path, device="cpu")
    assert alone.vocabulary.types == data.vocabulary.types
    assert (alone.score("a b c")["log_prob"] < 0).all()
    fitted.test(model, data, ckpt_path=path, weights_only=True, verbose=False)
    (tmp_path / "train.txt").write_text("x y z x y\n" * 12)
    other = TextData(TextLines(str(tmp_path)), tokens_per_batch=20)
    assert other.vocabulary.types != data.vocabulary.types
    with pytest.raises(UserError, match=r"another vocabulary.*use_vocabulary"):
        trainer(tmp_path).test(model, other, ckpt_path=path, weights_only=True, verbose=False)


STORIES = GeneratedLanguage(train=4, valid=2, test=2, sentences=(5, 5))
PARSES = {"width": 8, "layers": 1, "attention_heads": 2, "head_size": 4, "parser_layers": 1}
READINGS = {
    "documents": (
        partial(DCLM, context=partial(ContextToContext, size=6), embedding_size=6),
        lambda: DocumentData(STORIES, duplicate_final_word=True, eval_sentences_per_segment=2),
        Reading(final_word_twice=True, longest=2),
    ),
    "bare words": (
        partial(UDGN, **PARSES),
        lambda: TextData(
            WithSteps(STORIES, steps=[SingleSentences(), BareWords()]), vocabulary=WordVocabulary(masks=True)
        ),
        Reading("bare"),
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_checkpoint_alone_is_given_texts_as_in_its_training(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    make, data_of, reading = READINGS[name]
    data, fitted = data_of(), trainer(tmp_path, max_epochs=1, limit_train_batches=1)
    model = make(data.vocabulary_size)
    fitted.fit(model, data)
    fitted.save_checkpoint(tmp_path / "alone" / "one.ckpt")
    system = depgen.load(tmp_path / "alone" / "one.ckpt", device="cpu")
    assert system.reading == reading
    if name == "bare words":  # without a `form`
        assert system.parse(["The mother ran ."]).read[0] == (True, True, True, False)
    predicted = fitted.predict(model, data)
    batch = next(iter(data.predict_dataloader()))
    parses = name == "bare words"
    with torch.no_grad():
        model.eval()
        expected = model.head_probabilities(batch.tokens, batch.lengths) if parses else model(batch)
    torch.testing.assert_close(predicted[0], expected)
    assert sum(map(len, predicted)) == len(data.predict_dataloader().dataset)
