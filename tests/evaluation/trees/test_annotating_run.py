"""A run that annotates, in this process and in others."""

import pickle

import pytest

from depgen.errors import UserError
from depgen.evaluation.trees import annotating_run
from depgen.evaluation.trees.induced_graphs import InducedGraphs
from depgen.evaluation.trees.induced_trees import InducedTrees
from depgen.training.runs import named_checkpoint


@pytest.mark.parametrize("kind", [InducedTrees, InducedGraphs])
def test_a_run_is_trusted_in_other_processes_where_it_is_trusted_here(parsing_run, monkeypatch, kind):
    loaded = []
    monkeypatch.setattr(annotating_run, "load_trained", lambda *_, trust, **__: loaded.append(trust))
    for trusted in (False, True):
        with monkeypatch.context() as here:
            here.setattr(annotating_run, "is_trusted", lambda _, trusted=trusted: trusted)
            sent = pickle.dumps(kind(str(parsing_run)))
        monkeypatch.setattr(annotating_run, "is_trusted", lambda _: False)
        assert vars(pickle.loads(sent))["source"] == named_checkpoint(str(parsing_run)), "a newer run is another one"
        further = pickle.loads(pickle.dumps(pickle.loads(sent)))  # from there on to a third
        _ = further.trained
    assert loaded == [False, True]


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
