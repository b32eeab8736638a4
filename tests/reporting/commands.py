"""Real runs for tests of tables: trainings and tests of a second, each done once a session and then copied."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from depgen.errors import UserError
from depgen.locations import file_sha256, lines_sha256
from depgen.reporting import reproduce
from depgen.training.runs import all_runs, update_record
from tests.evaluation.oracles_of_stories import in_process

LEFT = {"test": ("test.json", "test_items.npz"), "validate": ("validate.json",)}
"""What a verb leaves in a run."""


class Commands:
    """Runs depgen in this process and remembers the calls.

    Attributes:
        kept: the folder of what the session has trained and tested already; the same command gets a copy.
        calls: arguments and environment of each.
        stops_in: the verb that is stopped: a training before its end, another one after its work.
    """

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self.calls: list[tuple[list[str], dict[str, str]]] = []
        self.stops_in: str | None = None

    def __call__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.calls.append((list(arguments), dict(environment)))
        verb = arguments[0]
        if verb == "fit" and "--name" in arguments:
            self._fit(list(arguments), environment)
        elif verb in LEFT:
            self._measure(arguments, environment)
        else:
            in_process(arguments, environment)
        if verb == self.stops_in:
            raise UserError(f"{verb} was killed")

    @property
    def verbs(self) -> list[str]:
        return [arguments[0] for arguments, _ in self.calls]

    def _fit(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        at = arguments.index("--name")
        root = Path(environment["DEPGEN_RUNS"], arguments[at + 1])
        said = [*arguments[3:at], *arguments[at + 2 :], file_sha256(Path(arguments[2]))]  # but for the names
        kept, before = self.kept / lines_sha256(said), all_runs(root)
        with FileLock(kept.with_suffix(".lock")):
            if not kept.is_dir():
                in_process(arguments, environment)
                (run,) = {*all_runs(root)} - {*before}
                shutil.copytree(run, kept)
            else:
                run = root / f"copy-{len(before)}"
                shutil.copytree(kept, run)
        if self.stops_in == "fit":
            update_record(run, {"finished": None})

    def _measure(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        verb, run = arguments[0], Path(arguments[arguments.index("--run") + 1])
        kept = self.kept / f"{verb}-{file_sha256(run / 'checkpoints' / 'best.ckpt')}"
        with FileLock(kept.with_suffix(".lock")):
            if not kept.is_dir():
                in_process(arguments, environment)
                kept.mkdir()
                for name in LEFT[verb]:
                    shutil.copy(run / name, kept)
            else:
                shutil.copytree(kept, run, dirs_exist_ok=True)


@contextmanager
def tables_made(
    folder: Path, experiments: Mapping[str, object], *tables: str, depgen: Callable[..., None] = in_process
) -> Iterator[dict[str, str]]:
    """What `reproduce` says of some tables, made at the small size in a folder with these experiments."""
    for name, content in experiments.items():
        path = folder / "experiments" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("data", "cache", "runs", "results"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        patch.setattr(reproduce, "run_depgen", depgen)
        yield {name: reproduce.reproduce(name, size="small") for name in tables}
