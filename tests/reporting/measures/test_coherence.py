"""A table of coherence on invented documents, made by the commands that make it: figures, items, notes, refusals."""

import numpy as np
import pytest

from depgen.data.generated import GeneratedLanguage
from depgen.evaluation.coherence import CoherenceOptions, coherence
from depgen.evaluation.trained import load_trained
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.results import read_result
from depgen.reporting.table import load_definition
from tests.fixtures.kinds import named
from tests.reporting.commands import tables_made
from tests.reporting.conftest import ORDER_COLUMN

STORIES = named("data.generated.GeneratedLanguage", train=12, valid=2, test=6, sentences=[5, 5])
OTHERS = named("data.generated.GeneratedLanguage", train=12, valid=2, test=5, seed=2, name="others", sentences=[9, 9])
ORDER = {"task": "order", "shuffles": 5, "resamples": 200, "seed": 4}
CONTEXTS = {"rnnlm": "NoContext", "codclm": "ContextToOutput"}


def experiment(context):
    network = named(f"models.dclm.{context}", size=6)
    adam = named("torch.optim.Adam", lr=0.02)
    return {
        "trainer": {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False},
        "model": named("models.dclm.DCLM", context=network, embedding_size=6, optimizer=adam),
        "data": named("data.documents.DocumentData", corpus=STORIES),
    }


COHERENT = {
    "table": "coherent",
    "caption": "Invented coherence",
    "source": "an invented paper, Table 3",
    "seeds": [1],
    "measures": [named("reporting.measures.coherence.Coherence", tasks=["coherence_stories", "insertion_others"])],
    "columns": [
        ORDER_COLUMN,
        {"key": "order_deviation", "header": "Deviation", "higher_better": None},
        {"key": "insertion", "header": "Insertion", "higher_better": True, "test": "paired_bootstrap"},
        {"key": "insertion_distance", "header": "Distance", "higher_better": False},
    ],
    "rows": [
        {"name": "RNNLM", "experiment": "rnnlm"},
        {
            "name": "CODCLM",
            "experiment": "codclm",
            "against": ["RNNLM"],
            "values": {"order": 81.72},
            "stars": ["order"],
        },
    ],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which the table was made."""
    folder = tmp_path_factory.mktemp("place")
    experiments = {
        "tables/coherent": COHERENT,
        "coherence_stories": ORDER,
        "insertion_others": {"task": "insertion", "corpus": OTHERS, "sentences": 5, "insertions": 2, "resamples": 200},
        **{name: {**experiment(each), "small": {}} for name, each in CONTEXTS.items()},
    }
    with tables_made(folder, experiments, "coherent"):
        yield


def job_of(row):
    definition = load_definition("coherent")
    return Job(definition, definition.row(row), "small", 1)


def items_of(row, name):
    return read_result(job_of(row).result).scores(name)


@pytest.mark.slow
def test_figures_are_those_of_the_run_asked_by_itself(made):
    for row in ("RNNLM", "CODCLM"):
        run, metrics = finished_run(job_of(row)), read_result(job_of(row).result).metrics
        asked = CoherenceOptions(shuffles=5, resamples=200, seed=4)
        expected = coherence(load_trained(run, device="cpu"), asked).rows.iloc[0]
        assert expected["name"] == "generated", "the run's own, where the YAML names none"
        assert metrics["order"] == pytest.approx(expected["accuracy"])
        assert metrics["order_deviation"] == pytest.approx(expected["deviation"])
        assert metrics["order_ties"] == expected["ties"]
        assert set(read_result(job_of(row).result).items) >= {"order", "order_documents"}
        assert items_of(row, "order").mean() == pytest.approx(metrics["order"])
        assert (len(items_of(row, "order")), len(items_of(row, "insertion"))) == (6, 10)
        assert items_of(row, "order_documents").tolist() == list(range(6))
        assert items_of(row, "insertion_documents").tolist() == np.repeat(range(5), 2).tolist(), "two pieces of each"
    assert read_result(job_of("RNNLM").result).metrics["order"] == 50
    empty = expected["empty"]
    assert read_result(job_of("RNNLM").result).metrics["order_ties"] == pytest.approx(100 - empty)
    said = f"in {empty:.1f} % of questions there is nothing to choose"
    assert (said in read_result(job_of("RNNLM").result).settings["order"]) == (empty > 0)


@pytest.mark.slow
def test_the_share_of_unknown_words_is_that_of_the_documents(made):
    corpus = GeneratedLanguage(train=12, valid=2, test=6, sentences=(5, 5))
    known = {word for document in corpus.documents("train") for word in document.words()}
    words = [word for document in corpus.documents("test") for word in document.words()]
    unknown = np.mean([word not in known for word in words])
    assert read_result(job_of("CODCLM").result).metrics["order_unk_rate_of_documents"] == pytest.approx(unknown)
