"""Systems by name: paths, runs, pretrained folders and the hub cache; pretrained models against the library itself."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.trained import located
from tests.fixtures.make import trained
from tests.invented_models import write_gpt2

TEXTS = ["the cat sat on the mat again", "The quizzical platypus, again!", "mat"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders as on a user's machine: `models/tiny`, and a hub cache with `owner/hubbed`."""
    folder = tmp_path_factory.mktemp("names")
    write_gpt2(folder / "models" / "tiny")
    cached = folder / "hub" / "models--owner--hubbed"
    shutil.copytree(folder / "models" / "tiny", cached / "snapshots" / "abc")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    return folder


@pytest.fixture(autouse=True)
def environment(place, monkeypatch):
    monkeypatch.setenv("DEPGEN_MODELS", str(place / "models"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place / "hub"))


def sums(scores):
    """The log-probability of each text."""
    return scores.groupby("document")["log_prob"].sum().tolist()


def by_transformers(folder, text, *, space, dtype=torch.float32):
    """Nats of all tokens of a text and its end, by the library's own network and tokenizer."""
    from tokenizers import Tokenizer
    from transformers import GPT2LMHeadModel

    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(f" {text}" if space else text).ids
    tokens = torch.tensor([[0, *ids, 0]])
    with torch.no_grad():
        log_probs = GPT2LMHeadModel.from_pretrained(folder, dtype=dtype).eval()(tokens[:, :-1]).logits.log_softmax(-1)
    return log_probs[0].gather(1, tokens[0, 1:, None]).sum().item()


@pytest.mark.parametrize("space", [None, False, True])
def test_a_pretrained_model_scores_without_training_as_the_library_does(place, space):
    system = depgen.load("tiny", device="cpu", first_word_space=space)
    found = sums(system.score(TEXTS))
    folder = place / "models" / "tiny"
    assert found == pytest.approx([by_transformers(folder, text, space=bool(space)) for text in TEXTS], abs=1e-5)
    other = [by_transformers(folder, text, space=not space) for text in TEXTS]
    assert all(abs(one - two) > 1e-2 for one, two in zip(found, other, strict=True))


def test_states_equal_those_of_the_library_and_are_pooled_by_word(place):
    from tokenizers import Tokenizer
    from transformers import GPT2Model

    folder, text = place / "models" / "tiny", "The quizzical cat sat"
    encoding = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text)
    system, owner = depgen.load("tiny", device="cpu"), np.array(encoding.word_ids)
    assert (np.bincount(owner) > 2).any()
    with torch.no_grad():
        tokens = torch.tensor([[0, *encoding.ids]])
        layers = GPT2Model.from_pretrained(folder).eval()(tokens, output_hidden_states=True).hidden_states
    for layer in (-1, 0, 1, 2):
        states = layers[layer][0, 1:].numpy()
        for pooling, pool in {"last": lambda s: s[-1], "first": lambda s: s[0], "mean": lambda s: s.mean(0)}.items():
            expected = np.stack([pool(states[owner == word]) for word in range(4)])
            found = system.states(text, layer, pooling=pooling).filter(like="state_")
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_words_cut_by_rules_are_no_raw_text_to_a_pretrained_model(place, caplog):
    system = depgen.load("tiny", device="cpu")
    raw = sums(system.score("The cat sat."))
    assert not caplog.messages
    assert sums(system.score("The cat sat.", tokens="rules")) != pytest.approx(raw)
    assert "learnt from raw text" in caplog.messages[-1]


def test_names_are_looked_up_in_order_and_nothing_is_fetched(place, monkeypatch, tmp_path):
    models = place / "models"
    assert located("tiny") == ("pretrained", models / "tiny")
    assert located(str(models / "tiny")) == ("pretrained", models / "tiny")
    assert located("owner/hubbed") == ("pretrained", place / "hub" / "models--owner--hubbed" / "snapshots" / "abc")
    run = tmp_path / "runs" / "tiny" / "2026-01-01_00-00-00"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "best.ckpt").touch()
    (run / "run.json").write_text(json.dumps({"started": "2026-01-01T00:00:00+00:00"}))
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    with pytest.raises(UserError, match=r"Expected one system of the name tiny, found several: .*\(run\); .*\(pretr"):
        located("tiny")
    shutil.copytree(models / "tiny", tmp_path / "elsewhere" / "tiny")
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "elsewhere")
        with pytest.raises(UserError, match=r"several: .*\(pretrained\); .*\(run\); .*\(pretrained\)"):
            located("tiny")
    assert located(run) == located("tiny/2026-01-01_00-00-00") == ("run", run)
    assert located(str(run / "checkpoints" / "best.ckpt")) == ("run", run / "checkpoints" / "best.ckpt")
    monkeypatch.chdir(tmp_path / "runs")
    assert located("./tiny") == ("run", Path("tiny/2026-01-01_00-00-00"))
    monkeypatch.setattr("socket.socket.connect", None)
    with pytest.raises(UserError, match=r"(?s)no system tinyy: .*DEPGEN_RUNS.*DEPGEN_MODELS.*mean 'tiny'"):
        located("tinyy")


def test_weights_may_have_another_type(place):
    system = depgen.load("tiny", device="cpu", dtype="float64")
    assert system.model.backbone.output_weight.dtype == torch.float64
    folder, texts = place / "models" / "tiny", [*TEXTS, " ".join(TEXTS * 8)]
    exact = [by_transformers(folder, text, space=False, dtype=torch.float64) for text in texts]
    assert sums(system.score(texts)) == pytest.approx(exact, rel=0, abs=1e-10)
    with pytest.raises(UserError, match=r"float32, float64, bfloat16.* found int8"):
        depgen.load("tiny", device="cpu", dtype="int8")


def write_llama(folder: Path, template: str | None, **ids: Any) -> None:
    """A Llama with random weights over the pieces of the folder's GPT-2, with further special tokens."""
    from tokenizers import Tokenizer, processors
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["<s>", "</s>", "<|im_start|>"])
    if template is not None:
        known = [(template, tokenizer.token_to_id(template))]
        tokenizer.post_processor = processors.TemplateProcessing(f"{template} $A", special_tokens=known)
    (folder / "model.safetensors").unlink()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=24, max_position_embeddings=64, initializer_range=0.5,
        **{f"{name}_token_id": tokenizer.token_to_id(spelling) for name, spelling in ids.items() if spelling},
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    content = json.loads((folder / "config.json").read_text())
    absent = {f"{name}_token_id": None for name, spelling in ids.items() if not spelling}
    (folder / "config.json").write_text(json.dumps(content | absent))
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("template", "bos", "eos", "begin"),
    [
        ("<s>", "</s>", "</s>", "<s>"),  # what the tokenizer puts there
        (None, "<s>", "</s>", "<s>"),
        (None, None, "</s>", "</s>"),
        (None, "<|im_start|>", "</s>", "<|endoftext|>"),  # the mark of a role begins no text
        ("<s>", None, None, "<s>"),
    ],
)
def test_a_text_begins_as_the_model_has_learnt_it(place, tmp_path, template, bos, eos, begin):
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    folder = Path(shutil.copytree(place / "models" / "tiny", tmp_path / "llama"))
    write_llama(folder, template, bos=bos, eos=eos)
    tokenizer, network = Tokenizer.from_file(str(folder / "tokenizer.json")), LlamaForCausalLM.from_pretrained(folder)
    system = depgen.load(folder, device="cpu")
    words = system.score(TEXTS)
    for text, ours in zip(TEXTS, sums(words[~words["is_end"]]), strict=True):
        ids = [tokenizer.token_to_id(begin), *tokenizer.encode(text, add_special_tokens=False).ids]
        with torch.no_grad():
            log_probs = network.eval()(torch.tensor([ids])).logits[0].log_softmax(-1)
        assert ours == pytest.approx(log_probs[:-1].gather(1, torch.tensor(ids[1:])[:, None]).sum().item(), abs=1e-4)
    text = system.generate("The cat", number=1, max_new_tokens=3, top_p=0.01)["text"][0]
    ids = [tokenizer.token_to_id(begin), *tokenizer.encode("The cat", add_special_tokens=False).ids]
    with torch.no_grad():
        drawn = network.generate(torch.tensor([ids]), max_new_tokens=3, do_sample=False, eos_token_id=-1)
    assert text == tokenizer.decode(drawn[0, len(ids) :].tolist()).strip()


def test_tokenizers_that_join_words_are_refused(place, tmp_path):
    from tokenizers import Tokenizer, normalizers

    copy = shutil.copytree(place / "models" / "tiny", tmp_path / "other")
    tokenizer = Tokenizer.from_file(str(copy / "tokenizer.json"))
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.save(str(copy / "tokenizer.json"))
    with pytest.raises(UserError, match=r"tokenizer\.json: .*each word by itself"):
        depgen.load(copy, device="cpu")


@pytest.mark.slow
def test_the_lines_of_the_guide_run(place, tmp_path, monkeypatch):
    shutil.copytree(place / "models" / "tiny", tmp_path / "gpt2")
    monkeypatch.setenv("DEPGEN_MODELS", str(tmp_path))
    trained(tmp_path, "udgn")
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    guide = Path("experiments/guides/scoring.md").read_text(encoding="utf-8")
    section = guide.split("## In Python\n")[1].split("\n## ")[0]
    assert section.count("\n") <= 30
    names = {}
    exec(section.split("```python\n")[1].split("```")[0], names)
    assert names["scores"]["word"].tolist()[:2] == ["The", "cat"]
    assert len(names["texts"]) == 4
    assert names["states"].filter(like="state_").shape == (3, 16)
    assert names["weights"].shape[0] >= 3
    assert [token.text for token in names["docs"][0]] == ["The", "cat", "sat", "on", "the", "mat."]
    assert len(names["heads"]) == 6
    assert names["conllu"].count("\troot\t") == 1
    alone = names["scores"].loc[names["scores"]["document"] == 2, "surprisal"].sum()
    assert names["after"]["surprisal"].sum() != pytest.approx(alone, abs=1e-3)


def test_the_command_scores_a_pretrained_model(place, tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXTS))
    assert main(["score", str(path), "--run", "tiny", "--by", "sentence", "--json", "--device", "cpu"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = sums(depgen.load("tiny", device="cpu").score(TEXTS))
    assert [row["log_prob"] for row in rows] == pytest.approx(expected, abs=1e-5)
    options = ["--run", "tiny", "--by", "word", "--next_words", "--first_word_space", "true", "--device", "cpu"]
    assert main(["score", str(path), *options]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert {"first_token_entropy", "first_token_rank"} <= {*head.split("\t")}
    assert float(first.split("\t")[head.split("\t").index("log_prob")]) != pytest.approx(rows[0]["log_prob"], abs=1e-3)
