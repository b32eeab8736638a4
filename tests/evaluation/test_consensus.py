"""The consensus of several runs, against a loop over all pairs of words and against the runs by themselves."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import depgen
from depgen.cli import main
from depgen.data.corpora import Ewt
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.heads import decoded_heads
from depgen.errors import UserError
from depgen.evaluation import treebank as parsing
from depgen.evaluation.parsing import Consensus, network_of, predicted_heads
from depgen.evaluation.reading import Reading, in_form
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import document_of
from depgen.evaluation.trained import Trained, load_trained
from depgen.evaluation.treebank import ParsingOptions
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.structformer import StructFormer
from depgen.models.udgn import UDGN
from depgen.trees.conllu import read_conllu
from depgen.trees.removal import keep_words
from tests.invented_models import write_other_seed
from tests.models.encoders import encoder, spread

WORDS = ("ash", "birch", "cedar", "elm", "fir")
VOCABULARY = Vocabulary.of_words(WORDS, specials=["mask_id"])
LOADED = cache(load_trained)
TOKENS = torch.tensor([[3, 4, 5, 6], [5, 0, 0, 0], [7, 3, 7, 0]])
LENGTHS = torch.tensor([4, 1, 3])
TEXT = "The king , she says , runs .\nKings\nShe runs 3 km\n"


def udgn(seed, **options):
    torch.manual_seed(seed)
    model = UDGN(VOCABULARY.size, width=8, layers=1, attention_heads=2, head_size=4, parser_layers=1, **options)
    torch.nn.init.normal_(model.parser.arcs.weight)
    return model.eval()


def trained(model, vocabulary=VOCABULARY, name="other"):
    return Trained(model, vocabulary, Path(name), Path(f"{name}/best.ckpt"))


def test_probabilities_are_the_means_of_those_of_the_networks():
    networks = [udgn(seed) for seed in range(3)]
    with torch.inference_mode():
        found = Consensus(networks).head_probabilities(TOKENS, LENGTHS)
        single = [network.head_probabilities(TOKENS, LENGTHS).tolist() for network in networks]
        turned = Consensus(networks[::-1]).head_probabilities(TOKENS, LENGTHS)
    for sentence in range(3):
        for word in range(4):
            for head in range(4):
                mean = sum(each[sentence][word][head] for each in single) / 3
                assert found[sentence, word, head].item() == pytest.approx(mean, rel=1e-12)
    assert len({each[0][0][1] for each in single}) == 3
    torch.testing.assert_close(turned, found, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (trained(udgn(1), Vocabulary.of_words(WORDS[::-1], specials=["mask_id"])), "vocabulary [0-9a-f]+ of 8 types"),
        (trained(udgn(1, supervised_weight=1.0)), "heads that were learnt without trees.*found .*from trees"),
        (trained(StructFormer(encoder(), VOCABULARY.size).eval()), "a UDGN.*found a StructFormer"),
    ],
)
def test_systems_that_differ_in_more_than_their_seed_are_refused(other, message):
    with pytest.raises(UserError, match=rf"^other/best\.ckpt: expected .*{message}.*leave out one"):
        network_of([trained(udgn(0), name="first"), other])


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def second(parsing_place, tmp_path_factory):
    """A run that differs in its parser's weights, with a lower validation loss."""
    (run,) = (parsing_place / "runs/udgn").iterdir()
    return write_other_seed(run, tmp_path_factory.mktemp("runs") / "second", 1.25)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch):
    monkeypatch.setattr(parsing, "load_trained", LOADED)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(TEXT)
    return path


def rows_of(*runs):
    first, *others = map(str, runs)
    options = ParsingOptions(Ewt(), others=others, seeds=1, resamples=50)
    return parsing.parsing(LOADED(first), options).rows.set_index("name")


def test_the_consensus_of_a_run_with_itself_is_the_run(parsing_run):
    assert rows_of(parsing_run, parsing_run).equals(rows_of(parsing_run))


def test_scores_of_the_consensus_are_those_of_its_trees_in_any_order(parsing_run, second):
    alone = [rows_of(run).loc["tree", "uda"] for run in (parsing_run, second)]
    both, turned = rows_of(parsing_run, second), rows_of(second, parsing_run)
    assert both.equals(turned)
    systems = [LOADED(str(run)) for run in (parsing_run, second)]
    gold = parsing.gold_sentences(in_form(Ewt(), systems[0].reading), ["test"])
    network, words = network_of(systems), [each.words for each in gold]
    heads = predicted_heads(network, systems[0].vocabulary, words)["tree"]
    right = [len(pairs(each.heads) & pairs(own)) for each, own in zip(gold, heads, strict=True)]
    assert both.loc["tree", "uda"] == pytest.approx(100 * sum(right) / sum(map(len, words)))
    assert alone[0] != alone[1]


def pairs(heads):
    return {frozenset((word, head or word)) for word, head in enumerate(heads, start=1)}


@pytest.mark.slow
def test_texts_are_parsed_by_the_consensus(parsing_run, second, text, tmp_path, capsys):
    third = write_other_seed(parsing_run, tmp_path / "third", seed=3)
    systems = [depgen.load(run) for run in (third, second)]
    words = ("the", "king", "she", "says", "runs")
    ids = torch.tensor([[systems[0].vocabulary.pieces(word)[0] for word in words]])
    with torch.inference_mode():
        single = [each.model.head_probabilities(ids, torch.tensor([5])).double().numpy() for each in systems]
    *alone, mean = (
        tuple(decoded_heads(each, np.array([5]), "tree")[0].tolist()) for each in (*single, sum(single) / 2)
    )
    assert mean not in alone, "the consensus is one of the two"
    assert main(["parse", "--run", str(third), str(second), "--input", str(text)]) == 0
    content = capsys.readouterr().out
    path = text.with_suffix(".conllu")
    path.write_text(content)
    tree = next(iter(read_conllu(path, by_document=False))).sentences[0]
    assert keep_words(tree, [word not in ",." for word in tree.words]).heads == mean
    document = document_of(TEXT, name=text.name)
    for first, other in (systems, systems[::-1]):
        assert first.parse([document], others=[other]).to_conllu() == content


def test_attention_heads_are_those_of_all_runs():
    models = [spread(MaskedTransformer(encoder(), VOCABULARY.size)).eval() for _ in range(2)]
    with torch.no_grad():
        next(models[1].backbone.layers.parameters()).neg_()
    systems = [System(m, VOCABULARY, Path("run"), Path("best.ckpt"), Reading("as_is")) for m in models]
    (sentence,) = systems[0].parse("ash birch cedar elm", attention_head=(1, 0), others=systems[1:]).sentences
    assert [model.parses_by for model in models] == [None, None]
    for model in models:
        model.parse_by((1, 0))
    single = [model.head_probabilities(TOKENS[:1], LENGTHS[:1]).detach().double().numpy() for model in models]
    assert not np.array_equal(*single)
    assert [*sentence.heads] == decoded_heads(sum(single) / 2, np.array([4]), "tree")[0].tolist()
