"""A run that annotates, in this process and in others."""

import pickle

import pytest

from depgen.errors import UserError
from depgen.evaluation.trees.induced_graphs import InducedGraphs
from depgen.evaluation.trees.induced_trees import InducedTrees
from depgen.training.runs import named_checkpoint


@pytest.mark.parametrize("kind", [InducedTrees, InducedGraphs])
def test_sent_to_another_process_a_run_stays_the_one_that_was_newest_here(parsing_run, kind):
    sent = pickle.loads(pickle.dumps(kind(str(parsing_run))))
    assert vars(sent)["source"] == named_checkpoint(str(parsing_run))
    assert "trained" not in vars(sent)


def test_a_scheme_names_no_folder_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    below, elsewhere = (InducedTrees(str(tmp_path / path)) for path in ("runs/udgn/small", "copied/udgn"))
    assert below.scheme.startswith("induced by udgn/small (")
    assert elsewhere.scheme.startswith("induced by udgn (")


def test_a_missing_run_is_named_with_its_remedy(tmp_path):
    with pytest.raises(UserError, match=r"No run .*nowhere.* Trees are induced by a run of a system that parses"):
        _ = InducedTrees(str(tmp_path / "nowhere")).source
    with pytest.raises(UserError, match=r"No run .*nowhere"):
        _ = InducedGraphs(str(tmp_path / "nowhere")).source
