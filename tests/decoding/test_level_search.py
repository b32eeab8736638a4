"""Beam search across levels against all texts of a small vocabulary, greedy decoding, and what texts are to have."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.levels import with_placeholders
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generated import Generated
from depgen.decoding.level_search import _Search, likeliest_combinations
from depgen.decoding.levels import ExpansionOptions
from depgen.errors import UserError
from tests import oracles_of_itexp as oracle
from tests.invented_levels import FULL, network_scores, small

SIDES = [((), ()), ((), ("right",)), (("left",), ("right",))]
BUSHY = with_placeholders(
    Vocabulary.of_words("ab"),
    ["ROOT", "left", "right"],
    {
        "expansions": [["<pad>"], ["<unk>"], *([*left, "HEAD", *right] for left, right in SIDES)],
        "trees": ["left-right", "", "lift"],
    },
)
"""Two words, and words with no dependent, one, or two."""


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 9), st.integers(0, 10**6))
def test_combinations_are_the_likeliest_of_all(places, kept, count, seed):
    torch.manual_seed(seed)
    scores = torch.randn(2, places, kept, dtype=torch.float64).sort(2, descending=True).values
    scores[:, :, 1:].masked_fill_(torch.rand(2, places, kept - 1) < 0.2, -torch.inf)
    scores = scores.sort(2, descending=True).values
    choices, sums = likeliest_combinations(scores, count)
    assert choices.shape == (2, count, places)
    for row in range(2):
        every = sorted(
            (-sum(float(scores[row, k, choice]) for k, choice in enumerate(each)), each)
            for each in itertools.product(range(kept), repeat=places)
        )  # fmt: skip
        expected = [(-value, each) for value, each in every if value < math.inf][:count]
        found = [(float(value), tuple(each.tolist())) for value, each in zip(sums[row], choices[row], strict=True)]
        assert [each for _, each in found[: len(expected)]] == [each for _, each in expected]
        assert [value for value, _ in found[: len(expected)]] == pytest.approx([value for value, _ in expected])
        assert all(value == -math.inf for value, _ in found[len(expected) :])


def whole_texts(levels):
    """All texts that end within some levels: their levels, words and heads."""
    unfinished, found = [([], ["[ROOT]"], [-1])], []
    for level in range(levels):
        grown = []
        for done, inputs, heads in unfinished:
            places = [k for k, each in enumerate(inputs) if each[0] == "["]
            sides = SIDES if level + 1 < levels else SIDES[:1]
            for choice in itertools.product(itertools.product("ab", sides), repeat=len(places)):
                words, patterns = ["[pad]"] * len(inputs), [None] * len(inputs)
                for place, (word, side) in zip(places, choice, strict=True):
                    words[place], patterns[place] = word, side
                here = oracle.Level(inputs, heads, words, patterns)
                grown.append(([*done, here], *oracle.expanded(inputs, heads, words, patterns)))
        unfinished = [each for each in grown if any(word[0] == "[" for word in each[1])]
        found += [each for each in grown if all(word[0] != "[" for word in each[1])]
    assert not unfinished
    return found


def bushy():
    model = small(BUSHY)
    with torch.no_grad():
        model.backbone.output_bias[BUSHY.unk] = -1e9
    return model


def written(model, vocabulary=BUSHY, number=1, **options):
    how = {name: options.pop(name) for name in ("batch_size", "structure") if name in options}
    return model.generate(
        [[]], vocabulary=vocabulary, options=ExpansionOptions(**options), seeds=range(number), number=number,
        max_new_tokens=9, **how,
    )  # fmt: skip


@pytest.mark.parametrize("power", [0.0, 1.0])
@torch.no_grad()
def test_a_wide_beam_finds_the_likeliest_of_all_texts(power):
    model = bushy()
    scores, valued = network_scores(model, BUSHY), []
    for done, words, heads in whole_texts(2):
        value = sum(oracle.joint_log_prob(done, *scores))
        valued.append((value / len(words) ** power, value, words, heads))
    assert len(valued) == 2 * (1 + 2 + 4)
    valued.sort(key=lambda each: -each[0])
    found = written(model, number=14, beam_size=300, levels=2, length_normalization=power)
    assert [(each.ids, each.structure["heads"]) for each in found] == [
        ([BUSHY.pieces(word)[0] for word in words], tuple(head + 1 for head in heads)) for *_, words, heads in valued
    ]
    assert [each.log_prob for each in found] == pytest.approx([value for _, value, *_ in valued], abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"words": ("a", "c")}, {"require": ("left",)}, {"min_tokens": 6},
                                     {"boost": {"left": 50.0}}, {"levels": 3, "words": ("d",)}], ids=str)  # fmt: skip
@torch.no_grad()
def test_one_hypothesis_is_greedy(options):
    model = small(FULL)
    (greedy,), (one,) = (written(model, FULL, **how, **options) for how in ({"greedy": True}, {"beam_size": 1}))
    assert (one.ids, one.structure) == (greedy.ids, greedy.structure)
    assert one.log_prob == pytest.approx(greedy.log_prob, abs=1e-9)


@torch.no_grad()
def test_a_beam_gives_texts_what_they_are_to_have():
    found = written(small(FULL), FULL, number=4, beam_size=4, words=("a", "h", "c"), require=("left",), trace=True)
    wanted = {FULL.pieces(word)[0] for word in "ahc"}
    for text in found:
        assert wanted <= {*text.ids}
        assert "left" in text.structure["relations"]
        assert "lacks" not in text.structure
        assert text.structure["levels"][0] == "[ROOT]"
    assert len({(tuple(each.ids), each.structure["heads"]) for each in found}) == 4
    assert [each.log_prob for each in found] == sorted((each.log_prob for each in found), reverse=True)
    forbidden = written(small(FULL), FULL, number=2, beam_size=2, forbid=("left",))
    assert all("left" not in each.structure["relations"] for each in forbidden)


@torch.no_grad()
def test_a_search_that_ends_early_finds_the_same(monkeypatch):
    early = written(bushy(), number=3, beam_size=3)
    monkeypatch.setattr(
        "depgen.decoding.level_search._Search._done", lambda self, state, scores, ends, level: torch.zeros_like(ends)
    )
    late = written(bushy(), number=3, beam_size=3)
    assert [(each.ids, each.log_prob) for each in early] == [(each.ids, each.log_prob) for each in late]


def test_a_search_ends_where_no_hypothesis_can_reach_the_last_text_that_is_wanted():
    options = ExpansionOptions(beam_size=3, length_normalization=1.0)
    writer = bushy()._writer(BUSHY, options, 9, [])
    state = writer.beginning([0, 1], [0, 0], [0, 1], device=torch.device("cpu"))
    text = Generated([], {}, 0.0)
    search = _Search(writer, 3, 2, {0: [(-1.0, text), (-2.0, text)], 1: [(-1.0, text)]})
    for score, ends in ((-17.0, False), (-18.0, True)):  # a text has 9 tokens at most
        done = search._done(state, torch.tensor([score, -99.0]), torch.tensor([False, False]), 1)
        assert done.tolist() == [ends, False]


def test_skeletons_are_searched_in_turn(tmp_path):
    path = tmp_path / "trees.conllu"
    path.write_text(
        "1\t_\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t1\tright\t_\t_\n\n1\t_\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    )
    model = bushy()
    found = written(model, number=4, beam_size=2, skeletons=str(path))
    assert [len(each.ids) for each in found] == [2, 1, 2, 1]
    assert [each.ids[1] for each in found[::2]] == [BUSHY.pieces("b")[0]] * 2
    assert found[0].log_prob > found[2].log_prob
    assert found[1].log_prob > found[3].log_prob


@pytest.mark.parametrize(
    ("options", "number", "message"),
    [
        ({"beam_size": 2}, 3, "no 3 texts of a prompt"),
        ({"beam_size": 9, "levels": 1}, 3, "has found 2 texts"),
        ({"beam_size": 2, "top_p": 0.9}, 1, "A beam draws nothing"),
        ({"beam_size": 0}, 1, "beam_size"),
        ({"length_normalization": 1.0}, 1, "give beam_size"),
    ],
)
def test_beams_that_cannot_be_are_refused(options, number, message):
    with pytest.raises(UserError, match=message):
        written(bushy(), number=number, **options)


def test_drawn_expansions_are_no_matter_of_a_beam():
    with pytest.raises(UserError, match="written_expansions: drawn"):
        written(small(BUSHY, written_expansions="drawn"), beam_size=2)
