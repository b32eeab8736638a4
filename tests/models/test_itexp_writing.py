"""What iterative expansion writes: the authors' expansions of written words, the limits, and what texts lack."""

import math

import pytest
import torch

from depgen.decoding.levels import ExpansionOptions
from depgen.decoding.skeletons import GivenTree
from tests import oracles_of_itexp as oracle
from tests.invented_levels import FULL, expansion_of, network_scores, small

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


@pytest.mark.parametrize("drawn", [True, False])
@torch.no_grad()
def test_expansions_of_written_words_are_drawn_by_their_probabilities(drawn):
    model, seen = small(FULL, written_expansions="drawn" if drawn else "padding"), []
    patterns_of, _ = network_scores(model, FULL)
    above, _ = patterns_of(["b", "[right]"], [-1, 0])
    model.expansion_embedding.register_forward_hook(lambda module, arguments, output: seen.append(arguments[0]))
    model.generate(
        [[]], vocabulary=FULL, options=ExpansionOptions(levels=2, temperature=9.0), seeds=range(4000), number=4000,
        max_new_tokens=9, batch_size=4000,
        structure=[GivenTree((FULL.pieces("b")[0], -1), (0, 1), ("root", "right"), (), "a text")],
    )  # fmt: skip
    assert [each.shape[1] for each in seen] == [1, 2]
    assert (seen[1][:, 1] == FULL.tables["expansions"].index(["HEAD"])).all()
    counts = seen[1][:, 0].bincount(minlength=11) / 4000
    rows = [expansion_of(pattern) for pattern in above]
    shares = oracle.renormalised([math.exp(value / 9) for value in above.values()])
    expected = torch.zeros(11)
    expected[[FULL.tables["expansions"].index(row) for row in rows]] = torch.tensor(shares)
    torch.testing.assert_close(counts, expected if drawn else torch.eye(11)[0], atol=0.035, rtol=0)
    assert not drawn or expected.max() < 0.7


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
        model.expansion_output.bias[2] += 8  # leaves
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
