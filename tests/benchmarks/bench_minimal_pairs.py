"""Minimal pairs scored in a second, by a tiny GPT-2: a goal of 1,000 pairs in 6 s."""

import depgen
from depgen.evaluation.syntax.minimal_pairs import score_pairs
from depgen.evaluation.syntax.pairs import read_pairs
from tests.benchmarks.figures import figure, seconds, write_figures
from tests.evaluation.syntax.test_minimal_pairs import invented
from tests.invented_models import write_gpt2

PAIRS = 1000


def test_minimal_pairs(tmp_path):
    write_gpt2(tmp_path / "tiny")
    pairs = read_pairs(invented(tmp_path, number=PAIRS))
    system = depgen.load(tmp_path / "tiny", device="cpu")
    took = seconds(lambda: score_pairs(system, pairs, tokens="whitespace"))
    write_figures(
        "minimal_pairs", {"minimal pairs of a tiny GPT-2": figure(PAIRS / took, "pairs/s", at_least=PAIRS / 6)}
    )
    assert took > 0
