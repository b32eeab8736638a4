"""Networks of the transformers library against the library itself: states, attention, carried keys, sizes, files."""

import copy
import json
import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.data.vocabulary import SubwordPieces, load_vocabulary
from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import best_checkpoint
from tests.backbones.conftest import VOCABULARY, words
from tests.fixtures.kinds import named
from tests.invented_models import configured, write_gpt2_run, write_udgn_run

ARCHITECTURES = {
    "gpt2": {"dropout": 0.0, "settings": {"scale_attn_by_inverse_layer_idx": True}},
    "llama": {"settings": {"num_key_value_heads": 2}},
    "qwen2": {"settings": {"num_key_value_heads": 1}},
    "opt": {"dropout": 0.0, "settings": {"word_embed_proj_dim": 8}},
}
SPREAD = 0.3
"""Standard deviation of random weights: large, so that what is wrong shows."""


def small(model_type="gpt2", *, settings=None, **options):
    torch.manual_seed(0)
    sizes = {"layers": 3, "width": 8, "attention_heads": 4, "max_length": 20, **options}
    spread = {"init_std" if model_type == "opt" else "initializer_range": SPREAD}
    return configured(VOCABULARY, model_type=model_type, **sizes, settings={**spread, **(settings or {})})


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return small(request.param, **ARCHITECTURES[request.param]).eval()


def library(model):
    """The same network with the library's own attention."""
    reference = AutoModelForCausalLM.from_config(copy.deepcopy(model.config), attn_implementation="eager")
    reference.load_state_dict(model.network.state_dict())
    return reference.eval()


def logits(model, tokens, **options):
    return torch.nn.functional.linear(model(tokens, **options).hidden, model.output_weight, model.output_bias)


@pytest.mark.parametrize("attention_layer", [None, -2, 0])
@torch.no_grad()
def test_logits_attention_and_layers_are_the_librarys(model, attention_layer):
    tokens = words(3, 7)
    expected = library(model)(tokens, output_attentions=True, output_hidden_states=True)
    torch.testing.assert_close(logits(model, tokens, attention_layer=attention_layer), expected.logits)
    output = model(tokens, attention_layer=attention_layer, all_layers=True)
    torch.testing.assert_close(output.layers, expected.hidden_states)
    assert torch.equal(output.hidden, output.undropped)
    if attention_layer is None:
        assert output.attention is None
    else:
        torch.testing.assert_close(output.attention.exp(), expected.attentions[attention_layer])
        assert output.attention[:, :, 0, 1:].isneginf().all()


# -- score functions ----------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_score_function_reads_the_very_products_that_it_adds_to(model):
    """Once they are taken away, every query sees all its keys alike."""

    def opposite(layer, queries, keys):
        shared = queries.size(1) // keys.keys.size(1)  # heads that share a key
        return -(queries @ keys.keys.repeat_interleave(shared, 1).mT) / queries.size(-1) ** 0.5

    for layer in range(3):
        weights = model(words(2, 5), score_function=opposite, attention_layer=layer).attention.exp()
        even = torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None]
        torch.testing.assert_close(weights, even.expand_as(weights), atol=1e-5, rtol=1e-5)


def test_attention_dropout_mixes_values_but_leaves_the_distribution_whole():
    model = small(dropout=0.0, attention_dropout=0.5).train()
    tokens = words(2, 7)
    kept = [model(tokens, attention_layer=0) for _ in range(2)]
    assert torch.equal(kept[0].attention, kept[1].attention)  # layer 0 reads what no dropout has touched
    assert not torch.allclose(kept[0].hidden, kept[1].hidden)
    sums = model(tokens, attention_layer=-2).attention.exp().sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    still = small(dropout=0.0, attention_dropout=0.0).train()
    assert torch.equal(still(tokens).hidden, still(tokens).hidden)


def test_gradients_reach_every_weight_through_values_and_attention(model):
    output = model.train()(words(2, 6), attention_layer=-2)
    (output.hidden.sum() + output.attention.clamp_min(-50).logsumexp(1).square().sum()).backward()
    torch.testing.assert_close(output.attention.exp().sum(-1), torch.ones(2, 4, 6))
    untouched = [name for name, each in model.named_parameters() if each.grad is None]
    assert untouched in ([], ["network.lm_head.weight"])


def test_sizes_of_gpt2_base():
    with torch.device("meta"):
        model = PretrainedTransformer(50257)
    assert sum(each.numel() for each in model.parameters()) == 124_439_808
    assert (model.width, model.attention_layers, model.max_length, model.causal) == (768, 12, 1024, True)


def test_what_it_has_found_out_makes_the_same_network_again():
    model = small("qwen2", attention_dropout=0.25)
    found = dict(model.arguments_found)
    again = PretrainedTransformer(VOCABULARY, pretrained="no/such/folder", **found)
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again.eval()(words(2, 5)).hidden, model.eval()(words(2, 5)).hidden)
    assert again.config.attention_dropout == 0.25
    assert "/" not in found["architecture"]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request, tmp_path_factory):
    """A pretrained model of the library's own making, tied or not."""
    made = library(small(request.param))
    path = tmp_path_factory.mktemp("models") / request.param
    made.save_pretrained(path)
    return path


def test_a_pretrained_model_predicts_what_the_library_predicts(folder, monkeypatch):
    monkeypatch.setenv("DEPGEN_MODELS", str(folder.parent))
    for name in (str(folder), folder.name):
        model = PretrainedTransformer(VOCABULARY, pretrained=name, layers=3).eval()
        expected = AutoModelForCausalLM.from_pretrained(folder)(words(2, 6)).logits
        torch.testing.assert_close(logits(model, words(2, 6)), expected)
        assert str(folder.parent) not in json.dumps(dict(model.arguments_found))


def test_what_is_saved_is_loaded_by_the_library(folder, tmp_path):
    model = PretrainedTransformer(VOCABULARY, pretrained=str(folder)).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn(each.shape, generator=torch.Generator().manual_seed(3)), alpha=0.1)
    model.save(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(again(words(2, 6)).logits, logits(model, words(2, 6)))
    is_tied = again.lm_head.weight is again.get_input_embeddings().weight
    assert is_tied == (folder.name == "gpt2")
    assert again.config._attn_implementation == "sdpa"
    assert str(folder.parent) not in (tmp_path / "config.json").read_text()


def tokenizer_of(size):
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({f"w{number}": number for number in range(size)}, unk_token="w0"))


def test_rows_must_be_those_of_the_vocabulary_or_of_the_models_own_tokenizer(folder):
    with pytest.raises(UserError, match=r"11 rows .* vocabulary has 9"):
        PretrainedTransformer(9, pretrained=str(folder))
    tokenizer = folder / "tokenizer.json"
    tokenizer_of(9).save(str(tokenizer))
    try:
        cut = PretrainedTransformer(9, pretrained=str(folder)).eval()
        whole = PretrainedTransformer(VOCABULARY, pretrained=str(folder)).eval()
        with pytest.raises(UserError, match=r"9 tokens of its tokenizer.* vocabulary has 8"):
            PretrainedTransformer(8, pretrained=str(folder))
    finally:
        tokenizer.unlink()
    tokens = words(2, 6).clamp_max(8)
    assert cut.output_weight.shape == (9, 8)
    torch.testing.assert_close(logits(cut, tokens), logits(whole, tokens)[..., :9])


def test_texts_beyond_the_positions_are_refused():
    model = small(max_length=6)
    state = model(words(1, 4), carry=True).state
    model(words(1, 2), state=state)
    with pytest.raises(UserError, match="7 tokens does not fit into the 6"):
        model(words(1, 3), state=state)
    assert small("mistral", settings={"sliding_window": 5}).max_length == 5


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"model_type": "gemma2"}, UserError, "softcap"),
    ({"model_type": "gpt_oss"}, UserError, "s_aux"),
    ({"model_type": "cohere"}, UserError, "its logits are not those"),
    ({"model_type": "gptj"}, RuntimeError, "must match"),
    ({"model_type": "stablelm"}, UserError, "what the model was called with"),
    ({"model_type": "nosuch"}, ValueError, "nosuch"),
    ({"model_type": "llama", "dropout": 0.1}, UserError, "llama has no dropout"),
])  # fmt: skip
def test_architectures_that_are_read_otherwise_are_refused(options, error, said):
    with pytest.raises(error, match=said):
        small(**options)


@pytest.mark.parametrize(("options", "said"), [
    ({"layers": 4}, "num_hidden_layers 3, not 4"),
    ({"model_type": "qwen2"}, "model_type"),
    ({"pretrained": "owner/model"}, r"owner/model.*DEPGEN_MODELS.*hf download"),
])  # fmt: skip
def test_what_a_pretrained_model_is_not_is_refused(options, said, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    library(small("llama")).save_pretrained(tmp_path / "llama")
    with pytest.raises(UserError, match=said):
        PretrainedTransformer(VOCABULARY, **{"pretrained": str(tmp_path / "llama"), **options})


def test_weights_that_do_not_fit_their_configuration_are_refused(folder, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "n_inner": 12, "intermediate_size": 12}))
    with pytest.raises(UserError, match=r"config\.json does not fit the weights: .* \[.*12\], found \[.*32\]"):
        PretrainedTransformer(VOCABULARY, pretrained=str(model))


# -- begun from a run -------------------------------------------------------------------------------------------------

STORIES = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of runs: of a GPT-2, and of another system."""
    folder = tmp_path_factory.mktemp("runs")
    write_gpt2_run(folder, corpus=STORIES)
    write_udgn_run(folder, corpus=STORIES)
    return folder


@pytest.fixture
def run(runs, monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_RUNS", str(runs))
    monkeypatch.setenv("DEPGEN_MODELS", str(tmp_path))
    (found,) = (runs / "gpt2").iterdir()
    return found


@pytest.mark.slow
@torch.no_grad()
def test_the_best_weights_of_a_run_are_taken_by_name_and_by_folder(run):
    vocabulary = SubwordPieces(tokenizer="gpt2").build(())
    assert vocabulary.types == load_vocabulary(run / "vocabulary.json").types
    kept = load_checkpoint(best_checkpoint(run))["state_dict"]
    tokens = torch.arange(12).view(2, 6)
    for name in ("gpt2", str(run), f"gpt2/{run.name}"):
        torch.manual_seed(5)
        network = PretrainedTransformer(vocabulary.size, pretrained=name, dropout=0.4).eval()
        assert (network.attention_layers, network.width, network.max_length) == (2, 16, 256)
        assert network.config.resid_pdrop == 0.4
        for key, value in network.network.state_dict().items():
            assert torch.equal(value, kept[f"backbone.network.{key}"])
        torch.testing.assert_close(logits(network, tokens), library(network)(tokens).logits)
    alone = PretrainedTransformer(vocabulary.size, **network.arguments_found)
    assert alone.config.resid_pdrop == 0.4, "a checkpoint carries what it found"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "vocabulary", "options", "said"), [
    ("gpt2", 299, {}, r"gpt2 has 300 rows .* has 299.*tokenizer: gpt2"),
    ("gpt2", 300, {"layers": 3}, "gpt2 has num_hidden_layers 2, not 3"),
    ("udgn", 300, {}, r"pretrained: expected a run of a network of transformers.*udgn/"),
])  # fmt: skip
def test_runs_that_do_not_serve_are_refused(run, name, vocabulary, options, said):
    with pytest.raises(UserError, match=said):
        PretrainedTransformer(vocabulary, pretrained=name, **options)
