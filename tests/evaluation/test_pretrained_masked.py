"""Pseudo-likelihoods of pretrained masked models against minicons."""

import numpy as np
import pytest
import torch

import depgen
from depgen.errors import UserError

TEXTS = ["the cats sat on the mat.", "cat", "catsing sating, matsings the xyzzy mats."]
PIECES = ["the", "cat", "sat", "on", "mat", "##s", "##ing", ".", ","]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request, tmp_path_factory):
    """A BERT with WordPiece, or a RoBERTa with byte-level BPE, with random weights."""
    from tokenizers import Tokenizer, processors
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast, RobertaConfig, RobertaForMaskedLM

    from tests.invented_models import write_gpt2

    place, sizes = tmp_path_factory.mktemp("masked") / request.param, {"hidden_size": 16, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 32, "initializer_range": 0.5}
    torch.manual_seed(0)
    if request.param == "bert":
        place.mkdir()
        (place / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES]))
        BertForMaskedLM(BertConfig(vocab_size=14, max_position_embeddings=20, **sizes)).save_pretrained(place)
        BertTokenizerFast(str(place / "vocab.txt")).save_pretrained(place)
        return place
    from transformers import PreTrainedTokenizerFast

    write_gpt2(place)
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    ids = {spelling: tokenizer.token_to_id(spelling) for spelling in ("<s>", "<pad>", "</s>")}
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=False
    )
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    named = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": spelling for name, spelling in names.items()}
    )
    (place / "model.safetensors").unlink()
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=60, pad_token_id=ids["<pad>"], **sizes
    )
    config.max_position_embeddings += ids["<pad>"]
    RobertaForMaskedLM(config).save_pretrained(place)
    named.save_pretrained(place)
    return place


@pytest.mark.parametrize("masking", [None, "original", "within_word_l2r"])
def test_words_are_those_of_minicons(folder, masking):
    from minicons.scorer import MaskedLMScorer
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.batch_encode_plus = tokenizer  # which minicons calls, and newer versions of the library lack
    network = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float64).eval()
    scorer = MaskedLMScorer(network, "cpu", tokenizer=tokenizer)
    system = depgen.load(folder, device="cpu", dtype="float64")
    texts = [*TEXTS, f"the {tokenizer.mask_token} sat"]
    table = system.score(texts, masking=masking)
    assert set(table["likelihood"]) == {"pseudo"}
    assert set(table["masking"]) == {masking or "original"}
    for number, text in enumerate(texts, start=1):
        ours = table[table["document"] == number]
        (pairs,) = scorer.token_score([text], PLL_metric=masking or "original")
        assert len(pairs) == ours["tokens"].sum()
        bounds = np.cumsum([0, *ours["tokens"]])[:-1]
        expected = np.add.reduceat([score for _, score in pairs], bounds)
        np.testing.assert_allclose(ours["log_prob"], expected, rtol=0, atol=1e-5)
    other = system.score(texts, masking="within_word_l2r" if masking != "within_word_l2r" else "original")
    assert not np.allclose(other["log_prob"], table["log_prob"])
    assert "pseudo_perplexity" in system.score(TEXTS, by="all")


def test_the_context_is_what_fits_between_the_tokens_around_a_text(folder):
    system = depgen.load(folder, device="cpu")
    most = system.model.longest_scored
    assert np.isfinite(system.score(" ".join(["."] * (most // 2)))["log_prob"]).all()
    with pytest.raises(UserError, match=rf"at most {most} tokens"):
        system.score(" ".join(["mat"] * (most + 1)))


@pytest.mark.parametrize("options", [{"begin": "none"}, {"stride": 3}, {"bow_correction": True}, {"next_words": True}])
def test_what_is_of_causal_models_is_refused(folder, options):
    with pytest.raises(UserError, match=next(iter(options))):
        depgen.load(folder, device="cpu").score("the cat", **options)
