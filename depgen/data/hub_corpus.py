"""Corpora of the Hugging Face hub by name, and folders of the same layout: texts, sentences, or trees in columns."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from depgen.data.corpus import CorpusOfSteps, Split, files_sha256
from depgen.data.formats import WikiText
from depgen.data.named_columns import NamedColumns, Row
from depgen.errors import MissingDataError, UserError
from depgen.hub import one_line
from depgen.locations import cache_root, data_root, lines_sha256
from depgen.trees.sentence import Document

USUAL_SPLITS: Mapping[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("validation", "valid", "dev", "val"),
    "test": ("test",),
}
"""What datasets call their splits."""


@dataclass(frozen=True)
class HubCorpus(CorpusOfSteps, NamedColumns):
    """A dataset as a corpus: `Salesforce/wikitext`, treebanks in columns, or any dataset of texts or sentences.

    A dataset is a folder of what `datasets.load_dataset(FOLDER)` reads (parquet, arrow, JSON lines, CSV), or a name on
    the hub (https://huggingface.co/datasets). A folder lies where the name says or at that name under `$DEPGEN_DATA`,
    so the same YAML works without a network once the folder is there. The library keeps what it has read in
    `$DEPGEN_CACHE/datasets`. Each row is a document (`NamedColumns`); relations and tags may be numbers of a
    `ClassLabel`.

    Args:
        dataset: a folder, or `owner/name` on the hub.
        configuration: of the dataset, such as `wikitext-2-v1` or `en_ewt`; in a folder its README.md or a subfolder
            of that name.
        revision: branch, tag or commit on the hub; None for the main branch. For a dataset whose files only a script
            reads, `refs/convert/parquet` often has them in parquet.
        train: the dataset's name of the training split; None for `train` or `training`.
        valid: that of the validation split; None for `validation`, `valid`, `dev` or `val`.
        test: that of the test split; None for `test`.
        articles: whether rows are lines of WikiText, and an article is a document (`depgen.data.formats.WikiText`).
    """

    dataset: str
    configuration: str | None = None
    revision: str | None = None
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    articles: bool = False

    @property
    def own_name(self) -> str:
        """The dataset's name and its configuration's."""
        return " ".join([PurePath(self.dataset).name, *([self.configuration] if self.configuration else [])])

    def read(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in the order of its rows."""
        where = f"{self.name}, {self._split_of(split)}"
        rows = enumerate(self._rows(split, where), start=1)
        if self.articles:
            column = self.columns.get("text", "text")
            lines = ((number, row[column]) for number, row in rows)
            return WikiText(self.splitter, self.tokens).articles(lines, where=where, name=where)
        places = ((f"{where}, row {number}", row) for number, row in rows)
        documents = self.documents_of(((place, place, row) for place, row in places), where)
        return (document for document, _ in documents)

    def content(self, split: Split) -> str:
        """A digest of the split's files (on the hub, of its commit) and of the reading options."""
        name, builder = self._split_of(split), self._builder
        is_folder = self._folder is not None
        files = files_sha256(map(Path, builder.config.data_files[name])) if is_folder else f"{builder.hash} {name}"
        options = {**self.versions, "columns": dict(self.columns), "splitter": self.splitter, "tokens": self.tokens}
        return lines_sha256([files, str(builder.config.name), json.dumps(options, sort_keys=True), str(self.articles)])

    @cached_property
    def _folder(self) -> Path | None:
        """Where the dataset lies, if it is not on the hub."""
        places = (Path(self.dataset).expanduser(), data_root() / self.dataset)
        return next((place.absolute() for place in places if place.is_dir()), None)

    @cached_property
    def _builder(self) -> Any:  # noqa: ANN401 - the library's
        """What the library reads the dataset by.

        Raises:
            MissingDataError: the dataset is not at hand.
            UserError: the folder has no files that the library reads.
        """
        import datasets

        folder, configuration = self._folder, self.configuration
        if folder is not None and configuration is not None and (folder / configuration).is_dir():
            folder, configuration = folder / configuration, None
        try:
            return datasets.load_dataset_builder(
                self.dataset if folder is None else str(folder),
                configuration,
                revision=self.revision,
                cache_dir=str(cache_root() / "datasets"),
            )
        except (OSError, RuntimeError) as error:
            if folder is not None:
                raise UserError(
                    f"{folder}: expected parquet, arrow, JSON-lines or CSV files ({one_line(error)})"
                ) from error
            raise MissingDataError(
                f"No folder {self.dataset}, neither here nor in {data_root()} ($DEPGEN_DATA), and the hub gives no "
                f"such dataset ({one_line(error)}). Where there is a network, `hf download {self.dataset} --repo-type "
                f"dataset --local-dir FOLDER/{self.dataset}` fetches it; set DEPGEN_DATA to FOLDER."
            ) from error

    def _split_of(self, split: Split) -> str:
        """What the dataset calls a split."""
        known = [str(name) for name in self._builder.config.data_files or self._builder.info.splits or {}]
        names = USUAL_SPLITS[split] if getattr(self, split) is None else (getattr(self, split),)
        for name in names:
            if name in known:
                return name
        raise MissingDataError(
            f"{self.name}: expected a split {' or '.join(names)}, found {', '.join(known) or 'none'}. Name one by "
            f"`{split}`, such as {split}: {(known or ['train'])[-1]}."
        )

    def _rows(self, split: Split, where: str) -> Iterator[Row]:
        """The rows of a split; numbers of classes are their names."""
        from datasets.exceptions import DatasetsError
        from pyarrow import ArrowException

        try:
            self._builder.download_and_prepare()
            part = self._builder.as_dataset(split=self._split_of(split))
            for row in part:
                yield {name: _named(value, part.features[name]) for name, value in row.items()}
        except (ArrowException, DatasetsError, OSError) as error:
            raise UserError(f"{where}: a file can't be read ({one_line(error)}). Copy the files again.") from error


def _named(value: Any, feature: Any) -> Any:  # noqa: ANN401
    """Numbers of classes by name, in lists of any depth; -1, of no class, is None."""
    if isinstance(value, list):
        return [_named(each, feature.feature) for each in value]
    if value is None or not hasattr(feature, "int2str"):
        return value
    return feature.int2str(value) if value >= 0 else None
