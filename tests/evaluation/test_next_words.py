"""Entropies and ranks of next words: of every system of the contract they are those of all next words, or refused."""

import numpy as np
import pytest
import torch

from depgen.errors import UserError
from depgen.evaluation.next_words import figures_of_next_words
from tests.contract.batches import DOCUMENTS, all_scores, vocabulary_of
from tests.contract.systems import SYSTEMS, built


@pytest.mark.parametrize("name", SYSTEMS)
def test_figures_are_those_of_all_next_words_or_refused(name):
    model, document = built(SYSTEMS[name]), DOCUMENTS[0]
    if not {"left to right", "exact"} <= SYSTEMS[name].claims:
        reason = "builds a structure too" if "bound" in SYSTEMS[name].claims else "does not predict each word"
        with pytest.raises(UserError, match=rf"A {type(model).__name__} {reason}.*: leave out next_words"):
            figures_of_next_words(model, [document], vocabulary=vocabulary_of(model))
        return
    (found,) = figures_of_next_words(model, [document], vocabulary=vocabulary_of(model))
    entropies, ranks = (np.concatenate([getattr(each, kind) for each in found]) for kind in ("entropy", "rank"))
    with torch.no_grad():
        log_probs = all_scores(model, document)
    np.testing.assert_allclose(log_probs.exp().sum(0), np.ones_like(entropies), rtol=1e-9)
    np.testing.assert_allclose(entropies, -(log_probs.exp() * log_probs).nan_to_num().sum(0), atol=1e-9)
    vocabulary, ends = vocabulary_of(model), len(found[0].rank) > len(document[0])
    closed = [[*ids, vocabulary.eos] if ends or ids is document[-1] else ids for ids in document]
    own = log_probs.gather(0, torch.tensor([[token for ids in closed for token in ids]]))
    assert ranks.tolist() == (1 + (log_probs > own).sum(0)).tolist()
