"""What iterative expansion writes: the authors' expansions of written words, the limits, and what texts lack."""

import math
from collections import Counter

import pytest
import torch

from depgen.decoding.levels import ExpansionOptions
from depgen.decoding.skeletons import GivenTree
from tests import oracles_of_itexp as oracle
from tests.invented_levels import FULL, network_scores, small

LEAF = ((), ())


def written(model, number, most=30, **options):
    return model.generate(
        [[]],
        vocabulary=FULL,
        options=ExpansionOptions(**options),
        seeds=range(number),
        max_new_tokens=most,
        number=number,
    )


# -- expansions of written words --------------------------------------------------------------------------------------


def greedy_by_hand(model, levels, *, everywhere):
    """Words, heads and log-probability of the text whose choices are the likeliest; slowly."""
    patterns_of, words_of = network_scores(model, FULL)
    inputs, heads, total = ["[ROOT]"], [-1], 0.0
    for level in range(1, levels + 1):
        scores = patterns_of(inputs, heads)
        drawn = [max(each, key=each.get) for each in scores]
        is_open = [each[0] == "[" for each in inputs]
        gold = [
            (LEAF if level == levels else pattern) if opened else None
            for pattern, opened in zip(drawn, is_open, strict=True)
        ]
        seen = [
            pattern if opened or not everywhere else other
            for pattern, other, opened in zip(gold, drawn, is_open, strict=True)
        ]
        of_words = words_of(inputs, heads, seen)
        words = [max(each, key=lambda word, each=each: (word != "<unk>", each[word])) for each in of_words]
        total += sum(scores[k][gold[k]] + of_words[k][words[k]] for k in range(len(inputs)) if is_open[k])
        inputs, heads = oracle.expanded(inputs, heads, words, gold)
        if not any(each[0] == "[" for each in inputs):
            break
    return inputs, [head + 1 for head in heads], total


@pytest.mark.parametrize("drawn", [True, False])
@torch.no_grad()
def test_greedy_texts_follow_from_their_expansions(drawn):
    others, deep = 0, 0
    for seed in range(4):
        model = small(FULL, expansion_layer=0, written_expansions="drawn" if drawn else "padding")
        torch.manual_seed(seed)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
        with torch.no_grad():
            model.expansion_embedding.weight[0] = 0
        words, heads, total = greedy_by_hand(model, 4, everywhere=drawn)
        (text,) = written(model, 1, greedy=True, levels=4)
        assert [FULL.types[token] for token in text.ids] == words
        assert list(text.structure["heads"]) == heads
        assert text.log_prob == pytest.approx(total, abs=1e-9)
        others += greedy_by_hand(model, 4, everywhere=not drawn)[2] != pytest.approx(total, abs=1e-9)
        deep += len(words) > 1
    assert others >= 2, "expansions of written words change what is written"
    assert deep >= 2


@torch.no_grad()
def test_expansions_of_written_words_are_drawn_by_their_probabilities():
    model = small(FULL, expansion_layer=0, written_expansions="drawn")
    with torch.no_grad():
        model.expansion_output.bias[1] = model.backbone.output_bias[FULL.unk] = -1e9
        model.expansion_embedding.weight *= 5
    patterns_of, words_of = network_scores(model, FULL)
    (first,) = words_of(["[ROOT]"], [-1], [((), ("right",))])
    word = max(first, key=first.get)
    inputs, heads = [word, "[right]"], [-1, 0]
    above, _ = patterns_of(inputs, heads)
    expected = Counter()
    for pattern, value in above.items():
        for second, of_word in words_of(inputs, heads, [pattern, LEAF])[1].items():
            expected[second] += math.exp(value + of_word)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-9)
    structure = [GivenTree((FULL.pieces(word)[0], -1), (0, 1), ("root", "right"), (), "a text")]
    texts = model.generate(
        [[]], vocabulary=FULL, options=ExpansionOptions(levels=2), seeds=range(4000), number=4000, max_new_tokens=9,
        structure=structure, batch_size=4000,
    )  # fmt: skip
    counts = Counter(FULL.types[text.ids[1]] for text in texts)
    padded = words_of(inputs, heads, [None, LEAF])[1]
    for second, share in expected.items():
        assert abs(counts[second] - 4000 * share) < 5 * math.sqrt(4000 * share * (1 - share)) + 1e-9, second
    assert max(abs(math.exp(padded[second]) - share) for second, share in expected.items()) > 0.02


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [3, 4, 6])
@torch.no_grad()
def test_places_are_kept_for_what_texts_are_to_have(most):
    model = small(FULL)
    words = ("a", "b", "g")
    texts = written(model, 40, most, words=words, require=("left",) if most > 3 else ())
    for text in texts:
        assert len(text.ids) <= most
        assert {FULL.pieces(word)[0] for word in words} <= {*text.ids}
        assert "lacks" not in text.structure
        assert most == 3 or "left" in text.structure["relations"]
    deep = written(model, 40, levels=4, words=words)
    assert not any("lacks" in text.structure for text in deep)
    assert len({len(text.ids) for text in deep}) > 1


@torch.no_grad()
def test_a_text_says_what_it_lacks_and_that_it_was_cut(caplog):
    texts = written(small(FULL), 20, 2, words=("a", "b", "g"), min_tokens=2, require=("left",))
    for text in texts:
        assert text.structure["lacks"]
        names = {FULL.types[token] for token in text.ids}
        lacking = [f"words {word}" for word in "abg" if word not in names]
        assert list(text.structure["lacks"]) == [
            *(["require left"] if "left" not in text.structure["relations"] else []), *lacking,
        ]  # fmt: skip
    assert "20 of 20 texts lack" in caplog.text
    (text,) = written(small(FULL), 1, levels=1, min_tokens=2)
    assert text.structure["lacks"] == ("min_tokens 2",)
    model = small(FULL)
    with torch.no_grad():
        model.expansion_output.bias[2] += 3  # leaves
    cut = written(model, 40, 3)
    assert {text.structure.get("cut", False) for text in cut} == {True, False}
    assert f"{sum('cut' in text.structure for text in cut)} of 40 texts were cut" in caplog.text


@pytest.mark.parametrize("how", [{"top_p": 0.9}, {"beam_size": 1}, {"greedy": True}])
@torch.no_grad()
def test_texts_are_one_word_where_all_expansions_but_leaves_are_forbidden(how):
    for options in ({"forbid": ("left", "right")}, {"boost": {"left": 0.0, "right": 0.0}}):
        (text,) = written(small(FULL), 1, **how, **options)
        assert len(text.ids) == 1
        assert text.structure == {"heads": (0,), "relations": ("root",)}
        (text,) = written(small(FULL), 1, min_tokens=3, **how, **options)
        assert text.structure["lacks"] == ("min_tokens 3",)
