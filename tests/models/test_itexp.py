"""Iterative expansion against its equations: levels, scores, probabilities, losses, gradients."""

import itertools
import math
from dataclasses import replace
from functools import partial

import jsonargparse
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.pytorch import Trainer
from torch.utils.data import DataLoader

from depgen.backbones.transformer import MaskedFairseqInit, Transformer
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.levels import LevelItem, with_placeholders
from depgen.data.vocabulary import SubwordPieces, Vocabulary
from depgen.errors import UserError
from depgen.models.itexp import ITEXP, collate_levels, expansion_log_probs
from depgen.reporting.measures import numbers_of_test
from depgen.reporting.table import experiments_root
from depgen.training.evaluated import SplitNumbers
from depgen.training.experiment import settings_of
from depgen.trees.sentence import Document, Sentence
from tests import oracles_of_itexp as oracle
from tests.invented_levels import (
    FULL,
    LIKES,
    NETWORK,
    TREES,
    batch_of_trees,
    built,
    expansion_of,
    item_of,
    network_scores,
    sentence_of,
    small,
    trees,
    written_levels,
)


def test_the_papers_size_has_96_million_parameters():
    network = partial(
        Transformer, layers=6, width=1024, attention_heads=8, feedforward=4096, norm_first=False, causal=False,
        tied=False, output_bias=True, scale_embedding=False,
    )  # fmt: skip
    with torch.device("meta"):
        model = ITEXP(network, 8195, expansions=904, placeholders=50)
        model.configure_model()
    assert sum(each.numel() for each in model.parameters()) == 96_321_419
    assert model.head_embedding.weight.shape == (1024, 1024)


def test_embeddings_begin_as_those_of_the_authors():
    """fairseq 0.9's `masked_lm`: N(0, 1), unscaled, beside sinusoids of mean square 1/2; heads: N(0, 1/width)."""
    config = settings_of(experiments_root() / "itexp_news.yaml")["model"]["init_args"]["backbone"]
    assert config["init_args"].pop("init") == {"class_path": "depgen.backbones.transformer.MaskedFairseqInit"}
    sizes = {"layers": 1, "width": 256, "feedforward": 8}
    torch.manual_seed(0)
    network = partial(Transformer, **{**config["init_args"], **sizes}, init=MaskedFairseqInit())
    model = ITEXP(network, 5000, expansions=900, placeholders=50)
    model.configure_model()
    made, expansions = model.backbone, model.expansion_embedding.weight
    assert made.embedding_scale == 1.0
    for matrix in (made.embedding.weight, expansions[1:]):
        assert matrix.std().item() == pytest.approx(1.0, rel=0.01)
    assert not expansions[0].any()
    assert model.head_embedding.weight.std().item() == pytest.approx(1 / 16, rel=0.01)
    for matrix in (made.output_weight, model.expansion_output.weight):
        assert 0.999 < matrix.abs().max() * 16 <= 1
        assert matrix.std().item() == pytest.approx(3**-0.5 / 16, rel=0.01)
    assert not torch.cat((made.output_bias, model.expansion_output.bias)).any()


@pytest.mark.parametrize(
    ("experiment", "expected"), [("awd_lstm_itexp_news", 23_497_795), ("transformer_itexp_news", 16_813_568)]
)
def test_the_baselines_have_the_papers_sizes(experiment, expected):
    """Tables 11 and 12: 23.5 and 17 million at 8,195 types."""
    config = settings_of(experiments_root() / f"{experiment}.yaml")["model"]["init_args"]["backbone"]
    parser = jsonargparse.ArgumentParser()
    parser.add_subclass_arguments(torch.nn.Module, "backbone")
    config["init_args"]["vocabulary_size"] = 8195
    with torch.device("meta"):
        made = parser.instantiate_classes(parser.parse_object({"backbone": config})).backbone
    assert sum(each.numel() for each in made.parameters()) == expected


# -- levels -----------------------------------------------------------------------------------------------------------


def rows_of(batch, vocabulary):
    """Each row in words: inputs, heads, targets, expansions (None where there is no placeholder), places."""
    for row, length in enumerate(batch.lengths.tolist()):
        opened = batch.is_open[row, :length].tolist()
        patterns = [vocabulary.tables["expansions"][k] for k in batch.expansions[row, :length].tolist()]
        yield (
            [vocabulary.types[token] for token in batch.inputs[row, :length].tolist()],
            batch.heads[row, :length].tolist(),
            [vocabulary.types[token] for token in batch.targets[row, :length].tolist()],
            [pattern if here else None for pattern, here in zip(patterns, opened, strict=True)],
            batch.places[row, :length].tolist(),
        )


def expected_row(sentence, level, scheme):
    """The same by the slow version."""
    heads = oracle.binarised(sentence.heads, scheme)
    found = oracle.levels(sentence.words, heads, sentence.relations)[level - 1]
    places = [word for word in range(len(heads)) if oracle.depth(heads, word + 1) <= level]
    patterns = [None if each is None else expansion_of(each) for each in found.patterns]
    return found.inputs, found.heads, [sentence.words[place] for place in places], patterns, places


@settings(deadline=None, max_examples=40)
@given(st.data(), st.lists(trees(), min_size=1, max_size=4), st.sampled_from(["left-right", "none"]))
def test_rows_are_the_levels_of_the_trees(data, sentences, scheme):
    vocabulary = built(sentences, binarization=scheme)
    rows, items = [], []
    for number, sentence in enumerate(sentences):
        deepest = len(written_levels(sentence, scheme))
        level = data.draw(st.none() | st.integers(1, deepest))
        items.append(item_of(7 + number, sentence, vocabulary, level, 1.0 + number))
        rows += [(number, each) for each in ([level] if level else range(1, deepest + 1))]
    batch = collate_levels(ItemBatch(items, 5, vocabulary))
    assert batch.sentences.tolist() == [number for number, _ in rows]
    assert batch.weights.tolist() == [1.0 + number for number, _ in rows]
    assert batch.items.tolist() == [7 + number for number in range(len(sentences))]
    assert batch.words.tolist() == [len(each) for each in sentences]
    assert (batch.global_tokens, batch.unk, batch.eos) == (5, vocabulary.unk, vocabulary.eos)
    expected = [expected_row(sentences[number], level, scheme) for number, level in rows]
    assert list(rows_of(batch, vocabulary)) == expected
    assert torch.equal(batch.opened, batch.is_open.flatten().nonzero()[:, 0])
    assert not batch.is_open[~batch.is_word].any()
    assert not batch.expansions[~batch.is_open].any()
    assert (batch.inputs[~batch.is_word] >= 0).all()


def test_the_sentence_of_figure_2_is_read_level_by_level():
    vocabulary = built([LIKES])
    batch = collate_levels(ItemBatch([item_of(0, LIKES, vocabulary)], 1, vocabulary))
    found = list(rows_of(batch, vocabulary))
    assert [row[:2] for row in found] == [
        (["[ROOT]"], [-1]),
        (["[nsubj]", "likes", "[xcomp]"], [1, -1, 1]),
        (["[poss]", "dog", "[advmod]", "likes", "eating", "[dobj]"], [1, 3, 1, -1, 3, 4]),
    ]
    assert [[row for row in each[3] if row] for each in found] == [
        [["nsubj", "HEAD", "xcomp"]],
        [["poss", "HEAD", "advmod"], ["HEAD", "dobj"]],
        [["HEAD"]] * 3,
    ]


def test_what_training_never_saw_is_unknown():
    vocabulary = built([LIKES])
    other = Sentence(("a", "dog", "likes"), (2, 3, 0), ("det", "nsubj", "ROOT"))
    batch = collate_levels(ItemBatch([item_of(0, other, vocabulary)], 1, vocabulary))
    found = list(rows_of(batch, vocabulary))
    assert found[2][0] == ["<unk>", "dog", "likes"]
    assert found[0][3] == [["<unk>"]]
    assert found[2][2][0] == "<unk>"


def test_a_vocabulary_without_an_unknown_word_pads_and_names_labels_by_the_end(tmp_path):
    pieces = SubwordPieces(size=258).build([Document((LIKES,), "")])
    (tmp_path / "tokenizer.json").write_text(pieces.tokenizer)
    builder = SubwordPieces(tokenizer=str(tmp_path / "tokenizer.json"))
    vocabulary = built([LIKES], words=builder)
    assert vocabulary.unk == -1
    heads = np.arange(4)
    other = TokenItem(0, np.array([40, 41, 42, 43]), heads, relations=np.array(["root", *"xyz"], dtype=object))
    batch = collate_levels(ItemBatch([LevelItem(other)], 1, vocabulary))
    assert batch.inputs[~batch.is_word].tolist() == [vocabulary.eos] * 6
    assert batch.inputs[1].tolist()[:2] == [40, vocabulary.eos]
    assert batch.unk == -1


# -- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [0, -1])
@torch.no_grad()
def test_the_joint_score_of_a_few_words_is_the_sum_over_levels(layer, monkeypatch):
    monkeypatch.setattr("depgen.models.itexp.TOKENS_AT_ONCE", 20)  # several parts of several rows
    model = small(FULL, expansion_layer=layer)
    batch = batch_of_trees(*TREES)
    found = model.item_scores(batch)
    for number, heads in enumerate(TREES):
        item = sentence_of(heads)
        levels = oracle.levels("abcd"[: len(heads)], oracle.binarised(heads), item.relations.tolist())
        expected = sum(oracle.joint_log_prob(levels, *network_scores(model, FULL)))
        assert found.nll[number, 0].item() == pytest.approx(-expected, abs=1e-9)
        assert found.tokens[number, 0].item() == len(heads)
        for tree in ((heads, item.relations.tolist()), {"heads": heads, "relations": item.relations.tolist()}):
            ((scores,),) = model.sentence_log_probs([[item.ids.tolist()]], vocabulary=FULL, structure=[[tree]])
            assert scores.sum() == pytest.approx(expected, abs=1e-9)
    assert found.unknown == 0
    assert found.targets == sum(map(len, TREES))


@pytest.mark.parametrize("layer", [0, -1])
@torch.no_grad()
def test_states_follow_the_equations(layer):
    model = small(FULL, expansion_layer=layer)
    batch = batch_of_trees([2, 0, 2], [0, 1, 2, 3])
    states, scores = model.encode(batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions)
    hidden = []

    def after(number, values):
        if number == layer % 2:
            hidden.append(values)
            return values + model.expansion_embedding.weight[batch.expansions]
        return values

    rows = torch.where(batch.is_word, batch.heads + 2, 0)
    output = model.backbone(
        batch.inputs, padding=~batch.is_word, added_embedding=model.head_embedding.weight[rows], after_layer=after
    )
    expected = hidden[0] @ model.expansion_output.weight.T + model.expansion_output.bias
    torch.testing.assert_close(scores, expected)
    linear, _, norm = model.transform
    inner = (output.hidden @ linear.weight.T + linear.bias).relu()
    mean, variance = inner.mean(-1, keepdim=True), inner.var(-1, keepdim=True, unbiased=False)
    inner = (inner - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(states, inner)


def test_written_positions_get_no_expansion_and_teach_it_nothing():
    fresh = ITEXP(NETWORK, FULL.size, expansions=11, placeholders=3)
    fresh.configure_model()
    assert not fresh.expansion_embedding.weight[0].any()
    assert fresh.expansion_embedding.weight[1:].any(1).all()
    model, batch = small(FULL), batch_of_trees([2, 0, 2, 3])
    assert not batch.expansions[~batch.is_open].any()
    model.joint_log_probs(batch).sum().backward()
    gradient = model.expansion_embedding.weight.grad
    assert not gradient[0].any()
    chosen = sorted({*batch.expansions[batch.is_open].tolist()})
    assert gradient.any(1).nonzero()[:, 0].tolist() == chosen


# -- the whole distribution -------------------------------------------------------------------------------------------


def two_words():
    """A system of two words with the expansions HEAD, HEAD right and left HEAD, and no mass elsewhere."""
    vocabulary = with_placeholders(
        Vocabulary.of_words("ab"),
        ["ROOT", "left", "right"],
        {"expansions": [["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "right"], ["left", "HEAD"]],
         "binarization": ["left-right"]},
    )  # fmt: skip
    model = small(vocabulary)
    with torch.no_grad():
        model.expansion_output.bias[1] = model.backbone.output_bias[vocabulary.unk] = -1e9
    return model, vocabulary


def growths(levels):
    """All trees of two words down to some levels: words, heads, relations, as chains from the root down."""
    sides = [((), ()), ((), ("right",)), (("left",), ())]
    level = oracle.Level(["[ROOT]"], [-1], [], [])
    texts = [([], ["[ROOT]"], [-1])]
    for _ in range(levels):
        grown = []
        for done, inputs, heads in texts:
            places = [k for k, each in enumerate(inputs) if each[0] == "["]
            for choice in itertools.product(itertools.product("ab", sides), repeat=len(places)):
                words, patterns = ["[pad]"] * len(inputs), [None] * len(inputs)
                for place, (word, side) in zip(places, choice, strict=True):
                    words[place], patterns[place] = word, side
                here = replace(level, inputs=inputs, heads=heads, words=words, patterns=patterns)
                grown.append(([*done, here] if places else done, *oracle.expanded(inputs, heads, words, patterns)))
        texts = grown
    return texts


@torch.no_grad()
def test_the_probabilities_of_all_trees_and_words_sum_to_one():
    model, vocabulary = two_words()
    scores = network_scores(model, vocabulary)
    texts = growths(2)
    assert len(texts) == 2 + 2 * 2 * 6
    by_hand = [sum(oracle.joint_log_prob(done, *scores)) for done, _, _ in texts]
    assert math.fsum(map(math.exp, by_hand)) == pytest.approx(1, abs=1e-9)
    total = 0.0
    for (done, inputs, heads), expected in zip(texts, by_hand, strict=True):
        words = ["a" if each[0] == "[" else each for each in inputs]  # those of the third level do not count
        ids = np.array([vocabulary.pieces(word)[0] for word in words])
        relations = ["root" if head < 0 else "right" if word > head else "left" for word, head in enumerate(heads)]
        item = TokenItem(0, ids, np.array(heads) + 1, relations=np.array(relations, dtype=object))
        levels = [LevelItem(item, level) for level in range(1, len(done) + 1)]
        found = model(collate_levels(ItemBatch(levels, 1, vocabulary))).sum().item()
        assert found == pytest.approx(expected, abs=1e-9)
        total += math.exp(found)
    assert total == pytest.approx(1, abs=1e-9)


@torch.no_grad()
def test_texts_of_two_levels_are_drawn_by_their_probabilities():
    model, vocabulary = two_words()
    scores, expected = network_scores(model, vocabulary), {}
    for done, inputs, heads in growths(2):
        if any(each[0] == "[" for each in inputs):
            continue  # at the last level all expansions are leaves
        value = sum(oracle.joint_log_prob(done, *scores))
        if len(done) == 2:
            place = next(k for k, each in enumerate(done[1].patterns) if each)
            value -= scores[0](done[1].inputs, done[1].heads)[place][(), ()]
        expected[tuple(inputs), tuple(heads)] = math.exp(value)
    assert math.fsum(expected.values()) == pytest.approx(1, abs=1e-9)
    options = ITEXP.generation_options(levels=2)
    texts = model.generate(
        [[]], vocabulary=vocabulary, options=options, seeds=range(4000), max_new_tokens=9, batch_size=4000
    )
    for (words, heads), share in expected.items():
        wanted = [vocabulary.pieces(word)[0] for word in words], tuple(head + 1 for head in heads)
        count = sum((each.ids, each.structure["heads"]) == wanted for each in texts)
        assert abs(count - 4000 * share) < 5 * math.sqrt(4000 * share * (1 - share)) + 1e-9, words


# -- expansions that training never saw -------------------------------------------------------------------------------

UNSEEN = ([0, 1], ["root", "other"])


@torch.no_grad()
def test_a_tree_that_is_never_written_has_probability_0():
    model, ids = small(FULL), [3, 4]
    ((scores,),) = model.sentence_log_probs([[ids]], vocabulary=FULL, structure=[[UNSEEN]])
    assert scores[0] == -math.inf
    assert math.isfinite(scores[1])


@torch.no_grad()
def test_losses_have_the_unknown_expansion_as_a_target_and_perplexities_are_named_joint():
    model = small(FULL)
    other = TokenItem(0, np.array([3, 4]), np.array(UNSEEN[0]), relations=np.array(UNSEEN[1], dtype=object))
    items = [LevelItem(other), *(LevelItem(sentence_of(heads)) for heads in ([2, 0, 2], [0], [0, 1]))]
    batch = collate_levels(ItemBatch(items, 1, FULL))
    _, scores = model.encode(batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions)
    row = batch.sentences.tolist().index(0)  # the root of the first sentence
    unknown = expansion_log_probs(scores, restricted=True)[row, 0, 1]
    states, _ = model.encode(batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions)
    weight, bias = model.outputs(batch.eos, restricted=True)
    word = (states[row, 0] @ weight.T + bias).log_softmax(0)[3]
    assert model(batch)[row, 0].item() == pytest.approx((unknown + word).item(), abs=1e-9)
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    (logged,) = trainer.validate(model, DataLoader([batch], batch_size=None), verbose=False)
    nll, tokens = -model(batch).sum().item(), 2 + 3 + 1 + 2
    perplexity = pytest.approx(math.exp(nll / tokens), rel=1e-6)
    assert logged == {
        "val/loss": pytest.approx(nll / tokens, rel=1e-6),
        "val/joint_perplexity": perplexity,
        "val/joint_word_perplexity": perplexity,
        "val/unk_rate": 0,
        "val/unseen_expansions": 1 / 4,
    }


def test_tables_say_why_there_is_no_perplexity_of_the_text():
    numbers = numbers_of_test(SplitNumbers({"joint_perplexity": 9.0}))
    assert numbers.metrics == {"joint_perplexity": 9.0}
    assert numbers.not_computed == {"perplexity": "the test is of texts with their trees"}


# -- training ---------------------------------------------------------------------------------------------------------


def gradients(model, items, vocabulary, divisor):
    """The gradient of a step of training, and its loss."""
    batch = collate_levels(ItemBatch(items, divisor, vocabulary))
    model.zero_grad()
    loss = model.training_step(batch, 0)
    loss.backward()
    return loss.item(), torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


def test_a_drawn_level_weighted_by_the_depth_has_the_gradient_of_all_levels_as_its_mean():
    sentences = [LIKES, replace(LIKES, words=tuple("abcdef"), heads=(0, 1, 2, 3, 4, 1))]
    vocabulary = built(sentences)
    model = small(vocabulary)
    depths = [len(written_levels(each)) for each in sentences]
    assert depths == [3, 6]
    items = [item_of(k, each, vocabulary) for k, each in enumerate(sentences)]
    loss, expected = gradients(model, items, vocabulary, 30)
    drawn = []
    for levels in itertools.product(*(range(1, depth + 1) for depth in depths)):
        rows = zip(items, levels, depths, strict=True)
        weighted = [LevelItem(item.sentence, level, float(depth)) for item, level, depth in rows]
        drawn.append(gradients(model, weighted, vocabulary, 30))
    torch.testing.assert_close(torch.stack([each for _, each in drawn]).mean(0), expected, rtol=1e-9, atol=1e-9)
    assert np.mean([each for each, _ in drawn]) == pytest.approx(loss, abs=1e-9)


def test_the_loss_is_of_words_and_expansions_over_the_whole_vocabulary():
    model, batch = small(FULL), replace(batch_of_trees([2, 0, 2], [0, 1]), global_tokens=7)
    with torch.no_grad():
        states, scores = model.encode(batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions)
        logits = states @ model.backbone.output_weight.T + model.backbone.output_bias
    here = batch.is_open
    words = torch.nn.functional.cross_entropy(logits[here], batch.targets[here], reduction="sum")
    patterns = torch.nn.functional.cross_entropy(scores[here], batch.expansions[here], reduction="sum")
    assert model.training_step(batch, 0).item() == pytest.approx((words + patterns).item() / 7, abs=1e-9)


# -- limits -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_longest_text_has_its_positions():
    ids, tree = [2] * 40, ([0, *range(1, 40)], ["root", *["right"] * 39])
    ((found,),) = small(FULL).sentence_log_probs([[ids]], vocabulary=FULL, structure=[[tree]])
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expansion_layer": 2}, "expansion_layer: expected -2 to 1"),
        ({"backbone": partial(Transformer, layers=1, width=8, attention_heads=2, feedforward=8)}, "causal to false"),
    ],
)
def test_arguments_that_cannot_be_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        ITEXP(**{"backbone": NETWORK, "vocabulary_size": 9, "expansions": 3, "placeholders": 1, **options})


@pytest.mark.parametrize(
    ("ids", "tree", "message"),
    [
        ([2, 3, 4], ([0, 3, 2], ["root", "right", "left"]), "structure: .*cycle"),
        ([2, 3], ([0, 1], ["root"]), "2 tokens, 2 heads and 1 relations"),
        ([2] * 41, ([0, *[1] * 40], ["right"] * 41), "41 tokens .*40 head positions"),
    ],
)
def test_structures_that_are_no_trees_are_refused(ids, tree, message):
    with pytest.raises(UserError, match=message):
        small(FULL).sentence_log_probs([[ids]], vocabulary=FULL, structure=[[tree]])
