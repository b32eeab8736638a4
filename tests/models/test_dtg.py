"""DTG against tables written by hand, loops over its equations, and all trees over short sentences."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from lightning.pytorch import Trainer
from torch.utils.data import DataLoader

from depgen.backbones.transformer import Transformer, TransformerXLInit
from depgen.data.batch import ItemBatch, StreamSlice, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.settings import StructureOptions
from depgen.errors import UserError
from depgen.language_models.structured import Strings, Writing
from depgen.models.dtg import (
    DTG,
    LEFT,
    NO_HEAD,
    RIGHT,
    SHIFT,
    ArcPosition,
    arc_actions,
    are_built,
    edges_of_actions,
    heads_of_actions,
    single_root,
    string_of,
)
from tests.backbones.test_relative_positions import HEADS, WIDTH, literal_states
from tests.contract.batches import PLAIN
from tests.contract.systems import ONE_LAYER, TRANSFORMER_XL, VOCABULARY, System, built
from tests.models.projective_trees import all_beginnings, all_heads, all_trees
from tests.nn.test_stack_attention import table
from tests.trees.trees import projective_heads

EXACT = {"rtol": 0, "atol": 1e-8}
ROOT_ID, LEFT_ID, RIGHT_ID = VOCABULARY, VOCABULARY + 1, VOCABULARY + 2
WIDE = {"beam_size": 1000, "word_beam_size": None}
PAPER = {
    "layers": 16, "width": 1024, "attention_heads": 8, "feedforward": 4096, "positions": "relative",
    "norm_first": False, "attention_bias": False, "output_bias": True, "scale_embedding": False, "dropout": 0.0,
}  # fmt: skip
POST_LN = {**PAPER, "layers": 2, "width": WIDTH, "attention_heads": HEADS, "feedforward": 20}


def made(**options) -> DTG:
    return built(System(partial(DTG, TRANSFORMER_XL, **options)))


@pytest.fixture
def model():
    return made(**WIDE)


def item_of(index, ids, heads=None, ends=None):
    """A sentence; heads are of words, and `ends` says where these end."""
    if heads is not None and ends is not None:
        starts, last = np.flatnonzero(np.append(True, ends[:-1])), np.flatnonzero(ends) + 1
        pieces = np.arange(len(ids))
        pieces[starts] = [last[head - 1] if head else 0 for head in heads]
        heads = pieces
    heads, ends = (None if each is None else np.array(each) for each in (heads, ends))
    return TokenItem(index, np.array(ids, np.int64), heads, ends)


def batch_of(model, items):
    return model.collate(ItemBatch(items, sum(len(item.ids) + 1 for item in items), PLAIN))


def joint(model, ids, structures):
    """The joint log-probabilities of the tokens of a sentence, with each of some structures."""
    found = model.sentence_log_probs(
        [[ids]] * len(structures), vocabulary=PLAIN, structure=[[each] for each in structures]
    )
    return np.stack([each[0] for each in found])


# -- sequences of actions ---------------------------------------------------------------------------------------------


@given(projective_heads(max_size=14))
def test_a_tree_comes_back_from_its_actions(heads):
    actions = arc_actions(heads)
    assert [max(head, 0) for head in heads_of_actions(actions)] == heads
    assert are_built(heads, actions)
    assert actions.count(SHIFT) == len(heads)
    assert len(actions) == 2 * len(heads) - 1


def sequences(length):
    """Every sequence that puts some words on a stack and joins them, a word's dependents on the left first."""
    found, begun = [], [([], [], 0)]
    while begun:
        actions, stack, read = begun.pop()
        if read == length:
            found.append(actions)
        else:
            begun.append(([*actions, SHIFT], [*stack, False], read + 1))
        if len(stack) > 1:
            if not stack[-1]:
                begun.append(([*actions, LEFT], [*stack[:-2], False], read))
            begun.append(([*actions, RIGHT], [*stack[:-2], True], read))
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_sequences_and_trees_are_as_many(length):
    made = [heads_of_actions(actions) for actions in sequences(length)]
    assert len({tuple(heads) for heads in made}) == len(made)
    whole = [[max(head, 0) for head in heads] for heads in made if heads.count(NO_HEAD) == 1]
    assert sorted(map(tuple, whole)) == sorted(all_heads(length))
    assert len(made) == len(all_beginnings(length))
    for actions, heads in zip(sequences(length), made, strict=True):  # also of words that wait for their heads
        assert arc_actions(heads) == actions


def test_arcs_that_cross_are_not_all_built():
    assert not are_built([3, 4, 0, 3], arc_actions([3, 4, 0, 3]))


def test_later_roots_depend_on_the_first():
    assert single_root([2, 0, 0, 3, 0]) == [2, 0, 2, 3, 2]
    assert single_root([2, NO_HEAD, NO_HEAD]) == [2, NO_HEAD, NO_HEAD]
    assert single_root([]) == []
    assert arc_actions([]) == heads_of_actions([]) == []


# -- strings ----------------------------------------------------------------------------------------------------------

# the dog chas·ed a cat: the <- dog <- chased -> cat -> a
IDS, OPENS, TREE = [3, 4, 5, 6, 7, 8], [True, True, True, False, True, True], [2, 3, 0, 5, 3]
# <bos> the dog LEFT LEFT chas ed LEFT LEFT a cat LEFT LEFT RIGHT RIGHT ROOT
SEEN = table(
    """0 . . . . . . . . . . . . . . .
1 0 . . . . . . . . . . . . . .
2 1 0 . . . . . . . . . . . . .
. -1 0 0 . . . . . . . . . . . .
1 . . 0 0 . . . . . . . . . . .
2 . . 1 . 0 . . . . . . . . . .
2 . . 1 . 0 0 . . . . . . . . .
. . . -1 . 0 0 0 . . . . . . . .
1 . . . . . . 0 0 . . . . . . .
2 . . . . . . 1 . 0 . . . . . .
3 . . . . . . 2 . 1 0 . . . . .
. . . . . . . . . -1 0 0 . . . .
2 . . . . . . 1 . . . 0 0 . . .
. . . . . . . 0 . . . -1 . 0 . .
1 . . . . . . . . . . . . 0 0 .
0 . . . . . . . . . . . . -1 . 0"""
)


def positions_of(*text):
    return ArcPosition(*Strings.of(ArcPosition(), [string_of(*text, eos=0, size=VOCABULARY)]).columns)


def test_the_mask_and_the_distances_of_five_words_are_those_of_the_table():
    found = positions_of(IDS, OPENS, arc_actions(TREE)).attention
    assert torch.equal(found.visible[0], SEEN > -9)
    assert torch.equal(found.distances[0].where(found.visible[0], -9), SEEN)


def test_what_follows_five_words_belongs_to_their_targets():
    found, nothing = positions_of(IDS, OPENS, arc_actions(TREE)), -1
    follows = [0, 0, 1, nothing, 0, 0, 1, nothing, 0, 0, 1, nothing, 2, nothing, 0, nothing]
    assert found.follows[0].tolist() == follows
    assert found.places[0, found.follows[0] > nothing].tolist() == [0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 6]


def test_a_word_with_a_dependent_on_its_right_takes_none_on_its_left():
    found = positions_of([3, 4, 5], [True] * 3, [0, 0, 0, 2])
    assert ROOT_ID not in found.symbols  # several words are left, so that the text does not end
    assert found.follows[0].tolist() == [0, 0, 0, 2, -1, -1]
    assert found.may_join[0, [3, 5]].tolist() == [[True, True], [False, True]]


def test_choices_and_actions_of_a_text_are_one_another():
    vocabulary = Vocabulary.of_words("abcdefghijk")
    for edges in all_trees(4):
        heads = [head for head, *_ in edges]
        actions = arc_actions(heads)
        choices = made().choices_of([3, 4, 5, 6], actions, vocabulary)
        assert [max(0, each - VOCABULARY) for each in choices] == actions
        assert edges_of_actions(actions) == edges
        assert edges_of_actions(actions, ended=False) == tuple(each for each in edges if each[0])


def test_trees_that_are_not_projective_are_lifted():
    crossing, lifted = (batch_of(made(), [item_of(0, [3, 4, 5, 6], heads)]) for heads in ([3, 4, 0, 3], [3, 3, 0, 3]))
    assert torch.equal(crossing.strings.columns, lifted.strings.columns)


# -- equations --------------------------------------------------------------------------------------------------------


def order_of(heads):
    """The actions of a tree by recursion: dependents on the left, the word, its arcs to them; those on the right."""

    def visit(word):
        before, after = ([k for k in range(1, len(heads) + 1) if heads[k - 1] == word and (k < word) is left]
                         for left in (True, False))  # fmt: skip
        yield from (each for dependent in before for each in visit(dependent))
        yield word
        yield from ("LEFT" for _ in before)
        for dependent in after:
            yield from visit(dependent)
            yield "RIGHT"

    return list(visit(heads.index(0) + 1))


def naive_nll(model, words, heads):
    """The nats of arcs and tokens of a sentence (lists of pieces) by loops, from the embedding on."""
    embedding, weight, bias = model.backbone.embedding.weight, model.backbone.output_weight, model.backbone.output_bias
    vectors, seen, stack, events = [], [], [], []

    def new(vector, keys, distance):
        vectors.append(vector)
        seen.append([*((k, distance(k)) for k in keys if k < len(vectors) - 1), (len(vectors) - 1, 0)])
        return len(vectors) - 1

    def on_stack():
        return {k: len(stack) - 1 - height for height, (columns, *_) in enumerate(stack) for k in columns}

    def possible():
        arcs = [
            *(["LEFT"] if len(stack) > 2 and not stack[-1][2] else []),
            *(["RIGHT"] if len(stack) > 2 else []),
        ]
        return arcs, len(stack) <= 2

    def piece(token):
        stack[-1][0].append(len(vectors))
        stack[-1][1] = token
        keys = on_stack()
        return new(embedding[token], keys, keys.get)

    stack.append([[], 0, False])
    at = piece(0)
    for action in order_of(heads):
        if action in ("LEFT", "RIGHT"):
            events.append((at, action, None, *possible()))
            top, below = stack.pop(), stack.pop()
            head, dependent = (top, below) if action == "LEFT" else (below, top)
            vector = embedding[LEFT_ID if action == "LEFT" else RIGHT_ID] + embedding[head[1]]
            keys = {**dict.fromkeys(head[0], 0), **dict.fromkeys(dependent[0], -1)}
            stack.append([[new(vector, keys, keys.get)], head[1], action == "RIGHT"])
            keys = on_stack()
            at = new(vector, keys, keys.get)
        else:
            for place, token in enumerate(words[action - 1]):
                events.append((at, "token", token, *possible()))
                if not place:
                    stack.append([[], token, False])
                at = piece(token)
    events.append((at, "token", ROOT_ID, *possible()))
    keys = {**dict.fromkeys(stack[0][0], 0), **dict.fromkeys(stack[1][0], -1)}
    at = new(embedding[ROOT_ID] + embedding[0], keys, keys.get)
    events.append((at, "token", 0, [], None))
    hidden, nats = literal_states(model.backbone, torch.stack(vectors), seen), 0.0
    for at, action, token, arcs, ends in events:
        logits = dict(
            zip(("padding", "LEFT", "RIGHT", "token"), model.action_network(hidden[at]).tolist(), strict=True)
        )
        allowed = ["token", *arcs]
        nats -= logits[action] - math.log(sum(math.exp(logits[each]) for each in allowed))
        if token is not None:
            scores = (weight @ hidden[at] + bias).tolist()
            kinds = [0] if ends is None else [*range(1, VOCABULARY), *([ROOT_ID] if ends else [])]
            nats -= scores[token] - math.log(sum(math.exp(scores[each]) for each in kinds))
    return nats


@torch.no_grad()
def test_the_loss_is_that_of_loops_over_the_equations():
    model = built(System(partial(DTG, partial(Transformer, **POST_LN))))
    cases = [
        ([[3], [4, 5], [6], [7], [8, 9, 3]], [2, 3, 0, 5, 3]),
        ([[3]], [0]),
        ([[4], [3], [7]], [2, 0, 2]),
        ([[4, 4], [3], [7], [11]], [0, 1, 2, 1]),
    ]
    items = []
    for index, (words, heads) in enumerate(cases):
        ends = [place == len(word) - 1 for word in words for place in range(len(word))]
        items.append(item_of(index, [token for word in words for token in word], heads, ends))
    batch = batch_of(model, items)
    expected = [naive_nll(model, words, heads) for words, heads in cases]
    assert model.training_step(batch, 0).item() * batch.global_tokens == pytest.approx(sum(expected), abs=2e-5)
    found = model.item_scores(batch)
    np.testing.assert_allclose(found.nll[:, 0], expected, atol=1e-5)
    assert found.tokens[:, 0].tolist() == [9, 2, 4, 6]
    assert not found.of_text
    assert model.item_scores(replace(batch, strings=None)).of_text


def test_a_split_has_no_perplexity_where_structures_take_part_in_its_scores():
    model = built(System(partial(DTG, partial(Transformer, **POST_LN))))
    batch = batch_of(model, [item_of(0, [3, 4, 5], [2, 0, 2]), item_of(1, [6], [0])])
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    (logged,) = trainer.validate(model, DataLoader([batch], batch_size=None), verbose=False)
    expected = naive_nll(model, [[3], [4], [5]], [2, 0, 2]) + naive_nll(model, [[6]], [0])
    assert logged["val/loss"] == pytest.approx(expected / batch.global_tokens, abs=1e-5)
    assert "val/perplexity" not in logged


def test_the_number_of_parameters_is_that_of_the_network_and_what_is_added():
    network = partial(Transformer, **PAPER, init=TransformerXLInit())
    with torch.device("meta"):
        model = DTG(network, 32772)
    of_actions = 1024 * 1024 + 1024 + 4 * 1024 + 4
    assert sum(each.numel() for each in model.parameters()) == 251_844_612 + 3 * (1024 + 1) + of_actions


def test_all_parameters_are_trained_and_the_embedding_at_its_own_rate():
    model = made(embedding_learning_rate=0.25)
    model.training_step(batch_of(model, [item_of(0, [3, 4, 5, 3], [2, 0, 2, 3])]), 0).backward()
    assert not {name for name, each in model.named_parameters() if each.grad is None}
    others, embedding = model.parameter_groups()
    assert embedding == {"params": [model.backbone.embedding.weight], "lr": 0.25}
    assert "lr" not in others
    assert len(others["params"]) == len(list(model.parameters())) - 1
    assert len(made().parameter_groups()) == len(list(model.parameters()))


def test_what_cannot_be_read_is_refused(model):
    with pytest.raises(UserError, match=r"data\.init_args\.annotator"):
        model.training_step(batch_of(model, [item_of(0, [3, 4])]), 0)
    part = StreamSlice(0, (item_of(0, [3, 4]),), 1, 3)
    with pytest.raises(UserError, match=r"depgen\.data\.text\.TextData"):
        model.collate(ItemBatch([part], 3, PLAIN, segment=0))
    with pytest.raises(UserError, match="positions: relative"):
        DTG(ONE_LAYER, VOCABULARY)
    for edges, remedy in (
        ([(2, 1, "dep"), (3, 1, "dep")], "two of word 1"),
        ([(3, 1, "dep"), (4, 2, "dep"), (0, 3, "root"), (3, 4, "dep")], "projective tree"),
        ([(2, 1, "dep"), (1, 2, "dep")], "projective tree"),
        ([(9, 1, "dep")], "between 4 words"),
    ):
        with pytest.raises(UserError, match=f"text 1: .*{remedy}"):
            joint(model, [3, 4, 5, 6], [edges])


# -- beams ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("ids", "number"), [([8, 9, 3], 7), ([4, 3, 7, 9], 30)])
def test_a_parse_is_the_likeliest_of_all_trees(model, ids, number):
    trees = all_trees(len(ids))
    assert len(trees) == number
    best = trees[joint(model, ids, trees).sum(1).argmax()]
    assert model.parse([ids, [5], ids], vocabulary=PLAIN, beam_size=50) == [best, ((0, 1, "root"),), best]


@torch.no_grad()
def test_words_of_several_pieces_are_joined_when_they_are_whole(model):
    ids, ends = [8, 9, 3, 4, 5], [False, True, True, False, True]
    whole = batch_of(model, [item_of(k, ids, heads, ends) for k, heads in enumerate(all_heads(3))])
    batch = batch_of(model, [item_of(0, ids, None, ends)])
    assert int(batch.opens.sum()) == 3
    expected = np.logaddexp.reduce(-model.joint_nll(whole).numpy())
    assert float(model.log_probs(batch).sum()) == pytest.approx(expected, abs=1e-8)


@pytest.mark.slow
@torch.no_grad()
def test_no_search_ends_without_a_hypothesis(monkeypatch):
    ids = np.random.default_rng(0).integers(3, VOCABULARY, 40).tolist()
    for options, most in (({"beam_size": 1}, 14), ({"beam_size": 2, "word_beam_size": 1}, 14), ({"beam_size": 3}, 0)):
        model = made(**{"word_beam_size": None, **options})
        monkeypatch.setattr("depgen.models.dtg.MAX_ARCS", most)
        model.action_network[-1].bias.copy_(torch.tensor([0.0, -9.0, -9.0, 9.0]))  # all words onto the stack
        found, (tree,) = model.search(batch_of(model, [item_of(0, ids)]), beam_size=model.beam_size)
        assert found.isfinite().all()
        assert heads_of_actions(tree).count(-1) == 1
        assert most or tree[:40] == [0] * 40


@torch.no_grad()
def test_arcs_between_tokens_are_at_most_as_many_as_allowed(model, monkeypatch):
    ids = [8, 9, 3, 4]
    monkeypatch.setattr("depgen.models.dtg.MAX_ARCS", 1)
    trees = [each for each in all_trees(4) if most_arcs(each) <= 1]
    assert 0 < len(trees) < 30
    expected = np.logaddexp.reduce(joint(model, ids, trees).sum(1))
    assert float(model.log_probs(batch_of(model, [item_of(0, ids)])).sum()) == pytest.approx(expected, abs=1e-8)


def most_arcs(edges):
    """The most arcs between two words of a tree."""
    actions = "".join(map(str, arc_actions([head for head, *_ in edges])))
    return max(len(each) for each in actions.split("0")[:-1])


# -- texts ------------------------------------------------------------------------------------------------------------


def test_the_length_of_a_text_counts_tokens_and_not_arcs(caplog):
    model = made(beam_size=3)
    with torch.no_grad():
        model.backbone.embedding.weight[ROOT_ID] *= 0
        model.action_network[-1].bias.copy_(torch.tensor([0.0, 3.0, 3.0, 0.0]))
    model.backbone.bias = torch.nn.Parameter(torch.zeros(VOCABULARY + 3).double())
    model.backbone.bias.data[ROOT_ID] = -1e4
    for kind in (StructureOptions(), StructureOptions(beam_size=4)):
        caplog.clear()
        texts = model.generate([[4, 3], [2]], vocabulary=PLAIN, options=kind, seeds=range(2), max_new_tokens=4)
        assert [len(text.ids) for text in texts] == [4, 4]
        assert all(len(text.structure) >= 3 for text in texts)
        assert "2 of 2 texts were cut at 4 new tokens" in caplog.text


def test_a_piece_that_continues_a_word_follows_no_arc():
    model = made(beam_size=3)
    opens = np.array([index % 2 == 0 for index in range(VOCABULARY)])
    vocabulary = Vocabulary.of_words("abcdefghijk")
    vocabulary.opens_word = opens
    writing = Writing(vocabulary, model.device, max_new_tokens=100, longest=102)
    choices, state = model.writing_step(writing, torch.tensor([[0, 4, 6], [0, 4, 5]]), None, None)
    assert state.stack.words.tolist() == [2, 1]
    assert choices.isfinite()[:, :VOCABULARY].sum(1).tolist() == [VOCABULARY - 1] * 2
    choices, state = model.writing_step(writing, torch.tensor([[LEFT_ID], [7]]), None, state)
    assert state.stack.words.tolist() == [1, 1]
    found = choices.isfinite()[:, 1:VOCABULARY]
    assert found[0].tolist() == opens[1:].tolist()
    assert found[1].all()
