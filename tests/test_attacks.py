"""Damaged and hostile runs: each ends with its exit code and one clear message, and nothing hostile runs."""

import importlib
import json
import pickle
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.training.runs import is_finished
from tests.fixtures.kinds import ADAM, MASKED_WORDS, WORDS, experiment, named

ROOTS = ("data", "runs", "cache", "models", "results")
STORIES = named("data.generated.GeneratedLanguage", train=4, valid=2, test=2, sentences=[5, 5])
TRANSFORMER = named("backbones.transformer.Transformer", layers=1, width=8, attention_heads=2, feedforward=8)
LM = named("models.causal_lm.CausalLM", backbone=TRANSFORMER, optimizer=ADAM)
SIZES = {"layers": 1, "width": 8, "attention_heads": 2, "head_size": 4, "parser_layers": 1, "tags": 2}
UDGN = named("models.udgn.UDGN", optimizer=ADAM, evaluation_masks=1, **SIZES)


def text(vocabulary):
    return named("data.text.TextData", corpus=STORIES, vocabulary=vocabulary, tokens_per_batch=200)


EXPERIMENTS = {
    "lm": experiment(LM, text(WORDS), 1),
    "udgn": experiment(UDGN, text(MASKED_WORDS), 1),
    "own": experiment({**LM, "class_path": "own_systems.OwnLM"}, text(WORDS), 1),
}
OWN_SYSTEMS = "from depgen.models.causal_lm import CausalLM\n\n\nclass OwnLM(CausalLM):\n    pass\n"
HOSTILE_MODULE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n\n\nclass Hostile:\n    pass\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with all that the attacks begin from: three runs, experiments, a text, modules."""
    folder = tmp_path_factory.mktemp("attacks")
    with pytest.MonkeyPatch.context() as patch:
        for root in ROOTS:
            patch.setenv(f"DEPGEN_{root.upper()}", str(folder / root))
        patch.syspath_prepend(folder)
        (folder / "own_systems.py").write_text(OWN_SYSTEMS)
        (folder / "hostile.py").write_text(HOSTILE_MODULE)
        (folder / "text.txt").write_text("Anna had a cat .\n")
        for name, settings in EXPERIMENTS.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
            assert main(["fit", "--config", str(folder / f"{name}.yaml")]) == 0
            (run,) = (folder / "runs" / name).iterdir()
            run.rename(folder / "runs" / name / "run")
        yield folder


@pytest.fixture
def place(home, tmp_path, monkeypatch):
    """A copy of that folder, to be damaged; nothing of its own modules is imported yet."""
    for root in ROOTS:
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("hostile", "own_systems"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    shutil.copytree(home, tmp_path, dirs_exist_ok=True, symlinks=True)
    return tmp_path


def run_of(place: Path, name: str = "lm") -> Path:
    return place / "runs" / name / "run"


def ran(place: Path) -> bool:
    """Whether the hostile module was imported, or a hostile pickle loaded."""
    return bool(list(place.rglob("*.ran")))


def with_entry(content: dict, names: tuple[str, ...], value: object) -> None:
    for name in names[:-1]:
        content = content[name]
    content[names[-1]] = value


Prepare = Callable[[Path], object]


def configured(*names: str, value: object) -> Prepare:
    """Edit a setting of a run's configuration."""

    def prepare(place: Path) -> None:
        path = run_of(place) / "config.yaml"
        settings = yaml.safe_load(path.read_text())
        with_entry(settings, names, value)
        path.write_text(yaml.safe_dump(settings))

    return prepare


def checkpoint(change: Callable[[dict], object], *, run: str = "lm", file: str = "best.ckpt") -> Prepare:
    """Change the content of a checkpoint."""

    def prepare(place: Path) -> None:
        path = run_of(place, run) / "checkpoints" / file
        content = torch.load(path, weights_only=True)
        change(content)
        path.unlink()
        torch.save(content, path)

    return prepare


def setting(name: str, *, value: object, **where: str) -> Prepare:
    """Edit one of the system's settings in a checkpoint."""
    return checkpoint(lambda content: with_entry(content, ("hyper_parameters", name), value), **where)


def recorded(**entries: object) -> Prepare:
    """Edit what a run's `run.json` says."""

    def prepare(place: Path) -> None:
        path = run_of(place) / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))

    return prepare


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def pickled_parser(place: Path) -> None:
    """Put a hostile SuPar file into a run whose configuration trusts it."""
    path = run_of(place) / "parser.pt"
    path.write_bytes(pickle.dumps(Payload(place / "parser.ran")))
    options = {"path": str(path), "trust_checkpoint": True}
    parser = {"class_path": "depgen.annotation.supar.SuparAnnotator", "init_args": options}
    configured("data", "init_args", "annotator", value=parser)(place)


def pickled_checkpoint(place: Path) -> None:
    """Make the best checkpoint a hostile pickle."""
    path = run_of(place) / "checkpoints" / "best.ckpt"
    path.unlink()
    torch.save({"state_dict": {}, "hyper_parameters": Payload(place / "checkpoint.ran")}, path)


def lone_checkpoint(place: Path) -> None:
    """Copy a checkpoint of one's own class out of its run."""
    shutil.copy(run_of(place, "own") / "checkpoints" / "best.ckpt", place / "lone.ckpt")


def induced(place: Path) -> None:
    """Write an experiment that learns from the trees of a run with a hostile checkpoint."""
    setting("_class_path", value=EVIL, run="udgn")(place)
    settings = yaml.safe_load((place / "lm.yaml").read_text())
    settings["data"]["init_args"]["annotator"] = named("evaluation.induced.InducedTrees", run="udgn")
    (place / "mine.yaml").write_text(yaml.safe_dump(settings))


def another_shape(content: dict) -> None:
    """Make a weight longer."""
    name, weight = next(iter(content["state_dict"].items()))
    content["state_dict"][name] = torch.cat([weight, weight])


def diverged(place: Path) -> None:
    """Write an experiment whose learning rate is 1e6."""
    settings = yaml.safe_load((place / "udgn.yaml").read_text())
    settings["model"]["init_args"]["optimizer"]["init_args"]["lr"] = 1e6
    (place / "mine.yaml").write_text(yaml.safe_dump(settings))


def nothing(place: Path) -> None:
    """Prepare nothing."""


CORPUS, OPTIMIZER = ("data", "init_args", "corpus"), ("model", "init_args", "optimizer")
EVIL, HOSTILE, OWN = "hostile.Hostile", {"class_path": "hostile.Hostile"}, "--modules own_systems"
HUB = {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "here", "model": "hostile", "source": "local"}}
TEST, SCORE, MINE = "test --run lm", "score {place}/text.txt --run lm", "fit --config {place}/mine.yaml"
RESUME = "fit --resume lm --trainer.max_epochs 2"
hostile_corpus, hostile_class = configured(*CORPUS, value=HOSTILE), setting("_class_path", value=EVIL)

TRUST = [
    (nothing, "test --run own", 2, "--modules own_systems"),
    (nothing, "score {place}/text.txt --run own", 2, "own_systems.OwnLM"),
    (nothing, f"test --run own {OWN}", 0, "Run:"),
    (nothing, f"fit --resume own --trainer.max_epochs 2 {OWN}", 0, "2 epochs"),
    (nothing, "compare own lm", 2, "--modules own_systems"),
    (hostile_corpus, "compare lm own --modules own_systems", 2, EVIL),
    (lone_checkpoint, "score {place}/text.txt --run {place}/lone.ckpt", 2, "own_systems.OwnLM"),
    (lone_checkpoint, f"score {{place}}/text.txt --run {{place}}/lone.ckpt {OWN}", 0, "exact"),
    (hostile_corpus, TEST, 2, EVIL),
    (hostile_corpus, "predict --run lm", 2, "--modules"),
    (hostile_corpus, "fit --resume lm", 2, "--modules"),
    (hostile_corpus, "fit -c {run}/config.yaml", 2, "--modules"),
    (hostile_corpus, SCORE, 0, ""),
    (configured("trainer", "callbacks", value=[HOSTILE]), RESUME, 0, EVIL),
    (configured(*OPTIMIZER, value="os.system"), TEST, 2, "os.system"),
    (configured(*OPTIMIZER, value="depgen.cli.os.system"), TEST, 2, "system"),
    (configured(*CORPUS, value=HUB), TEST, 2, ""),
    (hostile_class, TEST, 2, EVIL),
    (hostile_class, SCORE, 2, EVIL),
    (hostile_class, "generate --run lm", 2, EVIL),
    (hostile_class, "push lm --form transformers --to {place}/out", 2, EVIL),
    (setting("_class_path", value=EVIL, file="resume.ckpt"), "fit --resume lm", 2, EVIL),
    (setting("backbone", value=HOSTILE), SCORE, 2, EVIL),
    (setting("_instantiator", value="os.system"), "generate --run lm", 2, "os.system"),
    (pickled_checkpoint, SCORE, 2, "running code"),
    (pickled_parser, "validate --run lm", 2, "a pickle"),
    (induced, MINE, 2, EVIL),
]
DAMAGE = [
    (lambda place: (run_of(place) / "run.json").write_text(json.dumps([])), TEST, 2, "run.json: expected a JSON"),
    (recorded(seed="one"), "compare lm lm", 2, "run.json: seed: Input should be a valid integer"),
    (recorded(data={"corpus": "ours"}), TEST, 2, "run.json: data.reduced: Field required"),
    (recorded(hardware=["cpu"]), SCORE, 2, "run.json: hardware"),
    (checkpoint(lambda content: content.update(phase="last")), SCORE, 2, "best.ckpt: phase"),
    (setting("vocabulary_size", value="many"), TEST, 2, "best.ckpt: hyper_parameters.vocabulary_size"),
    (checkpoint(lambda content: content["state_dict"].popitem()), SCORE, 2, "Missing key"),
    (checkpoint(another_shape), SCORE, 2, "size mismatch"),
    (setting("surplus", value=1), SCORE, 2, "surplus"),
    (checkpoint(lambda content: content.pop("optimizer_states"), file="resume.ckpt"), RESUME, 2, "resume.ckpt"),
    (checkpoint(lambda content: content.pop("loops"), file="resume.ckpt"), RESUME, 2, "resume.ckpt"),
]


@pytest.mark.parametrize(("prepare", "command", "code", "says"), TRUST + DAMAGE)
def test_an_attack_ends_in_one_clear_message(prepare, command, code, says, place, capsys):
    prepare(place)
    assert main(shlex.split(command.format(place=place, run=run_of(place)))) == code
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert not ran(place)


def test_a_diverged_run_is_not_finished_and_says_so_when_resumed(place, capsys):
    diverged(place)
    assert main(["fit", "--config", str(place / "mine.yaml")]) == 2
    assert "was never finite" in capsys.readouterr().err
    (run,) = (place / "runs" / "mine").iterdir()
    assert not (run / "checkpoints" / "best.ckpt").exists()
    assert main(["test", "--run", str(run)]) == 2
    assert main(["fit", "--resume", str(run)]) == 2
    assert "has diverged" in capsys.readouterr().err
    assert not is_finished(run)


def test_in_python_a_class_is_known_once_its_module_is_imported(place):
    with pytest.raises(UserError, match=r"own_systems\.OwnLM.*import it first"):
        depgen.load("own", device="cpu")
    importlib.import_module("own_systems")
    assert type(depgen.load("own", device="cpu").model).__name__ == "OwnLM"
    hostile_class(place)
    with pytest.raises(UserError, match=r"hostile\.Hostile"):
        depgen.load("lm", device="cpu")
    assert not ran(place)
