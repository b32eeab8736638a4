import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from depgen.annotation.annotator import files_digest
from depgen.errors import UserError
from depgen.evaluation.pretrained import ModelWithTokenizer
from depgen.evaluation.union import encoders
from depgen.evaluation.union.encoders import LIKENESS, EncoderSource, PretrainedEncoder
from tests.evaluation.union.conftest import small_encoder

TEXTS = ["a dog saw [MALE] .", "a cat saw a dog ."]


def test_a_small_encoder_reads_whole_lower_cased_words_of_its_texts():
    encoder = small_encoder(layers=2, min_count=2).build(TEXTS, max_length=9)
    assert isinstance(small_encoder(), EncoderSource)
    tokenizer, model = encoder.tokenizer, encoder.model
    assert sorted(tokenizer.get_vocab()) == sorted(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "saw", "."]
    )
    ids = tokenizer(["A dog saw [MALE]"])["input_ids"][0]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "a", "dog", "saw", "[UNK]", "[SEP]"]
    assert len(tokenizer(["a " * 20], truncation=True, max_length=9)["input_ids"][0]) == 9
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (2, 32)
    assert model(torch.tensor([ids])).last_hidden_state.shape == (1, 6, 32)
    assert "2 x 32, 9 words, from scratch" in encoder.name


def test_its_embeddings_begin_as_word_vectors():
    norms = {
        window: small_encoder(window=window)
        .build(TEXTS, max_length=9)
        .model.embeddings.word_embeddings.weight.norm(dim=1)
        for window in (0, 3)
    }
    assert norms[3][5:].mean() > 1.5 * norms[0][5:].mean()
    assert norms[3][:5].mean() < 1.5 * norms[0][5:].mean()


def test_a_pretrained_encoder_comes_with_its_own_tokenizer(tiny_bert):
    encoder = PretrainedEncoder(str(tiny_bert)).build([], max_length=24)
    assert encoder.name == tiny_bert.name
    assert encoder.tokenizer.mask_token == "[MASK]"
    with pytest.raises(UserError, match="reads 24 tokens"):
        PretrainedEncoder(str(tiny_bert)).build([], max_length=25)


def test_other_weights_of_the_same_name_are_another_encoder(tiny_bert, tmp_path):
    folder = tmp_path / "bert"
    shutil.copytree(tiny_bert, folder)
    encoder = PretrainedEncoder(str(folder))
    before = encoder.options()
    assert before["name"] == str(folder)
    assert encoder.options() == before
    weights = load_file(folder / "model.safetensors")
    name, value = next((name, value) for name, value in weights.items() if value.is_floating_point())
    save_file({**weights, name: value + 1.0}, folder / "model.safetensors", metadata={"format": "pt"})
    after = encoder.options()
    assert after != before
    assert after.keys() == before.keys()


def test_missing_weights_are_refused_with_the_way_out(tmp_path):
    encoder = PretrainedEncoder(str(tmp_path / "absent"))
    with pytest.raises(UserError, match="SmallEncoder"):
        encoder.build([], max_length=8)
    with pytest.raises(UserError, match="SmallEncoder"):
        encoder.options()


def test_what_is_fetched_is_known_by_its_files(tiny_bert, monkeypatch):
    at_hand = []

    def fetch(name, kind, *, download):
        assert (name, kind, download) == ("owner/bert", "encoder", True)
        at_hand.append(tiny_bert)
        return ModelWithTokenizer(None, None, name)

    monkeypatch.setattr(encoders, "load_pretrained", fetch)
    monkeypatch.setattr(encoders, "model_folder", lambda name: at_hand[0] if at_hand else None)
    found = PretrainedEncoder("owner/bert", download=True)
    assert found.options() == found.options() == {"name": "owner/bert", "files": files_digest(tiny_bert)}
    assert len(at_hand) == 1


def test_equal_states_begin_with_the_given_score_and_other_ones_with_less():
    model = small_encoder(width=64).build(TEXTS, max_length=9).model
    attention = model.encoder.layer[0].attention.self
    states = torch.nn.functional.layer_norm(torch.randn(50, 64, generator=torch.Generator().manual_seed(0)), (64,))
    for head in range(2):
        rows = slice(32 * head, 32 * head + 32)
        queries, keys = states @ attention.query.weight[rows].T, states @ attention.key.weight[rows].T
        scores = queries @ keys.T / 32**0.5
        assert scores.diagonal().mean().item() == pytest.approx(LIKENESS, rel=0.1)
        others = scores[~torch.eye(50, dtype=torch.bool)]
        assert abs(others.mean().item()) < 0.2
        assert scores.diagonal().min() > others.mean() + 2 * others.std()
