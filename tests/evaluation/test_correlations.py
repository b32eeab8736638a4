"""Attention heads against relations: models whose attention is known, an invented treebank, and numpy's correlation."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from depgen.annotation.controls import RightChain
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation import correlations
from depgen.evaluation.correlations import CorrelationOptions, RelationCorrelation, head_correlations
from depgen.evaluation.trained import Trained
from depgen.language_models.masked import LayerAttention, MaskedLanguageModel, MaskedOutput
from depgen.models.causal_lm import CausalLM
from depgen.models.udgn import UDGN
from depgen.trees.sentence import Sentence
from tests.evaluation.treebanks import Treebank

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


def system_of(model, run="run"):
    return Trained(model, KNOWN, Path(run), Path("best.ckpt"))


def values_of(items, name="correlation", **chosen):
    """Layers, attention heads and relations (by frequency) of a direction."""
    for key, value in chosen.items():
        items = items[items[key] == value]
    layers, heads = (items[key].nunique() for key in ("layer", "attention_head"))
    return items[name].to_numpy().reshape(-1, layers, heads).transpose(1, 2, 0)


@pytest.mark.parametrize("after_mask", [False, True])
def test_correlations_are_those_over_all_gold_edges(after_mask):
    read = [Sentence((), (), ()), *SENTENCES]
    items, unknown = head_correlations(system_of(Shows().eval()), read, read, after_mask=after_mask)
    relations = items.drop_duplicates("relation")
    assert relations["relation"].tolist() == ["det", "nsubj", "obj", "amod"]
    assert relations["edges"].tolist() == [3, 3, 2, 1]
    assert unknown == pytest.approx(100 / 15)
    for direction in ("child_to_parent", "parent_to_child"):
        values, means = (values_of(items, name, direction=direction) for name in ("correlation", "mean_weight"))
        assert values.shape == (2, 3, 4)
        for column, relation in enumerate(relations["relation"]):
            np.testing.assert_allclose(values[..., column], expected(direction, after_mask, relation), atol=1e-6)
        chosen = [number for number, edge in enumerate(EDGES) if edge[3] == "nsubj"]
        mean = series(direction, after_mask, 1, 2)[chosen].mean()
        assert means[1, 2, 1] == pytest.approx(mean, abs=1e-6)  # the authors' quantity


def test_a_run_that_is_told_trees_is_read_along_those_of_its_annotator(monkeypatch):
    torch.manual_seed(0)
    model = UDGN(KNOWN.size, width=8, layers=2, attention_heads=2, head_size=4, mask_from="trees").eval()
    data = SimpleNamespace(annotator=RightChain())
    monkeypatch.setattr(correlations, "data_of", {Path("chained/config.yaml"): data}.get)
    system = system_of(model, "chained")
    found = correlations.correlations(system, CorrelationOptions(Treebank(SENTENCES))).items
    chained = [replace(each, heads=(*range(2, len(each) + 1), 0)) for each in SENTENCES]
    along, gold = (head_correlations(system, SENTENCES, each)[0]["mean_weight"] for each in (chained, SENTENCES))
    assert found["mean_weight"].tolist() == along.tolist()
    assert not np.allclose(found["mean_weight"], gold)


def test_a_row_is_the_best_head_of_a_relation_in_a_direction():
    options = CorrelationOptions(Treebank(SENTENCES), relations=["obj", "det"])
    rows = correlations.correlations(system_of(Shows().eval()), options).rows
    assert rows["level"].tolist() == ["child_to_parent"] * 2 + ["parent_to_child"] * 2
    assert rows["name"].tolist() == ["det", "obj"] * 2
    for row in rows.itertuples():
        values = expected(row.level, 0, row.name)
        assert row.correlation == pytest.approx(values.max(), abs=1e-6)
        assert (row.layer, row.attention_head) == np.unravel_index(values.argmax(), values.shape)
    assert (rows[["sentences", "edges"]].to_numpy() == [[5, 3], [5, 2]] * 2).all()


def test_what_has_no_correlations_is_refused(monkeypatch):
    from depgen.backbones.transformer import Transformer

    def correlated(model, **options):
        return correlations.correlations(system_of(model.eval()), CorrelationOptions(Treebank(SENTENCES), **options))

    with pytest.raises(UserError, match="no relation 'prep'; it has det, nsubj"):
        correlated(Shows(), relations=["det", "prep"])
    with pytest.raises(UserError, match="CausalLM is no masked language model"):
        correlated(
            CausalLM(lambda size: Transformer(size, layers=1, width=8, attention_heads=1, feedforward=8), KNOWN.size)
        )
    monkeypatch.setattr(Shows, "encode", lambda self, tokens, *_, **__: MaskedOutput(torch.zeros(*tokens.shape, 1)))
    with pytest.raises(UserError, match="Shows does not show"):
        correlated(Shows())


def test_messages_along_gold_trees_are_read_with_these():
    torch.manual_seed(0)
    model = UDGN(KNOWN.size, width=8, layers=1, attention_heads=2, head_size=4, mask_from="trees").eval()
    before, after = (
        head_correlations(system_of(model), SENTENCES, SENTENCES, after_mask=stage)[0]["mean_weight"]
        for stage in (False, True)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)  # the mask is 1 at every gold edge


# -- sums over edges --------------------------------------------------------------------------------------------------

RELATIONS = 5


@pytest.fixture
def data():
    """Weights of 2 x 3 heads at 400 edges, one of which goes with a relation; and relations of unequal frequency."""
    generator = torch.Generator().manual_seed(0)
    relations = torch.multinomial(torch.tensor([8.0, 4, 2, 1, 0.5]), 400, replacement=True, generator=generator)
    weights = torch.rand(400, 2, 3, generator=generator) ** 3
    weights[:, 1, 2] += relations == 2
    return weights, relations


def correlated(*batches):
    metric = RelationCorrelation((2, 3), RELATIONS)
    for weights, relations in batches:
        metric.update(weights, relations)
    return metric.compute()


def test_correlations_are_pearsons(data):
    weights, relations = data
    found = correlated(data)["pearson"]
    assert found.dtype == torch.float64
    for layer in range(2):
        for head in range(3):
            series = weights[:, layer, head].double().numpy()
            for relation in range(RELATIONS):
                has = (relations == relation).double().numpy()
                expected = pearsonr(series, has).statistic
                assert found[layer, head, relation].item() == pytest.approx(expected, abs=1e-12)
                assert expected == pytest.approx(np.corrcoef(series, has)[0, 1])
    assert found[1, 2].argmax() == 2


def test_the_mean_weight_is_that_of_a_relations_edges(data):
    weights, relations = data
    found = correlated(data)["mean_weight"]
    for relation in range(RELATIONS):
        torch.testing.assert_close(found[..., relation], weights[relations == relation].double().mean(0))


@pytest.mark.parametrize("sizes", [[400], [1] * 10 + [390], [133, 0, 267]])
def test_no_figure_depends_on_the_batches(data, sizes):
    weights, relations = data
    batches = zip(weights.split(sizes), relations.split(sizes), strict=True)
    together, apart = correlated(data), correlated(*batches)
    for name in together:
        torch.testing.assert_close(together[name], apart[name], rtol=0, atol=1e-12)


def test_small_weights_beside_a_large_mean_keep_their_correlation():
    has = torch.arange(1000) % 3 == 0
    series = 1000 + 0.5 * torch.rand(1000, 1, generator=torch.Generator().manual_seed(1)) + has[:, None]
    metric = RelationCorrelation((1,), 2)
    metric.update(series, has.long())
    expected = pearsonr(series[:, 0].double().numpy(), has.double().numpy()).statistic
    assert metric.compute()["pearson"][0, 1].item() == pytest.approx(expected, abs=1e-8)


def test_what_is_constant_correlates_with_nothing():
    weights = torch.stack((torch.full((50,), 0.1), 1 / 3 + torch.arange(50) % 3 * 3e-8, torch.rand(50)), 1)
    mixed, one = RelationCorrelation((3,), 3), RelationCorrelation((3,), 3)
    mixed.update(weights, torch.arange(50) % 2)  # no edge has relation 2
    one.update(weights, torch.zeros(50, dtype=torch.long))  # all have relation 0
    found = mixed.compute()
    assert (found["pearson"][:2] == 0).all()
    assert (found["pearson"][2] != 0).tolist() == [True, True, False]
    assert found["mean_weight"][:, 2].tolist() == [0, 0, 0]
    assert (one.compute()["pearson"] == 0).all()
