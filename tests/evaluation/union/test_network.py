import pytest
import torch

from depgen.errors import UserError
from depgen.evaluation.union.network import HEAD, TokenHead, UnionNetwork, segments
from tests.evaluation.union.conftest import small_encoder

TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 6, 5, 3, 0]])
MASK = torch.tensor([[True] * 5, [True] * 4 + [False]])


@pytest.fixture(params=["first", "first_mean_max"])
def network(request):
    torch.manual_seed(0)
    encoder = small_encoder().build(["a b . c d e"], max_length=10)
    return UnionNetwork(encoder.model, pooling=request.param).eval()


def test_the_classifier_sees_the_pooled_states(network):
    states = network.states(TOKENS, MASK)
    logits = []
    for row, length in zip(states, (5, 4), strict=True):
        pooled = row[0]
        if network.pooling == "first_mean_max":
            pooled = torch.cat((row[0], row[:length].mean(0), row[:length].amax(0)))
        logits.append(network.output(torch.tanh(network.dense(pooled))))
    assert torch.allclose(network(TOKENS, MASK), torch.stack(logits), atol=1e-6)


def test_padding_changes_nothing(network):
    padded = torch.nn.functional.pad(TOKENS, (0, 3), value=7)
    found = network(padded, torch.nn.functional.pad(MASK, (0, 3)))
    assert torch.allclose(found, network(TOKENS, MASK), atol=1e-6)


def test_what_is_saved_is_what_is_loaded(network, tmp_path):
    network.save(tmp_path)
    loaded = UnionNetwork.load(tmp_path, pooling=network.pooling)
    assert not loaded.training
    assert torch.allclose(loaded(TOKENS, MASK), network(TOKENS, MASK), atol=1e-6)
    (tmp_path / HEAD).write_bytes(b"cut")
    with pytest.raises(UserError, match="expected a UNION scorer"):
        UnionNetwork.load(tmp_path, pooling=network.pooling)


def test_the_token_head_is_tied_to_the_embedding(network):
    head = TokenHead(network.encoder)
    embedding = network.encoder.get_input_embeddings().weight
    assert all(parameter is not embedding for parameter in head.parameters())
    logits = head(network.states(TOKENS, MASK), embedding)
    assert logits.shape == (2, 5, len(embedding))


def test_segments_number_sentences_and_mark_pairs_seen_before_and_what_is_said_again(network):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, 8, (60, 12), generator=generator)
    found = segments(tokens, [4, 5], sentences=3)
    for row, numbers in zip(tokens.tolist(), found.tolist(), strict=True):
        for place, number in enumerate(numbers):
            sentence = min(2, sum(token in (4, 5) for token in row[:place]))
            pairs = [(row[i - 1], row[i]) for i in range(1, place)]
            before = place > 0 and (row[place - 1], row[place]) in pairs
            again = any(
                row[start : start + size] == row[start + size : start + 2 * size]
                for size in (1, 2, 3, 4)
                for start in range(len(row) - 2 * size + 1)
                if start + size <= place < start + 2 * size
            )
            assert number == sentence + (6 if again else 3 * before)
    assert network.encoder.config.sentence_ends
    told = network.encoder(TOKENS, MASK.long(), segments(TOKENS, network.encoder.config.sentence_ends, sentences=8))
    assert torch.allclose(network.states(TOKENS, MASK), told.last_hidden_state, atol=1e-6)
