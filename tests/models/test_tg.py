"""Transformer Grammars against tables written by hand, loops over the equations, and all trees of short sentences."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.backbones.transformer import Transformer, TransformerXLInit
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.generated import GeneratedLanguage
from depgen.data.vocabulary import SubwordPieces, Vocabulary, WordVocabulary
from depgen.errors import UserError
from depgen.language_models.structured import NEVER, NOTHING, Strings, columns_of
from depgen.models.tg import (
    LABELS,
    WORD,
    BracketStack,
    ConstituentLabels,
    GrammarPosition,
    TransformerGrammar,
    closing,
    constituents_of,
    is_closing,
    opening,
    positions_of,
    symbols_of,
)
from depgen.trees.sentence import Document, Sentence
from tests.backbones.test_relative_positions import HEADS, WIDTH, literal_states
from tests.contract.systems import VOCABULARY, System, built
from tests.models.labelled_trees import all_trees, trees
from tests.nn.test_stack_attention import table

S, NP, VP = range(3)
NAMES = ["TOP", "NP"]
WORDS = Vocabulary.of_words("abcdefghijk", tables={"labels": NAMES})
SENTENCES = [[4, 3, 7, 9], [5], [8, 9, 3], [3, 3]]
TREES = [
    [(0, 4, "TOP"), (0, 2, "NP"), (2, 4, "NP"), (3, 4, "TOP")],
    [(0, 1, "NP")],
    [(0, 3, "NP"), (0, 3, "TOP"), (1, 2, "NP")],
    [(0, 2, "TOP")],
]
EXACT = {"rtol": 0, "atol": 1e-10}
NETWORK = {
    "feedforward": 8, "positions": "relative", "norm_first": False, "attention_bias": False, "scale_embedding": False,
    "output_bias": True, "dropout": 0.0,
}  # fmt: skip
POST_NORM = partial(Transformer, layers=2, width=WIDTH, attention_heads=HEADS, **NETWORK)


def made(network=POST_NORM, **options):
    """A system in double precision that holds every hypothesis unless options say otherwise."""
    options = {"labels": 2, "max_openings": 2, "beam_size": 10_000, "word_beam_size": None, "fast_track": 0, **options}
    return built(System(partial(TransformerGrammar, network, **options)))


@pytest.fixture
def model():
    return made()


def batch_of(model, sentences, trees=None, vocabulary=WORDS, **columns):
    items = [TokenItem(k, np.array(ids, np.int64), **columns) for k, ids in enumerate(sentences)]
    if trees is not None:
        items = [
            replace(
                item,
                spans=np.array([each[:2] for each in tree], dtype=np.int64).reshape(-1, 2),
                span_labels=np.array([each[2] for each in tree]),
            )
            for item, tree in zip(items, trees, strict=True)
        ]
    return model.collate(ItemBatch(items, sum(len(ids) + 1 for ids in sentences), vocabulary))


# -- trees as strings -------------------------------------------------------------------------------------------------


@given(trees())
def test_a_tree_comes_back_from_its_string(tree):
    length, spans = tree
    symbols = symbols_of(spans, length)
    assert constituents_of(symbols) == spans
    assert symbols.count(WORD) == length
    assert len(symbols) == length + 2 * len(spans)
    assert (symbols[0], symbols[-1]) == (opening(spans[0][2]), closing(spans[0][2]))


def test_a_string_is_written_by_hand():
    assert symbols_of([(0, 3, S), (0, 2, NP), (2, 3, VP)], 3) == [  # (S (NP the dog NP) (VP barks VP) S)
        opening(S), opening(NP), WORD, WORD, closing(NP), opening(VP), WORD, closing(VP), closing(S),
    ]  # fmt: skip
    chain = symbols_of([(0, 1, S), (0, 1, VP), (0, 1, NP)], 1)
    assert chain == [opening(S), opening(VP), opening(NP), WORD, closing(NP), closing(VP), closing(S)]


def test_a_constituent_is_put_around_a_sentence_that_none_covers():
    assert constituents_of(symbols_of([], 2)) == [(0, 2, 0)]
    assert constituents_of(symbols_of([(0, 1, NP), (1, 2, VP)], 2)) == [(0, 2, S), (0, 1, NP), (1, 2, VP)]


def test_brackets_that_are_open_at_the_end_close_there():
    assert constituents_of([opening(S), opening(NP), WORD, closing(NP), opening(VP), WORD]) == [
        (0, 2, S),
        (0, 1, NP),
        (1, 2, VP),
    ]


@pytest.mark.parametrize(
    ("spans", "place"),
    [
        ([(0, 3, S), (0, 2, NP), (1, 3, VP)], r"\(1, 3\)"),
        ([(0, 3, S), (2, 4, NP)], r"\(2, 4\)"),
        ([(0, 3, S), (1, 1, NP)], r"\(1, 1\)"),
        ([(0, 3, S), (1, 2, NP), (0, 2, VP)], r"\(0, 2\)"),
        ([(0, 3, S), (7, 9, NP)], r"\(7, 9\)"),
    ],
)
def test_what_is_no_tree_is_refused(spans, place):
    with pytest.raises(UserError, match=place):
        symbols_of(spans, 3)


# -- attention --------------------------------------------------------------------------------------------------------

# the dog saw a cat: (S (NP the dog NP) (VP saw (NP (NP a NP) cat NP) VP) S)
TREE = [(0, 5, "TOP"), (0, 2, "NP"), (2, 5, "TOP"), (3, 5, "NP"), (3, 4, "NP")]
# what <bos> (S (NP the dog NP) NP) (VP saw (NP (NP a NP) NP) cat NP) NP) VP) VP) sees, and how much deeper it is
SEEN = table(
    """0 . . . . . . . . . . . . . . . . . .
1 0 . . . . . . . . . . . . . . . . .
2 1 0 . . . . . . . . . . . . . . . .
3 2 1 0 . . . . . . . . . . . . . . .
3 2 1 0 0 . . . . . . . . . . . . . .
. . 0 -1 -1 0 . . . . . . . . . . . . .
2 1 . . . 0 0 . . . . . . . . . . . .
2 1 . . . 0 . 0 . . . . . . . . . . .
3 2 . . . 1 . 1 0 . . . . . . . . . .
3 2 . . . 1 . 1 0 0 . . . . . . . . .
4 3 . . . 2 . 2 1 1 0 . . . . . . . .
5 4 . . . 3 . 3 2 2 1 0 . . . . . . .
. . . . . . . . . . 0 -1 0 . . . . . .
4 3 . . . 2 . 2 1 1 . . 0 0 . . . . .
4 3 . . . 2 . 2 1 1 . . 0 . 0 . . . .
. . . . . . . . . 0 . . -1 . -1 0 . . .
3 2 . . . 1 . 1 0 . . . . . . 0 0 . .
. . . . . . . 0 -1 . . . . . . -1 . 0 .
2 1 . . . 0 . . . . . . . . . . . 0 0"""
)


def test_a_sentence_of_five_words_sees_what_the_table_says(model):
    batch = batch_of(model, [[3, 4, 5, 6, 7], [3]], [TREE, []])
    found = GrammarPosition(*batch.strings.columns).attention
    assert torch.equal(found.visible[0], SEEN > -9)
    assert torch.equal(found.distances[0].where(found.visible[0], -9), SEEN)


# -- strings ----------------------------------------------------------------------------------------------------------

SENTENCE = [(0, 3, S), (0, 2, NP), (2, 3, VP)]  # (S (NP the dog NP) (VP barks VP) S)


def test_positions_of_a_sentence():
    found = GrammarPosition(*columns_of(positions_of(symbols_of(SENTENCE, 3))).tolist())
    #    beginning   (S (NP the dog NP) NP) (VP barks VP) VP)
    n, at = NOTHING, closing
    assert found.symbols == [n, opening(S), opening(NP), 0, 0, at(NP), at(NP), opening(VP), 0, at(VP), at(VP)]
    assert found.follows == [opening(S), opening(NP), 0, 0, at(NP), n, opening(VP), 0, at(VP), n, at(S)]
    assert found.depths == [0, 1, 2, 3, 3, 2, 2, 2, 3, 2, 2]
    assert found.popped == [NEVER, NEVER, 5, 5, 5, NEVER, 6, 9, 9, NEVER, 10]
    assert found.closable == [n, n, n, NP, NP, n, S, n, VP, n, S]
    assert found.openings == [0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0]
    assert found.places == [0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3]


# -- batches ----------------------------------------------------------------------------------------------------------


def test_labels_have_the_numbers_of_the_table_and_unknown_ones_that_of_the_first(model):
    found = batch_of(model, [[3, 4]] * 2, [[(0, 2, "NP"), (0, 1, "XP")], [(0, 1, "NP")]])
    found = GrammarPosition(*found.strings.columns)
    assert found.follows.tolist() == [[3, 1, 0, 2, -1, 0, 4], [1, 3, 0, 4, -1, 0, 2]]
    assert found.places[0].tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_what_cannot_be_read_is_refused(model):
    assert batch_of(model, SENTENCES).strings is None
    with pytest.raises(UserError, match=r"data\.init_args\.annotator"):
        model.training_step(batch_of(model, SENTENCES), 0)
    with pytest.raises(UserError, match="ConstituentLabels"):
        batch_of(model, SENTENCES, TREES, Vocabulary.of_words("abcdefghijk"))
    deep = [*TREES[:2], [(0, 3, "NP")] * 3, TREES[3]]
    with pytest.raises(UserError, match=r"sentence 3.* 2 .* found 3.*max_openings"):
        batch_of(model, SENTENCES, deep)
    with pytest.raises(UserError, match="positions: relative"):
        TransformerGrammar(partial(Transformer, layers=1, width=8, attention_heads=2), VOCABULARY, labels=1)


# -- stacks -----------------------------------------------------------------------------------------------------------


def grown(symbols):
    """The stack after each column of a string, but its last bracket, and what each column sees."""
    stack, seen = BracketStack.beginning(torch.tensor([0])), []
    stacks = [stack]
    for symbol in symbols[:-1]:
        if is_closing(symbol):
            attention, stack = stack.composing(torch.tensor([True]))
            stacks, seen = [*stacks, stack], [*seen, attention]
        attention, stack = stack.stacking(torch.tensor([symbol]))
        stacks, seen = [*stacks, stack], [*seen, attention]
    return stacks, seen


@given(trees())
@settings(max_examples=40, deadline=None)
def test_columns_are_what_positions_say(tree):
    length, spans = tree
    symbols = symbols_of(spans, length)
    positions = positions_of(symbols)
    whole = GrammarPosition(*Strings.of(GrammarPosition(), [columns_of(positions)]).columns).attention
    stacks, seen = grown(symbols)
    assert len(stacks) == len(positions)
    for place, attention in enumerate(seen, start=1):
        visible = attention.visible[0, 0]
        assert torch.equal(visible, whole.visible[0, place, : place + 1])
        assert torch.equal(attention.distances[0, 0][visible], whole.distances[0, place, : place + 1][visible])
    for place, (position, stack) in enumerate(zip(positions, stacks, strict=True), start=1):
        if not position.composes:
            assert (stack.closable.tolist(), stack.openings.tolist()) == ([position.closable], [position.openings])
            before = [other.symbols for other in positions[1:place] if not other.composes]
            assert stack.symbols[0].tolist() == before


@given(trees(most_words=5), trees(most_words=5), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_rows_do_not_depend_on_each_other_and_columns_off_the_stack_do_not_matter(one, other, random):
    strings = [symbols_of(spans, length)[:-1] for length, spans in (one, other)]
    left, steps = [list(reversed(each)) for each in strings], []  # the symbols of both, with gaps
    while any(left):
        steps.append(torch.tensor([each.pop() if each and random.random() < 0.7 else NOTHING for each in left]))
    stack = BracketStack.beginning(torch.tensor([0, 0]))
    for symbols in steps:
        closes = is_closing(symbols)
        if closes.any():
            _, stack = stack.composing(closes)
        _, stack = stack.stacking(symbols)
        if random.random() < 0.5:
            stack, kept = stack.compacted()
            assert 1 + kept.size(1) == stack.depths.size(1) == 1 + int(stack.on_stack.sum(1).max())
            assert not stack.on_stack[:, 0].any()
    for row, string in enumerate(strings):
        alone = grown([*string, 0])[0][-1]
        for name in stack.columns:
            assert torch.equal(getattr(stack, name)[row][stack.on_stack[row]], getattr(alone, name)[alone.on_stack])
        assert stack.closable[row] == alone.closable[0]
        assert stack.open_brackets[row] == alone.open_brackets[0]
        assert [each for each in stack.symbols[row].tolist() if each != NOTHING] == string
    swapped = stack.select(torch.tensor([1, 0, 1]))
    assert torch.equal(swapped.closable, stack.closable[[1, 0, 1]])


# -- equations --------------------------------------------------------------------------------------------------------


def naive_log_prob(model, ids, tree):
    """The log-probability of a sentence and its tree, by lists and loops."""
    backbone, labels = model.backbone, len(NAMES)
    # symbols: token, depth, role
    string, around = [(0, 0, "shift")], []
    for place, token in enumerate(ids):
        for start, end, name in tree:
            if start == place:
                around.append((end, VOCABULARY + NAMES.index(name)))
                string.append((around[-1][1], len(around), "open"))
        string.append((token, len(around) + 1, "shift"))
        while around and around[-1][0] == place + 1:
            closes = around.pop()[1] + labels
            string += [(closes, len(around) + 1, "compose"), (closes, len(around) + 1, "stack")]
    stack, seen = [], []
    for place, (_, _, role) in enumerate(string):
        if role == "compose":
            last = max(k for k in stack if string[k][2] == "open")
            seen.append([*(k for k in stack if k >= last), place])
            stack = [*(k for k in stack if k < last), place]
        else:
            seen.append([*stack, place])
            if role != "stack":
                stack.append(place)
    depths = [depth for _, depth, _ in string]
    seen = [
        [(key, min(max(depth - depths[key], -1), 62)) for key in keys] for depth, keys in zip(depths, seen, strict=True)
    ]
    embedded = backbone.embedding.weight[torch.tensor([token for token, *_ in string])]
    hidden, total = literal_states(backbone, embedded, seen), 0.0
    for place, ((_, _, role), (target, *_)) in enumerate(pairwise(string)):
        if role != "compose":
            logits = backbone.output_weight @ hidden[place] + backbone.output_bias
            total = total + masked(logits, string, place, model.max_openings, labels).log_softmax(0)[target]
    return total


def masked(logits, string, place, max_openings, labels):
    """The logits of what may come after a place of a string, by its definition."""
    before = [each for each in string[: place + 1] if each[2] != "compose"]
    around, fresh, opened = [], True, 0
    for token, _, role in before[1:]:
        if role == "open":
            around.append(token)
            fresh, opened = True, opened + 1
        else:
            around = around[:-1] if role == "stack" else around
            fresh, opened = False, 0 if role == "shift" else opened
    possible = set(range(1, VOCABULARY)) if around else set()
    possible |= {VOCABULARY + k for k in range(labels)} if opened < max_openings else set()
    possible |= set() if fresh or not around else {around[-1] + labels}
    return logits.masked_fill(torch.tensor([k not in possible for k in range(len(logits))]), -torch.inf)


@torch.no_grad()
def test_the_loss_is_that_of_loops_over_the_equations():
    model = made()
    expected = sum(naive_log_prob(model, ids, tree) for ids, tree in zip(SENTENCES, TREES, strict=True))
    loss = model.training_step(batch_of(model, SENTENCES, TREES), 0)
    torch.testing.assert_close(loss, -expected / 14, rtol=0, atol=1e-6)  # sinusoids are single precision


def test_the_loss_reaches_every_parameter(model):
    model.train()
    loss = model.training_step(batch_of(model, SENTENCES, TREES), 0)
    loss.backward()
    assert not {name for name, each in model.named_parameters() if each.grad is None}
    assert all(each.grad.isfinite().all() for each in model.parameters())


def test_the_number_of_parameters_is_that_of_transformer_xl_and_two_symbols_a_label():
    paper = {**NETWORK, "layers": 16, "width": 1024, "attention_heads": 8, "feedforward": 4096}
    network = partial(Transformer, **paper, init=TransformerXLInit())
    with torch.device("meta"):
        model = TransformerGrammar(network, 32_772, labels=26)
        authors = TransformerGrammar(network, 32_768 - 52, labels=26)  # their 32,768 symbols include the brackets
    layer = 3 * 1024**2 + 1024**2 + 1024**2 + 2 * 1024 * 4096 + 4096 + 1024 + 4 * 1024
    assert sum(each.numel() for each in model.parameters()) == 251_844_612 + 52 * 1025
    assert sum(each.numel() for each in authors.parameters()) == 16 * layer + 2 * 1024 + 32_768 * 1025


# -- beams ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(
    ("labels", "max_openings", "ids", "number"), [(2, 2, [8, 9], 70), (1, 2, [8, 9, 3], 63), (2, 1, [8, 9, 3], 30)]
)
def test_a_wide_beam_sums_all_trees_and_the_best_is_the_parse(labels, max_openings, ids, number):
    model = made(labels=labels, max_openings=max_openings)
    trees = all_trees(len(ids), labels=NAMES[:labels], max_openings=max_openings)
    assert len(trees) == number
    found = model.sentence_log_probs([[ids]] * number, vocabulary=WORDS, structure=[[tree] for tree in trees])
    joint = np.array([row.sum() for (row,) in found])
    total = float(model.log_probs(batch_of(model, [ids])).sum())
    assert total == pytest.approx(np.logaddexp.reduce(joint), abs=1e-8)
    found = model.bracketings([ids, [5]], vocabulary=WORDS, word_starts=[])
    assert found[0] == list(trees[int(joint.argmax())])
    assert {each[:2] for each in found[1]} == {(0, 1)}


@torch.no_grad()
def test_a_sentence_without_words_has_no_probability(model):
    model.beam_size = 3
    batch = batch_of(model, [[3, 4], []])
    found = model.log_probs(batch)
    assert found[0].isfinite().all()
    assert found[1, 0] == -torch.inf


# -- labels in a vocabulary -------------------------------------------------------------------------------------------


DOCUMENTS = [
    Document((Sentence(("a", "b"), spans=((0, 2, "S"), (0, 1, "NP"))), Sentence(("c",), spans=((0, 1, "TOP"),))), "1"),
    Document((Sentence(("d", "a"), spans=((0, 2, "FRAG"),)), Sentence(("e",))), "2"),
]


def test_labels_are_sorted_after_the_one_of_constituents_without_label():
    found = ConstituentLabels().build(iter(DOCUMENTS))
    assert found.tables[LABELS] == ["TOP", "FRAG", "NP", "S"]
    assert found.size == 2 + len("abcde")
    assert ConstituentLabels().reads_trees


class TakesNone:
    """Builds on no document, as a ready tokenizer."""

    def build(self, documents):
        return WordVocabulary().build([])

    def fingerprint(self):
        return "none"


def test_labels_are_those_of_all_documents_whatever_the_builder_reads():
    assert ConstituentLabels(TakesNone()).build(DOCUMENTS).tables[LABELS] == ["TOP", "FRAG", "NP", "S"]


@pytest.mark.parametrize("builder", [WordVocabulary(min_count=2), SubwordPieces(size=300)])
def test_token_types_are_those_of_the_builder(builder):
    documents = list(GeneratedLanguage(train=6, valid=1, test=1, sentences=(5, 5)).documents("train"))
    alone, labelled = builder.build(documents), ConstituentLabels(builder).build(documents)
    assert labelled.types == alone.types
    assert builder.fingerprint() in ConstituentLabels(builder).fingerprint()
