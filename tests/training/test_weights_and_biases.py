"""What W&B gets of a run: its whole configuration, its data, a group and tags; and wandb's own variables."""

import pandas as pd
import pytest

from depgen.cli import main
from depgen.training.runs import read_record, update_record
from depgen.training.weights_and_biases import weights_and_biases
from tests.data.test_hub_corpus import experiment, write_parquet

DATA = {"corpus": "UD", "reduced": False}
VARIABLES = ("MODE", "PROJECT", "ENTITY", "DIR", "NAME", "RUN_ID", "RUN_GROUP", "TAGS")


@pytest.fixture(autouse=True)
def _no_variables(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in VARIABLES:
        monkeypatch.delenv(f"WANDB_{name}", raising=False)
    for name in ("cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))


def test_a_run_is_named_by_its_place_and_how_to_send_it_is_said(tmp_path, caplog):
    caplog.set_level("INFO")
    run, name = tmp_path / "dmlm/small/seed1/2026-11-24_10-00-00", "dmlm-small-seed1-2026-11-24_10-00-00"
    run.mkdir(parents=True)
    update_record(run, {"experiment": "dmlm", "seed": 1, "trees": "gold", "data": DATA, "steps": 3})
    held = weights_and_biases(run, "offline", settings={"seed_everything": 1})._wandb_init
    assert f"wandb sync {run}/wandb/offline-run-*-{name}" in caplog.text
    assert {key: held[key] for key in ("id", "name", "project", "group", "tags")} == {
        "id": name, "name": name, "project": "depgen", "group": "dmlm", "tags": ["small"],
    }  # fmt: skip
    facts = {"experiment": "dmlm", "seed": 1, "trees": "gold", "data": DATA, "size": "small"}
    assert held["config"] == {"seed_everything": 1, "run": facts}


def test_variables_of_wandb_hold(tmp_path, monkeypatch):
    values = {"PROJECT": "p", "DIR": str(tmp_path / "w"), "NAME": "n", "RUN_ID": "i", "RUN_GROUP": "table2",
              "TAGS": "mine, DMLM"}  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    logger = weights_and_biases(tmp_path / "x" / "run", "online", tags=["DMLM", "UD"])
    assert not logger._offline
    held = {name: logger._wandb_init[name] for name in ("project", "dir", "name", "id", "group", "tags")}
    assert held == {"project": "p", "dir": str(tmp_path / "w"), "name": "n", "id": "i", "group": "table2",
                    "tags": ["mine", "DMLM", "UD"]}  # fmt: skip
    assert "entity" not in logger._wandb_init, "wandb reads WANDB_ENTITY where none is passed"


@pytest.mark.slow
def test_an_offline_run_holds_the_whole_configuration(tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_TAGS", "trial")
    write_parquet(tmp_path / "ud")
    config = experiment(tmp_path / "hub.yaml", dataset=str(tmp_path / "ud"))
    assert main(["fit", "--config", config, "--wandb", "offline"]) == 0
    (run,) = (tmp_path / "runs" / "hub").iterdir()
    assert list(run.glob("wandb/offline-run-*/run-*.wandb"))
    begun, settings, record = wandb.run, wandb.run.config.as_dict(), read_record(run)
    losses = pd.read_csv(run / "metrics.csv")["val/loss"].dropna()
    best = begun.summary["val/loss"]["min"]
    wandb.teardown()
    assert (begun.project, begun.group, list(begun.tags)) == ("depgen", "hub", ["trial", "CausalLM", "ud", "no trees"])
    corpus = settings["data"]["init_args"]["corpus"]
    assert corpus["class_path"] == "depgen.data.hub_corpus.HubCorpus"
    assert corpus["init_args"]["splitter"] == "rules", "defaults too"
    assert settings["data"]["init_args"]["annotator"]["class_path"] == "depgen.annotation.controls.GoldTrees"
    assert settings["run"]["data"] == record["data"]
    assert settings["run"]["data"]["fingerprint"]
    assert settings["run"]["trees"] is record["trees"] is None
    assert settings["run"]["experiment"] == "hub"
    assert settings["run"]["parameters"] == record["parameters"] > 0
    assert settings["run"]["optimizer"] == record["optimizer"]
    assert (record["optimizer"]["class"], record["optimizer"]["lr"]) == ("AdamW", 0.001)
    assert best == pytest.approx(min(losses))
