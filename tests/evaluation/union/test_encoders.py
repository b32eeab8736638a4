import pytest
import torch

from depgen.errors import UserError
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


def test_missing_weights_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(UserError, match="SmallEncoder"):
        PretrainedEncoder(str(tmp_path / "absent")).build([], max_length=8)


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
