"""Tiny pretrained models, made on the spot with random weights; a tiny run of a system that parses."""

import pytest
import torch

from tests.invented_data import write_corpora
from tests.invented_graphs import ROOTS, write_graph_runs
from tests.invented_models import write_bert, write_udgn_run

SENTENCE = "the old dog cat saw slept and ran by a river hill . quickly they it was late"
WORDS = SENTENCE.split()


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory):
    """The folder of a GPT-2 with a byte-level tokeniser, whose own BOS is never to be used."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny-gpt2"
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<bos>"], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator([SENTENCE] * 4, trainer)
    bpe.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<bos>")
    assert tokenizer("cat")["input_ids"][0] == 0
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=40, initializer_range=0.6,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """The folder of a BERT over whole words."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    write_bert(folder, WORDS, length=24)
    return folder


@pytest.fixture(scope="package")
def parsing_place(made_once):
    """A folder with invented corpora (`data`) and a UDGN trained on bare words of a treebank (`runs/udgn/...`)."""

    def make(folder):
        write_corpora(folder / "data")
        with pytest.MonkeyPatch.context() as patch:
            for name in ("data", "cache"):
                patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
            steps = ["depgen.data.steps.SingleSentences", "depgen.data.steps.BareWords"]
            corpus = {"class_path": "depgen.data.corpora.Ewt", "init_args": {"steps": steps}}
            write_udgn_run(folder / "runs", corpus=corpus)

    return made_once("parsing", make)


@pytest.fixture
def parsing_run(parsing_place, monkeypatch):
    """The run's folder, found by name too."""
    for name in ("data", "cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(parsing_place / name))
    (run,) = (parsing_place / "runs" / "udgn").iterdir()
    return run


@pytest.fixture(scope="session")
def graph_place(made_once):
    """A folder with two runs of GiLT, `gilt` of words and `pieces` of pieces of words."""
    return made_once("graphs", write_graph_runs)


@pytest.fixture
def graph_runs(graph_place, monkeypatch):
    """The same, found by name."""
    for root in ROOTS:
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(graph_place / root))
    return graph_place
