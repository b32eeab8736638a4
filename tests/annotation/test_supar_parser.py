"""The SuPar annotator: folders of weights and JSON by themselves, SuPar's own pickles on trust only."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.supar import (
    WORD_PAIRS,
    BiaffineSizes,
    LengthBatches,
    ParserVocabulary,
    SuparAnnotator,
    SuparFile,
    TreeParser,
    apply_fixes,
    load_parser,
    single_root_trees,
)
from depgen.decoding.spanning_tree import maximum_spanning_trees
from depgen.errors import UserError
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence, check_tree, find_cycle
from tests.annotation.conftest import toy_sentences


@pytest.fixture
def annotator(toy_parsers, own_cache):
    return SuparAnnotator("toy_supar")


def test_it_finds_the_trees_that_it_was_trained_on(annotator):
    gold = toy_sentences(30, seed=9)
    parsed = annotator.annotate([Sentence(sentence.words) for sentence in gold])
    right = sum(a.heads == b.heads and a.relations == b.relations for a, b in zip(parsed, gold, strict=True))
    assert right >= 28
    assert annotator.scheme == "Toy, SuPar biaffine"


@pytest.mark.parametrize(
    "words", [("Go",), ("small", "cat") * 75, ("New York", "sees", "it")], ids=["one word", "150 words", "spaces"]
)
def test_every_sentence_gets_a_tree_with_one_root(annotator, words):
    (parsed,) = annotator.annotate([Sentence(words)])
    assert parsed.words == words
    check_tree(parsed.heads, "here", single_root=True)
    assert [relation == "root" for relation in parsed.relations] == [head == 0 for head in parsed.heads]


def test_the_trees_do_not_depend_on_the_batch(annotator):
    sentences = [Sentence(sentence.words) for sentence in toy_sentences(12, seed=4)] + [Sentence(("Go",))]
    assert annotator.annotate(sentences) == SuparAnnotator("toy_supar", batch_size=1).annotate(sentences)


@pytest.mark.slow
def test_trees_are_distributed_by_the_scores_of_arcs(annotator):
    sentences = [Sentence(sentence.words) for sentence in toy_sentences(6, seed=4)] + [Sentence(("Go",))]
    found = annotator.distributions(sentences)
    for sentence, trees, parsed in zip(sentences, found, annotator.annotate(sentences), strict=True):
        assert trees.arcs.shape == (len(sentence), len(sentence))
        assert np.exp(trees.labels).sum(-1) == pytest.approx(1)
        scores = trees.arcs + trees.labels.max(-1)
        roots, length = trees.roots[None], np.array([len(sentence)])
        (heads,) = maximum_spanning_trees(scores[None], length, root_scores=roots)  # the best of all are projective
        best = trees.labels.argmax(-1)[np.arange(len(heads)), heads - 1]
        names = tuple(trees.relations[number] if head else "root" for head, number in zip(heads, best, strict=True))
        assert (tuple(heads), names) == (parsed.heads, parsed.relations)
        for tree in trees.sample(20, np.random.default_rng(0)):
            check_tree(tree[0].tolist(), "here", single_root=True)
            assert [relation == "root" for relation in tree[1]] == (tree[0] == 0).tolist()
    alone = SuparAnnotator("toy_supar", batch_size=1).distributions(sentences[:1])[0]
    assert alone.arcs == pytest.approx(found[0].arcs, abs=1e-4)


def test_a_long_sentence_is_refused_by_name_where_supar_searches(annotator):
    sentences = [Sentence(("a",)), Sentence(("a",) * 901)]
    with pytest.raises(UserError, match=r"sentence 2: 901 words; .* at most 900"):
        SuparFile.parse(None, sentences)
    check_tree(annotator.annotate(sentences)[1].heads, "here", single_root=True)


def test_the_file_of_weights_holds_tensors_alone(toy_parsers, own_cache):
    weights = torch.load(own_cache / "parsers/toy_supar/weights.pt", weights_only=True)
    assert all(isinstance(value, torch.Tensor) for value in weights.values())


def test_a_file_cut_short_is_refused(annotator, own_cache, tmp_path):
    source = own_cache / "parsers/toy_supar"
    for name in ("weights.pt", "vocabulary.json", "parser.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    (tmp_path / "weights.pt").write_bytes((source / "weights.pt").read_bytes()[:5000])
    with pytest.raises(UserError, match=r"expected weights\.pt and vocabulary.json"):
        load_parser(tmp_path, "tree")
    (tmp_path / "weights.pt").write_bytes((source / "weights.pt").read_bytes())
    content = json.loads((source / "vocabulary.json").read_text())
    (tmp_path / "vocabulary.json").write_text(json.dumps({**content, "relations": content["relations"][:-1]}))
    with pytest.raises(UserError, match="size mismatch"):
        load_parser(tmp_path, "tree")


@pytest.fixture(scope="module")
def supar_file(tmp_path_factory):
    """SuPar's own file of an untrained parser: a pickle."""
    apply_fixes()
    from supar import BiaffineDependencyParser

    folder = tmp_path_factory.mktemp("supar")
    documents = [Document((sentence,), str(number)) for number, sentence in enumerate(toy_sentences(10, seed=0))]
    write_conllu(documents, folder / "train.conllu")
    parser = BiaffineDependencyParser.build(
        path=str(folder / "parser"), min_freq=1, fix_len=8, train=str(folder / "train.conllu"), build=True,
        encoder="lstm", feat=["char"], embed=None, unk="unk", n_embed=8, n_pretrained=8, n_feat_embed=8,
        n_char_embed=8, n_char_hidden=8, n_lstm_hidden=8, n_lstm_layers=1, n_arc_mlp=8, n_rel_mlp=8,
    )  # fmt: skip
    parser.save(str(folder / "parser"))
    return folder / "parser"


def test_a_trusted_pickle_parses(supar_file):
    annotator = SuparAnnotator(str(supar_file), trust_checkpoint=True, scheme="Toy, SuPar")
    sentences = [Sentence(("the", "cat", "sees", "it")), Sentence(("Go",)), Sentence(("New York", "a\tb"))]
    parsed = annotator.annotate(sentences)
    assert [sentence.words for sentence in parsed] == [sentence.words for sentence in sentences]
    for sentence in parsed:
        check_tree(sentence.heads, "here", single_root=True)
    with pytest.raises(UserError, match=r"expected a parser that was trained here, .* SuPar's own file"):
        annotator.distributions(sentences)
    assert annotator.scheme == "Toy, SuPar"
    assert annotator.fingerprint() == SuparAnnotator(str(supar_file), trust_checkpoint=True).fingerprint()


def test_loading_stays_safe_for_others(supar_file):
    SuparAnnotator(str(supar_file), trust_checkpoint=True).annotate([Sentence(("Go",))])
    with pytest.raises(Exception, match="Weights only load failed"):
        torch.load(supar_file)


def best_single_root_score(scores):
    """By trying every list of heads."""
    n = len(scores) - 1
    best = -float("inf")
    for heads in itertools.product(range(n + 1), repeat=n):
        one_root = sum(head == 0 for head in heads) == 1 and all(h != d for d, h in enumerate(heads, 1))
        if one_root and not find_cycle(heads):
            best = max(best, sum(float(scores[d, h]) for d, h in enumerate(heads, 1)))
    return best


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), length=st.integers(1, 4), pull=st.sampled_from([0.0, 5.0]))
def test_the_tree_is_the_best_with_one_root(seed, length, pull):
    scores = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(seed))
    scores[:, :, 0] += pull  # many words would be roots
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[0, 1 : length + 1] = True
    mask[1, 1:4] = True
    heads = single_root_trees(scores.clone(), mask)
    for row, n in enumerate((length, 3)):
        own = heads[row, 1 : n + 1].tolist()
        check_tree(own, "here", single_root=True)
        score = sum(float(scores[row, d, h]) for d, h in enumerate(own, 1))
        assert score == pytest.approx(best_single_root_score(scores[row, : n + 1, : n + 1]), abs=1e-4)
        assert heads[row, n + 1 :].eq(0).all()


def test_hundreds_of_would_be_roots_take_no_minutes():
    scores = torch.randn(1, 301, 301, generator=torch.Generator().manual_seed(0))
    scores[:, :, 0] += 10
    mask = torch.ones(1, 301, dtype=torch.bool)
    mask[:, 0] = False
    check_tree(single_root_trees(scores, mask)[0, 1:].tolist(), "here", single_root=True)


def test_long_sentences_are_parsed_few_at_a_time(monkeypatch):
    lengths = [900, *[5] * 100, *[300] * 4, 900]
    seen = []
    vocabulary = ParserVocabulary({}, {}, ["root", "dep"], 1)
    parser = TreeParser(vocabulary, BiaffineSizes(4, 4, 4, 4, 4, 1, 4, 4))

    def find(batch):
        seen.append(batch.lengths.tolist())
        found = torch.full_like(batch.labels, -1)
        found[..., 0][batch.is_word] = 0
        return found

    monkeypatch.setattr(parser, "find", find)
    found = parser.parse([Sentence(("a",) * length) for length in lengths])
    assert [len(sentence) for sentence in found] == lengths
    assert sum(map(len, seen)) == len(lengths)
    assert len(seen[0]) == 64
    for batch in seen:
        assert len(batch) == 1 or len(batch) * max(batch) ** 2 <= WORD_PAIRS
    assert parser.parse([]) == []


def test_batches_cover_all_within_the_budget():
    lengths = [3, 50, 7, 7, 1, 20, 4]
    batches = LengthBatches(lengths, 21, seed=1)
    first, second = list(batches), list(batches)
    assert sorted(index for batch in first for index in batch) == list(range(7))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 21 for batch in first)
    assert first != second
