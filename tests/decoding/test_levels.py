"""Texts that grow level by level, and what is drawn for their placeholders, against slow versions."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.batch import ItemBatch
from depgen.data.level_batch import collate_levels
from depgen.decoding.level_choices import Room, chosen_expansions, chosen_words, drawn_expansions
from depgen.decoding.levels import ExpansionOptions, Growing, Patterns, expanded
from depgen.errors import UserError
from tests import oracles_of_itexp as oracle
from tests.invented_levels import ROWS, beginning, built, expansion_of, item_of, trees, written_levels

LABELS = ["ROOT", "left", "right"]
CPU = torch.device("cpu")


def patterns_of(rows=ROWS, labels=LABELS, **options):
    return Patterns.of(rows, labels, ExpansionOptions(**options), device=CPU)


# -- growing ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(trees(), min_size=1, max_size=4), st.sampled_from(["left-right", "inside-out", "none"]))
def test_sentences_grow_back_from_their_levels(sentences, scheme):
    vocabulary = built(sentences, binarization=scheme)
    rows, labels = vocabulary.tables["expansions"], vocabulary.tables["placeholders"]
    patterns = Patterns.of(rows, labels, ExpansionOptions(), device=CPU)
    batch = collate_levels(ItemBatch([item_of(k, each, vocabulary) for k, each in enumerate(sentences)], 1, vocabulary))
    levels, found = [written_levels(each, scheme) for each in sentences], {}
    state = beginning(len(sentences))
    for level in range(max(map(len, levels))):
        chosen = torch.full_like(state.tokens, patterns.leaf)
        for place, text in enumerate(state.texts.tolist()):
            length = int(state.lengths[place])
            expected, row = levels[text][level], [*batch.sentences.tolist()].index(text) + level
            types = [vocabulary.types[token] for token in state.tokens[place, :length].tolist()]
            names = [f"[{labels[label]}]" for label in state.labels[place, :length].tolist()]
            shown = [
                name if opened else word
                for name, word, opened in zip(names, types, state.is_open[place].tolist(), strict=False)
            ]
            assert shown == expected.inputs
            assert state.heads[place, :length].tolist() == expected.heads == batch.heads[row, :length].tolist()
            chosen[place, :length] = batch.expansions[row, :length]
            state.tokens[place, :length] = batch.targets[row, :length]
        state = expanded(state, chosen, patterns)
        grows = state.is_open.any(1)
        found |= {
            int(state.texts[row]): state.select(torch.tensor([row])) for row in range(len(grows)) if not grows[row]
        }
        state = state.select(grows.nonzero()[:, 0])
    assert not len(state.texts)
    for text, sentence in enumerate(sentences):
        last = found[text]
        assert vocabulary.decode(last.tokens[0].tolist()).split() == list(sentence.words)
        assert (last.heads[0] + 1).tolist() == oracle.binarised(sentence.heads, scheme)
        names = ["ROOT" if each == "root" else each for each in sentence.relations]
        assert [labels[label] for label in last.labels[0].tolist()] == names


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_expansions_grow_texts_as_lists_do(data):
    """Also those that no sentence has, in texts of other lengths, over three levels."""
    rows = [["<pad>"], ["HEAD"], ["a", "b", "HEAD"], ["HEAD", "a"], ["b", "HEAD", "a", "a", "b"]]
    labels = ["ROOT", "a", "b"]
    patterns, state = patterns_of(rows, labels), beginning(3)
    inputs, heads = [["[ROOT]"]] * 3, [[-1]] * 3
    for level in range(3):
        chosen = torch.full_like(state.tokens, data.draw(st.integers(0, 4)))  # ignored at words and padding
        for text in range(3):
            gold = []
            for place, name in enumerate(inputs[text]):
                number = data.draw(st.integers(1, 4)) if name[0] == "[" else None
                row = None if number is None else rows[number]
                gold.append(row and (tuple(row[: row.index("HEAD")]), tuple(row[row.index("HEAD") + 1 :])))
                if number is not None:
                    chosen[text, place], state.tokens[text, place] = number, 10 * level + text
            words = [f"{10 * level + text}" for _ in gold]
            inputs[text], heads[text] = oracle.expanded(inputs[text], heads[text], words, gold)
        state = expanded(state, chosen, patterns)
        for text in range(3):
            length = int(state.lengths[text])
            columns = (each[text, :length].tolist() for each in (state.tokens, state.labels, state.is_open))
            shown = [f"[{labels[k]}]" if opened else str(token) for token, k, opened in zip(*columns, strict=True)]
            assert (shown, state.heads[text, :length].tolist()) == (inputs[text], heads[text])
            assert not state.is_open[text, length:].any()


def test_the_levels_of_figure_2():
    found = oracle.levels(oracle.LIKES["words"], oracle.LIKES["heads"], oracle.LIKES["relations"])
    assert [level.inputs for level in found] == [
        ["[ROOT]"], ["[nsubj]", "[advmod]", "likes", "[xcomp]"], ["[poss]", "dog", "also", "likes", "eating", "[dobj]"],
    ]  # fmt: skip
    assert [level.words for level in found] == [
        ["likes"], ["dog", "also", "[pad]", "eating"], ["my", *["[pad]"] * 4, "sausage"],
    ]  # fmt: skip
    assert expansion_of(found[0].patterns[0]) == ["nsubj", "advmod", "HEAD", "xcomp"]
    for before, after in pairwise(found):
        assert oracle.expanded(before.inputs, before.heads, before.words, before.patterns) == (
            after.inputs, after.heads,
        )  # fmt: skip


# -- the table --------------------------------------------------------------------------------------------------------


def test_patterns_count_placeholders_and_know_what_is_never_drawn():
    found = patterns_of()
    assert found.left.tolist() == [0, 0, 0, 1, 0, 1]
    assert found.right.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.children[3:, :2].tolist() == [[1, 0], [2, 0], [1, 2]]
    assert found.before.tolist() == [-math.inf, -math.inf, 0, 0, 0, 0]
    assert found.leaf == 2
    assert not found.log_factors.any()


def test_factors_multiply_and_zero_forbids_as_forbid_does():
    both = patterns_of(boost={"left": 10.0, "right": 0.5})
    torch.testing.assert_close(both.log_factors.exp(), torch.tensor([1, 1, 1, 10, 0.5, 5]))
    assert both.before[2:].tolist() == [0] * 4
    before = patterns_of(boost={"left": 10.0}, boost_before_truncation=True, temperature=0.5)
    torch.testing.assert_close(before.before[2:], torch.tensor([0, 1, 0, 1]) * math.log(10) * 0.5)
    assert not before.log_factors.any()
    for options in ({"boost": {"left": 0.0}}, {"forbid": ("left",)}):
        assert patterns_of(**options).before.tolist() == [-math.inf, -math.inf, 0, -math.inf, 0, -math.inf]
    assert patterns_of(require=("right", "left")).required.tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 1]]


def test_a_relation_is_found_in_labels_that_keep_the_tree():
    rows = [["HEAD"], ["HEAD", "amod^1"], ["HEAD", "amod"], ["HEAD", "obj"]]
    found = patterns_of(rows, ["ROOT", "amod", "amod^1", "obj"], forbid=("amod",), require=("obj",))
    assert found.before.tolist() == [0, -math.inf, -math.inf, 0]
    assert found.children[1, 0].item() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boost": {"lefd": 2.0}}, r"boost: .*'lefd'.*left"),
        ({"require": ("amod",)}, r"require: .*'amod'.*left, right"),
        ({"forbid": ("HEAD",)}, "forbid: .*'HEAD'"),
        ({"forbid": ("<pad>",)}, "forbid: .*'<pad>'"),
    ],
)
def test_relations_that_the_table_lacks_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        patterns_of(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"require": ("left",), "forbid": ("left",)}, "left: required and forbidden"),
        ({"require": ("left",), "boost": {"left": 0.0}}, "left: required and forbidden"),
        ({"boost": {"left": -1.0}}, "boost of left"),
        ({"boost": {"left": math.nan}}, "boost of left"),
        ({"boost": {"left": math.inf}}, "boost of left"),
        ({"levels": 0}, "levels"),
        ({"min_tokens": 0}, "min_tokens"),
        ({"temperature": 0.0}, "temperature"),
        ({"top_p": 0.0}, "top-p"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        ExpansionOptions(**options)


# -- expansions -------------------------------------------------------------------------------------------------------


def opened(texts, length, *, seed=0, **wishes):
    """Texts whose first word is written, the others placeholders; lengths differ."""
    state = beginning(texts, **wishes)
    lengths = torch.tensor([1 + max(1, length - row % 3) for row in range(texts)])
    columns = torch.arange(length + 1)
    shape = (texts, length + 1)
    state.tokens, state.heads, state.labels = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
    state.given = state.tokens - 1
    state.is_open = (columns > 0) & (columns < lengths[:, None])
    state.lengths, state.seeds = lengths, torch.arange(texts) + seed
    return state


def chosen_of(state, scores, *, level=1, most=100, **options):
    patterns = patterns_of(**options)
    room = Room.of(state, patterns, None, level=level, most=most, longest=most)
    chosen, _, cut = chosen_expansions(scores, state, patterns, ExpansionOptions(**options), level=level, room=room)
    return chosen, cut


def scores_for(state, rows=ROWS, seed=1):
    torch.manual_seed(seed)
    return torch.randn(*state.tokens.shape, len(rows), dtype=torch.float64).log_softmax(-1)


@pytest.mark.parametrize(
    "options",
    [
        {"boost": {"left": 50.0}, "top_p": 0.6},
        {"boost": {"left": 50.0}, "top_p": 0.6, "boost_before_truncation": True},
        {"boost": {"left": 50.0}, "top_p": 0.7, "temperature": 2.0, "boost_before_truncation": True},
        {"forbid": ("right",)},
        {},
    ],
    ids=str,
)  # fmt: skip
def test_expansions_follow_the_stated_distribution(options):
    probabilities = [0.3, 0.2, 0.2, 0.05, 0.15, 0.1]
    texts = 6000
    state = beginning(texts)
    found = drawn_expansions(
        torch.tensor(probabilities).log().expand(texts, 1, 6), state, patterns_of(**options),
        ExpansionOptions(**options), level=3,
    )  # fmt: skip
    share = found[:, 0].bincount(minlength=6) / texts
    forbidden = {4, 5} if "forbid" in options else set()
    allowed = [0 if k < 2 or k in forbidden else p for k, p in enumerate(probabilities)]
    temperature = options.get("temperature", 1.0)
    powers = oracle.renormalised([p ** (1 / temperature) if p else 0.0 for p in allowed])
    factors = [50 if "left" in row and "boost" in options else 1 for row in ROWS]
    before = bool(options.get("boost_before_truncation"))
    expected = oracle.styled(powers, factors, options.get("top_p", 1.0), before=before)
    torch.testing.assert_close(share, torch.tensor(expected), atol=0.02, rtol=0)
    assert not share[torch.tensor(expected) == 0].any()


def test_what_is_drawn_depends_on_seed_level_and_place_alone():
    state = opened(6, 4)
    scores = torch.zeros(6, 5, 6).log_softmax(-1)
    whole = drawn_expansions(scores, state, patterns_of(), ExpansionOptions(), level=2)
    assert (whole[~state.is_open] == 2).all()
    alone = [state.select(torch.tensor([row])) for row in range(6)]
    for row, each in enumerate(alone):
        length = each.tokens.shape[1]
        found = drawn_expansions(scores[:1, :length], each, patterns_of(), ExpansionOptions(), level=2)
        assert torch.equal(found[0], whole[row, :length])
    other = drawn_expansions(scores, state, patterns_of(), ExpansionOptions(), level=3)
    assert not torch.equal(other, whole)


def leaves_likely(state):
    """Scores by which texts end now: leaves have nearly all of the mass."""
    scores = scores_for(state)
    scores[..., 2] += 60
    return scores.log_softmax(-1)


@pytest.mark.parametrize("wish", ["min_tokens", "require", "words"])
def test_a_text_that_ends_too_early_grows_where_that_is_likeliest(wish):
    wishes = {"min_tokens": {}, "require": {"required": 1}, "words": {"words": 5}}[wish]
    options = {"min_tokens": {"min_tokens": 9}, "require": {"require": ("right",)}, "words": {}}[wish]
    state = opened(5, 4, **wishes)
    scores = leaves_likely(state)
    chosen, cut = chosen_of(state, scores, **options)
    assert not cut.any()
    grows = [3, 4, 5] if wish != "require" else [4, 5]
    for row in range(5):
        places = state.is_open[row].nonzero()[:, 0].tolist()
        best = max((float(scores[row, place, k]), place, k) for place in places for k in grows)
        expected = torch.full_like(chosen[row], 2)
        expected[best[1]] = best[2]
        assert torch.equal(chosen[row], expected)


def test_texts_that_have_what_they_are_to_have_end():
    state = opened(5, 4, required=1, words=1)
    state.lacks[:] = False
    chosen, _ = chosen_of(state, leaves_likely(state), require=("right",), min_tokens=2)
    assert (chosen == 2).all()
    state.lacks[:] = True
    scores = scores_for(state)
    scores[..., 4] += 60  # all bring it
    chosen, _ = chosen_of(state, scores.log_softmax(-1), require=("right",))
    assert (chosen[state.is_open] == 4).all()


def test_two_relations_come_in_turn():
    state = opened(2, 3, required=2)
    state.lacks[1, 0] = False
    scores = leaves_likely(state)
    scores[..., 5] -= 60  # that has both
    chosen, _ = chosen_of(state, scores, require=("left", "right"))
    rows = [[ROWS[k] for k in row if k != 2] for row in chosen.tolist()]
    assert [len(row) for row in rows] == [1, 1]
    assert "left" in rows[0][0]
    assert "right" in rows[1][0]


def test_texts_are_cut_at_the_limits():
    state = opened(6, 4)
    scores = scores_for(state)
    scores[..., 3:] += 60
    scores = scores.log_softmax(-1)
    grown = [
        int(length) + sum(len(ROWS[k]) - 1 for k, opened in zip(row, here, strict=True) if opened)
        for length, row, here in zip(
            state.lengths, chosen_of(state, scores)[0].tolist(), state.is_open.tolist(), strict=True
        )
    ]
    most = sorted(grown)[2]
    chosen, cut = chosen_of(state, scores, most=most)
    assert cut.tolist() == [length > most for length in grown]
    assert (chosen[cut] == 2).all()
    assert not cut.all()
    chosen, cut = chosen_of(state, scores, level=7, levels=7)
    assert cut.all()
    assert (chosen == 2).all()
    chosen, cut = chosen_of(state, leaves_likely(state), level=7, levels=7)
    assert not cut.any(), "texts that end at the last level are whole"


def test_a_wish_that_nothing_fulfils_ends_the_text():
    state = opened(3, 2)
    chosen, cut = chosen_of(state, leaves_likely(state), min_tokens=9, forbid=("left", "right"))
    assert (chosen == 2).all()
    assert not cut.any()


# -- words ------------------------------------------------------------------------------------------------------------


def words_of(state, log_probs, wanted, last, **options):
    return chosen_words(log_probs, state, ExpansionOptions(**options), wanted, level=1, last=last)


def taken_by_hand(found, scores, missing, wanted):
    """Of one text: each missing word in turn keeps the free place where it was drawn, or takes its likeliest."""
    found, taken = list(found), set()
    for word, token in enumerate(wanted):
        if missing[word]:
            free = [place for place in range(len(found)) if place not in taken]
            drawn = [place for place in free if found[place] == token]
            best = drawn[0] if drawn else max(free, key=lambda place: (scores[place][token], -place), default=None)
            if best is not None:
                found[best] = token
                taken.add(best)
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.data(), st.integers(0, 10**6))
def test_words_are_placed_at_the_last_level(data, seed):
    wanted = data.draw(st.permutations(range(6)))[: data.draw(st.integers(1, 4))]
    state = opened(4, 4, seed=seed, words=len(wanted))
    state.missing = torch.tensor(data.draw(st.lists(st.lists(st.booleans(), min_size=len(wanted),
                                 max_size=len(wanted)), min_size=4, max_size=4)))  # fmt: skip
    last = torch.tensor(data.draw(st.lists(st.booleans(), min_size=4, max_size=4)))
    torch.manual_seed(seed)
    scores = torch.randn(int(state.is_open.sum()), 6, dtype=torch.float64).log_softmax(-1)
    free, _ = chosen_words(scores, state, ExpansionOptions(), [], level=1, last=last)
    found, missing = words_of(state, scores, wanted, last)
    rows = state.is_open.nonzero()[:, 0].tolist()
    for text in range(4):
        here = [place for place, row in enumerate(rows) if row == text]
        drawn = [int(free[place]) for place in here]
        if last[text]:
            drawn = taken_by_hand(drawn, [scores[place].tolist() for place in here], state.missing[text], wanted)
        assert [int(found[place]) for place in here] == drawn
        assert missing[text].tolist() == [
            bool(lacks) and token not in drawn for lacks, token in zip(state.missing[text], wanted, strict=True)
        ]
        if last[text] and int(state.missing[text].sum()) <= len(here):
            assert not missing[text].any()


def test_a_text_is_selected_with_all_that_belongs_to_it():
    state = opened(5, 4, words=2, required=1)
    found = state.select(torch.tensor([4, 1]))
    assert isinstance(found, Growing)
    assert found.texts.tolist() == [4, 1]
    assert found.tokens.shape[1] == int(state.lengths[[4, 1]].max())
    assert found.missing.shape == (2, 2)
    assert not len(state.select(torch.tensor([], dtype=torch.int64)).texts)
