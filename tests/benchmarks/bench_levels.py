"""Iterative expansion against a Transformer of its depth and width: writing, by the size of the batch.

The weights are random, so lengths and trees are fixed: both systems write sentences of the same lengths, drawn as those
of news (5 to 49 words, 27 in the mean). ITEXP gets binarised trees over them as skeletons, with levels 45 % of the
words as in news: it computes the expansions and draws the words. The Transformer, with cached keys, draws `<eos>` at
the end of each length and nowhere else. Both draw from the nucleus of 0.9, at a temperature of 0.25, since the
distributions of random weights are flat and their nuclei larger than those of trained ones.
"""

from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from depgen.backbones.transformer import Transformer
from depgen.data.levels import with_placeholders
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generation import StepState, generate
from depgen.decoding.settings import Sampling
from depgen.models.causal_lm import CausalLM
from depgen.models.itexp import ITEXP, ExpansionOptions
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.benchmarks.figures import figure, seconds, write_figures

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
SIZE = (
    {"layers": 6, "width": 1024, "attention_heads": 8, "feedforward": 4096}
    if ON_GPU
    else {"layers": 4, "width": 256, "attention_heads": 4, "feedforward": 1024}
)
"""The paper's on a GPU, that of `--size small` on a CPU."""
WORDS, RELATIONS, FILTERS = 8000, 16, {"top_p": 0.9, "temperature": 0.25}
ROUNDS, BATCHES = 3, 16
"""How often each system writes, in turn; and the most batches of a size that are timed: the rest would be like them."""
MOST_AT_ONE = 0.5


def tree(generator, words):
    """Heads of a projective tree with one root and at most one dependent at each side, and its relations."""
    heads, spans = np.zeros(words, np.int64), [(0, words, 0)]
    while spans:
        start, stop, head = spans.pop()
        if start < stop:
            place = start + int((stop - start) * generator.random() ** 4)
            heads[place] = head
            spans += [(start, place, place + 1), (place + 1, stop, place + 1)]
    relations = [f"r{k}" for k in generator.integers(0, RELATIONS, words)]
    return heads, ["root" if head == 0 else relation for head, relation in zip(heads, relations, strict=True)]


def sentences(number, word):
    """Sentences with trees, whose lengths are about those of news."""
    generator = np.random.default_rng(0)
    lengths = generator.normal(27, 9, number).round().clip(5, 49).astype(int)
    trees = [tree(generator, int(length)) for length in lengths]
    return [
        Sentence(tuple(word(generator) for _ in heads), tuple(heads.tolist()), tuple(relations))
        for heads, relations in trees
    ]


# -- writing ----------------------------------------------------------------------------------------------------------


class Expansion:
    """Writes the words of given trees level by level."""

    def __init__(self, trees, file):
        sides = [[], *([f"r{k}"] for k in range(RELATIONS))]
        rows = [["<pad>"], ["<unk>"], *([*left, "HEAD", *right] for left in sides for right in sides)]
        labels = ["ROOT", *(f"r{k}" for k in range(RELATIONS))]
        words = Vocabulary.of_words([f"w{k}" for k in range(WORDS - 2)])
        self.vocabulary = with_placeholders(words, labels, {"expansions": rows, "binarization": ["left-right"]})
        write_conllu([Document(tuple(trees), "trees")], file)
        self.options = ExpansionOptions(**FILTERS, skeletons=str(file))
        network = partial(Transformer, **SIZE, norm_first=False, tied=False, output_bias=True, causal=False)
        self.model = ITEXP(network, self.vocabulary.size, expansions=len(rows), placeholders=len(labels))
        self.model.configure_model()
        self.model.to(DEVICE).eval()

    def __call__(self, number, batch):
        """Write the first sentences; the words of each."""
        texts = self.model.generate(
            [[]] * number, vocabulary=self.vocabulary, options=self.options, seeds=range(number), max_new_tokens=50,
            batch_size=batch,
        )  # fmt: skip
        return [len(each.ids) for each in texts]


@dataclass(frozen=True)
class Ending:
    """A state, and the words that each text still lacks."""

    state: StepState | None
    left: torch.Tensor

    def select(self, rows):
        """Of some rows."""
        return Ending(self.state.select(rows), self.left[rows])


class LeftToRight:
    """Writes words one after the other, as many as the trees have."""

    def __init__(self, trees):
        self.lengths = torch.tensor([len(each) for each in trees], device=DEVICE)
        self.model = CausalLM(partial(Transformer, **SIZE), WORDS).to(DEVICE).eval()

    def step(self, tokens, padding, ending):
        """The next word, or `<eos>` (token 0) where no word is lacking."""
        scores, state = self.model.drawing_step(tokens, padding, ending.state)
        ends = ending.left == 0
        scores = scores.masked_fill(ends[:, None], -torch.inf)
        scores[:, 0] = torch.where(ends, 0.0, -torch.inf)
        return scores, Ending(state, ending.left - 1)

    def __call__(self, number, batch):
        """Write the first sentences; the words of each."""
        texts = generate(
            self.step, [[0]] * number, eos=0, options=Sampling(**FILTERS), seeds=range(number), max_new_tokens=50,
            batch_size=batch, device=DEVICE, begin=lambda rows: Ending(None, self.lengths[torch.tensor(list(rows))]),
        )  # fmt: skip
        return [len(each.ids) for each in texts]


def sizes(number):
    """Sizes of a batch: 1, 4, 16 and so on, and the number of sentences."""
    return [*(4**k for k in range(8) if 4**k < number), number]


def flops(write, batch, number):
    """Floating-point operations of a sentence, those of padding included."""
    number = min(number, max(batch, 4))
    with FlopCounterMode(display=False) as counter:
        write(number, batch)
    return counter.get_total_flops() / number


@torch.inference_mode()
def test_writing_by_the_size_of_the_batch(request, tmp_path):
    number = request.config.getoption("--sentences") or (8000 if ON_GPU else 32)
    torch.manual_seed(0)
    trees = sentences(number, lambda _: "_")
    lengths = [len(each) for each in trees]
    systems = {"ITEXP": Expansion(trees, tmp_path / "trees.conllu"), "Transformer": LeftToRight(trees)}
    print(f"\n{number} sentences of {np.mean(lengths):.1f} words; {SIZE}")
    print("| batch | ITEXP (s) | Transformer (s) | ratio | ITEXP (GFLOP/sentence) | Transformer (GFLOP/sentence) |")
    print("|---|---|---|---|---|---|")
    figures = {}
    for batch in sizes(number):
        timed = min(number, BATCHES * batch)
        for write in systems.values():
            assert (
                write(min(timed, batch), batch) == lengths[: min(timed, batch)]
            )  # and nothing is slow for being first
        rounds = [[seconds(partial(write, timed, batch)) for write in systems.values()] for _ in range(ROUNDS)]
        took = [median(each) * number / timed for each in zip(*rounds, strict=True)]
        work = [flops(write, batch, number) / 1e9 for write in systems.values()]
        ratio = median(first / second for first, second in rounds)
        print(f"| {batch} | {took[0]:.2f} | {took[1]:.2f} | {ratio:.2f} | {work[0]:.2f} | {work[1]:.2f} |")
        for name, each, count in zip(systems, took, work, strict=True):
            figures[f"{number} sentences, batch {batch}, {name}"] = figure(each, "s")
            figures[f"a sentence, batch {batch}, {name}"] = figure(count, "GFLOP")
        goal = MOST_AT_ONE if ON_GPU and batch == 1 else None
        figures[f"batch {batch}, time of ITEXP / Transformer"] = figure(ratio, "x", at_most=goal)
    write_figures("levels", figures)
    assert all(each.get("met", True) for each in figures.values())
