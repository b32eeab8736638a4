"""An experiment of parts, at a size, with options: what it resolves to, and what is refused."""

from pathlib import Path

import pytest
import yaml

from depgen.errors import UserError
from depgen.training.experiment import Experiment, is_composed, settings_of, sizes_of

NETWORK = """
trainer: {max_epochs: 9, precision: 32-true}
model:
  init_args:
    context: {class_path: ContextToContext, init_args: {size: 8, cell: standard}}
    embedding_size: 8
    features: [depth, degree]
small:
  trainer: {max_epochs: 3}
  model: {init_args: {context: {init_args: {size: 4}}, embedding_size: 4, features: [depth]}}
"""
SYSTEM = "{base: ../networks/recurrent.yaml, model: {class_path: DCLM, init_args: {embedding_size: 7}}}"
CORPUS = "{data: {workers: 2}, small: {data: {workers: 1}}}"
EXPERIMENT = """
base: [systems/dclm.yaml, corpora/brown.yaml]
trainer: {max_epochs: 5}
small:
  data: {workers: 0}
"""
CONTEXT = "model.init_args.context"


@pytest.fixture
def folder(tmp_path):
    """An experiment of two parts, one of which has a part of its own, and a plain file without any."""
    files = {
        "networks/recurrent": NETWORK,
        "systems/dclm": SYSTEM,
        "corpora/brown": CORPUS,
        "dclm_brown": EXPERIMENT,
        "other_class": "{base: dclm_brown.yaml, model: {class_path: CausalLM, init_args: {width: 2}}}",
        "plain": "trainer: {max_epochs: 9}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("size", "epochs", "width", "embedding", "features", "workers"),
    [("paper", 5, 8, 7, ["depth", "degree"], 2), ("small", 3, 4, 4, ["depth"], 0)],
)
def test_parts_then_the_file_then_all_small_values(folder, size, epochs, width, embedding, features, workers):
    assert Experiment(folder / "dclm_brown.yaml", size).settings == {
        "trainer": {"max_epochs": epochs, "precision": "32-true"},
        "model": {
            "class_path": "DCLM",
            "init_args": {
                "context": {"class_path": "ContextToContext", "init_args": {"size": width, "cell": "standard"}},
                "embedding_size": embedding,
                "features": features,
            },
        },
        "data": {"workers": workers},
    }


def test_another_class_replaces_the_whole_block(folder):
    settings = settings_of(folder / "other_class.yaml")
    assert settings["model"] == {"class_path": "CausalLM", "init_args": {"width": 2}}
    assert settings["data"] == {"workers": 2}


def test_a_plain_file_is_what_it_says_and_has_one_size(folder):
    plain, composed = folder / "plain.yaml", folder / "dclm_brown.yaml"
    assert settings_of(plain) == {"trainer": {"max_epochs": 9}}
    assert (sizes_of(plain), is_composed(plain)) == (["paper"], False)
    assert (sizes_of(composed), is_composed(composed)) == (["paper", "small"], True)


def test_the_digest_is_that_of_what_it_resolves_to(tmp_path):
    experiment = Experiment(Path("experiments/ccdclm_brown.yaml"), "small")
    whole = tmp_path / "whole.yaml"
    whole.write_text(yaml.safe_dump(experiment.settings))
    assert experiment.digest == Experiment(whole).digest
    assert (experiment.name, str(experiment)) == ("ccdclm_brown_small", f"{experiment.file} (size small)")


def test_options_are_over_all_files_and_spelt_for_the_command_line(folder):
    block = {"class_path": "ContextToContext", "init_args": {"size": 2}}
    options = {CONTEXT: block, "model.embedding_size": 3, "trainer.max_epochs": 2, "data.workers": None}
    experiment = Experiment(folder / "dclm_brown.yaml", "small", options)
    settings = experiment.settings
    assert settings["model"]["init_args"] == {"context": block, "embedding_size": 3, "features": ["depth"]}
    assert (settings["trainer"]["max_epochs"], settings["data"]) == (2, {"workers": None})
    assert experiment.arguments == [
        "--config", str(experiment.file), "--size", "small",
        f'--{CONTEXT}={{"class_path": "ContextToContext", "init_args": {{"size": 2}}}}',
        "--model.embedding_size=3", "--trainer.max_epochs=2", "--data.workers=null",
    ]  # fmt: skip
    assert Experiment(experiment.file, "small").settings["trainer"]["max_epochs"] == 3


@pytest.mark.parametrize(
    ("name", "size", "options", "message"),
    [
        ("plain", "small", {}, r"plain\.yaml has no size 'small'\. Its sizes: paper\."),
        ("dclm_brown", "smal", {}, r"no size 'smal'.*Did you mean 'small'"),
        ("dclm_brown", "paper", {f"{CONTEXT}.class_path": "NoContext"}, r"context\.class_path: .*together"),
        ("lost", "paper", {}, r"networks/lost\.yaml"),
    ],
)
def test_what_is_refused(folder, name, size, options, message):
    (folder / "lost.yaml").write_text("base: networks/lost.yaml")
    with pytest.raises(UserError, match=message):
        _ = Experiment(folder / f"{name}.yaml", size, options).settings
