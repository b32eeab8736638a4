"""The depgen of any tree: one process a tree, the libraries imported once, each command and probe in a fork of it.

`GENERATIONS` says what changed between trees: names of classes, arguments, verbs, options, probes and files. All inputs
and commands of this folder are written in the terms of the oldest tree, and translated for a later one.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent
ROOTS = ("data", "runs", "cache", "models", "results")
"""Folders of a user, each under its environment variable."""


@dataclass(frozen=True)
class Generation:
    """What a move changed. A tree belongs to it when its mark holds.

    Attributes:
        name: of the move.
        mark: a file that a tree has from the move on; with `!` in front, one that it has no more.
        class_paths: new import paths, by the former ones.
        arguments: new names, by the class's former path and the argument's former name (`"a.B.c"`).
        verbs: what a verb is called now, one word or more: `{"coherence": "evaluate coherence"}`.
        options: what an option is called now, by verb and former name: `{"coherence --shuffles": "--arrangements"}`.
            An empty text: the option and its value are left out.
        move: a file in `moves/` whose `renamed(values)` changes settings beyond names.
        probes: `module:function` in this folder, by the name of a probe in `probes.py`.
        files: new name in a run folder, by the former one.
        parameters: (pattern, replacement) for names of weights of this generation, giving the former names.
        answers: by verb, what gives a new answer (JSON) its former form.
        in_former: Python code that a tree without this move runs first, so that a change that is wanted everywhere does
            not hide others.
    """

    name: str
    mark: str
    class_paths: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    verbs: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    move: str | None = None
    probes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[tuple[str, str], ...] = ()
    answers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    in_former: str = ""

    def holds(self, tree: Path) -> bool:
        """Whether a tree has this move behind it."""
        return not (tree / self.mark[1:]).exists() if self.mark.startswith("!") else (tree / self.mark).exists()

    def settings(self, values: Any) -> Any:
        """Settings or resolved values of the generation before in the terms of this one, at every depth."""
        moved = renamed_classes(values, self.class_paths, self.arguments)
        return load_move(GOLDEN / "moves" / self.move).renamed(moved) if self.move else moved


TORCH_DROPOUT = """
import depgen.nn.dropout
import torch.nn.functional
depgen.nn.dropout.dropped = lambda values, p, *, training=True: torch.nn.functional.dropout(values, p, training)
"""
"""PyTorch's own dropout in place of one that drew 16 random bits for each value on a CPU."""



def former_statistics(answer: Any) -> Any:
    """Sizes of splits as they were: words were counted beside tokens, and how many documents stand in training was not."""
    for row in answer["splits"]:
        row["tokens_without_eos"] = row["tokens"] - row["documents"]
        row["unknown_rate"] = row.pop("unknown", None)
        row.pop("in_training", None)
    return answer


def former_coherence(answer: Any) -> Any:
    """A document as it was; the file had no document alone, but facts and figures around all."""
    log_probs = answer.pop("log_probs")
    answer["arrangements"] = [
        {"order": order, "log_probability": each} for order, each in zip(answer.pop("orders"), log_probs)
    ]
    return {name: value for name, value in answer.items() if name not in ("accuracy", "distance")}


GENERATIONS: list[Generation] = [  # in the order of the moves; see README.md
    Generation(
        "corpora, tables, tasks, ITEXP and phases", "!depgen/data/rocstories.py", move="data_and_training.py",
        answers={"data-statistics": former_statistics}, in_former=TORCH_DROPOUT,
    ),
    Generation(
        "options that no experiment set, versions of formats", "depgen/data/hub_corpus.py", move="wave3.py",
        parameters=(
            (r"^scorers\.0\.", "scorer."), (r"^scorers\.1\.", "further_scorers.0."),
            (r"^(scorer\.|further_scorers\.0\.)(arc|sum)$", r"\1\2.weight"),
            (r"^action_network\.2\.", "action_network.3."),
        ),
    ),
    Generation(
        "fourth wave", "depgen/data/named_columns.py", move="wave4.py",
        parameters=((r"^scorer\.", "scorers.0."),),
    ),
    Generation("annotators in one file each", "depgen/annotation/controls.py", move="w5_annotation.py"),
    Generation(
        "plots of one verb", "depgen/reporting/plots.py",
        verbs={
            "draw": "plot trees", **{
                kind: f"plot {kind}" for kind in ("attention", "heat-map", "curves", "series", "tradeoff", "histogram")
            },
        },
    ),
    Generation(
        "one verb that evaluates", "depgen/cli/evaluate.py",
        verbs={
            "parsing-scores": "evaluate parsing", "attachment-scores": "evaluate attachment",
            "bracketing-f1": "evaluate bracketing", "head-correlations": "evaluate correlations",
            "data-statistics": "evaluate corpus", "evaluate-text": "evaluate text --texts", "train-oracle": "fit",
            **{
                name: f"evaluate {name}" for name in ("coherence", "dependent-loss", "minimal-pairs", "syntactic-suites")
            },
        },
        options={"coherence --output": "--item_output"}, answers={"coherence": former_coherence},
    ),
    Generation(
        "one name an option", "!depgen/cli/completion.py",
        options={f"{verb} -n": "--number" for verb in ("generate", "human-eval export", "plot trees")},
    ),
    Generation(
        "tables by one verb", "!depgen/reporting/needs.py", verbs={"record": "table --record", "report": "table --report"},
    ),
    Generation(
        "push writes for transformers too", "!depgen/evaluation/export.py",
        verbs={"export-pretrained": "push --form transformers"}, options={"export-pretrained --run": "--"},
    ),
    Generation(
        "one parser and one generator of texts", "depgen/evaluation/induced.py",
        class_paths={
            f"depgen.evaluation.trees.induced_{kind.lower()}.Induced{kind}": f"depgen.evaluation.induced.Induced{kind}"
            for kind in ("Trees", "Graphs")
        },
    ),
    Generation(
        "a parser's treebank is a corpus", "!depgen/annotation/supar_training.py", move="w6.py",
        verbs={"train-parser": "annotate"}, options={"train-parser --config": "--train"},
    ),
    Generation(
        "coherence in one file", "!depgen/evaluation/coherence/measure.py", move="w11_eval.py",
        options={"parse --decoding": "", "evaluate coherence --against": ""},
    ),
    Generation(
        "the tagger by rule is the tests'", "tests/evaluation/taggers.py",
        class_paths={"depgen.annotation.tagger.SuffixTagger": "tests.evaluation.taggers.SuffixTagger"},
    ),
]  # fmt: skip


def generations_of(tree: Path) -> list[Generation]:
    """The moves that a tree has behind it, in order."""
    return [generation for generation in GENERATIONS if generation.holds(tree)]


def load_move(path: Path) -> Any:
    """The module of a move's file."""
    sys.path.insert(0, str(path.resolve().parent))
    specification = importlib.util.spec_from_file_location(f"move_{path.stem}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def renamed_classes(values: Any, class_paths: Mapping[str, str], arguments: Mapping[str, str]) -> Any:
    """Settings with other class paths and argument names, at every depth; also class paths that stand alone as texts."""
    if isinstance(values, list | tuple):
        return [renamed_classes(value, class_paths, arguments) for value in values]
    if isinstance(values, str):
        return class_paths.get(values, values)
    if not isinstance(values, Mapping):
        return values
    former = values.get("class_path")
    result = {name: renamed_classes(value, class_paths, arguments) for name, value in values.items()}
    if former is not None and isinstance(result.get("init_args"), dict):
        result["init_args"] = {
            arguments.get(f"{former}.{name}", name): value for name, value in result["init_args"].items()
        }
    return result


PROGRAM = """
import importlib, json, os, pkgutil, sys, traceback
sys.path.append(os.environ["GOLDEN"])
import depgen
assert os.path.dirname(os.path.dirname(os.path.abspath(depgen.__file__))) == os.getcwd(), depgen.__file__
exec(os.environ["GOLDEN_FIRST"])
for module in pkgutil.walk_packages(depgen.__path__, "depgen."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
replies = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    command = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number in (1, 2):
                os.dup2(os.open(command["output"][number - 1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            if "probe" in command:
                module, _, function = command["probe"].partition(":")
                answer = getattr(importlib.import_module(module), function)(**command["arguments"])
                print(json.dumps(answer, default=str))
                code = 0
            else:
                exec(command["first"])
                from depgen.cli import main
                code = main(command["arguments"])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    replies.write(f"{code}\\n")
    replies.flush()
"""
"""Reads commands, a JSON line each, runs each in a fork, and writes its exit code."""


class CommandError(Exception):
    """A command or probe ended with another code than it should have."""


class Depgen:
    """The depgen of a tree, working in the folders below `home`."""

    def __init__(self, tree: Path, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.tree, self.home = tree.absolute(), home
        self.generations = generations_of(self.tree)
        roots = {f"DEPGEN_{root.upper()}": str(home / root) for root in ROOTS}
        fixed = {
            "PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false", "GOLDEN": str(GOLDEN),
            "PYTHONDONTWRITEBYTECODE": "1", "HF_DATASETS_CACHE": str(home / "cache" / "datasets"),
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "COLUMNS": "100",
        }  # fmt: skip
        first = "".join(generation.in_former for generation in GENERATIONS if generation not in self.generations)
        self.environment = {**os.environ, **fixed, **roots, "GOLDEN_FIRST": first, **(environment or {})}
        for root in ROOTS:
            (home / root).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "Depgen":
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=self.tree, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()

    def settings(self, values: Any) -> Any:
        """Settings of the oldest tree in the terms of this one."""
        for generation in self.generations:
            values = generation.settings(values)
        return values

    def translated(self, arguments: list[str]) -> list[str]:
        """A command line of the oldest tree in the terms of this one."""
        verb, *rest = arguments
        words = verb.split()
        for generation in self.generations:
            former = " ".join(words)
            words = generation.verbs.get(former, former).split()
            options = {
                name.rpartition(" ")[2]: new
                for name, new in generation.options.items()
                if name.rpartition(" ")[0] in ("", former)
            }
            translated, leave_out = [], False
            for place, argument in enumerate(rest):
                if leave_out:
                    leave_out = False
                    continue
                new = options.get(argument, argument)
                if new:
                    translated.append(new)
                else:
                    leave_out = place + 1 < len(rest) and not rest[place + 1].startswith("--")
            rest = translated
        return [*words, *rest]

    def file(self, name: str) -> str:
        """The name that a file of a run folder has in this tree."""
        for generation in self.generations:
            name = generation.files.get(name, name)
        return name

    def parameter(self, name: str) -> str:
        """The name that a weight of this tree had in the oldest one."""
        for generation in reversed(self.generations):
            for pattern, replacement in generation.parameters:
                name = re.sub(pattern, replacement, name)
        return name

    def former_answer(self, verb: str, answer: Any) -> Any:
        """JSON of a verb in its oldest form."""
        for generation in reversed(self.generations):
            if verb in generation.answers:
                answer = generation.answers[verb](answer)
        return answer

    def probe(self, name: str, **arguments: Any) -> Any:
        """What a function of `probes.py` (or of what a generation names in its place) gives in a fork of this tree."""
        target = f"probes:{name}"
        for generation in self.generations:
            target = generation.probes.get(name, target)
        return json.loads(self._run({"probe": target, "arguments": arguments}, 0).splitlines()[-1])

    def __call__(self, *arguments: str | Path, expected: int = 0, first: str = "") -> str:
        """What a command prints.

        Args:
            arguments: what follows `depgen` on the command line, in the terms of the oldest tree; the verb is the first,
                of one word or more.
            expected: its exit code; -9 = killed.
            first: Python code that its process runs before the command.

        Raises:
            CommandError: another code; with the end of what it wrote to standard error.
        """
        words = self.translated(list(map(str, arguments)))
        return self._run({"arguments": words, "first": first}, expected)

    def _run(self, command: dict[str, Any], expected: int) -> str:
        with tempfile.TemporaryDirectory() as folder:
            output = [f"{folder}/{name}" for name in ("output", "error")]
            self.process.stdin.write(f"{json.dumps({**command, 'output': output})}\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
            if not reply:
                raise CommandError(f"depgen of {self.tree} can't be imported; its message is printed above.")
            printed, said = (Path(path).read_text(encoding="utf-8") for path in output)
        if int(reply) != expected:
            raise CommandError(f"{self.tree}: {command} ended with {reply.strip()}, not {expected}:\n{said[-3000:]}")
        return printed
