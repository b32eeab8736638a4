"""Damaged, hostile and senseless inputs: each ends with its exit code and one clear message, and nothing hostile runs.

A case is a line of `ATTACKS`: a name, what is prepared, the command, its exit code, and a token of the message.
"""

import errno
import json
import pickle
import shlex
import shutil
import subprocess
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
from depgen.evaluation.trees.induced_trees import InducedTrees
from depgen.training.runs import is_finished
from depgen.training.trust import all_runs_trusted
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
    monkeypatch.delitem(sys.modules, "hostile", raising=False)  # so that it leaves its mark in every test
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


# -- runs of other people ---------------------------------------------------------------------------------------------


def from_elsewhere(place: Place) -> None:
    """Let all runs be signed by another user's key."""
    for key in (place.home / "cache").glob("*.key"):
        key.unlink()


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
    trees = named("evaluation.induced_trees.InducedTrees", run="udgn", form="as_is")
    settings["data"]["init_args"]["annotator"] = trees
    place.experiment(settings)


CORPUS, OPTIMIZER = ("data", "init_args", "corpus"), ("model", "init_args", "optimizer")
CALLBACKS = ("trainer", "callbacks")
HOSTILE = {"class_path": "hostile.Hostile"}
HUB = {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "here", "model": "hostile", "source": "local"}}
TEST, VALIDATE, SCORE = "test --run lm", "validate --run lm", "score {home}/text.txt --run lm"
RESUME, MINE = "fit --resume lm --trainer.max_epochs 2", "fit --config {home}/mine.yaml"
EVIL, OPTION = "hostile.Hostile", "--trust-run"


def setting(name: str, *, value: object, file: str = "best.ckpt") -> Callable[[Place], None]:
    """Edit one of the system's settings in a checkpoint."""
    return stored("hyper_parameters", name, value=value, file=file)


hostile_class, hostile_corpus = setting("_class_path", value=EVIL), configured(*CORPUS, value=HOSTILE)
hub_corpus, odd_corpus = configured(*CORPUS, value=HUB), configured(*CORPUS, value={"class_path": "torch.optim.SGD"})

TRUST = [
    Attack("own class, test", nothing, "test --run own", 0, "Run:"),
    Attack("own class, score", nothing, "score {home}/text.txt --run own", 0, "exact"),
    Attack("own class, generate", nothing, "generate --run own --max-new-tokens 2", 0, "Writing"),
    Attack("own class, resume", nothing, "fit --resume own --trainer.max_epochs 2", 0, "2 epochs"),
    Attack("copied run, test", from_elsewhere, "test --run own", 2, "config.yaml: "),
    Attack("copied run, its class is named", from_elsewhere, "test --run own", 2, "own_systems.OwnLM"),
    Attack("copied run, score", from_elsewhere, "score {home}/text.txt --run own", 2, "own_systems.OwnLM"),
    Attack("copied run, resume", from_elsewhere, "fit --resume own", 2, OPTION),
    Attack("copied run, trusted", from_elsewhere, "test --run own --trust-run", 0, "Run:"),
    Attack("copied run, trusted, score", from_elsewhere, "score {home}/text.txt --run own --trust-run", 0, "exact"),
    Attack("copied run, its class in one's own YAML", from_elsewhere, "test -c {home}/own.yaml --run own", 0, "Run:"),
    Attack("copied run without own class", from_elsewhere, TEST, 0, "Run:"),
    Attack("lone checkpoint", lone_checkpoint, "score {home}/text.txt --run {home}/lone.ckpt", 2, "own_systems.OwnLM"),
    Attack(
        "lone checkpoint, trusted", lone_checkpoint,
        "score {home}/text.txt --run {home}/lone.ckpt --trust-run", 0, "exact",
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
    Attack("torch.hub as optimizer", configured(*OPTIMIZER, value=HUB), TEST, 2, "torch.hub.load"),
    Attack("torch.hub as corpus", hub_corpus, SCORE, 2, "torch.hub.load"),
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
    Attack("hostile parser", pickled_parser, VALIDATE, 2, "trust_checkpoint"),
    Attack("hostile parser, option", pickled_parser, VALIDATE, 2, OPTION),
    Attack("trees of a hostile run", induced, "fit --config {home}/mine.yaml", 2, EVIL),
    Attack("trees of a hostile run by --parser", induced, "fit --config {home}/mine.yaml --parser udgn", 2, EVIL),
]  # fmt: skip


# -- damage -----------------------------------------------------------------------------------------------------------


def flipped(file: str) -> Callable[[Place], None]:
    """Invert 20 bytes of the weights in a checkpoint, as a bad disk does."""

    def prepare(place: Place) -> None:
        path = place.run() / "checkpoints" / file
        weight = next(iter(torch.load(path, weights_only=True)["state_dict"].values()))
        content = bytearray(path.read_bytes())
        start = content.index(weight.numpy().tobytes()[:20])
        content[start : start + 20] = bytes(255 - each for each in content[start : start + 20])
        path.unlink()
        path.write_bytes(content)

    return prepare


def recorded(content: object) -> Callable[[Place], object]:
    """Write another `run.json`."""
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda place: (place.run() / "run.json").write_text(text)


def data_recorded(change: Callable[[dict], object]) -> Callable[[Place], None]:
    """Change what `run.json` says of the data."""

    def prepare(place: Place) -> None:
        data = json.loads((place.run() / "run.json").read_text())["data"]
        place.record(data=change(data))

    return prepare


def of_another_run(place: Place) -> None:
    """Damage `run.json` of another run."""
    (place.run("udgn") / "run.json").write_text("[]")


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


def without_last_line(content: bytes) -> bytes:
    """All lines of a file but the last."""
    return b"".join(content.splitlines(keepends=True)[:-1])


def curve(change: Callable[[bytes], bytes]) -> Callable[[Place], None]:
    """Damage the curve of a run."""

    def prepare(place: Place) -> None:
        path = place.run() / "metrics.csv"
        path.write_bytes(change(path.read_bytes()))

    return prepare


DELETE = "Delete the folder"
DAMAGE = [
    Attack("flipped bits, score", flipped("best.ckpt"), SCORE, 2, "best.ckpt"),
    Attack("flipped bits, test", flipped("best.ckpt"), TEST, 2, "damaged"),
    Attack("flipped bits, resume", flipped("resume.ckpt"), RESUME, 2, "resume.ckpt"),
    Attack("vocabulary, score", renamed_word, SCORE, 2, "is damaged or replaced"),
    Attack("vocabulary, test", renamed_word, TEST, 2, "is damaged or replaced"),
    Attack("run.json of a later version", data_recorded(lambda data: {**data, "more": 1}), TEST, 0, "Run:"),
    Attack("run.json without an entry", data_recorded(lambda data: {"corpus": "stories"}), TEST, 2, "run.json"),
    Attack("run.json with a text", data_recorded(lambda data: "stories"), TEST, 2, "'stories'"),
    Attack("run.json is a list", recorded([]), TEST, 2, "run.json: expected a JSON object"),
    Attack("run.json is a text", recorded("ten"), TEST, 2, "run.json: expected JSON"),
    Attack("run.json nested", recorded("[" * 100_000), TEST, 2, "nested too deep"),
    Attack("run.json of another run", of_another_run, "test", 0, "udgn/run/run.json"),
    Attack("half a table", tables(lambda content: content[: len(content) // 2]), VALIDATE, 2, DELETE),
    Attack("empty table", tables(lambda content: b""), VALIDATE, 2, DELETE),
    Attack("garbage as table", tables(lambda content: b"garbage" * 99), VALIDATE, 2, DELETE),
    Attack("half an encoding", encodings(lambda content: content[: len(content) // 2]), VALIDATE, 2, DELETE),
    Attack("empty encoding", encodings(lambda content: b""), VALIDATE, 2, DELETE),
    Attack("weight missing, score", weight_lost, SCORE, 2, "Missing key"),
    Attack("weight missing, test", weight_lost, TEST, 2, "Missing key"),
    Attack("other shape, score", another_shape, SCORE, 2, "size mismatch"),
    Attack("other shape, test", another_shape, TEST, 2, "size mismatch"),
    Attack("no settings, score", without("hyper_parameters"), SCORE, 2, "settings"),
    Attack("no system, score", setting("_class_path", value="depgen.nn.dropout.Dropout"), SCORE, 2, "Dropout"),
    Attack("no such system", setting("_class_path", value="depgen.models.none.None"), SCORE, 2, "depgen.models.none"),
    Attack("surplus setting, score", setting("surplus", value=1), SCORE, 2, "surplus"),
    *(
        Attack(f"no {name}, resume", without(name, file="resume.ckpt"), RESUME, 2, "resume.ckpt")
        for name in ("state_dict", "loops", "optimizer_states", "epoch", "callbacks")
    ),
    Attack("curve cut within a line", curve(lambda content: content[:-5]), "fit --resume lm", 2, "metrics.csv"),
    Attack("curve in no UTF-8", curve(lambda content: content + b"\xff\n"), "fit --resume lm", 2, "metrics.csv"),
    Attack("curve emptied", curve(lambda content: b""), RESUME, 0, "are lost"),
    Attack("curve cut between lines", curve(without_last_line), RESUME, 0, "are lost"),
]  # fmt: skip


# -- files and settings that make no sense ----------------------------------------------------------------------------

LONG = "9" * 5000
CONLLU = "{}\tcat\t_\t_\t_\t_\t{}\troot\t_\t_\n\n"
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
SURROGATE = '{"sentences": ["a \\ud800 b"]}\n'


def file(name: str, text: str) -> Callable[[Place], object]:
    """Write a file."""
    return lambda place: (place.home / name).write_text(text)


def cut(text: str) -> Callable[[Place], str]:
    """Write an experiment: that of lm with more lines."""
    return lambda place: place.experiment((place.home / "lm.yaml").read_text() + text)


def bomb(place: Place) -> None:
    """Make a run's configuration a bomb."""
    (place.run() / "config.yaml").write_text(BOMB)


DRAWN, JSON_SCORED = "draw {home}/a.conllu --output {home}/a.svg", "score {home}/a.jsonl --run lm"
PARSED = "parse --input {home}/a.conllu --run udgn --form as_is"
FIT, NETWORK = "fit --config {home}/lm.yaml ", "--model.init_args.backbone.init_args."
INPUTS = [
    Attack("id of 5,000 digits", file("a.conllu", CONLLU.format(LONG, 0)), PARSED, 2, "a.conllu:1"),
    Attack("range of 5,000 digits", file("a.conllu", CONLLU.format(f"1-{LONG}", 0)), PARSED, 2, "a.conllu:1"),
    Attack("head of 5,000 digits", file("a.conllu", CONLLU.format(1, LONG)), DRAWN, 2, "a.conllu:1"),
    Attack("JSON id of 5,000 digits", file("a.jsonl", f'{{"id": {LONG}, "text": "a"}}\n'), JSON_SCORED, 2, "a.jsonl:1"),
    Attack("JSON nested", file("a.jsonl", '{"text": ' + "[" * 100_000 + "\n"), JSON_SCORED, 2, "nested too deep"),
    Attack("half a surrogate pair", file("a.jsonl", SURROGATE), JSON_SCORED, 2, "ud800"),
    Attack("YAML bomb", cut(BOMB), MINE, 2, "aliases"),
    Attack("YAML bomb in a run", bomb, TEST, 2, "aliases"),
    Attack("YAML alias of itself", cut("more: &more [*more]\n"), MINE, 2, "alias"),
    Attack("YAML nested", cut(f"more: {'[' * 1500}{']' * 1500}\n"), MINE, 2, "nested too deep"),
    Attack("YAML key twice", cut("seed_everything: 2\n"), MINE, 2, "on line"),
    Attack("YAML number of 5,000 digits", cut(f"more: {LONG}\n"), MINE, 2, "mine.yaml"),
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


def test_python_code_says_which_run_it_trusts(place):
    from_elsewhere(place)
    with pytest.raises(UserError, match=r"own_systems\.OwnLM.*trust=True"):
        depgen.load("own", device="cpu")
    assert type(depgen.load("own", device="cpu", trust=True).model).__name__ == "OwnLM"
    hostile_class(place)
    with pytest.raises(UserError, match=r"hostile\.Hostile"):
        depgen.load("lm", device="cpu")
    assert not place.ran


def test_a_trusted_run_runs_what_it_names(place):
    pickled_parser(place)
    with pytest.raises(Exception):  # noqa: B017 - whatever SuPar says of the payload
        main(["validate", "--run", "lm", "--trust-run"])
    assert place.ran


def test_annotators_of_other_processes_trust_what_was_said(place, monkeypatch):
    from_elsewhere(place)
    trees = InducedTrees("own")
    assert pickle.loads(pickle.dumps(trees))._trusted is False
    with all_runs_trusted():
        elsewhere = pickle.loads(pickle.dumps(trees))
    assert type(elsewhere.trained.model).__name__ == "OwnLM"


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


def test_a_resumed_run_removes_what_killed_processes_have_left(place):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [place.run() / f".run.json.{ended.pid}.part", place.run() / "checkpoints" / f".best.ckpt.{ended.pid}.part"]
    for path in left:
        path.write_text("half")
    assert main(["fit", "--resume", "lm"]) == 0
    assert not [path for path in left if path.exists()]


def test_a_full_disk_of_the_cache_is_one_line(place, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    shutil.rmtree(place.home / "cache" / "tables")
    monkeypatch.setattr("datasets.Dataset.from_generator", full)
    assert main(["fit", "--config", str(place.home / "lm.yaml")]) == 2
    assert "set DEPGEN_CACHE" in capsys.readouterr().err
    assert not list((place.home / "cache" / "tables").glob("*.part"))
