"""The contract that every system and backbone keeps: what it claims to do is checked, by the same checks for all.

A system joins by one line in `tests/contract/systems.py`, a backbone by one in `tests/contract/networks.py`, and its
runs by one in `tests/fixtures/kinds.py`.
"""

import csv
import pkgutil
from importlib import import_module

import pytest
import torch

import depgen.backbones
import depgen.models
from depgen.backbones.backbone import Backbone
from depgen.language_models.base import LanguageModel
from tests.contract import networks
from tests.contract.checks import checks_of
from tests.contract.runs import assert_same_weights, crash, fit, train, weights
from tests.contract.systems import SYSTEMS, WRITER, System, abilities, built
from tests.contract.wrong import Wrong
from tests.fixtures.kinds import EXPERIMENTS
from tests.fixtures.make import write_inputs

CASES = [(name, check) for name, system in SYSTEMS.items() for check in checks_of(system.claims)]
NETWORK_CASES = [(name, check) for name in networks.NETWORKS for check in networks.CHECKS]


def ids_of(cases):
    return [f"{name}-{check.__name__}" for name, check in cases]


@pytest.mark.parametrize(("name", "check"), CASES, ids=ids_of(CASES))
def test_a_system_does_what_it_claims(name, check, tmp_path):
    check(built(SYSTEMS[name]), tmp_path)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_claims_what_its_classes_can_do(name):
    assert abilities(built(SYSTEMS[name])) == SYSTEMS[name].claims


@pytest.mark.parametrize("check", checks_of(WRITER), ids=lambda check: check.__name__)
def test_a_system_that_is_wrong_in_everything_fails_each_check(check, tmp_path):
    model = built(System(Wrong, WRITER))
    with pytest.raises(AssertionError):
        check(model, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "check"), NETWORK_CASES, ids=ids_of(NETWORK_CASES))
def test_a_backbone_does_what_it_says(name, check):
    check(networks.made(networks.NETWORKS[name]))


# -- nobody is missing ------------------------------------------------------------------------------------------------


def leaves_of(package, base):
    """The classes of a package's modules that derive from a base and are not a base themselves."""
    modules = [import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    classes = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, base) and each.__module__ == module.__name__
    }
    return {each for each in classes if not any(issubclass(other, each) for other in classes - {each})}


ELSEWHERE = {"depgen.models.finetuned.PromptedModel"}
"""Systems that begin from a run of another one: `tests.models.test_finetuned` trains it by the command line."""


def class_paths(settings):
    """All class paths of an experiment."""
    own = {settings["class_path"]} if "class_path" in settings else set()
    return own.union(*(class_paths(each) for each in settings.values() if isinstance(each, dict)))


@pytest.mark.parametrize(
    ("package", "base"), [(depgen.models, LanguageModel), (depgen.backbones, Backbone)], ids=["systems", "backbones"]
)
def test_every_class_is_on_the_lists(package, base):
    expected = leaves_of(package, base)
    assert len(expected) >= 5
    models = [built(system) for system in SYSTEMS.values()]
    found = {type(each) for model in models for each in model.modules()}
    assert expected <= found, "add a line to SYSTEMS"
    assert base is LanguageModel or expected == {type(networks.made(make)) for make in networks.NETWORKS.values()}
    in_runs = set().union(*(class_paths(each) for each in EXPERIMENTS.values()))
    trained = {f"{each.__module__}.{each.__name__}" for each in expected}
    assert trained - ELSEWHERE <= in_runs, "add a line to EXPERIMENTS"


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Texts, pairs of sentences and a small GPT-2 for all runs, and a UDGN that encodes the pairs."""
    folder = tmp_path_factory.mktemp("contract")
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as patch:
        for root in ("data", "cache", "models", "runs"):
            patch.setenv(f"DEPGEN_{root.upper()}", str(folder / root))
        yield folder


RESUMED = {"dmlm": (6, 13), "awd_lstm": (27,), "adclm": (4,), "udgn": (9,), "similarity": (5,), "itexp": (5,)}
"""By kind of run: optimiser steps that a run is broken off in. Phases, an average, documents, plateaus, pairs."""


@pytest.fixture(scope="module", params=EXPERIMENTS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def settings(kind, place):
    content = EXPERIMENTS[kind]
    if kind == "similarity":
        data = content["data"]
        encoder = place / "encoder"
        if not encoder.exists():
            encoder.mkdir()
            fit_under(encoder, EXPERIMENTS["udgn"])
        content = {**content, "data": named_like(data, encoder=str(next(encoder.glob("runs/*/*"))))}
    if kind not in (
        *RESUMED,
        "dm_gpt2",
    ):  # of a kind that is on the list already: one epoch shows whether it is trained alike
        content = {**content, "trainer": {**content["trainer"], "max_epochs": 1}}
    return content


def named_like(settings, **changes):
    return {**settings, "init_args": {**settings["init_args"], **changes}}


def fit_under(folder, settings, *more, by=fit):
    """Train where `folder` has the runs."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        return by(folder, settings, *more)


@pytest.fixture(scope="module")
def run(kind, settings, place):
    """The run of a kind by `depgen fit`."""
    return fit_under(place / kind, settings)


@pytest.mark.slow
def test_a_plain_trainer_trains_the_weights_of_depgen_fit(kind, run, settings, place, tmp_path, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")  # put back afterwards
    trainer, model, data = train(tmp_path, settings)
    plain = tmp_path / "checkpoints" / "best.ckpt"
    assert_same_weights(plain, run / "checkpoints" / "best.ckpt")
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    assert_same_weights(tmp_path / "last.ckpt", run / "checkpoints" / "resume.ckpt")
    of_plain = depgen.load(plain, device="cpu")
    assert of_plain.vocabulary.size == data.vocabulary_size
    loaded = [
        type(model).load_from_checkpoint(run / "checkpoints" / "best.ckpt", map_location="cpu", weights_only=True),
        depgen.load(run, device="cpu").model,
        of_plain.model,
    ]
    expected = weights(run / "checkpoints" / "best.ckpt")
    for each in loaded:
        assert type(each) is type(model)
        assert each.state_dict().keys() == expected.keys()
        assert all(torch.equal(value, expected[name]) for name, value in each.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "step"),
    [(kind, step) for kind, steps in RESUMED.items() for step in steps],
    scope="module",
    indirect=["kind"],
)
def test_a_resumed_run_has_the_weights_of_an_unbroken_one(kind, step, run, settings, tmp_path):
    fit_under(tmp_path, settings, step, by=crash)
    resumed = fit_under(tmp_path, settings, "--resume")
    for checkpoint in {path.name for path in (run / "checkpoints").glob("*.ckpt")}:
        assert_same_weights(resumed / "checkpoints" / checkpoint, run / "checkpoints" / checkpoint)
    assert curve(resumed) == curve(run)


def curve(run):
    """The losses that a run has logged, without the times."""
    with (run / "metrics.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{name: value for name, value in row.items() if not name.endswith("seconds")} for row in rows]
