"""Trees that a network has found, with networks whose heads are known."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.corpora import ConlluTreebank, Ptb, TextLines, WsjSample
from depgen.data.corpus import SPLITS
from depgen.data.steps import Normalized, WithTreesOnly
from depgen.data.vocabulary import Vocabulary
from depgen.decoding import spanning_tree
from depgen.errors import UserError
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees import parsing
from depgen.evaluation.trees.parsing import (
    accuracies,
    floors,
    parsing_scores,
    predicted_heads,
    score_parser,
    sentences_with_trees,
)
from depgen.language_models.masked import HeadNetwork, MaskedLanguageModel
from depgen.metrics.induction import induction_counts
from depgen.models.causal_lm import CausalLM
from depgen.models.udgn import UDGN
from depgen.trees.sentence import Sentence
from depgen.trees.tree import check_tree
from tests.oracles import score_of_tree, tree_by_n_calls

OFFSETS = {"next": 1, "last": -1, "after-next": 2, "before-last": -2}
KNOWN = Vocabulary.of_words(list(OFFSETS), specials=["mask_id"])
SENTENCES = [
    ["next", "next", "zebra"],
    [],
    ["zebra"],
    ["after-next", "last", "next", "last", "before-last"],
    ["next", "last"],
    ["zebra"] * 4,
]


class ByWord(MaskedLanguageModel):
    """Every word says by itself which neighbour heads it."""

    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(()))
        self.seen = []

    def head_probabilities(self, tokens, lengths):
        assert not torch.is_autocast_enabled("cpu")
        assert (lengths > 0).all()
        self.seen.append(tuple(tokens.shape))
        found = torch.zeros(*tokens.shape, tokens.shape[1])
        for row, length in enumerate(lengths.tolist()):
            assert (tokens[row, length:] == KNOWN.eos).all()
            for place in range(length):
                offset = OFFSETS.get(KNOWN.types[tokens[row, place]])
                if offset is not None:
                    found[row, place, place + offset] = 0.9
        return found


@pytest.fixture
def network():
    return ByWord().eval()


@pytest.mark.parametrize("budget", [1, 7, 1000])
def test_heads_are_those_of_the_network_in_the_order_of_the_sentences(network, budget):
    assert isinstance(network, HeadNetwork)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        argmax = predicted_heads(network, KNOWN, SENTENCES, decoding="argmax", tokens_per_batch=budget)
        tree = predicted_heads(network, KNOWN, SENTENCES, decoding="tree", tokens_per_batch=budget)
    assert argmax == [[2, 3, 1], [], [0], [3, 1, 4, 3, 3], [2, 1], [2, 1, 1, 1]]
    assert [tree[0], tree[1], tree[2]] == [[2, 3, 0], [], [0]]
    assert sorted(tree[4]) == [0, tree[4].index(0) + 1]
    assert tree[3] in ([3, 1, 0, 3, 3], [3, 1, 4, 0, 3])  # one of two that head one another is the root
    assert tree[5].count(0) == 1
    assert all(rows * columns <= max(budget, columns) for rows, columns in network.seen)


def test_trees_are_those_of_the_authors_weights(network, monkeypatch):
    seen, search = [], spanning_tree.maximum_spanning_trees
    monkeypatch.setattr(
        spanning_tree,
        "maximum_spanning_trees",
        lambda *given, **roots: seen.append((*given, roots)) or search(*given, **roots),
    )
    assert predicted_heads(network, KNOWN, [["next", "zebra"]], decoding="tree") == [[2, 0]]
    ((weights, lengths, roots),) = seen
    assert not roots["root_scores"].any()
    np.testing.assert_allclose(np.exp(weights[0]), [[1e-9, 0.9 + 1e-9], [1e-9, 1e-9]], rtol=1e-6)
    assert lengths.tolist() == [2]


class KnowsRoots(ByWord):
    """60 % for the first word as root, 20 % for the second, which 45 % have below the third."""

    def head_probabilities(self, tokens, lengths):
        return torch.tensor([[[0.6, 0.4, 0.0], [0.35, 0.2, 0.45], [0.0, 1.0, 0.0]]]).expand(len(tokens), -1, -1)


def test_a_network_that_has_been_taught_roots_is_asked_for_them():
    """0.6 x 0.35 x 1 with the first word as root, 0.2 x 0.4 x 1 with the second, which is ahead but for its root."""
    words = [["next", "next", "zebra"]]
    assert predicted_heads(KnowsRoots().eval(), KNOWN, words, decoding="tree") == [[0, 1, 2]]
    assert predicted_heads(KnowsRoots().eval(), KNOWN, words, decoding="argmax") == [[0, 3, 2]]


def test_a_sentence_of_500_words_and_one_without_known_words():
    model, words = tiny_udgn(), list(OFFSETS)
    long = [words[i] for i in np.random.default_rng(0).integers(0, 4, 500)]
    found = predicted_heads(model, KNOWN, [long, ["zebra"] * 3, long[:4]], decoding="tree", tokens_per_batch=64)
    for heads, length in zip(found, (500, 3, 4), strict=True):
        assert len(heads) == length
        check_tree(heads, "found", single_root=True)


def tiny_udgn():
    torch.manual_seed(0)
    model = UDGN(KNOWN.size, width=8, layers=1, attention_heads=2, head_size=4, parser_layers=1)
    torch.nn.init.normal_(model.parser.arcs.weight)
    return model.eval()


def test_udgn_parses_as_the_authors_code_does():
    """A sentence at a time; a search for each root; weights log(p + 1e-9), 0 at the root."""
    model, words = tiny_udgn(), [*OFFSETS, "zebra"]
    generator = np.random.default_rng(0)
    sentences = [[words[i] for i in generator.integers(0, 5, n)] for n in (3, 9, 1, 14, 6, 2)]
    trees = predicted_heads(model, KNOWN, sentences, decoding="tree", tokens_per_batch=40)
    best = predicted_heads(model, KNOWN, sentences, decoding="argmax", tokens_per_batch=1)
    for sentence, tree, heads in zip(sentences, trees, best, strict=True):
        n = len(sentence)
        tokens = torch.tensor([[KNOWN.pieces(word)[0] for word in sentence]])
        with torch.no_grad():
            probabilities = model.head_probabilities(tokens, torch.tensor([n]))[0].double().numpy()
        weights = np.log(probabilities + 1e-9)
        expected = score_of_tree(tree_by_n_calls(weights, np.zeros(n)), weights, np.zeros(n))
        assert score_of_tree(tree, weights, np.zeros(n)) == pytest.approx(expected, abs=1e-4)
        assert tree.count(0) == 1
        assert heads == ([0] if n == 1 else (probabilities.argmax(1) + 1).tolist())


GOLD = [
    Sentence(("next", "next", "zebra"), (2, 3, 0)),  # found whole
    Sentence(("zebra",), (0,)),
    Sentence(("next", "next", "next", "zebra"), (0, 1, 4, 1)),
]


def test_scores_by_hand(network):
    scores = score_parser(network, KNOWN, GOLD, seeds=3, resamples=200)
    assert (scores.sentences, scores.words, scores.unknown_words) == (3, 8, 3 / 8)
    figures = {name: (row.dda.value, row.uda.value) for name, row in scores.rows.items()}
    # the last sentence's argmax: 2 3 4 1, of gold pairs 11 12 34 14 it has 12 34 14; its tree, a chain: 12 34
    assert figures["argmax"] == pytest.approx((100 * (2 + 1 + 2) / 8, 100 * (2 + 1 + 3) / 8))
    assert figures["tree"] == figures["next word"] == pytest.approx((100 * (3 + 1 + 1) / 8, 100 * (3 + 1 + 2) / 8))
    assert figures["previous word"] == pytest.approx((100 * (0 + 1 + 2) / 8, 100 * (2 + 1 + 3) / 8))
    random = scores.counts["random tree"]
    assert len(random) == 3
    assert figures["random tree"] == pytest.approx(
        tuple(100 * np.mean([(each.directed.sum() / 8, each.undirected.sum() / 8) for each in random], 0))
    )
    assert set(figures) == {"argmax", "tree", *floors(1)}
    for row in scores.rows.values():
        assert row.dda.low <= row.dda.value <= row.dda.high
        assert row.uda.low <= row.uda.value <= row.uda.high


def test_intervals_are_those_of_resampled_sentences():
    generator = np.random.default_rng(0)
    gold = [[2, 0]] * 400
    predicted = [[2, 0] if right else [0, 1] for right in generator.random(400) < 0.3]
    found = accuracies({"some": [induction_counts(predicted, gold)], "all": [induction_counts(gold, gold)]})
    share = np.mean([heads == [2, 0] for heads in predicted])
    error = 100 * 1.96 * np.sqrt(share * (1 - share) / 400)
    assert found["some"].dda.value == pytest.approx(100 * share)
    assert found["some"].dda.low == pytest.approx(100 * share - error, abs=0.5)
    assert found["some"].dda.high == pytest.approx(100 * share + error, abs=0.5)
    assert (found["all"].uda.low, found["all"].uda.value, found["all"].uda.high) == (100.0, 100.0, 100.0)
    assert found["some"].uda.value == pytest.approx(100 * (2 * share + 1 - share) / 2)


# -- the verb -----------------------------------------------------------------------------------------------------


@pytest.fixture
def treebank(tmp_path):
    lines = [
        "".join(
            f"{place}\t{word}\t_\tX\tX\t_\t{head}\tdep\t_\t_\n"
            for place, (word, head) in enumerate(zip(sentence.words, sentence.heads, strict=True), start=1)
        )
        for sentence in GOLD
    ]
    (tmp_path / "test.conllu").write_text("\n".join(lines) + "\n")
    (tmp_path / "train.conllu").write_text("\n".join(lines[:2]) + "\n")
    return ConlluTreebank(str(tmp_path), train=["train.conllu"], test=["test.conllu"], name="invented")


@pytest.fixture
def trained(tmp_path, monkeypatch, network):
    found = Trained(network, KNOWN, tmp_path, tmp_path / "best.ckpt")
    monkeypatch.setattr(parsing, "load_trained", lambda reference, **_: found)
    return found


def test_the_verb_prints_a_table(trained, treebank, capsys):
    arguments = [
        "parsing-scores", "--corpus", "depgen.data.corpora.ConlluTreebank", "--corpus.folder", treebank.folder,
        "--corpus.test", "[test.conllu]", "--corpus.train", "[train.conllu]", "--seeds", "2",
    ]  # fmt: skip
    assert main([*arguments, "--splits", "test"]) == 0, capsys.readouterr().err
    rows = dict(line.split("\t", 1) for line in capsys.readouterr().out.splitlines())
    assert (rows["sentences"], rows["words"], rows["unknown_share"]) == ("3", "8", "0.3750")
    assert rows["tree"].split("\t")[0::3] == ["62.50", "75.00"]
    assert main([*arguments, "--splits", "train", "test", "--max-words", "3", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["sentences"], content["splits"]) == (4, "train test")
    assert content["rows"]["tree"]["uda"] == {"value": 100.0, "low": 100.0, "high": 100.0}


def test_what_can_not_be_scored_is_refused(trained, treebank, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="expected sentences of at most 0 words in test, found none"):
        parsing_scores(corpus=treebank, max_words=0)
    with pytest.raises(UserError, match="expected sentences in its splits, found none"):
        parsing_scores(corpus=treebank, splits=())
    told = UDGN(KNOWN.size, width=8, layers=1, attention_heads=2, head_size=4, parser_layers=1, mask_from="trees")
    monkeypatch.setattr(parsing, "load_trained", lambda *_, **__: Trained(told.eval(), KNOWN, tmp_path, tmp_path))
    with pytest.raises(UserError, match="This UDGN is given its trees"):
        parsing_scores(corpus=treebank)
    model = CausalLM(lambda size: Transformer(size, layers=1, width=8, attention_heads=1, feedforward=8), KNOWN.size)
    monkeypatch.setattr(parsing, "load_trained", lambda *_, **__: Trained(model.eval(), KNOWN, tmp_path, tmp_path))
    with pytest.raises(UserError, match=r"CausalLM.*not parse"):
        parsing_scores(corpus=treebank)


def test_a_treebank_without_heads_is_refused(trained, treebank, tmp_path):
    (tmp_path / "test.conllu").write_text("1\tnext\t_\tX\tX\t_\t_\t_\t_\t_\n\n")
    with pytest.raises(UserError, match=r"test\.conllu.*head for every word"):
        parsing_scores(corpus=treebank)


def test_it_says_how_many_sentences_lack_a_tree_and_how_to_leave_them_out(tmp_path):
    rows = "1\tnext\t_\tX\tX\t_\t{}\tx\t_\t_\n\n"
    (tmp_path / "test.conllu").write_text(rows.format("0") + rows.format("_") + rows.format("_"))
    files = {"folder": str(tmp_path), "test": ["test.conllu"]}
    message = "2 of 3 sentences lack a tree. .*WithTreesOnly"
    with pytest.raises(UserError, match=message):
        sentences_with_trees(ConlluTreebank(**files), ["test"])
    assert len(sentences_with_trees(ConlluTreebank(**files, steps=[WithTreesOnly()]), ["test"])) == 1


def test_text_without_trees_is_refused(tmp_path):
    (tmp_path / "test.txt").write_text("next next zebra\n")
    with pytest.raises(UserError, match="expected a head for every word"):
        sentences_with_trees(TextLines(str(tmp_path), name="lines"), ["test"])


def test_every_experiment_of_parsing_parses():
    paths = sorted(Path("experiments").glob("parsing_*.yaml"))
    assert paths
    for path in paths:
        assert main(["parsing-scores", "--config", os.fspath(path), "--print_config"]) == 0


@pytest.mark.real_data
def test_floors_of_the_wsj_sample():
    sentences = sentences_with_trees(WsjSample(steps=[Normalized(Ptb())]), SPLITS)
    gold = [sentence.heads for sentence in sentences]
    found = {
        name: [induction_counts([each.heads for each in annotators[0].annotate(sentences)], gold)]
        for name, annotators in floors(1).items()
    }
    assert (len(gold), found["next word"][0].words.sum()) == (3914, 83109)
    figures = {name: (row.dda.value, row.uda.value) for name, row in accuracies(found, resamples=10).items()}
    assert figures["next word"] == pytest.approx((30.28, 50.62), abs=0.005)
    assert figures["previous word"] == pytest.approx((20.42, 50.36), abs=0.005)


class ByItsOwnRule(ByWord):
    """Whose paper makes the first word of every sentence the head of all others."""

    def own_heads(self, tokens, lengths):
        heads = torch.ones_like(tokens)
        heads[:, 0] = 0
        return heads.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], -1)


def test_a_network_with_a_rule_of_its_own_has_a_row_for_it():
    sentences = [Sentence(("zebra",) * n, heads=(0, *range(1, n))) for n in (1, 4, 2, 3)]
    options = {"seeds": 1, "resamples": 10, "tokens_per_batch": 8}
    rows = score_parser(ByItsOwnRule().eval(), KNOWN, sentences, **options).rows
    assert rows["own rule"].dda.value == pytest.approx(100 * (4 + 1 + 1 + 1) / 10)
    assert "own rule" not in score_parser(ByWord().eval(), KNOWN, sentences, **options).rows
