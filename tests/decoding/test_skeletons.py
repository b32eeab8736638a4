"""Texts around given words: which expansions fit them, and that words, order and tree stay, on random trees."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.level_items import ROOT, TreeForm
from depgen.decoding.level_choices import chosen_expansions, restricted
from depgen.decoding.levels import ExpansionOptions
from depgen.decoding.skeletons import GivenTree, alignment, given_tree, given_words
from depgen.errors import UserError
from depgen.trees.binarization import HEAD
from depgen.trees.sentence import Sentence
from tests.invented_levels import FULL, built, small, trees
from tests.trees.trees import projective_heads

WIDE = [[*left, HEAD, *right] for k in range(3) for j in range(3) for left in itertools.product("xy", repeat=k)
        for right in itertools.product("xy", repeat=j)]  # fmt: skip
CPU = torch.device("cpu")


def ways(row, pattern, is_open):
    """All ways to choose the given labels of an expansion: of each label its number among them or -1; slowly."""
    found = []
    for places in itertools.combinations(range(len(row)), len(pattern)):
        if [row[k] for k in places] != list(pattern) or HEAD in (row[k] for k in {*range(len(row))} - {*places}):
            continue
        before = [sum(place < k for place in places) for k in range(len(row))]
        if all(is_open[before[k]] for k in range(len(row)) if k not in places):
            order = iter(range(len(pattern)))
            found.append(tuple(next(order) if k in places else -1 for k in range(len(row)) if row[k] != HEAD))
    return found


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(WIDE), st.sampled_from([row for row in WIDE if len(row) < 5]), st.data())
def test_expansions_fit_where_new_labels_are_in_gaps_alone(row, pattern, data):
    is_open = data.draw(st.lists(st.booleans(), min_size=len(pattern) + 1, max_size=len(pattern) + 1))
    found = alignment(row, pattern, is_open)
    expected = ways(row, pattern, is_open)
    assert (found is None) == (not expected)
    if found is not None:
        assert found in [tuple(_numbered(way)) for way in expected]


def _numbered(way):
    """The given ones numbered from left to right."""
    order = itertools.count()
    return [next(order) if each >= 0 else -1 for each in way]


# -- words, order and tree --------------------------------------------------------------------------------------------


def subtree_positions(text, kept):
    """The tree over some positions of a text: head of each, as numbers among them; 0 = root."""
    number = {place: k for k, place in enumerate(kept, start=1)}
    return [number.get(text.structure["heads"][place] - 1, 0) for place in kept]


def all_embeddings(tokens, text, gaps):
    """All such positions."""
    for places in itertools.combinations(range(len(text)), len(tokens)):
        before = [sum(place < k for place in places) for k in range(len(text))]
        if [text[k] for k in places] == list(tokens) and all(
            before[k] in gaps for k in range(len(text)) if k not in places
        ):
            yield places


@settings(deadline=None, max_examples=10)
@given(projective_heads(max_size=5), st.sets(st.integers(0, 5), max_size=3), st.booleans(), st.integers(0, 9))
@torch.no_grad()
def test_given_words_keep_order_and_tree_and_new_ones_are_in_gaps(heads, gaps, searched, seed):
    words = len(heads)
    gaps = tuple(sorted(gap for gap in gaps if gap <= words)) or (words,)
    relations = ["root" if not head else "left" if word < head else "right" for word, head in enumerate(heads, 1)]
    tokens = tuple(range(2, 2 + words))
    tree = GivenTree(tokens, tuple(heads), tuple(relations), gaps, "a text")
    options = ExpansionOptions(beam_size=2) if searched else ExpansionOptions(top_p=0.9, temperature=2.0)
    found = small(FULL).generate(
        [tokens], vocabulary=FULL, options=options, seeds=[seed, seed + 1], number=2, max_new_tokens=4, structure=[tree]
    )
    for text in found:
        ids = [*tokens, *text.ids] if tree.continues else text.ids
        assert len(ids) <= words + 4
        heads_found = [
            subtree_positions(text, places)
            for places in all_embeddings(tokens, ids, gaps)
        ]  # fmt: skip
        assert heads in heads_found


@torch.no_grad()
def test_the_probability_is_that_of_the_whole_text_and_its_tree():
    model, tree = small(FULL), GivenTree((2, 3, 4), (2, 0, 2), ("left", "root", "right"), (1, 3), "a text")
    for options in (ExpansionOptions(), ExpansionOptions(beam_size=3)):
        (text,) = model.generate(
            [[]], vocabulary=FULL, options=options, seeds=[5], max_new_tokens=5, structure=[tree]
        )  # fmt: skip
        ((scores,),) = model.sentence_log_probs([[text.ids]], vocabulary=FULL, structure=[[text.structure]])
        assert text.log_prob == pytest.approx(scores.sum(), abs=1e-9)


@torch.no_grad()
def test_prompts_are_completed_alike_in_every_batch():
    model = small(FULL)
    structure = [
        GivenTree((2, 3, 4), (2, 0, 2), ("left", "root", "right"), (1,), "a"), None,
        GivenTree((5,), (0,), ("root",), (1,), "b"),
    ]  # fmt: skip
    for options in (ExpansionOptions(top_p=0.9), ExpansionOptions(beam_size=2)):
        written = [
            model.generate(
                [[], [], [5]], vocabulary=FULL, options=options, seeds=range(6), number=2, max_new_tokens=4,
                structure=structure, batch_size=size,
            )
            for size in (1, 64)
        ]  # fmt: skip
        for other in written[1:]:
            assert [(each.ids, each.structure) for each in other] == [(each.ids, each.structure) for each in written[0]]
        assert len({tuple(each.ids) for each in written[0]}) > 2


@settings(deadline=None, max_examples=30)
@given(trees(max_size=6), st.sampled_from(["left-right", "inside-out", "none"]), st.sets(st.integers(0, 6)))
def test_tables_agree_with_the_trees(sentence, scheme, gaps):
    """The expansions of a tree's own words are always allowed, alone without gaps, and the table counts dependents."""
    vocabulary = built([sentence], binarization=scheme)
    rows = vocabulary.tables["expansions"]
    tree = given_tree(sentence, vocabulary.pieces, name="a text")
    form = TreeForm.of(vocabulary)
    heads, labels = form.written(tree.heads, tree.relations)
    drawable = [HEAD in row for row in rows]
    closed = given_words([tree], rows, drawable, form.written, levels=20, device=CPU)
    assert (closed.allowed.sum(1) == 1).all()
    assert not closed.opens_later.any()
    words = torch.arange(len(heads))
    for word, head in enumerate(heads):
        own = [k for k, each in enumerate(heads) if each == word + 1]
        row = rows[int(closed.least[word])]
        assert [labels[k] for k in own] == [each for each in row if each != HEAD]
        assert [int(closed.dependents(words, closed.least, place)[word]) for place in range(len(own))] == own
        assert (int(closed.roots[0]) == word) == (head == 0)
    deep = np.array([len(list(_path(heads, word))) for word in range(len(heads))])
    for level in range(4):
        below = deep > level
        assert int(closed.reserved[0, level]) == sum(below[head - 1] for head in heads if head)
    opened = given_words(
        [GivenTree(tree.tokens, tree.heads, tree.relations, tuple(gaps), "")], rows, drawable, form.written,
        levels=20, device=CPU,
    )  # fmt: skip
    assert (opened.allowed >= closed.allowed).all()
    assert labels[int(closed.roots[0])] == ROOT


def test_a_tree_has_a_relation_that_all_expansions_of_a_word_have():
    rows = [["<pad>"], ["<unk>"], [HEAD], ["x", HEAD, "y", "w"], ["x", HEAD, "z", "w"]]
    tree = GivenTree((5, 6), (2, 0), ("x", "root"), (2,), "a text")
    found = given_words([tree], rows, [True] * len(rows), TreeForm().written, levels=9, device=CPU)
    relations = [[name in row for row in rows] for name in "xywz"]
    assert found.with_relations(torch.tensor(relations)).tolist() == [[True, False, True, False]]


def test_the_room_around_given_words():
    trees_given = [
        GivenTree((2, -1, 4), (2, 0, 2), ("left", "root", "right"), (3,), "a text"),
        GivenTree((5, 6, 7), (0, 1, 2), ("root", "right", "right"), (0,), "a text"),
    ]
    writer = small(FULL)._writer(FULL, ExpansionOptions(), 5, trees_given)
    state = writer.beginning([0, 1], [0, 0], [0, 1], device=CPU)
    first, second = (writer.room(state, level) for level in (1, 2))
    assert first.most.tolist() == [8, 8]  # new tokens and given ones
    assert first.free.tolist() == [1, 0]  # the root of the first is to be written
    assert [FULL.tables["expansions"][k] for k in first.least[:, 0]] == [["left", HEAD, "right"], [HEAD, "right"]]
    assert (first.reserved.tolist(), second.reserved.tolist()) == ([0, 1], [0, 0])
    assert (first.opens_later.tolist(), second.opens_later.tolist()) == ([True, False], [False, False])


def test_given_words_that_come_later_have_their_places():
    chain = GivenTree((5, 6, 7), (0, 1, 2), ("root", "right", "right"), (0,), "a text")
    rows, options = FULL.tables["expansions"], ExpansionOptions(greedy=True)
    scores = torch.zeros(1, 1, len(rows))
    scores[..., rows.index(["left", HEAD, "right"])] = 9
    for most in (0, 1):
        writer = small(FULL)._writer(FULL, options, most, [chain])
        state = writer.beginning([0], [0], [0], device=CPU)
        chosen, ends, cut = chosen_expansions(
            restricted(scores, state, writer.given), state, writer.patterns, options, level=1,
            room=writer.room(state, 1),
        )  # fmt: skip
        assert rows[int(chosen)] == ["left", HEAD, "right"][1 - most :]
        assert (bool(cut), bool(ends)) == (not most, not most)


def _path(heads, word):
    while word >= 0:
        yield word
        word = heads[word] - 1


@pytest.mark.parametrize(
    ("tree", "options", "message"),
    [
        (((0, 1), ("root", "amodd")), {}, r"a text: word 1 \(ROOT\): .*'amodd'"),
        (((0, 1), ("root", "right")), {"forbid": ("right",)}, r"a text: word 1 .*forbidden"),
        (((0, 1), ("root", "right")), {"levels": 1}, "a text has 2 levels"),
    ],
)
def test_trees_that_do_not_fit_are_refused(tree, options, message):
    structure = [GivenTree((2, 3), *tree, (2,), "a text")]
    with pytest.raises(UserError, match=message):
        small(FULL).generate(
            [[2, 3]], vocabulary=FULL, options=ExpansionOptions(**options), seeds=[0], max_new_tokens=3,
            structure=structure,
        )  # fmt: skip


def test_words_that_are_not_known_and_trees_that_are_missing_are_refused():
    with pytest.raises(UserError, match="a text: the vocabulary of this run lacks 'zz'"):
        given_tree(Sentence(("a", "zz"), (0, 1), ("root", "right")), FULL.pieces, unknown=FULL.unk, name="a text")
    with pytest.raises(UserError, match="give structure"):
        small(FULL).generate([[2]], vocabulary=FULL, options=ExpansionOptions(), seeds=[0], max_new_tokens=3)
    tree = GivenTree((2,) * 41, tuple(range(41)), ("right",) * 41, (41,), "a text")
    with pytest.raises(UserError, match="a text has 41 tokens"):
        small(FULL).generate(
            [[2] * 41], vocabulary=FULL, options=ExpansionOptions(), seeds=[0], max_new_tokens=3, structure=[tree]
        )
