"""Systems of texts and structures: texts searched together, in parts and one by one; and calls that write at once."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.batch import Edges, ItemBatch, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import SLOTS
from depgen.decoding.generation import left_padded
from depgen.decoding.settings import StructureOptions
from depgen.errors import UserError
from depgen.language_models.structured import Writing
from depgen.models.dtg import DTG
from depgen.models.gilt import GiLT
from depgen.models.pushdown import Pushdown
from depgen.models.tg import TransformerGrammar

LETTERS = Vocabulary.of_words("abcdefghij", tables={"labels": ["TOP", "NP"]})
BACKBONE = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8, dropout=0.0, positions="relative")
EXACT = {"rtol": 0, "atol": 1e-12}
SENTENCES = [
    [3, 4, 5, 6],
    [3, 4, 5],
    [],
    [3, 4, 5, 6],
    [3, 4, 7, 7, 7, 8],
    [9],
    [3],
    [8, 3, 4, 5],
    [3, 4, 5, 6, 6],
    [3, 4, 7],
]
"""Prefixes of others, a sentence twice, one without words, and two that share nothing with the others."""
KINDS = {
    "GiLT": partial(GiLT, feature_size=4, max_count=4, counts_per_hypothesis=None),
    "Pushdown": Pushdown,
    "TG": partial(TransformerGrammar, labels=2, max_openings=2, word_beam_size=3, fast_track=2),
    "DTG": partial(DTG, word_beam_size=2, fast_track=1),
}


def system(kind, beam_size=4, dtype=torch.float64):
    """A small system, whose parameters are so large that each part shows."""
    torch.manual_seed(1)
    model = KINDS[kind](BACKBONE, LETTERS.size, beam_size=beam_size).to(dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch_of(model, sentences):
    items = [TokenItem(place, np.array(ids, np.int64)) for place, ids in enumerate(sentences)]
    return model.collate(ItemBatch(items, 1, LETTERS))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def with_structure(place):
    """A sentence of three words with a tree, its edges and its constituents."""
    edges = Edges(np.arange(4), np.array([0, 1, 1]), np.full(3, "tree/x"))
    return TokenItem(
        place, np.array([3, 4, 5]), np.array([0, 1, 1]), relations=np.full(3, "tree/x"), edges=edges,
        spans=np.array([[0, 3]]), span_labels=np.array(["TOP"]),
    )  # fmt: skip


@torch.no_grad()
def test_validation_is_of_texts_and_structures_and_a_test_of_texts(kind):
    model, losses = system(kind), []
    model._measure = lambda stage, figures, batch: losses.append(model.item_scores(batch))
    for size in (1, 2):
        model.validation_step(model.collate(ItemBatch([with_structure(k) for k in range(size)], 1, LETTERS)), 0)
    assert [each.of_text for each in losses] == [False, False]
    torch.testing.assert_close(losses[1].nll, losses[0].nll.expand(2, 1), **EXACT)
    batch = model.collate(ItemBatch([with_structure(0)], 1, LETTERS))
    model.test_items.update = lambda scores: None
    model.test_step(batch, 0)
    assert losses[2].of_text
    torch.testing.assert_close(losses[2].nll[0], -model.log_probs(batch).sum(1), **EXACT)
    mixed = [with_structure(0), TokenItem(1, np.array([3, 4]))]
    with pytest.raises(UserError, match=r"one sentence of a batch of 2 has none: .*annotator"):
        model.validation_step(model.collate(ItemBatch(mixed, 1, LETTERS)), 0)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(("beam_size", "with_end"), [(1, True), (5, True), (5, False)])
def test_texts_are_searched_alike_together_in_parts_and_by_themselves(kind, beam_size, with_end, monkeypatch):
    model = system(kind)
    search = partial(model.search, beam_size=beam_size, with_end=with_end)
    together, structures = search(batch_of(model, SENTENCES))
    assert len({str(each) for each in structures}) > 4
    for row, ids in enumerate(SENTENCES):
        alone, (own,) = search(batch_of(model, [ids]))
        torch.testing.assert_close(together[row, : len(ids) + 1], alone[0], **EXACT)
        assert not together[row, len(ids) + 1 :].any()
        assert structures[row] == own
    monkeypatch.setitem(SLOTS, "cpu", 2 * beam_size * model.columns_kept(7))
    in_parts, of_parts = search(batch_of(model, SENTENCES))
    torch.testing.assert_close(in_parts, together, **EXACT)
    assert of_parts == structures
    assert model.best_structures(SENTENCES, vocabulary=LETTERS, beam_size=beam_size, with_end=with_end) == structures


@torch.no_grad()
def test_without_the_end_a_text_has_the_probability_of_a_prefix(kind):
    model, sentences = system(kind), [[3, 4, 7], [3, 4], [9], []]
    whole, _ = model.search(batch_of(model, sentences), beam_size=2000)
    prefixes, _ = model.search(batch_of(model, sentences), beam_size=2000, with_end=False)
    for row, ids in enumerate(sentences):
        torch.testing.assert_close(prefixes[row, : len(ids)], whole[row, : len(ids)], **EXACT)
        assert prefixes[row, len(ids)].abs() < 1e-12, "what a beam of all structures sums to"
        assert whole[row, len(ids)] < -1e-6 or (kind == "TG" and not ids)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["GiLT", "Pushdown"])
def test_a_common_beginning_is_read_once(kind, monkeypatch):
    model, rows = system(kind, 1), []
    read = model.backbone.forward
    monkeypatch.setattr(
        model.backbone, "forward", lambda tokens, **options: rows.append(len(tokens)) or read(tokens, **options)
    )
    model.search(batch_of(model, [[3, 4, 5, 6], [3, 4, 5, 7], [3, 4, 5, 6]]), beam_size=1)
    assert rows[1:] == [1, 1, 1, 2]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Pushdown"])
def test_no_state_is_built_of_what_is_pruned(kind, monkeypatch):
    model, rows = system(kind), []
    read = model.read
    monkeypatch.setattr(model, "read", lambda tokens, *rest: rows.append(len(tokens)) or read(tokens, *rest))
    model.search(batch_of(model, [[4, 3, 7, 9], [5], [8, 9, 3], [3, 3]]), beam_size=3)
    # a token: one bracketing of each text; two tokens: two that survive
    assert rows == [4, 4, 6, 6, 3]


@torch.no_grad()
def test_the_choices_of_a_graph_build_it_again():
    model = system("GiLT")
    graphs = model.best_structures(SENTENCES, vocabulary=LETTERS, beam_size=4)
    choices = [model.choices_of(ids, graph, LETTERS) for ids, graph in zip(SENTENCES, graphs, strict=True)]
    writing = Writing(LETTERS, model.device, max_new_tokens=0, longest=6)
    begun = left_padded([[LETTERS.eos, *of_text] for of_text in choices], filler=LETTERS.eos, device=model.device)
    _, state = model.writing_step(writing, *begun, None)
    assert model.structures_of(state, torch.arange(len(choices))) == graphs
    assert len(set(graphs)) > 4


@pytest.mark.parametrize("kind", ["Pushdown", "TG"])
def test_systems_without_words_write_in_vocabularies_that_do_not_mark_them(kind, monkeypatch):
    monkeypatch.setattr(Vocabulary, "opens_word", property(lambda self: pytest.fail("asked for words")))
    options = {"vocabulary": LETTERS, "options": StructureOptions(), "seeds": [0], "max_new_tokens": 2}
    (text,) = system(kind).generate([[3, 4]], **options)
    assert text.log_prob < 0


def test_a_search_ranks_texts_that_are_cut_after_those_that_end(kind):
    options = {"vocabulary": LETTERS, "options": StructureOptions(beam_size=24), "seeds": [], "max_new_tokens": 2}
    texts = system(kind).generate([[3, 4]], number=20, **options)
    cut = [len(text.ids) == 2 for text in texts]
    assert 0 < cut.count(False) < 20
    assert cut == sorted(cut)
    assert max(text.log_prob for text in texts[cut.index(True) :]) > texts[cut.index(True) - 1].log_prob


def test_calls_that_write_at_once_do_not_mix_their_texts_and_leave_nothing_on_the_module(kind):
    model, calls = system(kind), []
    generator = np.random.default_rng(0)
    for number in range(4):
        prompts = [generator.integers(3, 12, number).tolist() for _ in range(3)]
        options = StructureOptions(beam_size=3) if number % 2 else StructureOptions(temperature=2.0)
        common = {"vocabulary": LETTERS, "seeds": range(10 * number, 10 * number + 3), "max_new_tokens": 1 + number}
        calls.append(partial(model.generate, prompts, options=options, **common))
    before = {name: repr(value) for name, value in vars(model).items()}
    one_by_one = [call() for call in calls]
    assert {name: repr(value) for name, value in vars(model).items()} == before
    with ThreadPoolExecutor(len(calls)) as pool:
        at_once = [future.result() for future in [pool.submit(call) for call in calls]]
    assert at_once == one_by_one
    assert len({len(text.ids) for texts in at_once for text in texts}) > 2
