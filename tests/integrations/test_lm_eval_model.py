"""lm_eval's requests on our systems: equal to lm_eval's own model class on the same weights, and to `System.score`."""

import numpy as np
import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

import depgen
from depgen.annotation.supar import SuparAnnotator
from depgen.errors import UserError
from depgen.integrations.lm_eval_model import DepgenLM
from tests.decoding.test_projective_trees import crf
from tests.evaluation.test_system import MODELS, TEXTS, system_of
from tests.integrations.conftest import bounding_system
from tests.invented_levels import FULL, small
from tests.invented_models import END

TEXT = "the cat sat on the mat again"
PAIRS = [("", "The cat sat"), ("", TEXT), ("", "the mat cat")]


@pytest.fixture(scope="module")
def models(gpt2):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(gpt2 / "tokenizer.json"), bos_token=END, eos_token=END, pad_token=END
    )
    network = GPT2LMHeadModel.from_pretrained(gpt2).eval()
    return DepgenLM.create_from_arg_string(f"run={gpt2},device=cpu", {"batch_size": 4}), HFLM(
        network, tokenizer=tokenizer, batch_size=4, add_bos_token=True
    )


def requests(kind, *arguments):
    return [Instance(kind, {}, each, place) for place, each in enumerate(arguments)]


def model_of(system, monkeypatch):
    """lm_eval's model around a system that was made here."""
    monkeypatch.setattr("depgen.integrations.lm_eval_model.load", lambda run, **options: system)
    return DepgenLM()


def test_likelihoods_of_texts_are_those_of_lm_eval(models):
    ours, theirs = (model.loglikelihood(requests("loglikelihood", *PAIRS), disable_tqdm=True) for model in models)
    assert [score for score, _ in ours] == pytest.approx([score for score, _ in theirs], abs=1e-5)
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]
    texts = requests("loglikelihood_rolling", (TEXT,), ("the mat",))
    ours, theirs = (model.loglikelihood_rolling(texts, disable_tqdm=True) for model in models)
    assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("name", [*MODELS, "bound"])
def test_likelihoods_are_sums_of_the_systems_own_words(name, monkeypatch):
    system = bounding_system() if name == "bound" else system_of(MODELS[name])
    model, reads = model_of(system, monkeypatch), None if name == "masked" else "document"
    pairs = [("", "the cat ran ."), ("the cat", " ran ."), ("a ", "cat xylophone"), ("the ca", "t ran")]
    words = system.score([context + continuation for context, continuation in pairs], reads=reads)
    words = words[~words["is_end"]]
    sizes = [4, 2, 2, 2]
    expected = [words.loc[words["document"] == k, "log_prob"].tail(size).sum() for k, size in enumerate(sizes, 1)]
    found = model.loglikelihood(requests("loglikelihood", *pairs), disable_tqdm=True)
    assert [score for score, _ in found] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["causal", "documents"])
def test_greedy_continuations_are_known_as_such(name, monkeypatch):
    system = system_of(MODELS[name])
    model = model_of(system, monkeypatch)
    firsts = requests("loglikelihood", *(("", word) for word in ("the", "cat", "dogs", "ran", "a", ".", "x")))
    greedy = [greedy for _, greedy in model.loglikelihood(firsts, disable_tqdm=True)]
    assert greedy == [rank == 1 for rank in system.score(
        [request.args[1] for request in firsts], next_words=True
    ).groupby("document")["first_token_rank"].first()]  # fmt: skip


def test_of_several_lines_the_ends_between_them_count(monkeypatch):
    system = system_of(MODELS["documents"])
    (found,) = model_of(system, monkeypatch).loglikelihood_rolling(
        requests("loglikelihood_rolling", (TEXTS[1],)), disable_tqdm=True
    )
    assert found == pytest.approx(system.score(TEXTS[1])["log_prob"][:-1].sum(), abs=1e-5)


def test_texts_have_bounds_over_sampled_trees(monkeypatch):
    annotator = SuparAnnotator("invented")
    monkeypatch.setattr(annotator, "distributions", lambda sentences: [crf(3) for _ in sentences])
    monkeypatch.setattr("depgen.evaluation.over_trees.parser_named", lambda name: annotator)
    system = bounding_system(small(FULL), FULL)
    model = model_of(system, monkeypatch)
    found = model.loglikelihood(requests("loglikelihood", ("", "a b c"), ("", "c b a")), disable_tqdm=True)
    expected = system.score_over_trees(["a b c", "c b a"], by="document")["log_prob"]
    np.testing.assert_allclose([score for score, _ in found], expected)
    with pytest.raises(UserError, match="take a task without contexts"):
        model.loglikelihood(requests("loglikelihood", ("a", " b c")), disable_tqdm=True)


def test_generated_texts_end_before_a_stop_and_are_the_systems_own(models, gpt2):
    wanted = {"max_gen_toks": 12, "do_sample": False, "temperature": 0.0}
    asked = requests("generate_until", ("the cat", wanted | {"until": ["zzz"]}), ("the", wanted | {"until": "zzz"}))
    found = models[0].generate_until(asked)
    system = depgen.load(gpt2, device="cpu")
    assert found == [system.generate(text, greedy=True, max_new_tokens=12).text[0] for text in ("the cat", "the")]
    stop = found[0][3:5]
    (cut,) = models[0].generate_until(requests("generate_until", ("the cat", wanted | {"until": [stop]})))
    assert cut == found[0][: found[0].index(stop)]
    with pytest.raises(UserError, match="repetition_penalty"):
        models[0].generate_until(requests("generate_until", ("the", {"repetition_penalty": 2.0, "until": []})))
