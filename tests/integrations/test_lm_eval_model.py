"""lm_eval's requests on our system: equal to lm_eval's own model class on the same weights, and to `System.score`."""

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

import depgen
from depgen.errors import UserError
from depgen.integrations.lm_eval_model import DepgenLM
from tests.invented_models import END

TEXT = "the cat sat on the mat again"
PAIRS = [
    ("the cat", " sat on"), ("", "The cat sat"), ("Question: the mat?\nAnswer:", " again"), ("the cat ", "sat"),
    ("the mat", " on"), ("the mat", " cat"),
]  # fmt: skip


@pytest.fixture(scope="module")
def models(gpt2):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(gpt2 / "tokenizer.json"), bos_token=END, eos_token=END, pad_token=END
    )
    network = GPT2LMHeadModel.from_pretrained(gpt2).eval()
    return DepgenLM.create_from_arg_string(f"run={gpt2},device=cpu", {"batch_size": 4}), HFLM(
        network, tokenizer=tokenizer, batch_size=4
    )


def requests(kind, *arguments):
    return [Instance(kind, {}, each, place) for place, each in enumerate(arguments)]


def test_likelihoods_of_continuations_are_those_of_lm_eval(models):
    ours, theirs = (model.loglikelihood(requests("loglikelihood", *PAIRS), disable_tqdm=True) for model in models)
    assert [score for score, _ in ours] == pytest.approx([score for score, _ in theirs], abs=1e-5)
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]


def test_likelihoods_of_texts_longer_than_the_model_are_those_of_lm_eval(models):
    texts = [(TEXT,), (" ".join([TEXT] * 200),)]
    ours, theirs = (model.loglikelihood_rolling(requests("loglikelihood_rolling", *texts)) for model in models)
    assert ours == pytest.approx(theirs, abs=1e-5 * 2000)
    assert ours[0] == pytest.approx(theirs[0], abs=1e-5)


def test_generated_texts_are_those_of_lm_eval(models):
    wanted = {"max_gen_toks": 12, "do_sample": False}
    asked = [("the cat", wanted | {"until": ["zzz"]}), ("the", wanted | {"until": ["zzz"]})]
    ours, theirs = (model.generate_until(requests("generate_until", *asked)) for model in models)
    assert ours == theirs
    assert all(ours)


def test_options_of_generation_that_we_lack_are_refused(models):
    asked = ("the", {"max_gen_toks": 2, "until": [], "repetition_penalty": 2.0})
    with pytest.raises(UserError, match="found repetition_penalty: leave these out by --gen_kwargs"):
        models[0].generate_until(requests("generate_until", asked))


def test_texts_of_runs_begin_as_in_their_training(gpt2):
    model = DepgenLM(str(gpt2), device="cpu", add_bos_token=True)
    system = depgen.load(gpt2, device="cpu")
    words = system.score(TEXT)["log_prob"]
    ((found, _),) = model.loglikelihood(requests("loglikelihood", ("the cat", TEXT.removeprefix("the cat"))))
    assert found == pytest.approx(words[2:-1].sum(), abs=1e-5)
    (whole,) = model.loglikelihood_rolling(requests("loglikelihood_rolling", (TEXT,)))
    assert whole == pytest.approx(words[:-1].sum(), abs=1e-5)
