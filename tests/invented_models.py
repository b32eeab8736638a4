"""A pretrained model made on the spot, with random weights."""

from pathlib import Path

import torch

END = "<|endoftext|>"


def write_gpt2(folder: Path) -> None:
    """A GPT-2 of two layers with a byte-level tokenizer that ends texts as GPT-2's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=[END], show_progress=False)
    bpe.train_from_iterator(["the cat sat on the mat again"] * 4, trainer)
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 1024}
    config = GPT2Config(vocab_size=bpe.get_vocab_size(), bos_token_id=0, eos_token_id=0, **sizes)
    GPT2LMHeadModel(config).save_pretrained(folder)
    bpe.save(str(folder / "tokenizer.json"))
