"""The command line of a depgen in any tree: each command in its own process, the libraries imported once for all."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

ROOTS = ("data", "runs", "cache", "models", "results")
"""Folders of a user, each under its environment variable."""

PROGRAM = """
import importlib, json, os, pkgutil, sys, traceback
import depgen
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
    """A command ended with another code than it should have."""


class Depgen:
    """The depgen of a tree, working in the folders below `home`."""

    def __init__(self, tree: Path, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.tree, self.home = tree.absolute(), home
        roots = {f"DEPGEN_{root.upper()}": str(home / root) for root in ROOTS}
        fixed = {
            "PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false",
        }  # fmt: skip
        self.environment = {**os.environ, **fixed, **roots, **(environment or {})}
        for root in ROOTS:
            (home / root).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "Depgen":
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=self.tree, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def __call__(self, *arguments: str | Path, expected: int = 0, first: str = "") -> str:
        """What a command prints.

        Args:
            arguments: what follows `depgen` on the command line.
            expected: its exit code; -9 = killed.
            first: Python code that its process runs before the command.

        Raises:
            CommandError: another code; with the end of what it wrote to standard error.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            output = [f"{folder}/{name}" for name in ("output", "error")]
            command = {"arguments": list(map(str, arguments)), "output": output, "first": first}
            self.process.stdin.write(f"{json.dumps(command)}\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
            if not reply:
                raise CommandError(f"depgen of {self.tree} can't be imported; its message is printed above.")
            printed, said = (Path(path).read_text(encoding="utf-8") for path in output)
        if int(reply) != expected:
            line = " ".join(command["arguments"])
            raise CommandError(
                f"{self.tree}: depgen {line} ended with {reply.strip()}, not {expected}:\n{said[-3000:]}"
            )
        return printed
