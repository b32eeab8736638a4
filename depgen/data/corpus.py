"""Corpora: documents by split, read from files by a format and passed through steps.

`FileCorpus` says all of it in plain values: which files a split has, the `Format` that reads one, and the `Step`s that
its documents pass. `depgen.data.corpora` names the corpora of the papers, `depgen.data.hub_corpus` reads those of the
Hugging Face hub, and any class with the members of `Corpus` will do.
"""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from depgen.data.tokenization import SentenceSplitter, Tokens, rule_versions
from depgen.errors import MissingDataError, UserError
from depgen.locations import data_root, file_sha256, find_data, find_file, lines_sha256, matching
from depgen.trees.sentence import Document
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Read = Callable[[Split], Iterator[Document]]
"""Gives the documents of a split."""
Digest = Callable[[Split], str]
"""Gives a hex digest of what a split's documents depend on."""


@dataclass(frozen=True)
class SplitStatistics:
    """Sizes of one split; None where nothing is published."""

    documents: int | None = None
    sentences: int | None = None
    tokens: int | None = None
    types: int | None = None


@runtime_checkable
class Corpus(Protocol):
    """A corpus of documents. It may also have a `form`, see `form_of`."""

    @property
    def name(self) -> str:
        """What results call it."""
        ...

    @property
    def published(self) -> Mapping[Split, SplitStatistics]:
        """The published statistics of each split, to be compared with the files at hand."""
        ...

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in file order."""
        ...

    def fingerprint(self, split: Split) -> str:
        """A hex digest of all that a split's documents depend on."""
        ...


def form_of(corpus: object) -> FormName | None:
    """The form that a corpus's text is in (`depgen.trees.text_form`); None where it does not say."""
    form: FormName | None = getattr(corpus, "form", None)
    return form


def tokens_of(corpus: object) -> Tokens:
    """How a corpus's strings become tokens: as its last step that cuts them says, or what reads them."""
    steps: Sequence[Step] = getattr(corpus, "steps", None) or ()
    cutting: list[Tokens] = [step.tokens for step in steps if hasattr(step, "tokens")]
    if cutting:
        return cutting[-1]
    reader = _reader_of(corpus)
    tokens: Tokens = getattr(reader, "tokens", "whitespace") if reader is corpus else tokens_of(reader)
    return tokens


def splitter_of(corpus: object) -> SentenceSplitter:
    """How a corpus's paragraphs become sentences, as what reads them says."""
    reader = _reader_of(corpus)
    splitter: SentenceSplitter = getattr(reader, "splitter", "lines") if reader is corpus else splitter_of(reader)
    return splitter


def _reader_of(corpus: object) -> object:
    """What a corpus takes its documents from: a format, the corpus that it has steps for, or itself."""
    return getattr(corpus, "format", None) or getattr(corpus, "corpus", None) or corpus


class Versioned:
    """What documents depend on by its code too."""

    version: ClassVar[int] = 1
    """Raised whenever documents may change: caches are keyed by it."""

    @property
    def versions(self) -> dict[str, int | str]:
        """That of the class, and of the rules by which its options `splitter` and `tokens`, if any, cut text."""
        rules = rule_versions(getattr(self, "splitter", "lines"), getattr(self, "tokens", "whitespace"))
        return {"version": self.version, **rules}


class Format(Versioned, ABC):
    """How a file becomes documents; subclasses are frozen dataclasses of their options."""

    @abstractmethod
    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The documents of a file, which identifiers call by a name: its path below the corpus's folder."""


class Step(Versioned, ABC):
    """What is done to the documents of a corpus; subclasses are frozen dataclasses of their options."""

    def changes(self, split: Split) -> bool:
        """Whether it does anything to a split; one that it leaves as it is keeps its documents and its fingerprint."""
        return True

    @abstractmethod
    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents of a split that it changes, from those of any split before it."""

    def digests(self, digest: Digest, split: Split) -> list[str]:
        """Digests of all that `split` after this step is made from; `digest` gives that of any split before it."""
        return [digest(split)]

    def fingerprint(self, digest: Digest, split: Split) -> str:
        """A digest of the step's options and of all that it reads."""
        return lines_sha256([plain_json(self), *self.digests(digest, split)])

    def name(self, name: str) -> str:
        """What results call a corpus after this step."""
        return name

    def form(self, form: FormName | None) -> FormName | None:
        """The form of the text after this step, from that before it."""
        return form


def _after(step: Step, read: Read, split: Split) -> Iterator[Document]:
    return step.documents(read, split) if step.changes(split) else read(split)


def _fingerprint_after(step: Step, digest: Digest, split: Split) -> str:
    return step.fingerprint(digest, split) if step.changes(split) else digest(split)


@dataclass(frozen=True)
class SeededSplits(Step):
    """Draws the documents of the training files into three splits, by a seed and their identifiers alone.

    By the SHA-256 of "{seed}:{identifier}", the first are test, the next validation, the rest training. A split has its
    documents in the order of the files.

    Args:
        valid: how many documents are for validation.
        test: how many are for the test.
        seed: of the draw.
    """

    valid: int = 50
    test: int = 50
    seed: int = 0

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents of a split."""
        wanted = frozenset(self.drawn(read)[split])
        return (document for document in read("train") if document.identifier in wanted)

    def digests(self, digest: Digest, split: Split) -> list[str]:
        """That of all files, and the split."""
        return [digest("train"), split]

    def drawn(self, read: Read) -> dict[Split, list[str]]:
        """The identifiers of each split's documents."""
        names, held_out = [document.identifier for document in read("train")], self.valid + self.test
        if len(names) <= held_out:
            raise UserError(f"SeededSplits: expected more than {held_out} documents to split, found {len(names)}.")
        if len(set(names)) < len(names):
            twice, _ = Counter(names).most_common(1)[0]
            raise UserError(f"SeededSplits: expected a name for each document, found {twice} twice.")
        ranked = sorted(names, key=lambda name: hashlib.sha256(f"{self.seed}:{name}".encode()).digest())
        chosen = {name: "test" if rank < self.test else "valid" for rank, name in enumerate(ranked[:held_out])}
        return {split: [name for name in names if chosen.get(name, "train") == split] for split in SPLITS}


def drawn_documents(corpus: object) -> dict[Split, list[str]]:
    """The identifiers of each split's documents where a seed has drawn them; empty where splits are official."""
    if isinstance(corpus, CorpusOfSteps) and corpus.draw is not None:
        return corpus.draw.drawn(corpus.read)
    return drawn_documents(corpus.corpus) if isinstance(corpus, WithSteps) else {}


@dataclass(frozen=True, kw_only=True)
class CorpusOfSteps(ABC):
    """A corpus whose documents pass through steps; a subclass reads them.

    Args:
        draw: draws the documents of the training files into three splits; None where these have files of their own.
        steps: what is done to the documents, in this order (`depgen.data.steps`); None: what the class does by default.
        name: what results call it; by default what the class and the steps say.
    """

    default_name: ClassVar[str] = ""
    default_steps: ClassVar[tuple[Step, ...]] = ()
    default_form: ClassVar[FormName | None] = None
    published: ClassVar[Mapping[Split, SplitStatistics]] = {}

    draw: SeededSplits | None = None
    steps: Sequence[Step] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        steps = self.default_steps if self.steps is None else tuple(self.steps)
        name = self.name or self.own_name
        for step in steps if not self.name else ():
            name = step.name(name)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "name", name)

    @property
    def own_name(self) -> str:
        """What results call it where no name is given, before steps."""
        return self.default_name

    @abstractmethod
    def read(self, split: Split) -> Iterator[Document]:
        """The documents of a split before the steps."""

    @abstractmethod
    def content(self, split: Split) -> str:
        """A digest of all that `read` depends on."""

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split after all steps, in file order."""
        read: Read = self.read
        for step in self._draw_and_steps:
            read = partial(_after, step, read)
        return read(split)

    def fingerprint(self, split: Split) -> str:
        """A digest of the files, of the options of format and steps and of their versions; folders do not count."""
        digest: Digest = self.content
        for step in self._draw_and_steps:
            digest = partial(_fingerprint_after, step, digest)
        return digest(split)

    @property
    def _draw_and_steps(self) -> Sequence[Step]:
        return (*((self.draw,) if self.draw else ()), *(self.steps or ()))

    @property
    def form(self) -> FormName | None:
        """The form that its text is in (`depgen.trees.text_form`); None where nothing says it."""
        form = self._form_as_read()
        for step in self.steps or ():
            form = step.form(form)
        return form

    def _form_as_read(self) -> FormName | None:
        return self.default_form


@dataclass(frozen=True)
class FileCorpus(CorpusOfSteps):
    """A corpus in files.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        format: reads a file (`depgen.data.formats`); `.gz` is unpacked.
        train: the training split's file or files, names or patterns below the folder; those of a pattern go by path.
        valid: those of the validation split.
        test: those of the test split.
    """

    how_to_get: ClassVar[str] = ""
    """Where a user finds the files, for messages."""

    folder: str
    format: Format
    _: KW_ONLY
    train: Sequence[str] | str = ()
    valid: Sequence[str] | str = ()
    test: Sequence[str] | str = ()

    @property
    def own_name(self) -> str:
        """The class's name for it, or the folder's."""
        return self.default_name or Path(self.folder).name

    def paths(self, split: Split) -> list[Path]:
        """The files of a split, each once.

        Raises:
            MissingDataError: there is no such folder, or no file of a name or pattern.
        """
        named: Sequence[str] | str = getattr(self, split)
        paths = [path for pattern in ([named] if isinstance(named, str) else named) for path in self._matching(pattern)]
        if not paths:
            raise MissingDataError(
                f"{self.name}: expected files of the {split} split, found none named: set `{split}`."
            )
        return list(dict.fromkeys(paths))

    def read(self, split: Split) -> Iterator[Document]:
        """The documents of a split's files."""
        for path in self.paths(split):
            any_sentence = any_word = False
            for document in self.format.read(path, self._name_of(path)):
                if document.sentences:
                    any_sentence, any_word = True, any_word or any(word != "_" for word in document.words())
                    yield document
            if not any_sentence:
                raise UserError(f"{path}: expected documents as {type(self.format).__name__} reads them, found none.")
            if not any_word:
                raise UserError(f"{path}: expected words, found nothing but `_`: add the treebank's text to it first.")

    def content(self, split: Split) -> str:
        """A digest of the format's options and of the names and bytes of the split's files."""
        files = [f"{self._name_of(path)} {file_sha256(path)}" for path in self.paths(split)]
        return lines_sha256([plain_json(self.format), *files])

    def _matching(self, pattern: str) -> list[Path]:
        """The file of a name, or those of a pattern by path."""
        if (self._root / pattern).is_file() or not any(sign in pattern for sign in "*?["):
            return [find_file(Path(self.folder) / pattern, how_to_get=self.how_to_get)]
        folder = find_data(self.folder, how_to_get=self.how_to_get)
        paths = matching(folder, pattern)
        if not paths:
            raise MissingDataError(f"{folder}: expected files {pattern}, found none. {self.how_to_get}")
        return paths

    def _name_of(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else path.name

    @property
    def _root(self) -> Path:
        return data_root() / Path(self.folder).expanduser()


@dataclass(frozen=True)
class WithSteps(CorpusOfSteps):
    """Any corpus, such as one of a class of yours, whose documents pass steps.

    Args:
        corpus: gives the documents.
    """

    corpus: Corpus

    @property
    def own_name(self) -> str:
        """The corpus's own."""
        return self.corpus.name

    def read(self, split: Split) -> Iterator[Document]:
        """The documents of the corpus."""
        return self.corpus.documents(split)

    def content(self, split: Split) -> str:
        """The corpus's fingerprint."""
        return self.corpus.fingerprint(split)

    def _form_as_read(self) -> FormName | None:
        return form_of(self.corpus)


def log_left_out(count: int, what: str, where: str) -> None:
    """Say once how much was left out; nothing if it was nothing."""
    if count:
        logger.warning("%s: left out %d %s.", where, count, what)


# -- fingerprints -----------------------------------------------------------------------------------------------------


def plain_json(value: Format | Step) -> str:
    """A format's or a step's class, versions and options as JSON.

    Other corpora among the options are left to their fingerprints, in which folders and names do not count.
    """
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:  # noqa: ANN401 - values of dataclasses
    if isinstance(value, Corpus):
        return None
    if is_dataclass(value):
        options = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"class": type(value).__name__, **getattr(value, "versions", {}), **options}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def files_sha256(paths: Iterable[Path], **options: object) -> str:
    """A SHA-256 hex digest of the files' bytes, in order, and of reading options; names and dates do not count."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for path in paths:
        digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()
