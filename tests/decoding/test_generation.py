"""Generation with small step functions, and with the Transformer backbone."""

import logging

import pytest
import torch

from depgen.backbones.transformer import Transformer, TransformerState
from depgen.decoding.generation import generate
from depgen.decoding.sampling import sample
from depgen.decoding.settings import Sampling

EOS = 0


class Rows:
    """A state that remembers every row's tokens."""

    def __init__(self, histories: list[list[int]]) -> None:
        self.histories = histories

    def select(self, rows):
        return Rows([self.histories[row] for row in rows.tolist()])


def counting_step(batch_sizes: list[int]):
    """A step that counts down from the last token of the prompt to eos, and records the sizes of its batches."""

    def step(tokens, padding, state):
        batch_sizes.append(len(tokens))
        padded = torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding
        new = [
            [t for t, p in zip(*row, strict=True) if not p]
            for row in zip(tokens.tolist(), padded.tolist(), strict=True)
        ]
        histories = new if state is None else [old + more for old, more in zip(state.histories, new, strict=True)]
        log_probs = torch.full((len(tokens), 40), -torch.inf)
        for row, history in enumerate(histories):
            assert not history or history == sorted(history, reverse=True), "padding seen as a token, or rows mixed up"
            log_probs[row, max(history[-1] - 1, 0)] = 0.0
        return log_probs, Rows(histories)

    return step


def count_down(prompts, sizes=None, **changes):
    options = {"eos": EOS, "sampling": Sampling(), "seeds": list(range(len(prompts))), "max_new_tokens": 50}
    step = counting_step([] if sizes is None else sizes)
    texts = generate(step, prompts, **{**options, "batch_size": 4, **changes})
    assert [text.log_prob for text in texts] == [0.0] * len(prompts)  # there is never a choice
    return [text.ids for text in texts]


def test_texts_come_in_the_order_of_the_prompts_without_eos():
    prompts = [[9, 5], [3], [39, 20, 11, 7], [1], [30, 2], [8]]
    assert count_down(prompts) == [list(range(prompt[-1] - 1, 0, -1)) for prompt in prompts]


def test_finished_texts_leave_the_batch():
    sizes: list[int] = []
    count_down([[2], [4], [8], [30]], sizes)
    assert sizes[0] == 4
    assert sizes[5] == 2
    assert sizes[-1] == 1
    assert len(sizes) == 30


def test_cut_texts_are_counted(caplog):
    with caplog.at_level(logging.WARNING):
        texts = count_down([[3], [20], [30], [6]], max_new_tokens=5)
    assert texts == [[2, 1], [19, 18, 17, 16, 15], [29, 28, 27, 26, 25], [5, 4, 3, 2, 1]]
    assert "3 of 4 texts were cut at 5 new tokens" in caplog.text  # the last one had no room for its eos


def test_nothing_to_do():
    assert count_down([]) == []
    assert count_down([[5], [4]], max_new_tokens=0) == [[], []]


def test_the_progress_bar_counts_texts(capsys):
    count_down([[3], [4], [5]], progress=True)
    written = capsys.readouterr()
    assert "3/3 texts" in written.err
    assert not written.out


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="a seed for each of the 2 prompts, found 1"):
        count_down([[1], [2]], seeds=[1])
    with pytest.raises(ValueError, match="prompt 1 is empty"):
        count_down([[1], []])


def transformer_step(model: Transformer):
    def step(tokens, padding, state: TransformerState | None):
        output = model(tokens, padding=padding, state=state, carry=True)
        return (output.hidden[:, -1] @ model.output_weight.T).log_softmax(-1), output.state

    return step


def plain_text(model, prompt, seed, sampling, most, least):
    """One text by the book, with its log-probability: the whole prefix is run again for each token."""
    generator, text, total = torch.Generator().manual_seed(seed), [], 0.0
    for _ in range(most):
        hidden = model(torch.tensor([[*prompt, *text]])).hidden[:, -1]
        log_probs = (hidden @ model.output_weight.T).log_softmax(-1)
        possible = log_probs.clone()
        if len(text) < least:
            possible[:, EOS] = -torch.inf
        token = sample(possible, sampling, [generator]).item()
        total += log_probs[0, token].item()
        if token == EOS:
            break
        text.append(token)
    return text, total


@pytest.mark.slow
@pytest.mark.parametrize("least", [0, 12])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_p=0.8, temperature=1.2)], ids=str)
@torch.no_grad()
def test_batches_of_any_size_give_the_texts_of_the_plain_loop(sampling, least):
    torch.manual_seed(0)
    # In double precision: of hundreds of draws at 1e-7 one may well fall between two tokens that change places.
    model = Transformer(30, layers=2, width=16, attention_heads=2, feedforward=32, tied=False).double().eval()
    prompts = [[EOS, *range(1, 1 + item % 7)] for item in range(16)]
    seeds = [100 + item for item in range(16)]
    expected = [plain_text(model, p, s, sampling, 30, least) for p, s in zip(prompts, seeds, strict=True)]
    assert len({len(text) for text, _ in expected}) > 3
    assert min(len(text) for text, _ in expected) >= least
    for batch_size in (1, 7, 64):
        texts = generate(
            transformer_step(model),
            prompts,
            eos=EOS,
            sampling=sampling,
            seeds=seeds,
            max_new_tokens=30,
            batch_size=batch_size,
            min_new_tokens=least,
        )
        assert [text.ids for text in texts] == [text for text, _ in expected]
        assert [text.log_prob for text in texts] == pytest.approx([total for _, total in expected], abs=1e-9)
        assert all(text.structure is None for text in texts)
