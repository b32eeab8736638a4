"""The contract that every system and backbone keeps: what it claims to do is checked, by the same checks for all.

A system joins by one line in `tests/contract/systems.py`, a backbone by one in `tests/contract/networks.py`, and its
runs by one in `tests/fixtures/kinds.py`.
"""

import copy
import csv
import inspect
import pkgutil
from importlib import import_module

import pytest
import torch

import depgen.backbones
import depgen.models
from depgen.backbones.backbone import Backbone
from depgen.language_models.base import LanguageModel
from depgen.training.checkpoints import load_checkpoint
from tests.contract import networks
from tests.contract.checks import checks_of
from tests.contract.runs import assert_same_weights, crash, fit, train, weights
from tests.contract.systems import SYSTEMS, WRITER, System, abilities, built
from tests.contract.wrong import Wrong
from tests.fixtures.kinds import EXPERIMENTS, named
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


RESUMED = {
    "dmlm": (6, 13),
    "awd_lstm": (27,),
    "on_lstm": (14,),
    "adclm": (4,),
    "udgn": (9,),
    "similarity": (5,),
    "itexp": (5,),
}
"""By kind of run: optimiser steps that a run is broken off in.

They show phases, an average, validations within epochs that an average waits for, documents, plateaus and pairs.
"""


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


SPREAD = {"dmlm": 1e-5, "awd_lstm": 1e-4, "adclm": 1e-5, "udgn": 1e-5, "itexp": 1e-5}
"""By kind, one of every base and batch: how far weights are apart; penalties of activations are means on a device."""


def without_dropout(settings):
    """The settings of a class with all its dropouts at 0, and those within."""
    if "class_path" not in settings:
        return {name: without_dropout(each) if isinstance(each, dict) else each for name, each in settings.items()}
    module, _, name = settings["class_path"].rpartition(".")
    signature = inspect.signature(getattr(import_module(module), name))
    none = {parameter: 0.0 for parameter in signature.parameters if parameter.endswith("dropout")}
    return {**settings, "init_args": {**without_dropout(settings["init_args"]), **none}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPREAD, indirect=True)
def test_two_processes_train_the_weights_of_one(kind, place, tmp_path):
    """By SGD, since Adam would turn rounding into whole steps."""
    content = without_dropout(copy.deepcopy(EXPERIMENTS[kind]))
    content["model"]["init_args"]["optimizer"] = named("torch.optim.SGD", lr=0.1)
    content["trainer"]["max_epochs"] = 2
    if "tokens_per_batch" in content["data"]["init_args"]:
        content["data"]["init_args"]["tokens_per_batch"] = 400  # two processes cut a batch of one text in another way
    two = ("--trainer.strategy=ddp_fork", "--trainer.devices=2")
    alone, together = (fit_under(tmp_path / name, content, *more) for name, more in (("one", ()), ("two", two)))
    expected = weights(alone / "checkpoints" / "resume.ckpt")
    for name, value in weights(together / "checkpoints" / "resume.ckpt").items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=SPREAD[kind], msg=name)
    assert losses(together) == pytest.approx(losses(alone), abs=1e-5)
    assert len(losses(alone)) == (1 if kind == "dmlm" else 2)


@pytest.mark.slow
def test_a_plateau_schedule_is_stepped_at_every_validation_before_the_checkpoint_to_go_on_from(place, tmp_path):
    """No loss falls by ten nats, so that the rate is halved at every validation but the first."""
    content = copy.deepcopy(EXPERIMENTS["udgn"])
    content["model"]["init_args"]["scheduler"]["init_args"] |= {"threshold": 10.0, "threshold_mode": "abs"}
    run = fit_under(tmp_path, content)
    (optimizer,) = load_checkpoint(run / "checkpoints" / "resume.ckpt")["optimizer_states"]
    assert optimizer["param_groups"][0]["lr"] == 5e-3 * 0.5**2


def losses(run):
    """The losses of validation."""
    return [float(row["val/loss"]) for row in curve(run) if row["val/loss"]]


def curve(run):
    """The losses that a run has logged, without the times."""
    with (run / "metrics.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{name: value for name, value in row.items() if not name.endswith("seconds")} for row in rows]
