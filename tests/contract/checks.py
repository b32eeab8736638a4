"""The checks of the contract, by capability: each takes a system in evaluation mode and fails by AssertionError."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from depgen.data.batch import Batch, ItemBatch, SegmentItem, TokenItem
from depgen.data.stream import Segments, StreamColumns
from depgen.errors import UserError
from depgen.evaluation.unit_scores import score_documents
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.masked import HeadNetwork, MaskedLanguageModel
from depgen.models.dmlm import DMLM
from depgen.testing import check_system, loaded_again
from depgen.trees.binarization import depths as depths_of
from tests.contract.batches import (
    CLOSE,
    DOCUMENTS,
    MASKING,
    PLAIN,
    Document,
    all_scores,
    assert_same,
    batch_of,
    every_token,
    moved,
    places_of,
    scores_of,
    vocabulary_of,
    with_input,
)
from tests.contract.systems import VOCABULARY, writes_levels
from tests.contract.trees import TREES, binary_tree, levels_of
from tests.contract.writing import (
    a_greedy_text_takes_the_likeliest_tokens,
    it_writes_by_its_scores,
    texts_are_written_alike_in_every_batch,
    texts_have_the_log_probs_of_their_tokens,
)
from tests.invented_tables import split_of

Check = Callable[[LanguageModel, Path], None]


# -- every system -----------------------------------------------------------------------------------------------------


def padding_and_the_batch_change_nothing(model: LanguageModel, folder: Path) -> None:
    """Each row has the scores that it has by itself, whatever ids fill the padding."""
    batch = batch_of(model, DOCUMENTS)
    found = scores_of(model, batch)
    assert all(each.isfinite().all() for each in found)
    assert_same(scores_of(model, with_input(batch, ~places_of(batch), 5)), found, "other ids at padding")
    alone = [scores_of(model, batch_of(model, [document]))[0] for document in DOCUMENTS]
    assert_same(found, alone, "in a batch and alone")


def a_checkpoint_holds_it(model: LanguageModel, folder: Path) -> None:
    """Lightning saves a system that was built in Python, and loads it without running code from the file."""
    model = copy.deepcopy(model).float()
    loaded = loaded_again(model)
    assert type(loaded) is type(model)
    batch = batch_of(model, DOCUMENTS)
    assert_same(scores_of(loaded, batch), scores_of(model, batch), "loaded from a checkpoint", rtol=0, atol=0)


def the_check_for_systems_of_ones_own_passes(model: LanguageModel, folder: Path) -> None:
    """`check_system` on sentences, with trees where the system writes these, or on documents."""
    items: list[Any] = [
        TokenItem(place, np.concatenate(document).astype(np.int32)) for place, document in enumerate(DOCUMENTS)
    ]
    if writes_levels(model):
        trees = [map(np.array, binary_tree(len(item.ids))) for item in items]
        items = [
            replace(item, heads=heads, relations=relations)
            for item, (heads, relations) in zip(items, trees, strict=True)
        ]
    if isinstance(model, DocumentLanguageModel):
        items = [SegmentItem(place, list(map(np.array, document))) for place, document in enumerate(DOCUMENTS)]
    check_system(model, items, vocabulary_of(model))


# -- order ------------------------------------------------------------------------------------------------------------


def a_later_token_moves_no_earlier_score(model: LanguageModel, folder: Path) -> None:
    """A token that is read moves the score of what follows it, and nothing that comes before."""
    batch = batch_of(model, DOCUMENTS[:1])
    (before,) = scores_of(model, batch)
    for number, place in enumerate(batch.is_word.nonzero()):
        here = torch.zeros_like(batch.is_word)
        here[tuple(place)] = True
        (after,) = scores_of(model, with_input(batch, here, 10))
        differs = moved(before, after)
        assert not differs[:number].any(), f"token {number} moves scores {differs.nonzero()[:, 0].tolist()}"
        assert differs[number], f"token {number} does not move the score of the token that follows it"


def places_in(batch: Batch, places: Sequence[torch.Tensor]) -> torch.Tensor:
    """True at the first place in the first row of a batch, at the second in the second, and so on."""
    found = torch.zeros_like(batch.is_word)
    for row, place in enumerate(places):
        found[(row, *place)] = True
    return found


def every_other_word_moves_a_score(model: LanguageModel, folder: Path) -> None:
    """The score of a word depends on words at both of its sides."""
    (before,) = scores_of(model, batch_of(model, DOCUMENTS[:1]))
    batch = batch_of(model, DOCUMENTS[:1] * len(before))
    changed = places_in(batch, list(batch.is_word[0].nonzero()))
    for number, after in enumerate(scores_of(model, with_input(batch, changed, 10))):
        assert moved(before, after).all(), f"word {number} moves only {moved(before, after).tolist()}"


def joint_scores(model: LanguageModel, ids: Sequence[int], structure: object) -> np.ndarray:
    """The scores of a text's words together with their part of its structure."""
    texts = [[[int(each) for each in ids]]]
    ((found,),) = model.sentence_log_probs(texts, vocabulary=vocabulary_of(model), structure=[[structure]])
    return found


def what_is_written_later_moves_no_earlier_score(model: LanguageModel, folder: Path) -> None:
    """A word moves the scores of all levels below it, and none at its level and above; a level below moves none."""
    ids = np.concatenate(DOCUMENTS[0])
    heads, relations = map(np.array, binary_tree(len(ids)))
    depths = depths_of(heads)
    before = joint_scores(model, ids, (heads, relations))
    for place, depth in enumerate(depths):
        other = np.where(np.arange(len(ids)) == place, 10, ids)
        differs = np.abs(joint_scores(model, other, (heads, relations)) - before) > 1e-9
        assert differs[place], f"word {place} does not move its score"
        expected = (depths > depth) | (np.arange(len(ids)) == place)
        assert (differs == expected).all(), f"word {place}, level {depth}, moves {differs.nonzero()[0].tolist()}"
    for level in range(1, depths.max()):
        kept = depths <= level
        numbers = np.array([0, *kept.cumsum()])
        found = joint_scores(model, ids[kept], (numbers[heads[kept]], relations[kept]))
        differs = np.abs(found - before[kept]) > 1e-9
        assert not differs[depths[kept] < level].any(), f"what is below level {level} moves scores above it"
        assert differs.any(), f"level {level} has no expansions"


# -- scores -----------------------------------------------------------------------------------------------------------


def every_placeholder_has_a_distribution(model: LanguageModel, folder: Path) -> None:
    """The probabilities of all words with all expansions in place of a placeholder sum to 1."""
    batch = batch_of(model, [DOCUMENTS[0]] * VOCABULARY)
    batch, total = every_token(batch, "targets", batch.is_open), torch.zeros(batch.inputs.shape[1:])
    for expansion in range(len(TREES.tables["expansions"])):
        each = replace(batch, expansions=torch.full_like(batch.expansions, expansion))
        total = total + torch.stack(scores_of(model, each)).exp().sum(0)
    total = total[batch.is_open[0]]
    torch.testing.assert_close(total, torch.ones_like(total), **CLOSE)


def texts_score_as_their_levels_do(model: LanguageModel, folder: Path) -> None:
    """The joint score of a text is the sum over its levels, whatever the other texts; without a tree it is refused."""
    documents = [[sentence] for document in DOCUMENTS for sentence in document]
    trees = [[binary_tree(len(ids)) for ids in document] for document in documents]
    found = model.sentence_log_probs(documents, vocabulary=TREES, structure=trees)
    levels = [item for k, (ids,) in enumerate(documents) for item in levels_of(k, ids)]
    with torch.no_grad():
        scores = model.item_scores(model.collate(ItemBatch(levels, 1, TREES)))
    for k, (each,) in enumerate(found):
        of_text = scores.items == k
        assert abs(each.sum() + scores.nll[of_text].sum()) < 1e-9
        assert scores.tokens[of_text].sum() == len(each) == len(documents[k][0])
        np.testing.assert_allclose(each, joint_scores(model, documents[k][0], trees[k][0]), **CLOSE)
    with pytest.raises(UserError, match="structure"):
        model.sentence_log_probs(documents, vocabulary=TREES)


def every_token_has_a_distribution(model: LanguageModel, folder: Path) -> None:
    """The probabilities of all tokens at a position sum to 1, in evaluation and in training."""
    total = all_scores(model, DOCUMENTS[0]).exp().sum(0)
    torch.testing.assert_close(total, torch.ones_like(total), **CLOSE)
    model, total = copy.deepcopy(model).train(), 0
    batch = batch_of(model, DOCUMENTS[3:])
    for word in range(VOCABULARY):
        torch.manual_seed(5)  # the same dropout for every word
        total += scores_of(model, replace(batch, targets=torch.full_like(batch.targets, word)))[0].exp()
    torch.testing.assert_close(total, torch.ones_like(total), **CLOSE)


def texts_score_as_batches_do(model: LanguageModel, folder: Path) -> None:
    """`score_documents` and the sums of validation and test are those of `forward`, whatever the batches."""
    batch = batch_of(model, DOCUMENTS)
    expected = scores_of(model, batch)
    for budget in (1, 12, 1000):
        found = score_documents(model, DOCUMENTS[::-1], vocabulary=vocabulary_of(model), tokens_per_batch=budget)[::-1]
        assert_same([torch.from_numpy(np.concatenate(each)) for each in found], expected, f"{budget} tokens a batch")
        for document, scores in zip(DOCUMENTS, found, strict=True):
            knows_sentences = isinstance(model, DocumentLanguageModel)  # who does ends each of them
            ends = [knows_sentences] * (len(document) - 1) + [True]
            assert [len(each) for each in scores] == [len(ids) + end for ids, end in zip(document, ends, strict=True)]
    with torch.no_grad():
        scores = model.item_scores(batch)
    assert scores.items.tolist() == list(range(len(DOCUMENTS)))
    assert scores.tokens[:, 0].tolist() == [len(each) for each in expected]
    torch.testing.assert_close(scores.nll[:, 0], -torch.stack([each.sum() for each in expected]), **CLOSE)


def bounds_stay_below_the_exact_score(model: LanguageModel, folder: Path) -> None:
    """A bound is at most the sum over all structures, which a beam that holds all of them gives.

    The system searches with as many hypotheses as its `beam_size` says.
    """
    model, narrowed = copy.deepcopy(model), False
    for ids in ([5], [4, 3], [7, 8, 3]):
        structures = model.structures(ids)
        joint = [total_of(model, ids, structure) for structure in structures]
        exact = torch.tensor(joint, dtype=torch.float64).logsumexp(0).item()
        for model.beam_size in (1, 2, len(structures)):
            bound = total_of(model, ids)
            assert bound <= exact + 1e-9, f"{bound} is above {exact}, with {model.beam_size} hypotheses"
            narrowed |= bound < exact - 1e-6
        assert abs(bound - exact) < 1e-9, f"{bound} over all {len(structures)} structures, in place of {exact}"
        assert max(joint) <= bound + 1e-9
    assert narrowed, "no structure was left out"


def total_of(model: LanguageModel, ids: Sequence[int], structure: object = None) -> float:
    """The score of a sentence, or of the sentence and its structure."""
    given = None if structure is None else [[structure]]
    ((found,),) = model.sentence_log_probs([[ids]], vocabulary=vocabulary_of(model), structure=given)
    assert len(found) == len(ids) + 1
    return float(found.sum())


def tokens_have_at_most_a_distribution(model: LanguageModel, folder: Path) -> None:
    """What the tokens at a position have sums to 1 as long as no structure was left out, and to less afterwards."""
    model, below = copy.deepcopy(model), False
    wide = len(model.structures([7, 8, 3]))  # the structure of a word may come before it
    for document, beam_size in ((DOCUMENTS[0], model.beam_size), ([[7, 8]], wide)):
        model.beam_size = beam_size
        for number, total in enumerate(totals(model, document)):
            assert total < 1 + 1e-9, f"the probabilities of token {number} sum to {total}"
            below |= total < 1 - 1e-6
    assert abs(total - 1) < 1e-9, f"{total} in place of 1 where no structure is left out"
    assert below, "no structure was left out"


def totals(model: LanguageModel, document: Document) -> list[float]:
    """The sum of what all tokens have in place of the first of a text, of the second, and so on: in one batch."""
    places = batch_of(model, [document]).is_word[0].nonzero()
    batch = batch_of(model, [document] * (VOCABULARY * len(places)))
    targets = batch.targets.clone()
    for number, place in enumerate(places):
        for token in range(VOCABULARY):
            targets[(number * VOCABULARY + token, *place)] = token
    scores = torch.stack(scores_of(model, replace(batch, targets=targets)))
    return [each[:, number].exp().sum().item() for number, each in enumerate(scores.view(len(places), VOCABULARY, -1))]


def every_hidden_word_has_a_distribution(model: LanguageModel, folder: Path) -> None:
    """The probabilities of all words at a place sum to 1: so no word sees itself."""
    for number in (0, 2, 5):
        batch = batch_of(model, [DOCUMENTS[3]] * VOCABULARY)
        here = torch.zeros_like(batch.is_word)
        here[:, number] = True
        total = torch.stack(scores_of(model, every_token(batch, "tokens", here)))[:, number].exp().sum()
        torch.testing.assert_close(total, torch.ones_like(total), **CLOSE)


def sentences_score_as_batches_do(model: LanguageModel, folder: Path) -> None:
    """`score_documents` gives each sentence the pseudo-log-likelihoods of `forward`, whatever the batches."""
    sentences = [[sentence] for document in DOCUMENTS for sentence in document]
    expected = scores_of(model, batch_of(model, sentences))
    for budget in (1, 9, 1000):
        found = score_documents(model, DOCUMENTS[::-1], vocabulary=MASKING, tokens_per_batch=budget)[::-1]
        rows = [torch.from_numpy(each) for document in found for each in document]
        assert_same(rows, expected, f"{budget} tokens a batch")


# -- parses -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def trees_depend_on_their_own_words(model: LanguageModel, folder: Path) -> None:
    """Probabilities of heads, or distances before words, of each sentence are those that it has alone."""
    batch = batch_of(model, DOCUMENTS)
    lengths = [sum(map(len, document)) for document in DOCUMENTS]
    filled = with_input(batch, ~places_of(batch), 5)
    found, other = model.predict_step(batch, 0), model.predict_step(filled, 0)
    for row, (document, length) in enumerate(zip(DOCUMENTS, lengths, strict=True)):
        single = model.predict_step(batch_of(model, [document]), 0)
        if isinstance(model, HeadNetwork):
            rows = [each[row] for each in (found, other)]
            alone = single[0]
            for each in rows:
                assert not each[length:].any(), "heads of padding"
                assert not each[:, length:].any(), "padding is a head"
            assert (alone.sum(1) < 1 + 1e-9).all()
            assert (alone >= 0).all()
            assert length == 1 or alone.any()
            rows = [each[:length, :length] for each in rows]
        else:
            rows, alone = [each[:, row, :length] for each in (found, other)], single[:, 0]
            assert (alone[:, :length] >= 0).all()
        assert_same(rows, [alone, alone], "in a batch and alone")


@torch.no_grad()
def attention_depends_on_its_own_words(model: LanguageModel, folder: Path) -> None:
    """What the attention heads of each layer weigh is what they weigh in the sentence alone; padding is no key."""
    assert isinstance(model, MaskedLanguageModel)
    batch = batch_of(model, DOCUMENTS)
    batch = with_input(batch, ~batch.is_word, 5)
    found = model.encode(batch.tokens, batch.lengths, attention=True)
    for row, document in enumerate(DOCUMENTS):
        single = batch_of(model, [document])
        alone, length = model.encode(single.tokens, single.lengths, attention=True), int(single.lengths[0])
        for whole, own in zip(found.attention or (), alone.attention or (), strict=True):
            for one, other in ((whole.before, own.before), (whole.after, own.after)):
                torch.testing.assert_close(one[row, :, :length, :length], other[0], **CLOSE)
                assert not whole.after[row, :, :length, length:].any(), "padding is a key"


# -- streams ----------------------------------------------------------------------------------------------------------


def stream(positions: int) -> list[Batch]:
    """Two columns of a stream of 40 tokens, in segments of some positions."""
    ids = np.arange(36, dtype=np.int32) % 10 + 3
    data = StreamColumns(split_of(ids, np.arange(0, 37, 9), PLAIN), 2)
    return [data.__getitems__(segment) for segment in Segments(data, positions, vary=False)]


def along(model: LanguageModel, batches: Sequence[Batch]) -> torch.Tensor:
    """The scores of a stream, from segment to segment."""
    return torch.cat([torch.stack(scores_of(model, model.collate(batch))) for batch in batches], 1)


def segments_score_as_the_whole_stream(model: LanguageModel, folder: Path) -> None:
    """A state is carried from segment to segment; the next stream, and texts, begin without it and leave it alone.

    DMLM's mixture begins again in each segment: positions whose window begins before their segment are left out.
    """
    assert isinstance(model, LeftToRight)
    whole = along(model, stream(20))
    window = model.window if isinstance(model, DMLM) else 1
    within = torch.arange(20) % 6 >= window - 1
    torch.testing.assert_close(along(model, stream(6))[:, within], whole[:, within], **CLOSE)
    first, *rest = stream(6)
    begun, evaluated, weights = along(model, [first]), model._carried[False], copy.deepcopy(model.state_dict())
    model.train()(model.collate(stream(9)[0]))
    model.eval().load_state_dict(weights)  # where training moves running means
    trained = model._carried[True]
    assert not any(each.requires_grad for each in trained.tensors())
    score_documents(model, DOCUMENTS, vocabulary=PLAIN)
    assert model._carried[False] is evaluated
    scores = torch.cat((begun, along(model, rest)), 1)
    torch.testing.assert_close(scores[:, within], whole[:, within], **CLOSE)
    assert model._carried[True] is trained


CHECKS: dict[str, tuple[Check, ...]] = {
    "left to right": (a_later_token_moves_no_earlier_score, the_check_for_systems_of_ones_own_passes),
    "masked": (
        the_check_for_systems_of_ones_own_passes,
        every_other_word_moves_a_score,
        attention_depends_on_its_own_words,
    ),
    "levels": (
        the_check_for_systems_of_ones_own_passes,
        what_is_written_later_moves_no_earlier_score,
        every_placeholder_has_a_distribution,
        texts_score_as_their_levels_do,
    ),
    "exact": (every_token_has_a_distribution, texts_score_as_batches_do),
    "pseudo": (every_hidden_word_has_a_distribution, sentences_score_as_batches_do),
    "bound": (texts_score_as_batches_do, bounds_stay_below_the_exact_score, tokens_have_at_most_a_distribution),
    "generates": (texts_are_written_alike_in_every_batch, texts_have_the_log_probs_of_their_tokens),
    "parses": (trees_depend_on_their_own_words,),
    "carries state": (segments_score_as_the_whole_stream,),
}
"""By capability; a system that claims one that is not here brings its checks."""
OF_EXACT_WRITERS: tuple[Check, ...] = (it_writes_by_its_scores, a_greedy_text_takes_the_likeliest_tokens)
"""Of systems that claim both `exact` and `generates`."""
OF_ALL: tuple[Check, ...] = (padding_and_the_batch_change_nothing, a_checkpoint_holds_it)


def checks_of(claims: frozenset[str]) -> list[Check]:
    """The checks that a system's claims ask for.

    Raises:
        AssertionError: a claim has none.
    """
    missing = claims - CHECKS.keys()
    assert not missing, f"no check of {sorted(missing)}: add one to tests.contract.checks.CHECKS"
    writers = OF_EXACT_WRITERS if claims >= {"exact", "generates"} else ()
    return [*OF_ALL, *writers, *(check for claim in sorted(claims) for check in CHECKS[claim])]
