"""Trees that a network has found, with networks whose heads are known."""

from pathlib import Path

import numpy as np
import pytest
import torch

from depgen.annotation.controls import RandomTree
from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.corpora import ConlluTreebank, Ptb, WsjSample
from depgen.data.corpus import SPLITS
from depgen.data.steps import Normalized
from depgen.data.vocabulary import Vocabulary
from depgen.decoding import spanning_tree
from depgen.errors import UserError
from depgen.evaluation.parsing import predicted_heads
from depgen.evaluation.trained import Trained
from depgen.evaluation.treebank import ParsingOptions, floors, gold_sentences, parsing
from depgen.language_models.masked import HeadNetwork, MaskedLanguageModel
from depgen.models.causal_lm import CausalLM
from depgen.models.udgn import UDGN
from depgen.trees.sentence import Sentence
from tests.evaluation.treebanks import Treebank
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
        argmax = predicted_heads(network, KNOWN, SENTENCES, tokens_per_batch=budget)["argmax"]
        tree = predicted_heads(network, KNOWN, SENTENCES, tokens_per_batch=budget)["tree"]
    assert argmax == [[2, 3, 1], [], [0], [3, 1, 4, 3, 3], [2, 1], [2, 1, 1, 1]]
    assert [tree[0], tree[1], tree[2]] == [[2, 3, 0], [], [0]]
    assert sorted(tree[4]) == [0, tree[4].index(0) + 1]
    assert tree[3] in ([3, 1, 0, 3, 3], [3, 1, 4, 0, 3])  # one of two that head one another is the root
    assert tree[5].count(0) == 1
    assert all(rows * columns <= max(budget, columns) for rows, columns in network.seen)


class KnowsRoots(ByWord):
    """60 % for the first word as root, 20 % for the second, which 45 % have below the third."""

    def head_probabilities(self, tokens, lengths):
        return torch.tensor([[[0.6, 0.4, 0.0], [0.35, 0.2, 0.45], [0.0, 1.0, 0.0]]]).expand(len(tokens), -1, -1)


def test_a_network_that_has_been_taught_roots_is_asked_for_them():
    """0.6 x 0.35 x 1 with the first word as root, 0.2 x 0.4 x 1 with the second, which is ahead but for its root."""
    words = [["next", "next", "zebra"]]
    assert predicted_heads(KnowsRoots().eval(), KNOWN, words)["tree"] == [[0, 1, 2]]
    assert predicted_heads(KnowsRoots().eval(), KNOWN, words)["argmax"] == [[0, 3, 2]]


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
    trees = predicted_heads(model, KNOWN, sentences, tokens_per_batch=40)["tree"]
    best = predicted_heads(model, KNOWN, sentences, tokens_per_batch=1)["argmax"]
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


def system_of(network):
    return Trained(network, KNOWN, Path("run"), Path("best.ckpt"))


def parsed(network, sentences, **options):
    return parsing(system_of(network), ParsingOptions(Treebank(sentences), **options))


def test_scores_by_hand(network, caplog):
    found = parsed(network, GOLD, seeds=3, resamples=200)
    rows = found.rows.set_index("name")
    assert [*rows.index] == [*floors(1), "argmax", "tree"]
    assert rows["level"].tolist() == ["floor"] * 3 + ["overall"] * 2
    assert "dda of `argmax` is 62.5, of the floor `next word` 62.5" in caplog.text
    assert (found.rows[["sentences", "words", "unknown"]] == [3, 8, 37.5]).all(axis=None)
    # the last sentence's argmax: 2 3 4 1, of gold pairs 11 12 34 14 it has 12 34 14; its tree, a chain: 12 34
    right = {
        "argmax": ([2, 1, 2], [2, 1, 3]), "tree": ([3, 1, 1], [3, 1, 2]), "next word": ([3, 1, 1], [3, 1, 2]),
        "previous word": ([0, 1, 2], [2, 1, 3]),
    }  # fmt: skip
    for name, counts in right.items():
        items = found.items[found.items["name"] == name]
        assert items["words"].tolist() == [3, 1, 4]
        for kind, own in zip(("dda", "uda"), counts, strict=True):
            assert rows.loc[name, kind] == pytest.approx(100 * sum(own) / 8)
            np.testing.assert_allclose(items[kind], 100 * np.array(own) / [3, 1, 4])
    each = [
        [
            np.sum([one == two for gold, tree in zip(GOLD, RandomTree(seed).annotate(GOLD), strict=True)
                    for one, two in zip(gold.heads, tree.heads, strict=True)])
        ] for seed in range(3)
    ]  # fmt: skip
    assert rows.loc["random tree", "dda"] == pytest.approx(100 * np.mean(each) / 8)
    for kind in ("dda", "uda"):
        assert (rows[f"{kind}_low"] <= rows[kind]).all()
        assert (rows[kind] <= rows[f"{kind}_high"]).all()


def test_intervals_are_those_of_resampled_sentences(network):
    sentences = [Sentence(("next", "zebra"), (2, 0) if k % 10 < 3 else (0, 1)) for k in range(400)]
    row = parsed(network, sentences, seeds=1).rows.set_index("name").loc["tree"]
    error = 100 * 1.96 * np.sqrt(0.3 * 0.7 / 400)
    assert row["dda"] == pytest.approx(30)
    assert [row["dda_low"], row["dda_high"]] == pytest.approx([30 - error, 30 + error], abs=0.5)
    assert row["uda"] == pytest.approx(100 * (2 * 0.3 + 0.7) / 2)


class ByItsOwnRule(ByWord):
    """Whose paper makes the first word of every sentence the head of all others."""

    def own_heads(self, tokens, lengths):
        heads = torch.ones_like(tokens)
        heads[:, 0] = 0
        return heads.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], -1)


def test_a_network_with_a_rule_of_its_own_has_a_row_for_it():
    sentences = [Sentence(("zebra",) * n, heads=(0, *range(1, n))) for n in (1, 4, 2, 3)]
    rows = parsed(ByItsOwnRule().eval(), sentences, resamples=10, tokens_per_batch=8).rows.set_index("name")
    assert rows.loc["own rule", "dda"] == pytest.approx(100 * (4 + 1 + 1 + 1) / 10)


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


def test_splits_are_taken_together_without_long_sentences(network, treebank):
    options = ParsingOptions(treebank, splits=["train", "test"], max_words=3, seeds=1, resamples=10)
    row = parsing(system_of(network), options).rows.iloc[-1]
    assert (row["name"], row["sentences"], row["splits"], row["corpus"]) == ("tree", 4, "train+test", "invented")
    assert (row["uda_low"], row["uda"], row["uda_high"]) == (100, 100, 100)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_can_not_be_scored(network):
    with pytest.raises(UserError, match="expected sentences of at most 2 words in test, found none"):
        parsed(network, [GOLD[0]], max_words=2)
    with pytest.raises(UserError, match="expected sentences in its splits, found none"):
        parsed(network, GOLD, splits=())
    told = UDGN(KNOWN.size, width=8, layers=1, attention_heads=2, head_size=4, parser_layers=1, mask_from="trees")
    with pytest.raises(UserError, match="parser has learnt nothing"):
        parsed(told.eval(), GOLD)
    model = CausalLM(lambda size: Transformer(size, layers=1, width=8, attention_heads=1, feedforward=8), KNOWN.size)
    with pytest.raises(UserError, match="CausalLM"):
        parsed(model.eval(), GOLD)


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        ([Sentence(("a",), (0,)), Sentence(("a",), (-1,)), Sentence(("a",))], {}, "a head .*2 of 3 .*WithTreesOnly"),
        ([Sentence(("a",))], {}, "invented, test, sentence 1: expected a head for every word.*Name a treebank"),
        ([Sentence(("a",), (0,), ("_",))], {"relations": True}, "expected a head and a relation for every word"),
    ],
)
def test_how_many_sentences_lack_a_tree_and_how_to_leave_them_out(sentences, options, message):
    with pytest.raises(UserError, match=message):
        gold_sentences(Treebank(sentences), ["test"], **options)


# -- experiments and real data ----------------------------------------------------------------------------------------


def test_every_experiment_of_trees_parses():
    for measure in ("parsing", "correlations", "bracketing"):
        paths = sorted(Path("experiments").glob(f"{measure}_*.yaml"))
        assert paths
        for path in paths:
            assert main(["evaluate", measure, "--config", str(path), "--print_config"]) == 0


@pytest.mark.real_data
def test_floors_of_the_wsj_sample(network):
    treebank = ParsingOptions(WsjSample(steps=[Normalized(Ptb())]), splits=SPLITS, seeds=1, resamples=1)
    rows = parsing(system_of(network), treebank).rows.set_index("name")
    assert rows.loc["next word", ["sentences", "words"]].tolist() == [3914, 83109]
    assert rows.loc["next word", ["dda", "uda"]].tolist() == pytest.approx([30.28, 50.62], abs=0.005)
    assert rows.loc["previous word", ["dda", "uda"]].tolist() == pytest.approx([20.42, 50.36], abs=0.005)


def test_trees_are_those_of_the_authors_weights(network, monkeypatch):
    seen, search = [], spanning_tree.maximum_spanning_trees
    monkeypatch.setattr(
        spanning_tree,
        "maximum_spanning_trees",
        lambda *given, **roots: seen.append((*given, roots)) or search(*given, **roots),
    )
    assert predicted_heads(network, KNOWN, [["next", "zebra"]])["tree"] == [[2, 0]]
    ((weights, lengths, roots),) = seen
    assert not roots["root_scores"].any()
    np.testing.assert_allclose(np.exp(weights[0]), [[1e-9, 0.9 + 1e-9], [1e-9, 1e-9]], rtol=1e-6)
    assert lengths.tolist() == [2]
