"""Today's digest of each former one: `experiments/measured/digests.json`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.locations import json_object
from depgen.reporting.experiments import experiments_root


def digests_path() -> Path:
    """The tracked table of digests, an object of three.

    `today` maps a former digest to its successor. `of_no_file_today` maps those that no file of today has to the file
    that had them. `before` maps a digest to the change since which its numbers are to be made again.
    """
    return experiments_root() / "measured" / "digests.json"


def digest_today(digest: str) -> str:
    """The digest that a configuration has today; the same one where the table has no other.

    Successors are followed to the last, so that a later change of a file or a class path adds entries alone.

    Raises:
        UserError: the table is damaged, or an entry leads back to itself.
    """
    path, successors, former = digests_path(), _table("today"), set[str]()
    while digest in successors:
        if digest in former:
            raise UserError(f"{path}: today: {digest} leads back to itself. Restore the file (git checkout {path}).")
        former.add(digest)
        digest = successors[digest]
    return digest


def change_since(digest: str) -> str | None:
    """The change before which results of this configuration were made; None where there is none.

    Raises:
        UserError: the table is damaged.
    """
    return _table("before").get(digest)


def _table(name: str) -> Mapping[str, str]:
    path = digests_path()
    if not path.is_file():
        return {}
    found = _content(path, path.stat().st_mtime_ns).get(name)
    if not isinstance(found, dict):
        raise UserError(
            f"{path}: expected {name}, an object of texts, found {found!r}. Restore it: git checkout {path}"
        )
    return found


@cache
def _content(path: Path, _: int) -> Mapping[str, Any]:
    return json_object(path, remedy=f"Restore it: git checkout {path}.")
