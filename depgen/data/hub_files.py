"""Where a dataset's rows lie: in a folder, in what `Dataset.save_to_disk` wrote, or on the Hugging Face hub."""

import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from depgen.data.files import content_fingerprint
from depgen.errors import MissingDataError, UserError
from depgen.hub import names_a_folder, one_line
from depgen.locations import (
    cache_root,
    check_writable,
    data_root,
    json_object,
    lines_sha256,
    locked,
    made_once,
    write_atomically,
)

logger = logging.getLogger(__name__)

PACKED = frozenset({".gz", ".bz2", ".xz", ".zst", ".lz4"})


class Rows(Protocol):
    """The rows of a dataset by the names that it gives its splits."""

    @property
    def splits(self) -> list[str]:
        """The names of its splits."""
        ...

    def read(self, split: str) -> Iterable[Any]:
        """The parts of a split, each a `datasets.Dataset` or `IterableDataset`, in order."""
        ...

    def fingerprint(self, split: str, **options: object) -> str:
        """A hex digest of what a split holds and of the reading options."""
        ...


def rows_of(dataset: str, *, configuration: str | None = None, revision: str | None = None) -> Rows:
    """The rows of a folder (as named, or under `$DEPGEN_DATA`); where there is none, those of a dataset on the hub.

    A folder with a subfolder of the configuration's name is read from there.

    Raises:
        MissingDataError: there is no such folder, and the name is none of the hub's.
        UserError: the folder has no files that the library reads, or no such configuration.
    """
    places = (Path(dataset).expanduser(), data_root() / dataset)
    folder = next((each.absolute() for each in places if each.is_dir()), None)
    if folder is None:
        if names_a_folder(dataset) or "/" not in dataset:
            raise MissingDataError(
                f"No dataset at {' nor at '.join(dict.fromkeys(str(each.absolute()) for each in places))}. Name a "
                "folder of parquet, arrow, JSON-lines or CSV files, or a dataset of the Hugging Face hub as owner/name."
            )
        return HubRows(dataset, configuration, revision)
    if configuration is not None and (folder / configuration).is_dir():
        folder, configuration = folder / configuration, None
    if any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
        return SavedRows(folder)
    return FolderRows(folder, configuration)


class FolderRows:
    """The rows of a folder's data files, in the splits that `datasets.load_dataset(folder)` finds.

    Args:
        folder: with parquet, arrow, JSON, CSV or text files, or a README.md that says which file belongs where.
        configuration: one of those that the README.md has.
    """

    def __init__(self, folder: Path, configuration: str | None) -> None:
        self.builder = _builder(str(folder), configuration)
        self.files = _files_of(self.builder)

    @property
    def splits(self) -> list[str]:
        """The names of its splits."""
        return list(self.files)

    def read(self, split: str) -> list[Any]:
        """A split as it is streamed from its files; the library writes no copy of it."""
        return [self.builder.as_streaming_dataset(split=split)]

    def fingerprint(self, split: str, **options: object) -> str:
        """A digest of the content of a split's files and of the reading options."""
        return content_fingerprint(map(Path, self.files[split]), **options)


class SavedRows:
    """The rows that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote; a lone `Dataset` is one split.

    Args:
        folder: of the dataset.

    Raises:
        UserError: it can't be read.
    """

    def __init__(self, folder: Path) -> None:
        import datasets

        try:
            found = datasets.load_from_disk(str(folder))
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{folder} can't be read ({one_line(error)}). Copy the folder again, whole.") from error
        alone = isinstance(found, datasets.Dataset)
        self.parts: Mapping[str, Any] = {str(found.split or "train"): found} if alone else found
        self.folders = {name: folder if alone else folder / name for name in self.parts}

    @property
    def splits(self) -> list[str]:
        """The names of its splits."""
        return list(self.parts)

    def read(self, split: str) -> list[Any]:
        """A split, read from its Arrow files without a copy."""
        return [self.parts[split]]

    def fingerprint(self, split: str, **options: object) -> str:
        """A digest of the content of a split's Arrow files and of the reading options."""
        return content_fingerprint(sorted(self.folders[split].glob("*.arrow")), **options)


class HubRows:
    """The rows of a dataset on the hub; each file is fetched once, when it is first read, into `$DEPGEN_CACHE/hub`.

    The list of files is kept too, with the commit that it is from: what has been read once needs no network, and a
    later commit changes nothing. To get that, delete the folder or name a `revision`.

    Args:
        name: such as `Salesforce/wikitext`.
        configuration: one of the dataset's; needed where it has several.
        revision: branch, tag or commit; None for the main branch.
    """

    def __init__(self, name: str, configuration: str | None, revision: str | None) -> None:
        self.name, self.configuration, self.revision = name, configuration, revision
        version = f"{configuration or 'default'}@{revision or 'main'}".replace("/", "--")
        self.folder = cache_root() / "hub" / name.replace("/", "--") / version
        listing = self.folder / "files.json"
        made_once(self.folder, lambda: self._list(listing), is_made=listing.is_file)
        content = json_object(listing, remedy=f"Delete {listing}: it is written again.")
        self.format: str = content["format"]
        self.files: Mapping[str, list[str]] = content["files"]

    def _list(self, listing: Path) -> None:
        from huggingface_hub import HfApi

        try:  # at once, where the library would try five times for half a minute
            HfApi().dataset_info(self.name, revision=self.revision, timeout=30)
        except (OSError, _network_error()) as error:
            raise MissingDataError(_not_at_hand(self.name, error)) from error
        builder = _builder(self.name, self.configuration, revision=self.revision)
        check_writable(self.folder, otherwise="set DEPGEN_CACHE to another")
        content = {"format": builder.name, "files": _files_of(builder)}
        write_atomically(listing, dumps(content, indent=1) + "\n")

    @property
    def splits(self) -> list[str]:
        """The names of its splits."""
        return list(self.files)

    def read(self, split: str) -> Iterator[Any]:
        """The files of a split, each streamed from its copy, which is fetched where it is not there.

        Raises:
            MissingDataError: a file can't be fetched.
        """
        import datasets

        for number, address in enumerate(self.files[split]):
            copy = self.folder / f"{split}-{number:05d}{_suffix(address)}"
            if not copy.is_file():
                with locked(copy):
                    self._fetch(address, copy)
            yield datasets.load_dataset(
                self.format, data_files=str(copy), split="train", streaming=True, cache_dir=_library_cache()
            )

    def _fetch(self, address: str, copy: Path) -> None:
        import fsspec

        if copy.is_file():  # fetched by another process in the meantime
            return
        logger.info("Fetching %s", address)
        part = copy.with_name(f".{copy.name}.part")
        try:
            with fsspec.open(address, "rb") as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
            part.replace(copy)
        except (OSError, _network_error()) as error:
            raise MissingDataError(_not_at_hand(self.name, error)) from error
        finally:
            part.unlink(missing_ok=True)

    def fingerprint(self, split: str, **options: object) -> str:
        """A digest of the names of a split's files, which hold the commit, and of the reading options."""
        return lines_sha256([dumps(options, sort_keys=True), *self.files[split]])


def _builder(source: str, configuration: str | None, *, revision: str | None = None) -> Any:  # noqa: ANN401
    """What the library reads a folder or a dataset of the hub by; it knows the files of each split.

    Raises:
        MissingDataError: the dataset is not at hand.
        UserError: there are no files that it reads, or no such configuration.
    """
    import datasets

    try:
        return datasets.load_dataset_builder(source, configuration, revision=revision, cache_dir=_library_cache())
    except (OSError, RuntimeError) as error:
        if Path(source).is_dir():
            raise UserError(
                f"{source}: expected parquet, arrow, JSON-lines or CSV files whose names say train, validation or "
                f"test, found: {one_line(error)}"
            ) from error
        raise MissingDataError(_not_at_hand(source, error)) from error
    except ValueError as error:
        raise UserError(f"{source}: {one_line(error)} Set `configuration` to one of these.") from error


def _network_error() -> type[Exception]:
    """What the hub's library raises where a connection fails, whichever library of HTTP it uses."""
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # imported there

    found: type[Exception] = HTTPError
    return found


def _not_at_hand(name: str, error: Exception) -> str:
    return (
        f"No dataset {name} at hand: no folder of that name here or under {data_root().absolute()} ($DEPGEN_DATA), and "
        f"the hub gives none ({one_line(error)}). Where there is a network, `hf download {name} --repo-type dataset "
        f"--local-dir FOLDER/{name}` fetches it; set DEPGEN_DATA to that FOLDER."
    )


def _library_cache() -> str:
    """Where the library keeps its locks; rows are never copied there."""
    return str(cache_root() / "datasets")


def _files_of(builder: Any) -> dict[str, list[str]]:  # noqa: ANN401
    return {str(split): [str(file) for file in files] for split, files in (builder.config.data_files or {}).items()}


def _suffix(address: str) -> str:
    """The end of a file's name that says its format, such as `.parquet` or `.jsonl.gz`.

    >>> _suffix("hf://datasets/owner/name@0a1b2c/v1.0-train.jsonl.gz")
    '.jsonl.gz'
    """
    suffixes = PurePosixPath(address.partition("::")[0]).suffixes
    return "".join(suffixes[-2:] if suffixes and suffixes[-1] in PACKED else suffixes[-1:])
