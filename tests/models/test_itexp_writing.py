"""What iterative expansion writes: the authors' expansions of written words, the limits, and what texts lack."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.level_items import TreeForm
from depgen.decoding.levels import ExpansionOptions
from depgen.decoding.skeletons import GivenTree, given_tree
from depgen.errors import UserError
from depgen.trees.sentence import Sentence
from depgen.trees.tree import check_tree
from tests import oracles_of_itexp as oracle
from tests.invented_levels import FULL, RELATIONS, built, expansion_of, network_scores, small, trees
from tests.trees.trees import head_lists

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


# -- trees before binarisation ----------------------------------------------------------------------------------------

FORMS = [{}, {"lossless": True}, {"binarization": "inside-out"}, {"binarization": "none"}]


@st.composite
def any_trees(draw):
    """A sentence with a tree, which may have crossing arcs, and now and then several roots."""
    heads = draw(head_lists(max_size=6))
    relations = ["root" if head == 0 else draw(st.sampled_from(RELATIONS)) for head in heads]
    return Sentence(tuple(draw(st.sampled_from("abcdefg")) for _ in heads), tuple(heads), tuple(relations))


@settings(deadline=None, max_examples=5)
@given(any_trees(), st.sampled_from(FORMS), st.booleans())
@torch.no_grad()
def test_given_trees_come_back_as_they_are_given(sentence, form, searched):
    vocabulary = built([sentence], **form)
    tree = given_tree(sentence, vocabulary.pieces, name="a text")
    arcs, ids = (sentence.heads, sentence.relations), tree.tokens
    (text,) = small(vocabulary).generate(
        [[]], vocabulary=vocabulary, options=ExpansionOptions(beam_size=1 if searched else None, trace=True),
        seeds=[0], max_new_tokens=1, structure=[tree],
    )  # fmt: skip
    assert (text.structure["heads"], text.structure["relations"]) == arcs
    written = [
        oracle.depth(TreeForm.of(vocabulary).written(*arcs)[0].tolist(), word) for word in range(1, len(ids) + 1)
    ]
    assert len(text.structure["levels"]) == max(written), "the steps are those of the tree that is written"


@pytest.mark.slow
@settings(deadline=None, max_examples=5)
@given(st.lists(trees(max_size=6), min_size=2, max_size=4), st.sampled_from(FORMS), st.integers(0, 99), st.data())
@torch.no_grad()
def test_trees_of_texts_are_those_that_were_written(sentences, form, seed, data):
    """Written again, they have the probability of the text: nothing is lost on the way back."""
    vocabulary = built(sentences, **form)
    model, tree = small(vocabulary), given_tree(sentences[0], vocabulary.pieces, name="a text")
    gaps = tuple(sorted(data.draw(st.sets(st.integers(0, len(sentences[0]))))))
    prompt = GivenTree(tree.tokens, tree.heads, tree.relations, gaps, "a text")
    for structure in (None, [prompt]):
        texts = model.generate(
            [[]], vocabulary=vocabulary, options=ExpansionOptions(), seeds=range(seed, seed + 4), number=4,
            max_new_tokens=9, structure=structure,
        )  # fmt: skip
        begun = tree.tokens if structure and prompt.continues else ()
        scores = model.sentence_log_probs(
            [[[*begun, *text.ids]] for text in texts], vocabulary=vocabulary,
            structure=[[text.structure] for text in texts],
        )  # fmt: skip
        for text, (score,) in zip(texts, scores, strict=True):
            check_tree(text.structure["heads"], "text", single_root=True)
            assert not any("^" in name for name in text.structure["relations"])
            if "unfit_labels" not in text.structure:
                assert score.sum() == pytest.approx(text.log_prob, abs=1e-9)


WIDE = Sentence(tuple("abcde"), (0, 1, 1, 3, 1), ("root", "obj", "amod", "det", "nsubj"))


@torch.no_grad()
def test_lossless_texts_have_the_trees_before_binarisation(caplog):
    vocabulary = built([WIDE], lossless=True)
    assert {"amod^0", "nsubj^1"} <= set(vocabulary.tables["placeholders"])
    model, options = small(vocabulary), ExpansionOptions(trace=True, require=("amod",))
    texts = model.generate([[]], vocabulary=vocabulary, options=options, seeds=range(60), number=60, max_new_tokens=9)
    several, unfit = 0, 0
    for text in texts:
        heads = text.structure["heads"]
        several += max(sum(head == word < place for place, head in enumerate(heads, 1)) for word in set(heads)) > 1
        unfit += "unfit_labels" in text.structure
        assert "amod" in text.structure["relations"] or "lacks" in text.structure
        assert any("^" in level for level in text.structure["levels"]) or "amod" not in text.structure["relations"]
    assert several > 3
    assert 0 < unfit < 60
    assert f"{unfit} of 60 trees are not exactly what was written" in caplog.text


@pytest.mark.parametrize("form", FORMS, ids=str)
@torch.no_grad()
def test_a_gap_between_siblings_needs_trees_that_are_not_binarised(form):
    whole = Sentence(tuple("abcd"), (2, 0, 2, 2), ("nsubj", "root", "obj", "punct"))
    vocabulary = built([whole], **form)
    a, b, _, d = (vocabulary.pieces(word)[0] for word in whole.words)
    prompt = GivenTree((a, b, d), (2, 0, 2), ("nsubj", "root", "punct"), (2,), "a text")

    def complete():
        return small(vocabulary).generate(
            [[]], vocabulary=vocabulary, options=ExpansionOptions(), seeds=[0], max_new_tokens=1, structure=[prompt]
        )

    if form != {"binarization": "none"}:
        with pytest.raises(UserError, match=r"nsubj HEAD punct with words in the gap.* binarization none"):
            complete()
        return
    (text,) = complete()
    assert (text.structure["heads"], text.structure["relations"]) == (whole.heads, whole.relations)
