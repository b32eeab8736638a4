"""Attention heads against relations: models whose attention is known, an invented treebank, and numpy's correlation."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from depgen.annotation.controls import RightChain
from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees import correlations
from depgen.evaluation.trees.correlations import (
    PUBLISHED,
    HeadCorrelations,
    best_heads,
    choose_relations,
    correlate_heads,
    correlations_of,
    head_correlations,
    sentences_with_relations,
)
from depgen.language_models.masked import LayerAttention, MaskedLanguageModel, MaskedOutput
from depgen.models.causal_lm import CausalLM
from depgen.models.udgn import UDGN
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence

WORDS = ["the", "a", "old", "cat", "dog", "saw", "fed", "it", "slept"]
KNOWN = Vocabulary.of_words(WORDS, specials=["mask_id"])
SENTENCES = [
    Sentence(("the", "old", "cat", "saw", "it"), (3, 3, 4, 0, 4), ("det", "amod", "nsubj", "root", "obj")),
    Sentence(("slept",), (0,), ("root",)),
    Sentence(("a", "dog", "fed", "the", "zebra"), (2, 3, 0, 5, 3), ("det", "nsubj", "root", "det", "obj")),
    Sentence(("it", "slept"), (2, 0), ("nsubj", "root")),
    Sentence(("cat", "dog"), (0, 0), ("root", "root")),
]
EDGES = [
    (number, child, head - 1, relation)
    for number, sentence in enumerate(SENTENCES)
    for child, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
    if head > 0
]


class Shows(MaskedLanguageModel):
    """Two layers of three heads whose weight is a function of the head and of the ids at query and key."""

    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(()))

    def encode(self, tokens, lengths, *, heads=None, attention=False):
        assert attention
        assert not self.training
        assert not (tokens == KNOWN.mask_id).any()
        layers = [LayerAttention(*(weights(tokens, layer, stage) for stage in range(2))) for layer in range(2)]
        return MaskedOutput(torch.zeros(*tokens.shape, 1), attention=tuple(layers))


def weights(tokens, layer, stage):
    queries, keys = tokens[:, None, :, None].double(), tokens[:, None, None, :].double()
    heads = torch.arange(3.0).double()[:, None, None]
    return torch.sin(1 + 2 * queries + (3 + heads) * keys + 5 * layer + 0.7 * stage).float()


def series(direction, stage, layer, head):
    """A head's weight at each edge, by the plainest loop."""
    found = []
    for number, child, parent, _ in EDGES:
        ids = torch.tensor([[KNOWN.pieces(word)[0] for word in SENTENCES[number].words]])
        query, key = (parent, child) if direction == "child_to_parent" else (child, parent)
        found.append(weights(ids, layer, stage)[0, head, query, key].item())
    return np.array(found)


def expected(direction, stage, relation):
    has = np.array([edge[3] == relation for edge in EDGES])
    return np.array(
        [[np.corrcoef(series(direction, stage, layer, head), has)[0, 1] for head in range(3)] for layer in range(2)]
    )


def test_correlations_are_those_over_all_gold_edges():
    found = correlate_heads(Shows().eval(), KNOWN, [Sentence((), (), ()), *SENTENCES])
    assert found.relations == ("det", "nsubj", "obj", "amod")
    assert found.edges == (3, 3, 2, 1)
    assert found.unknown_words == pytest.approx(1 / 15)
    for direction in ("child_to_parent", "parent_to_child"):
        for stage in range(2):
            values = found.of(direction, after_mask=bool(stage))
            assert values.shape == (2, 3, 4)
            for column, relation in enumerate(found.relations):
                np.testing.assert_allclose(values[..., column], expected(direction, stage, relation), atol=1e-6)


def test_the_mean_weight_is_the_authors_quantity():
    found = correlate_heads(Shows().eval(), KNOWN, SENTENCES)
    values = found.of("parent_to_child", after_mask=True, quantity="mean_weight")
    chosen = [number for number, edge in enumerate(EDGES) if edge[3] == "nsubj"]
    assert values[1, 2, 1].item() == pytest.approx(series("parent_to_child", 1, 1, 2)[chosen].mean(), abs=1e-6)


@pytest.fixture(scope="module")
def udgn():
    torch.manual_seed(0)
    return UDGN(KNOWN.size, width=8, layers=2, attention_heads=3, head_size=4, parser_layers=1).eval()


def test_no_figure_depends_on_the_batches(udgn, monkeypatch):
    together = correlate_heads(udgn, KNOWN, SENTENCES)
    monkeypatch.setattr(correlations, "TOKENS_PER_BATCH", 1)
    apart = correlate_heads(udgn, KNOWN, SENTENCES)
    for name, values in together.values.items():
        assert values.shape == (2, 2, 2, 3, 4)
        torch.testing.assert_close(values, apart.values[name], rtol=0, atol=1e-5)


def test_messages_along_gold_trees_are_read_with_these():
    torch.manual_seed(0)
    model = UDGN(KNOWN.size, width=8, layers=1, attention_heads=2, head_size=4, mask_from="trees").eval()
    found = correlate_heads(model, KNOWN, SENTENCES)
    before, after = (found.of(after_mask=stage, quantity="mean_weight") for stage in (False, True))
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)  # the mask is 1 at every gold edge


def test_a_run_that_is_told_trees_is_read_along_those_of_its_annotator(monkeypatch):
    torch.manual_seed(0)
    model = UDGN(KNOWN.size, width=8, layers=2, attention_heads=2, head_size=4, mask_from="trees").eval()
    data = SimpleNamespace(annotator=RightChain())
    monkeypatch.setattr(correlations, "data_of", {Path("chained/config.yaml"): data}.get)
    found = correlations_of(Trained(model, KNOWN, Path("chained"), Path("best.ckpt")), SENTENCES)
    chained = [replace(each, heads=(*range(2, len(each) + 1), 0)) for each in SENTENCES]
    expected = correlate_heads(model, KNOWN, SENTENCES, along=chained)
    gold = correlate_heads(model, KNOWN, SENTENCES)
    for name, values in found.values.items():
        torch.testing.assert_close(values, expected.values[name], rtol=0, atol=0)
        assert not torch.allclose(values, gold.values[name])


def made(relations, edges, values):
    """The correlations of a run, the same in both directions and stages."""
    stacked = torch.tensor(values, dtype=torch.float64).expand(2, 2, -1, -1, -1)
    return HeadCorrelations(relations, edges, {"pearson": stacked, "mean_weight": -stacked}, 0.0)


def test_the_best_head_of_each_run_and_their_mean():
    first = made(("det", "obj"), (9, 4), [[[0.1, 0.2], [0.3, -0.9]], [[0.2, 0.1], [0.05, 0.5]]])
    second = made(("det", "obj"), (9, 4), [[[0.1, 0.3], [0.1, 0.2]], [[0.7, 0.3], [0.0, 0.1]]])
    obj, det = best_heads([first, second], ["obj", "det"])
    assert (det.values, det.layers, det.heads, det.edges) == ((0.3, 0.7), (0, 1), (1, 0), 9)
    assert (det.mean, det.deviation) == (pytest.approx(0.5), pytest.approx(0.4 / np.sqrt(2)))
    assert (obj.values, obj.layers, obj.heads) == ((0.5, 0.3), (1, 0), (1, 0))
    (alone,) = best_heads([first], ["det"], quantity="mean_weight")
    assert (alone.values, alone.deviation) == ((-0.05,), None)


def test_relations_are_the_published_ones_and_the_most_frequent():
    clear = ["pobj", "prep", "punct", "det", "compound", "nsubj", "amod", "dobj", "aux", "cc"]
    assert choose_relations(clear) == [relation for relation in clear if relation in PUBLISHED]
    universal = ["case", "nsubj", "det", "advmod", "amod", "obj", "obl", "compound", "aux"]
    assert choose_relations(universal) == ["case", "nsubj", "det", "advmod", "amod", "obj", "compound", "aux"]
    assert choose_relations(["b", "a"]) == ["b", "a"]
    assert choose_relations(universal, ["aux", "obl", "case"]) == ["case", "obl", "aux"]
    with pytest.raises(UserError, match="no relation 'prep'; it has case, nsubj"):
        choose_relations(universal, ["case", "prep"])


def test_models_without_such_attention_are_refused(monkeypatch):
    from depgen.backbones.transformer import Transformer

    causal = CausalLM(lambda size: Transformer(size, layers=1, width=8, attention_heads=1, feedforward=8), KNOWN.size)
    with pytest.raises(UserError, match="CausalLM is no masked language model"):
        correlate_heads(causal.eval(), KNOWN, SENTENCES)
    monkeypatch.setattr(Shows, "encode", lambda self, tokens, *_, **__: MaskedOutput(torch.zeros(*tokens.shape, 1)))
    with pytest.raises(UserError, match="Shows does not show"):
        correlate_heads(Shows().eval(), KNOWN, SENTENCES)


# -- the verb -----------------------------------------------------------------------------------------------------


@pytest.fixture
def treebank(tmp_path):
    """Writes sentences as the test split of a treebank; the options that name it."""

    def write(sentences):
        write_conllu([Document(tuple(sentences), "d1")], tmp_path / "en_ewt-ud-test.conllu")
        return ["--corpus", "depgen.data.corpora.Ewt", "--corpus.folder", str(tmp_path)]

    return write


@pytest.fixture
def runs(tmp_path, monkeypatch, udgn):
    """Two runs: a model whose weights are known, and a UDGN."""
    models = {"a": Shows().eval(), "b": udgn}
    monkeypatch.setattr(
        correlations, "load_trained", lambda name, **_: Trained(models[name], KNOWN, tmp_path / name, tmp_path)
    )
    return models


def test_the_verb_prints_a_table(treebank, runs, capsys):
    assert main(["head-correlations", "--run", "a", *treebank(SENTENCES)]) == 0, capsys.readouterr().err
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    values = expected("child_to_parent", 0, "det")
    layer, head = np.unravel_index(values.argmax(), values.shape)
    assert ["sentences", "5"] in lines
    assert ["edges", "9"] in lines
    assert ["relation", "edges", "best head", "deviation", "layer", "head"] in lines
    assert ["det", "3", f"{values.max():.3f}", "-", str(layer), str(head)] in lines


def test_the_verb_prints_json_of_several_runs(treebank, runs, capsys):
    options = ["--direction", "parent_to_child", "--after-mask", "--relations", "obj", "det", "--json"]
    assert main(["head-correlations", "--run", "a", "b", *treebank(SENTENCES), *options]) == 0, capsys.readouterr().err
    content = json.loads(capsys.readouterr().out)
    assert [row["relation"] for row in content["relations"]] == ["det", "obj"]
    (row,) = [row for row in content["relations"] if row["relation"] == "obj"]
    assert row["values"][0] == pytest.approx(expected("parent_to_child", 1, "obj").max(), abs=1e-6)
    assert row["mean"] == pytest.approx(np.mean(row["values"]))
    assert row["deviation"] == pytest.approx(np.std(row["values"], ddof=1))
    assert len(content["run"]) == len(content["unknown_share"]) == len(row["layers"]) == 2
    assert content["weights"] == "after the mask"


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (Sentence(("it",), None, None), "expected heads and relations, found no heads"),
        (Sentence(("it", "slept"), (2, 0), None), "found no relations"),
        (Sentence(("slept",), (0,), ("root",)), "expected sentences with edges between words"),
    ],
)
def test_treebanks_without_relations_are_refused(treebank, runs, capsys, sentence, message):
    assert main(["head-correlations", "--run", "a", *treebank([sentence])]) == 2
    assert message in capsys.readouterr().err


def test_trees_whose_relations_are_blanks_have_none():
    blank = Document((Sentence(("it", "slept"), (2, 0), ("_", "_")),), "d1")
    corpus = SimpleNamespace(name="WSJ", published={}, fingerprint=str, documents=lambda split: iter([blank]))
    with pytest.raises(UserError, match=r"d1 of WSJ: .*found no relations"):
        sentences_with_relations(corpus, "test")


def test_it_says_how_many_sentences_have_none():
    some = Document((Sentence(("it", "slept"), (2, 0), ("nsubj", "root")), Sentence(("so",))), "d1")
    corpus = SimpleNamespace(name="WSJ", published={}, fingerprint=str, documents=lambda split: iter([some]))
    with pytest.raises(UserError, match=r"found no heads. 1 of 2 sentences lack them. .*steps.WithTreesOnly"):
        sentences_with_relations(corpus, "test")


def test_the_function_is_what_the_verb_calls(runs, tmp_path, treebank):
    from depgen.data.corpora import Ewt

    treebank(SENTENCES)
    text = head_correlations(Ewt(str(tmp_path)), run=["a"], relations=["amod"])
    assert text.splitlines()[-1].startswith("amod\t1\t")
