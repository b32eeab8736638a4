"""Speed and memory of systems with fresh weights: what is scored, how, and the table that has them."""

import pytest
import yaml

from depgen.backbones.transformer import Transformer
from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.models.gilt import GiLT
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
)
from depgen.reporting.reproduce import check_corpora, floor
from depgen.reporting.table import load_definition
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import run_depgen

BACKBONE = {
    "class_path": "depgen.backbones.transformer.Transformer",
    "init_args": {"layers": 2, "width": 8, "attention_heads": 2, "feedforward": 8, "positions": "relative"},
}
SYSTEMS = {
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
        path.write_text(yaml.safe_dump({"model": SYSTEMS[name], "data": data}))
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
