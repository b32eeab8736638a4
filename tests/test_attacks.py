"""Damaged, hostile and senseless inputs: each ends with its exit code and one clear message, and nothing hostile runs.

A case is a line of `ATTACKS`: a name, what is prepared, the command, its exit code, and a token of the message.
"""

import errno
import importlib
import json
import pickle
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.training.runs import is_finished
from tests.attacks import Place, copied, make_home
from tests.fixtures.kinds import named

ROOTS = ("data", "runs", "cache", "models", "results")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    with pytest.MonkeyPatch.context() as patch:
        for root in ROOTS:
            patch.setenv(f"DEPGEN_{root.upper()}", str(folder / root))
        patch.syspath_prepend(folder)
        make_home(folder)
        yield folder


@pytest.fixture
def place(home, tmp_path, monkeypatch):
    for root in ROOTS:
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("hostile", "own_systems"):  # imported anew, or not, by every test
        monkeypatch.delitem(sys.modules, module, raising=False)
    return copied(home, tmp_path)


class Attack(NamedTuple):
    """What is tried, and how it is to end."""

    name: str
    prepare: Callable[[Place], object]
    command: str
    code: int
    says: str


def nothing(place: Place) -> None:
    """Prepare nothing."""


# -- runs that name code ----------------------------------------------------------------------------------------------


def configured(*names: str, value: object, run: str = "lm") -> Callable[[Place], None]:
    """Edit a setting of a run's configuration."""

    def prepare(place: Place) -> None:
        settings = place.settings(run)
        section = settings
        for name in names[:-1]:
            section = section[name]
        section[names[-1]] = value
        place.configure(settings, run)

    return prepare


def stored(*names: str, value: object, run: str = "lm", file: str = "best.ckpt") -> Callable[[Place], None]:
    """Edit an entry of a checkpoint."""

    def change(content: dict) -> None:
        for name in names[:-1]:
            content = content[name]
        content[names[-1]] = value

    return lambda place: place.checkpoint(change, run, file)


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def pickled_parser(place: Place) -> None:
    """Put a hostile SuPar file into a run whose configuration trusts it."""
    path = place.run() / "parser.pt"
    path.write_bytes(pickle.dumps(Payload(place.home / "parser.ran")))
    parser = {"path": str(path), "trust_checkpoint": True}
    annotator = {"class_path": "depgen.annotation.supar_parser.SuparAnnotator", "init_args": parser}
    configured("data", "init_args", "annotator", value=annotator)(place)


def pickled_checkpoint(place: Place) -> None:
    """Make the best checkpoint a hostile pickle."""
    place.best().unlink()
    torch.save({"state_dict": {}, "hyper_parameters": Payload(place.home / "checkpoint.ran")}, place.best())


def lone_checkpoint(place: Place) -> None:
    """Copy a checkpoint of one's own class out of its run."""
    shutil.copy(place.best("own"), place.home / "lone.ckpt")


def induced(place: Place) -> None:
    """Write an experiment that learns from the trees of a run with a hostile checkpoint."""
    stored("hyper_parameters", "_class_path", value="hostile.Hostile", run="udgn")(place)
    settings = yaml.safe_load((place.home / "lm.yaml").read_text())
    trees = named("evaluation.trees.induced_trees.InducedTrees", run="udgn", form="as_is")
    settings["data"]["init_args"]["annotator"] = trees
    place.experiment(settings)


CORPUS, OPTIMIZER = ("data", "init_args", "corpus"), ("model", "init_args", "optimizer")
CALLBACKS = ("trainer", "callbacks")
HOSTILE = {"class_path": "hostile.Hostile"}
HUB = {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "here", "model": "hostile", "source": "local"}}
TEST, VALIDATE, SCORE = "test --run lm", "validate --run lm", "score {home}/text.txt --run lm"
RESUME, MINE = "fit --resume lm --trainer.max_epochs 2", "fit --config {home}/mine.yaml"
EVIL, OPTION = "hostile.Hostile", "--modules"
OWN = "--modules own_systems"


def setting(name: str, *, value: object, file: str = "best.ckpt") -> Callable[[Place], None]:
    """Edit one of the system's settings in a checkpoint."""
    return stored("hyper_parameters", name, value=value, file=file)


hostile_class, hostile_corpus = setting("_class_path", value=EVIL), configured(*CORPUS, value=HOSTILE)
hub_corpus, odd_corpus = configured(*CORPUS, value=HUB), configured(*CORPUS, value={"class_path": "torch.optim.SGD"})

TRUST = [
    Attack("own class, its module not named", nothing, "test --run own", 2, "--modules own_systems"),
    Attack("own class, score", nothing, "score {home}/text.txt --run own", 2, "own_systems.OwnLM"),
    Attack("own class, resume", nothing, "fit --resume own", 2, OPTION),
    Attack("own class, module named", nothing, f"test --run own {OWN}", 0, "Run:"),
    Attack("own class, module named, score", nothing, f"score {{home}}/text.txt --run own {OWN}", 0, "exact"),
    Attack("own class, module named, generate", nothing, f"generate --run own --max-new-tokens 2 {OWN}", 0, "Writing"),
    Attack("own class, module named, resume", nothing, f"fit --resume own --trainer.max_epochs 2 {OWN}", 0, "2 epochs"),
    Attack("no such module", nothing, "test --run own --modules own_system", 2, "--modules own_system"),
    Attack("lone checkpoint", lone_checkpoint, "score {home}/text.txt --run {home}/lone.ckpt", 2, "own_systems.OwnLM"),
    Attack(
        "lone checkpoint, module named", lone_checkpoint,
        f"score {{home}}/text.txt --run {{home}}/lone.ckpt {OWN}", 0, "exact",
    ),
    Attack("edited corpus, test", hostile_corpus, TEST, 2, EVIL),
    Attack("edited corpus, validate", hostile_corpus, VALIDATE, 2, OPTION),
    Attack("edited corpus, predict", hostile_corpus, "predict --run lm", 2, OPTION),
    Attack("edited corpus, resume", hostile_corpus, "fit --resume lm", 2, OPTION),
    Attack("edited corpus, fit", hostile_corpus, "fit -c {run}/config.yaml", 2, OPTION),
    Attack("edited corpus, print", hostile_corpus, "fit -c {run}/config.yaml --print_config", 2, ""),
    Attack(
        "edited corpus, score", hostile_corpus, SCORE, 2,
        EVIL,
    ),
    Attack("bare name of a class", configured(*CORPUS, value=EVIL), TEST, 2, EVIL),
    Attack("edited callback", configured(*CALLBACKS, value=[HOSTILE]), TEST, 0, "Run:"),
    Attack("edited callback, resume", configured(*CALLBACKS, value=[HOSTILE]), RESUME, 0, EVIL),
    Attack("os.system as optimizer", configured(*OPTIMIZER, value="os.system"), TEST, 2, "os.system"),
    Attack("torch.hub as corpus", hub_corpus, SCORE, 2, ""),
    Attack(
        "a function of a known module", configured(*OPTIMIZER, value="depgen.cli.os.system"), TEST, 2,
        "system",
    ),
    Attack("a class of another kind", odd_corpus, TEST, 2, ""),
    *(
        Attack(f"hostile checkpoint, {command.split()[0]}", hostile_class, command, 2, EVIL)
        for command in (
            TEST, VALIDATE, SCORE, "generate --run lm",
            "parse --input {home}/text.txt --run lm", "attention --sentence a --run lm --output {home}/a.png",
            "coherence --run lm",
            "export-pretrained --run lm --to {home}/out", "draw {home}/text.conllu --run lm --output {home}/a.html",
        )
    ),
    Attack(
        "hostile state, resume", setting("_class_path", value=EVIL, file="resume.ckpt"),
        "fit --resume lm", 2, EVIL,
    ),
    Attack(
        "hostile backbone", setting("backbone", value=HOSTILE), SCORE, 2, EVIL
    ),
    Attack("hostile backbone, test", setting("backbone", value=EVIL), TEST, 2, EVIL),
    Attack("hostile instantiator", setting("_instantiator", value="os.system"), "generate --run lm", 2, "os.system"),
    Attack("hostile pickle", pickled_checkpoint, SCORE, 2, "running code"),
    Attack("hostile parser", pickled_parser, VALIDATE, 2, "is a pickle"),
    Attack("trees of a hostile run", induced, "fit --config {home}/mine.yaml", 2, EVIL),
    Attack("trees of a hostile run by --parser", induced, "fit --config {home}/mine.yaml --parser udgn", 2, EVIL),
]  # fmt: skip


# -- damage -----------------------------------------------------------------------------------------------------------


def recorded(content: object) -> Callable[[Place], object]:
    """Write another `run.json`."""
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda place: (place.run() / "run.json").write_text(text)


def renamed_word(place: Place) -> None:
    """Change a word in all files of the vocabulary."""
    for path in (place.run() / "vocabulary").iterdir():
        path.write_text(path.read_text().replace('"cat"', '"elsewhere"').replace('"the"', '"elsewhere"'))


def tables(change: Callable[[bytes], bytes]) -> Callable[[Place], None]:
    """Damage all tables of annotated text."""

    def prepare(place: Place) -> None:
        for path in (place.home / "cache" / "tables").glob("**/generator-*.arrow"):
            content = path.read_bytes()
            path.write_bytes(change(content))

    return prepare


def encodings(change: Callable[[bytes], bytes]) -> Callable[[Place], None]:
    """Damage all tables of token ids."""

    def prepare(place: Place) -> None:
        for path in (place.home / "cache" / "tables").glob("*/table.arrow"):
            content = path.read_bytes()
            path.write_bytes(change(content))

    return prepare


def without(name: str, file: str = "best.ckpt") -> Callable[[Place], None]:
    """Take an entry out of a checkpoint."""
    return lambda place: place.checkpoint(lambda content: content.pop(name), file=file)


def weight_lost(place: Place) -> None:
    """Take the last weight out of the best checkpoint."""
    place.checkpoint(lambda content: content["state_dict"].popitem())


def another_shape(place: Place) -> None:
    """Make a weight longer."""

    def change(content: dict) -> None:
        name, weight = next(iter(content["state_dict"].items()))
        content["state_dict"][name] = torch.cat([weight, weight])

    place.checkpoint(change)


def curve(change: Callable[[bytes], bytes]) -> Callable[[Place], None]:
    """Damage the curve of a run."""

    def prepare(place: Place) -> None:
        path = place.run() / "metrics.csv"
        path.write_bytes(change(path.read_bytes()))

    return prepare


DAMAGE = [
    Attack("vocabulary, score", renamed_word, SCORE, 2, "is damaged or replaced"),
    Attack("vocabulary, test", renamed_word, TEST, 2, "is damaged or replaced"),
    Attack("run.json is a list", recorded([]), TEST, 2, "run.json: expected a JSON object"),
    Attack("run.json is a text", recorded("ten"), TEST, 2, "run.json: expected JSON"),
    Attack("weight missing, score", weight_lost, SCORE, 2, "Missing key"),
    Attack("other shape, score", another_shape, SCORE, 2, "size mismatch"),
    Attack("no settings, score", without("hyper_parameters"), SCORE, 2, "settings"),
    Attack("no system, score", setting("_class_path", value="depgen.nn.attention.KeyValues"), SCORE, 2, "KeyValues"),
    Attack("no such system", setting("_class_path", value="depgen.models.none.None"), SCORE, 2, "depgen.models.none"),
    Attack("surplus setting, score", setting("surplus", value=1), SCORE, 2, "surplus"),
    *(
        Attack(f"no {name}, resume", without(name, file="resume.ckpt"), RESUME, 2, "resume.ckpt")
        for name in ("state_dict", "loops", "optimizer_states", "epoch", "callbacks")
    ),
    Attack("curve in no UTF-8", curve(lambda content: content + b"\xff\n"), "fit --resume lm", 2, "metrics.csv"),
]  # fmt: skip


# -- files and settings that make no sense ----------------------------------------------------------------------------


def cut(text: str) -> Callable[[Place], str]:
    """Write an experiment: that of lm with more lines."""
    return lambda place: place.experiment((place.home / "lm.yaml").read_text() + text)


FIT, NETWORK = "fit --config {home}/lm.yaml ", "--model.init_args.backbone.init_args."
INPUTS = [
    Attack("YAML key twice", cut("seed_everything: 2\n"), MINE, 2, "on line"),
    Attack("devices -5", nothing, FIT + "--trainer.devices -5", 2, "devices"),
    Attack("lr -1", nothing, FIT + "--model.init_args.optimizer.init_args.lr -1", 2, "learning rate"),
    Attack("width 0", nothing, f"{FIT}{NETWORK}width 0", 2, "width: expected at least 1"),
    Attack("no attention heads", nothing, f"{FIT}{NETWORK}attention_heads 0", 2, "attention_heads"),
    Attack("feedforward -1", nothing, f"{FIT}{NETWORK}feedforward -1", 2, "feedforward"),
    Attack("dropout 1.5", nothing, f"{FIT}{NETWORK}dropout 1.5", 2, "dropout"),
    Attack("accumulate 0", nothing, FIT + "--trainer.accumulate_grad_batches 0", 2, "accumulate_grad_batches"),
    Attack("val_check_interval 0", nothing, FIT + "--trainer.val_check_interval 0", 2, "val_check_interval"),
    Attack("clip -1", nothing, FIT + "--trainer.gradient_clip_val -1", 2, "gradient_clip_val"),
    Attack("empty run, test", nothing, "test --run ''", 2, "--run"),
    Attack("empty run, score", nothing, "score {home}/text.txt --run=", 2, "--run"),
    Attack("empty run, fit", nothing, "fit --resume ''", 2, "--resume"),
]  # fmt: skip

# -- training that comes to nothing -----------------------------------------------------------------------------------


def diverged(name: str) -> Callable[[Place], str]:
    """Write an experiment whose learning rate is 1e6."""

    def prepare(place: Place) -> str:
        settings = yaml.safe_load((place.home / f"{name}.yaml").read_text())
        settings["model"]["init_args"]["optimizer"]["init_args"]["lr"] = 1e6
        return place.experiment(settings)

    return prepare


DIVERGED = [
    Attack("UDGN diverges", diverged("udgn"), MINE, 2, "was never finite"),
    Attack("DCLM diverges", diverged("dclm"), MINE, 2, "lower learning rate"),
]
ATTACKS = [*TRUST, *DAMAGE, *INPUTS, *DIVERGED]


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_an_attack_ends_in_one_clear_message(attack, place, capsys):
    attack.prepare(place)
    assert main(shlex.split(attack.command.format(home=place.home, run=place.run()))) == attack.code, (
        capsys.readouterr()
    )
    said = capsys.readouterr().err
    assert attack.says in said
    assert "Traceback" not in said
    assert attack.code == 0 or len(said.splitlines()[-1]) < 1200
    assert not place.ran


@pytest.mark.slow
def test_a_diverged_run_is_not_finished_and_says_so_when_resumed(place, capsys):
    config = diverged("dclm")(place)
    assert main(["fit", "--config", config]) == 2
    (run,) = (place.home / "runs" / "mine").iterdir()
    assert not is_finished(run)
    assert not (run / "checkpoints" / "best.ckpt").exists()
    assert main(["test", "--run", str(run)]) == 2
    capsys.readouterr()
    assert main(["fit", "--resume", str(run)]) == 2
    assert "has diverged" in capsys.readouterr().err
    assert not is_finished(run)


def test_in_python_a_class_is_known_once_its_module_is_imported(place):
    sys.modules.pop("own_systems", None)
    with pytest.raises(UserError, match=r"own_systems\.OwnLM.*import it first"):
        depgen.load("own", device="cpu")
    importlib.import_module("own_systems")
    assert type(depgen.load("own", device="cpu").model).__name__ == "OwnLM"
    hostile_class(place)
    with pytest.raises(UserError, match=r"hostile\.Hostile"):
        depgen.load("lm", device="cpu")
    assert not place.ran


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_where_memory_runs_out_the_options_that_save_it_are_named(place, monkeypatch, capsys, error):
    def exhausted(*_, **__):
        raise error

    monkeypatch.setattr("depgen.evaluation.likelihood.score.load_system", exhausted)
    assert main(["score", str(place.home / "text.txt"), "--run", "lm"]) == 2
    said = capsys.readouterr().err
    assert "Out of memory" in said
    assert "tokens_per_batch" in said
