from dataclasses import replace

import pytest

from depgen.annotation.spacy import SpacyTagger
from depgen.annotation.training import train_parser
from tests.annotation.conftest import tiny_spacy, toy_sentences


@pytest.mark.slow
def test_a_trained_pipeline_tags_its_own_language(toy_treebank, own_cache):
    train_parser(toy_treebank, "tagged", tiny_spacy())
    gold = toy_sentences(20, seed=9)
    tagger = SpacyTagger("tagged", batch_size=3)
    found = tagger.tag([replace(sentence, tags=None) for sentence in gold])
    assert [sentence.words for sentence in found] == [sentence.words for sentence in gold]
    right = sum(f == g for a, b in zip(found, gold, strict=True) for f, g in zip(a.tags, b.tags, strict=True))
    assert right / sum(map(len, gold)) > 0.95
    assert found == SpacyTagger("tagged").tag(gold)
    assert tagger.fingerprint() == SpacyTagger("tagged").fingerprint()
