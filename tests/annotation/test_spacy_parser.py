"""The spaCy annotator and the tagger, on pipelines trained on few sentences."""

import pickle
from dataclasses import replace

import pytest

from depgen.annotation.spacy import SpacyAnnotator, SpacyTagger
from depgen.annotation.training import train_parser
from depgen.trees.sentence import Sentence, check_tree
from tests.annotation.conftest import tiny_spacy, toy_sentences


@pytest.fixture
def annotator(toy_parsers, own_cache):
    return SpacyAnnotator("toy")


def test_it_finds_the_trees_that_it_was_trained_on(annotator):
    gold = toy_sentences(30, seed=9)
    parsed = annotator.annotate([Sentence(sentence.words) for sentence in gold])
    assert [sentence.words for sentence in parsed] == [sentence.words for sentence in gold]
    right = sum(a.heads == b.heads and a.relations == b.relations for a, b in zip(parsed, gold, strict=True))
    assert right >= 29
    assert annotator.scheme == "Toy, spaCy"
    assert annotator.annotate([]) == []


@pytest.mark.parametrize(
    "words",
    [
        ("Go",),
        ("small", "cat") * 250,
        ("New York", "sees", "a b c"),
        ("[MALE]", "'s", "…", "\u00a0x"),
        ("<unk>", "do", "n't", "N", "$", "N"),
    ],
    ids=["one word", "500 words", "words with spaces", "odd words", "words of the Penn Treebank"],
)
def test_every_sentence_gets_a_tree_with_one_root(annotator, words):
    (parsed,) = annotator.annotate([Sentence(words, tags=("X",) * len(words))])
    assert parsed.words == words
    assert parsed.tags == ("X",) * len(words)
    check_tree(parsed.heads, "here", single_root=True)
    assert [relation == "root" for relation in parsed.relations] == [head == 0 for head in parsed.heads]


@pytest.mark.slow
def test_the_trees_do_not_depend_on_the_batch(annotator):
    sentences = [Sentence(sentence.words) for sentence in toy_sentences(20, seed=4)]
    one_by_one = [SpacyAnnotator("toy", batch_size=1).annotate([sentence])[0] for sentence in sentences[:5]]
    assert annotator.annotate(sentences)[:5] == one_by_one


def test_the_fingerprint_follows_the_files_but_not_the_scores(annotator, own_cache):
    digest = annotator.fingerprint()
    assert SpacyAnnotator("toy", batch_size=7).fingerprint() == digest
    assert SpacyAnnotator(str(own_cache / "parsers" / "toy")).fingerprint() == digest
    scores, meta = own_cache / "parsers/toy/scores.json", own_cache / "parsers/toy/meta.json"
    before = scores.read_text(), meta.read_text()
    try:
        scores.write_text("{}")
        assert SpacyAnnotator("toy").fingerprint() == digest
        meta.write_text(before[1] + " ")
        assert SpacyAnnotator("toy").fingerprint() != digest
    finally:
        scores.write_text(before[0])
        meta.write_text(before[1])


def test_a_used_annotator_can_be_sent_to_another_process(annotator):
    sentence = Sentence(("Ada", "likes", "her", "dog", "."))
    trees = annotator.annotate([sentence])
    assert len(pickle.dumps(annotator)) < 2000
    assert pickle.loads(pickle.dumps(annotator)).annotate([sentence]) == trees


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
