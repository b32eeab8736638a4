"""Parsers by name: where they lie, what is known of them, and what their annotators share."""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Protocol, runtime_checkable

from depgen.errors import UserError, did_you_mean
from depgen.locations import cache_root, file_sha256, json_object, lines_sha256
from depgen.trees.annotator import FIELDS, Annotator, check_words
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS

DESCRIPTION = "parser.json"
"""Scheme, kind, options and fingerprint of the training."""
SCORES = "scores.json"
"""Scores on the treebank and speed; no part of the parser's fingerprint."""
SPACY_META = "meta.json"
"""What the folder of every spaCy pipeline holds."""
ANNOTATORS = {
    "spaCy": "depgen.annotation.spacy.SpacyAnnotator",
    "SuPar biaffine": "depgen.annotation.supar.SuparAnnotator",
    "SuPar biaffine graph": "depgen.annotation.supar.SuparGraphAnnotator",
    "SuPar CRF constituency": "depgen.annotation.supar.SuparConstituencyAnnotator",
}
"""The annotator of each kind of parser, as descriptions and schemes name the kinds."""


# -- where parsers lie ----------------------------------------------------------------------------------------------


def parser_folder(name: str) -> Path:
    """The folder of a trained parser: `$DEPGEN_CACHE/parsers/<name>`."""
    return cache_root() / "parsers" / name


def find_parser(name: str, *, packages: bool = False) -> Path:
    """The folder or file of a parser: a path, the name of one that was trained here, or an installed package.

    Args:
        name: of the parser, or its path.
        packages: whether an installed spaCy package will do.

    Raises:
        UserError: nothing is there; says where it was looked for, which parsers there are, and how to get one.
    """
    places = [parser_folder(name)]
    if "/" in name or "." in name or name.startswith("~"):
        places.insert(0, Path(name).expanduser())
    for place in places:
        if place.exists():
            return place
    # A folder of that name in the working folder is a module to Python too, but one without an origin.
    if packages and name.isidentifier() and (spec := find_spec(name)) and spec.origin:
        return Path(spec.origin).parent
    trained = sorted(path.parent.name for path in parser_folder("").glob(f"*/{DESCRIPTION}"))
    sought = [str(place.absolute()) for place in places] + ["an installed package"] * packages
    spacy = ", install a spaCy pipeline by `python -m spacy download en_core_web_sm`" if packages else ""
    raise UserError(
        f"No parser {name!r}; looked for {' and '.join(sought)}.{did_you_mean(name, trained)} Trained here: "
        f"{', '.join(trained) or 'none'}. Train one by `depgen annotate --train experiments/parser_NAME.yaml`, where "
        f"NAME is the parser's{spacy}, or set DEPGEN_CACHE to the folder whose parsers/ has it."
    )


def read_description(folder: Path, kind: str | None = None) -> dict[str, Any]:
    """The description of a parser that was trained here; empty for others.

    Raises:
        UserError: it is of another kind than `kind`, or the file is broken.
    """
    path = folder / DESCRIPTION
    description = json_object(path, remedy="Train the parser again with --overwrite.") if path.is_file() else {}
    if kind is not None and (actual := description.get("kind", kind)) != kind:
        raise UserError(
            f"{folder}: expected a {kind} parser, found one of kind {actual}. Name it by the annotator of its kind: "
            f"{ANNOTATORS.get(actual) or ' or '.join(ANNOTATORS.values())}."
        )
    return description


def files_digest(folder: Path) -> str:
    """A digest of every file's name and content, scores and compiled Python excepted."""
    digest = hashlib.sha256()
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        if path.name != SCORES and "__pycache__" not in path.parts:
            name = path.name if folder.is_file() else path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()


def annotator_of(name: str) -> tuple[str, str, str]:
    """Class path, first argument and its value of the annotator of a parser; a path is made absolute.

    Args:
        name: of a parser that was trained here, its folder or that of a spaCy pipeline, or the name of an installed
            spaCy package.

    Raises:
        UserError: there is no such parser, or something else lies there.
    """
    folder = find_parser(name, packages=True)
    if not any((folder / file).is_file() for file in (DESCRIPTION, SPACY_META)):
        raise UserError(
            f"--parser {folder}: expected the folder of a parser, with {DESCRIPTION} or {SPACY_META}, found a "
            f"{'folder without them' if folder.is_dir() else 'file'}. Train one (depgen annotate --train), or name "
            "SuPar's own file in an experiment's annotator, depgen.annotation.supar.SuparAnnotator."
        )
    kind = str(read_description(folder).get("kind", "spaCy"))
    value = str(folder.absolute()) if folder == Path(name).expanduser() else name
    return ANNOTATORS.get(kind, ANNOTATORS["spaCy"]), "path" if kind.startswith("SuPar") else "pipeline", value


def parser_named(name: str) -> Annotator:
    """The annotator of a parser, as `annotator_of` finds it.

    Raises:
        UserError: there is no such parser, or something else lies there.
    """
    class_path, _, value = annotator_of(name)
    annotator: Annotator = resolve_name(class_path)(value)
    return annotator


# -- what annotators share --------------------------------------------------------------------------------------------


@runtime_checkable
class Parser(Protocol):
    """A parser in memory."""

    def parse(self, sentences: Sequence[Sentence], *, batch_size: int = 64) -> list[Sentence]:
        """The sentences with what it finds, in the order given."""
        ...


class ParserAnnotator(Annotator):
    """Gives each sentence what a parser finds in its words alone. The parser is loaded at the first sentence.

    A parser that was trained here on a lower-cased treebank sees the words lower-cased; the sentences keep theirs.

    Args:
        name: of the parser, its folder or its file.
        batch_size: sentences parsed at a time.
        scheme: what to call what it finds; None: as its description says, else the parser's name and its library.
    """

    library: ClassVar[str]
    versions_of: ClassVar[tuple[str, ...]]
    """The packages whose versions the trees depend on."""
    packages: ClassVar[bool] = False
    """Whether an installed package will do."""

    def __init__(self, name: str, batch_size: int, scheme: str | None = None) -> None:
        self.name, self.batch_size = name, batch_size
        self.scheme = scheme or self._scheme()
        self._parser: Any = None
        self._lowercase = False
        self._digest: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parser": None}

    @abstractmethod
    def _load(self) -> tuple[Parser, bool]:
        """The parser, and whether it was trained on lower-cased words."""

    def _place(self) -> Path:
        """The parser's folder or file."""
        return find_parser(self.name, packages=self.packages)

    def _scheme(self) -> str:
        try:
            place = find_parser(self.name, packages=self.packages)
        except UserError:
            return f"{self.name}, {self.library}"  # parsing reports it, with all remedies
        return str(read_description(place).get("scheme", f"{Path(self.name).name}, {self.library}"))

    def fingerprint(self) -> str:
        """Of the parser's files and of the versions of its library.

        Raises:
            UserError: there is no such parser, or it may not be read.
        """
        if self._digest is None:
            self._digest = content_of(self._place(), self.versions_of)
        return self._digest

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with what the parser finds; the relation of a tree's root is `root`.

        Raises:
            UserError: no such parser, one of another kind, a sentence or a word is empty, or what the parser refuses.
        """
        parsed = self.loaded().parse(self._as_trained(sentences), batch_size=self.batch_size)
        fields = ("heads", "relations", FIELDS[self.structure])
        return [
            replace(sentence, **{name: getattr(own, name) for name in fields})
            for sentence, own in zip(sentences, parsed, strict=True)
        ]

    def loaded(self) -> Any:  # noqa: ANN401  (a Parser; what more it does is the subclass's to know)
        """The parser in memory."""
        if self._parser is None:
            self._parser, self._lowercase = self._load()
        return self._parser

    def _as_trained(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The words alone, as the parser has learnt them."""
        check_words(sentences)
        bare = [Sentence(sentence.words) for sentence in sentences]
        return [lowercased(sentence) for sentence in bare] if self._lowercase else bare


def content_of(place: Path, packages: Sequence[str]) -> str:
    """A digest of a parser's files and of the versions of the packages that run it."""
    return lines_sha256([packages[0], *map(version, packages), files_digest(place)])


def lowercased(sentence: Sentence) -> Sentence:
    """The sentence in lower case, placeholders excepted."""
    words = tuple(word if word in PLACEHOLDERS else word.lower() for word in sentence.words)
    return replace(sentence, words=words)
