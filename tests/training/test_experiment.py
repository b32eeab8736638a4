"""An experiment at a size, with options: the files that it is read from, and what is refused."""

import pytest
import yaml

from depgen.errors import UserError
from depgen.training.experiment import Experiment, sizes_of

BASE = {
    "trainer": {"max_epochs": 9},
    "model": {
        "class_path": "depgen.models.dclm.DCLM",
        "init_args": {
            "context": {"class_path": "depgen.models.dclm.ContextToContext", "init_args": {"size": 8}},
            "embedding_size": 8,
        },
    },
}
CONTEXT, NO_CONTEXT = "model.init_args.context", "depgen.models.dclm.NoContext"


@pytest.fixture
def folder(tmp_path):
    """Experiments and overlays of one size."""
    small = tmp_path / "sizes" / "small"
    small.mkdir(parents=True)
    for name in ("dclm_brown", "dclm_ewt_gold", "other_brown", "alone"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(BASE))
    overlay = {"model": {"init_args": {"context": {"init_args": {"size": 4}}, "embedding_size": 4}}}
    for name in ("dclm", "dclm_ewt", "brown"):
        (small / f"{name}.yaml").write_text(yaml.safe_dump(overlay))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "overlay"), [("dclm_ewt_gold", "dclm_ewt"), ("dclm_brown", "brown"), ("other_brown", "brown")]
)
def test_the_longest_name_that_begins_or_ends_the_experiments_name_is_its_overlay(folder, name, overlay):
    file = folder / f"{name}.yaml"
    assert Experiment(file).files == (file,)
    assert Experiment(file, "small").files == (file, folder / "sizes" / "small" / f"{overlay}.yaml")
    assert sizes_of(file) == ["paper", "small"]


def test_an_overlay_changes_its_values_and_leaves_all_others(folder):
    experiment = Experiment(folder / "dclm_brown.yaml", "small")
    assert experiment.settings == {
        "trainer": {"max_epochs": 9},
        "model": {
            "class_path": "depgen.models.dclm.DCLM",
            "init_args": {
                "context": {"class_path": "depgen.models.dclm.ContextToContext", "init_args": {"size": 4}},
                "embedding_size": 4,
            },
        },
    }
    whole = folder / "whole.yaml"
    whole.write_text(yaml.safe_dump(experiment.settings))
    assert experiment.digest == Experiment(whole).digest
    assert (experiment.name, str(experiment)) == ("dclm_brown_small", f"{experiment.file} (size small)")


def test_a_whole_configuration_of_the_experiments_name_takes_its_place(folder):
    whole = folder / "sizes" / "small" / "dclm_brown.yaml"
    whole.write_text(yaml.safe_dump(BASE))
    assert Experiment(folder / "dclm_brown.yaml", "small").files == (whole,)


def test_options_are_over_all_files_and_spelt_for_the_command_line(folder):
    block = {"class_path": "depgen.models.dclm.ContextToOutput", "init_args": {"size": 2}}
    experiment = Experiment(
        folder / "dclm_brown.yaml", "small", {CONTEXT: block, "trainer.max_epochs": 2, "data.workers": None}
    )
    settings = experiment.settings
    assert settings["model"]["init_args"] == {"context": block, "embedding_size": 4}
    assert (settings["trainer"], settings["data"]) == ({"max_epochs": 2}, {"workers": None})
    assert experiment.arguments == [
        "--config", str(experiment.file), "--size", "small",
        f'--{CONTEXT}={{"class_path": "depgen.models.dclm.ContextToOutput", "init_args": {{"size": 2}}}}',
        "--trainer.max_epochs=2", "--data.workers=null",
    ]  # fmt: skip
    assert Experiment(experiment.file, "small").settings["trainer"] == {"max_epochs": 9}


@pytest.mark.parametrize(
    ("name", "size", "options", "message"),
    [
        ("alone", "small", {}, r"alone\.yaml has no size 'small': .*sizes/small .*Its sizes: paper\."),
        ("dclm_brown", "smal", {}, r"no size 'smal'.*Did you mean 'small'"),
        ("with_class", "small", {}, rf"sizes/small/class\.yaml: {CONTEXT}.*no class"),
        ("with_none", "small", {}, rf"sizes/small/none\.yaml: {CONTEXT}.*no class"),
        ("alone", "paper", {f"{CONTEXT}.class_path": NO_CONTEXT}, rf"option {CONTEXT}.class_path: .*as a whole"),
        ("alone", "paper", {CONTEXT: NO_CONTEXT}, rf"alone\.yaml: option {CONTEXT}: .*replaced as a whole"),
        ("alone", "paper", {"trainer.max_epochs.x": 1}, r"expected settings at max_epochs, found 9"),
    ],
)
def test_what_is_refused(folder, name, size, options, message):
    for overlay, context in (("class", {"class_path": NO_CONTEXT}), ("none", None)):
        (folder / f"with_{overlay}.yaml").write_text(yaml.safe_dump(BASE))
        content = {"model": {"init_args": {"context": context}}}
        (folder / f"sizes/small/{overlay}.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match=message):
        _ = Experiment(folder / f"{name}.yaml", size, options).settings
