"""One text scored by systems of every kind: per word, by document, exact and pseudo apart; and how fast."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.text_measures import TextOptions
from depgen.evaluation.trained import Trained
from depgen.evaluation.treebank import ParsingOptions
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext
from depgen.models.gilt import GiLT
from depgen.models.masked_transformer import MaskedTransformer
from depgen.reporting.jobs import Job
from depgen.reporting.measures import scoring
from depgen.reporting.measures.scoring import (
    BATCHED,
    MEMORY,
    RANDOM_SENTENCES,
    SPEED,
    TOKENS_OF_EACH,
    WORDS_OF_EACH,
    measure_speed,
    scores_of,
)
from depgen.reporting.reproduce import check_corpora, floor
from depgen.reporting.results import Budget, DataSource, RunFacts
from depgen.reporting.table import TOKENS, load_definition
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import run_depgen
from depgen.trees.sentence import Document, Sentence
from tests.models.encoders import encoder, spread

TEXT = [["the cat ran", "a plugh"], ["the cats ran the cats"], ["xyzzy", "a cat", "ran"]]


class Texts:
    """A corpus whose validation split nobody has asked for."""

    name, published = "Texts", {}

    def fingerprint(self, split):
        return split

    def documents(self, split):
        assert split == "test"
        for number, lines in enumerate(TEXT):
            yield Document(tuple(Sentence(tuple(line.split())) for line in lines), str(number))


class Plurals(Vocabulary):
    """Some words have two pieces."""

    def pieces(self, word):
        if word != "cats":
            return super().pieces(word)
        return (*super().pieces("cat"), *super().pieces("-s"))


VOCABULARY = Plurals.of_words(["the", "cat", "-s", "ran", "a"], specials=["mask_id", "start"])
FACTS = RunFacts(
    DataSource("Texts", reduced=False),
    None,
    1000,
    Budget(2, 800),
    ((400.0, 9.0), (800.0, 8.0)),
    ((5.0, 3.0), (10.0, 16.0)),
)
SYSTEMS = {
    "sentences": partial(CausalLM, partial(Transformer, layers=1, width=12, attention_heads=2, feedforward=6)),
    "documents": partial(DCLM, context=partial(ContextToContext, size=5), embedding_size=4),
    "masked": partial(MaskedTransformer, encoder()),
}


def trained(name):
    model = spread(SYSTEMS[name](VOCABULARY.size)).eval()
    return Trained(model, VOCABULARY, Path("run"), Path("run/best.ckpt"))


def scores(name, facts=FACTS):
    return scores_of(trained(name), ParsingOptions(Texts()), facts)


def ids_of(lines):
    return [[piece for word in line.split() for piece in VOCABULARY.pieces(word)] for line in lines]


@pytest.mark.parametrize("name", ["sentences", "documents"])
def test_exact_perplexity_is_per_word_and_of_each_document(name):
    model, found = trained(name).model, scores(name)
    nll = []
    for lines in TEXT:
        units = [ids_of(lines)] if name == "documents" else [[ids] for ids in ids_of(lines)]
        nll.append(
            -sum(each.sum() for unit in units for each in model.sentence_log_probs([unit], vocabulary=VOCABULARY)[0])
        )
    words = [sum(len(line.split()) + 1 for line in lines) for lines in TEXT]
    assert found.metrics["perplexity"] == pytest.approx(math.exp(sum(nll) / sum(words)), rel=1e-5)
    np.testing.assert_allclose(found.items["perplexity"], np.array(nll) / words, rtol=1e-5)
    assert found.items[TOKENS].tolist() == words
    assert found.metrics["unk_rate"] == 2 / 20
    assert "pseudo_perplexity" not in found.metrics
    assert found.not_computed["pseudo_perplexity"] == "its likelihood is exact"


def test_pseudo_perplexity_is_of_known_words_and_never_in_the_column_of_exact_ones():
    model, found = trained("masked").model, scores("masked")
    costs = []
    for lines in TEXT:
        for ids, log_probs in zip(
            ids_of(lines), model.sentence_log_probs([ids_of(lines)], vocabulary=VOCABULARY)[0], strict=True
        ):
            costs += [-log_prob for token, log_prob in zip(ids, log_probs, strict=True) if token != VOCABULARY.unk]
    words = sum(
        VOCABULARY.pieces(word) != (VOCABULARY.unk,) for lines in TEXT for line in lines for word in line.split()
    )
    assert found.metrics["pseudo_perplexity"] == pytest.approx(math.exp(sum(costs) / words), rel=1e-5)
    assert not {"perplexity", "unk_rate"} & found.metrics.keys()
    assert not found.items
    assert found.not_computed["perplexity"] == "its likelihood is pseudo"


def test_inner_parameters_have_no_row_a_word():
    model = trained("documents").model
    outside = model.embedding.weight.numel() + model.output.weight.numel() + model.output.bias.numel()
    assert scores("documents").metrics["inner_parameters"] == pytest.approx(
        (sum(each.numel() for each in model.parameters()) - outside) / 1e6
    )


def test_speeds_are_tokens_over_seconds(monkeypatch):
    ticks = iter([10.0, 14.0])
    with monkeypatch.context() as patch:
        patch.setattr("depgen.reporting.measures.scoring.now", lambda device: next(ticks))
        metrics = scores("sentences").metrics
    assert metrics["scoring_speed"] == (14 + 2 + 6) / 4, "words, second pieces and ends"
    assert metrics["training_speed"] == 800 / 16
    assert scores("sentences", replace(FACTS, curve=())).metrics["training_speed"] == 800 / 16
    assert "no wall time" in scores("sentences", replace(FACTS, clock=())).not_computed["training_speed"]


# -- speed ------------------------------------------------------------------------------------------------------------

BACKBONE = {
    "class_path": "depgen.backbones.transformer.Transformer",
    "init_args": {"layers": 2, "width": 8, "attention_heads": 2, "feedforward": 8, "positions": "relative"},
}
TIMED = {
    "txl": {"class_path": "depgen.models.causal_lm.CausalLM", "init_args": {"backbone": BACKBONE}},
    "gilt": {"class_path": "depgen.models.gilt.GiLT", "init_args": {"backbone": BACKBONE, "feature_size": 4}},
    "without": {"class_path": "depgen.models.gilt.GiLT", "init_args": {"backbone": BACKBONE, "features": []}},
    "masked": {"class_path": "depgen.models.udgn.UDGN", "init_args": {"width": 8, "layers": 1}},
}
TABLE = """
table: speeds
caption: Speeds
source: nobody
sizes: [paper]
columns: [{key: tokens_per_second, header: tokens/s, higher_better: true}]
rows: [{name: GiLT, experiment: gilt.yaml, floor: speed, beam_size: 2}]
"""


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Makes the experiment of a system, whose data are nowhere; with few types."""
    monkeypatch.setattr(scoring, "TYPES", 60)

    def made(name):
        path = tmp_path / f"{name}.yaml"
        corpus = {"class_path": "depgen.data.corpora.JsonDocuments", "init_args": {"folder": "nowhere"}}
        data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": corpus}}
        path.write_text(yaml.safe_dump({"model": TIMED[name], "data": data}))
        return Experiment(path)

    return made


@pytest.fixture
def rows_read(monkeypatch):
    """How many rows and columns of tokens the network reads at each step."""
    read, found = Transformer.forward, []

    def forward(self, tokens, *rest, **options):
        found.append(tuple(tokens.shape))
        return read(self, tokens, *rest, **options)

    monkeypatch.setattr(Transformer, "forward", forward)
    return found


def test_sentences_have_the_words_and_the_pieces_of_the_papers_text():
    vocabulary = scoring.random_vocabulary()
    assert vocabulary.size == 32_772
    sentences = scoring.random_sentences(vocabulary)
    assert len({tuple(sentence) for sentence in sentences}) == RANDOM_SENTENCES
    for sentence in sentences:
        assert len(sentence) == TOKENS_OF_EACH
        assert vocabulary.word_of_token(sentence)[-1] == WORDS_OF_EACH
        assert vocabulary.opens_word[sentence[0]]
        assert min(sentence) >= 2, "no special token"


def test_a_system_without_a_beam_reads_token_by_token_from_its_state(experiment, rows_read):
    found = measure_speed(experiment("txl"))
    assert found.metrics.keys() == {SPEED, BATCHED}
    assert found.not_computed == {MEMORY: "measured on a GPU alone"}
    one, several = [(1, 1)] * (TOKENS_OF_EACH + 1), [(RANDOM_SENTENCES, 1)] * (TOKENS_OF_EACH + 1)
    assert rows_read == [*one, *one * RANDOM_SENTENCES, *several, *several], "each way once before it is timed"


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 7])
def test_a_beam_is_full_with_fresh_weights(experiment, rows_read, beam_size):
    measure_speed(experiment("gilt"), beam_size)
    alone, together = (
        [rows for rows, _ in part] for part in (rows_read[: TOKENS_OF_EACH + 1], rows_read[-TOKENS_OF_EACH - 1 :])
    )
    assert alone[:1] == [1]
    assert {*alone[10:]} == {beam_size}
    assert {*together[10:]} == {RANDOM_SENTENCES * beam_size}


def test_systems_that_are_not_timed(experiment):
    with pytest.raises(UserError, match="beam_size is of systems whose scores are bounds"):
        measure_speed(experiment("txl"), 3)
    with pytest.raises(UserError, match="scores token by token, found UDGN"):
        measure_speed(experiment("masked"))
    with pytest.raises(UserError, match="also draws a structure"):
        measure_speed(experiment("without"))


@pytest.mark.slow
def test_a_row_needs_neither_corpus_nor_training(experiment, tmp_path, monkeypatch):
    experiment("gilt")
    (tmp_path / "table.yaml").write_text(TABLE)
    definition = load_definition(str(tmp_path / "table.yaml"))
    job = Job(definition, definition.rows[0], "paper", 1)
    sizes = []
    step = GiLT.beginning
    monkeypatch.setattr(GiLT, "beginning", lambda self, *a, **k: sizes.append(self.beam_size) or step(self, *a, **k))
    check_corpora([job])  # it reads none
    result = floor(job, run_depgen, TextOptions())
    assert result.metrics[SPEED] > 0
    assert {*sizes} == {2}
    assert result.data.corpus == "4 random sentences"


def test_the_table_has_the_papers_beams():
    rows = load_definition("gilt_table5").rows
    assert [row.beam_size for row in rows if row.floor == "speed"] == [None, 1, 20, 100, 300]
    assert all(row.beam_size is None or row.name.endswith(f"b = {row.beam_size}") for row in rows)
