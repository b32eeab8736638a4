"""Sentences as batches: which are together, and what goes with them."""

import pytest

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.sentence_batches import sentence_batches
from depgen.trees.sentence import Sentence

KNOWN = Vocabulary.of_words(["a", "b", "c"], specials=["mask_id"])
SENTENCES = [
    Sentence(("a", "b", "c"), (2, 0, 2)),
    Sentence((), ()),
    Sentence(("zebra",), (0,)),
    Sentence(("c",) * 5, (0, 1, 2, 3, 4)),
    Sentence(("b", "a"), (0, 1)),
]


@pytest.mark.parametrize("budget", [1, 6, 100])
def test_every_sentence_with_words_is_in_one_batch_with_its_tree(budget):
    seen = []
    for batch in sentence_batches(KNOWN, SENTENCES, tokens_per_batch=budget):
        assert batch.tokens.numel() <= max(budget, batch.tokens.shape[1])
        assert batch.tokens.shape[1] == batch.lengths.max() > 0
        for item, tokens, heads, n in zip(batch.items, batch.tokens, batch.heads, batch.lengths, strict=True):
            sentence = SENTENCES[item]
            assert tokens[:n].tolist() == [KNOWN.pieces(word)[0] for word in sentence.words]
            assert tokens[n:].tolist() == [KNOWN.eos] * (len(tokens) - len(sentence))
            assert heads[:n].tolist() == list(sentence.heads)
            seen.append(int(item))
    assert sorted(seen) == [0, 2, 3, 4]


def test_sentences_without_trees_and_none_at_all():
    (batch,) = sentence_batches(KNOWN, [Sentence(("a",)), Sentence(("b", "c"))], tokens_per_batch=9)
    assert batch.heads is None
    assert not list(sentence_batches(KNOWN, [], tokens_per_batch=9))
    assert not list(sentence_batches(KNOWN, [Sentence(())], tokens_per_batch=9))


def test_a_vocabulary_without_mask_is_refused():
    with pytest.raises(UserError, match="masks: true"):
        list(sentence_batches(Vocabulary.of_words(["a"]), [Sentence(("a",))], tokens_per_batch=9))
