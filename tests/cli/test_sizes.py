"""Experiments of parts and sizes on the command line."""

from pathlib import Path

import yaml

from depgen.cli import main
from depgen.cli.requests import Request
from depgen.training.experiment import Experiment

ROOT = Path(__file__).parents[2]
GOLD = str(ROOT / "experiments/dmlm_ewt_gold.yaml")


def test_an_experiment_is_replaced_by_its_values_and_its_size_is_part_of_the_runs_name(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("trainer: {max_epochs: 2}")
    arguments = ["--size", "small", "--trainer.max_epochs", "2", "-c", GOLD, f"--config={mine}", "--run", "x"]
    first, *others = Request.of("test", arguments).arguments()
    assert yaml.safe_load(first.removeprefix("--config=")) == Experiment(Path(GOLD), "small").settings
    assert others == [f"--config={mine}", "--trainer.max_epochs", "2"]
    (paper,) = Request.of("fit", ["--config", GOLD]).arguments()
    assert yaml.safe_load(paper.removeprefix("--config=")) == Experiment(Path(GOLD)).settings
    assert Request.of("test", arguments).place(1) == "dmlm_ewt_gold+mine"
    assert Request.of("fit", ["--config", GOLD, "--size", "small"]).place(1) == "dmlm_ewt_gold/small/seed1"
    assert Request.of("fit", ["--config", GOLD]).place(2) == "dmlm_ewt_gold/paper/seed2"
    assert Request.of("fit", ["--config", str(mine)]).place(2) == "mine"
    assert Request.of("fit", ["--config", GOLD, "--name", "mine"]).place(2) == "mine"


def test_depgen_fit_resolves_what_the_experiment_says(capsys):
    """A row of a table: a whole class by an option, over all files."""
    block = {"class_path": "depgen.annotation.controls.RandomTree", "init_args": {"seed": 3}}
    experiment = Experiment(Path(GOLD), "small", {"data.init_args.annotator": block, "model.init_args.window": 2})
    assert main(["fit", *experiment.arguments, "--print_config"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    arguments = found["model"]["init_args"]
    assert (arguments["window"], arguments["backbone"]["init_args"]["width"]) == (2, 128)
    assert found["data"]["init_args"]["annotator"] == block
    assert found["trainer"]["max_epochs"] == experiment.settings["trainer"]["max_epochs"] == 4
