"""The arc scorer and count head of GiLT beside a form that computes each pair's representation; products and time."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from depgen.nn.arc_pairs import GraphScorer
from tests.benchmarks.bench_recurrent import PRODUCTS
from tests.benchmarks.figures import figure, operation_seconds, paired_ratio, write_figures

WORDS, BEAM, SENTENCES, GOAL, GOAL_OF_A_STEP = 24, 20, 64, 3.0, 0.12
PAPER, SMALL = 1024, 256


class Naive:
    """The scores of one sentence after the other, from representations of all pairs, [words, words + 1, 2d]."""

    def __init__(self, scorer):
        self.scorer = scorer

    def __call__(self, vectors, tapes):
        return [self.sentence(*each) for each in zip(vectors, tapes, strict=True)]

    def representations(self, side, rows, tape, distances):
        """[words, nodes, d] of earlier words, or [words, 1, d] of words towards themselves."""
        embedded = [table(values) for table, values in zip(self.scorer.embeddings, tape, strict=True)]
        size = side.position.in_features
        angles = distances[..., None] / 10000 ** (torch.arange(0, size, 2) / size)
        added = side.position(torch.cat((angles.sin(), angles.cos()), -1)) + side.features(torch.cat(embedded, -1))
        return side.output(side.hidden(side.norm(side.of_word(rows) + added)).relu())

    def sentence(self, vectors, tape):
        scorer, words = self.scorer, len(vectors)
        numbers, nodes = torch.arange(1, words + 1)[:, None], torch.arange(words + 1)
        itself = torch.zeros(3, words, 1, dtype=torch.long), torch.zeros(words, 1)
        others = tape[:, :-1].long(), (numbers - nodes).abs().float()
        rooted = torch.cat((scorer.root, vectors))
        par, chd = (self.representations(side, vectors[:, None], *itself) for side in (scorer.parent, scorer.child))
        pars, chds = (self.representations(side, rooted, *others) for side in (scorer.parent, scorer.child))
        earlier = (nodes < numbers)[..., None]
        sums = (pars * earlier).sum(1) * (scorer.sum * chd[:, 0])
        sums = sums + par[:, 0] * (scorer.sum * ((chds * earlier)[:, 1:].sum(1) + chd[:, 0]))
        return (
            (pars * (scorer.arc * chd)).sum(-1),
            (par * (scorer.arc * chds)).sum(-1),
            scorer.count(sums / (2 * numbers).sqrt()),
        )


def batch_of(width, sentences):
    torch.manual_seed(0)
    tapes = torch.randint(0, 151, (sentences, 3, WORDS + 1, WORDS + 1)).to(torch.uint8)
    return GraphScorer(width), torch.randn(sentences, WORDS, 3 * width), tapes


def flops(action):
    with FlopCounterMode(display=False) as counter:
        action()
    return counter.get_total_flops() / 1e9


def of_products(action):
    """The seconds of an action, and how many times the seconds of its matrix products these are."""
    action()
    recorded = min((operation_seconds(action) for _ in range(3)), key=lambda times: sum(times.values()))
    whole = sum(recorded.values())
    return whole, whole / sum(recorded.get(each, 0.0) for each in PRODUCTS)


@torch.no_grad()
def test_products_and_time_at_the_size_of_the_paper():
    scorer, vectors, tapes = batch_of(PAPER, 1)
    state = scorer.root_state(BEAM, words=WORDS)

    def ours():
        return scorer(vectors, tapes, torch.tensor([WORDS]))

    def naive():
        return Naive(scorer)(vectors, tapes)

    def step():
        features = torch.zeros(3, BEAM, len(state.places[0]), dtype=torch.long)
        return scorer.step(state, vectors[:, 0].expand(BEAM, -1), features, opens=torch.ones(BEAM, dtype=torch.bool))

    for _ in range(WORDS - 1):
        _, state = step()
    found, ((from_earlier, _, counts),) = ours(), naive()
    torch.testing.assert_close(found.from_earlier[0].tril(), from_earlier.tril(), rtol=0, atol=1e-4)
    possible = found.counts[0].isfinite()
    torch.testing.assert_close(found.counts[0][possible], counts[possible], rtol=0, atol=1e-4)
    of_tables = flops(lambda: scorer.tables(WORDS))
    figures = {
        "sentence with its tables known": figure(flops(ours) - of_tables, "GFLOP", at_most=GOAL),
        "sentence in a batch of 64": figure(flops(ours) - of_tables + of_tables / SENTENCES, "GFLOP", at_most=GOAL),
        "sentence in the naive form": figure(flops(naive), "GFLOP"),
        "word of a hypothesis": figure(flops(step) / BEAM, "GFLOP", at_most=GOAL_OF_A_STEP),
        "step of a full beam / its matrix products": figure(of_products(step)[1], "x"),
        "time in the naive form / ours": figure(paired_ratio(ours, naive, pairs=3), "x"),
    }
    write_figures("graph_scorer", figures)
    assert all(each.get("met", True) for each in figures.values())


def test_a_training_step():
    scorer, vectors, tapes = batch_of(SMALL, SENTENCES)
    lengths = torch.full((SENTENCES,), WORDS)

    def ours():
        found = scorer(vectors, tapes, lengths)
        sum(each[each.isfinite()].sum() for each in (found.from_earlier, found.to_earlier, found.counts)).backward()

    def naive():
        sum(each.sum() for scores in Naive(scorer)(vectors, tapes) for each in scores).backward()

    whole, over_products = of_products(ours)
    figures = {
        "step of 64 sentences of 24 words": figure(whole, "s"),
        "step / its matrix products": figure(over_products, "x"),
        "step in the naive form / ours": figure(paired_ratio(ours, naive, pairs=1), "x"),
    }
    write_figures("graph_scorer_training", figures)
    assert over_products >= 1
