"""Parsers by name: where they lie, what is known of them, and what their annotators share."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar

from depgen.errors import UserError, did_you_mean
from depgen.locations import cache_root, file_sha256, json_object
from depgen.trees.annotator import FIELDS, Annotator, Structure, check_words
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS

DESCRIPTION = "parser.json"
"""Scheme, kind, options and fingerprint of the training."""
SCORES = "scores.json"
"""Attachment scores and speed; no part of the parser's fingerprint."""
SPACY_META = "meta.json"
"""What the folder of every spaCy pipeline holds."""
EXPERIMENTS = (
    "ewt", "ewt_lowercased", "ewt_normalized", "wsj_normalized", "ewt_supar", "ewt_supar_small", "ewt_graph",
    "ewt_content", "wsj_constituency",
)  # fmt: skip
"""The parsers that `experiments/parser_NAME.yaml` trains."""
ANNOTATORS = {
    "spaCy": "depgen.annotation.spacy.SpacyAnnotator",
    "SuPar biaffine": "depgen.annotation.supar.SuparAnnotator",
    "SuPar biaffine graph": "depgen.annotation.supar.SuparGraphAnnotator",
    "SuPar CRF constituency": "depgen.annotation.supar.SuparConstituencyAnnotator",
}
"""The annotator of each kind of parser."""

_SPACY_PACKAGE = re.compile(r"[a-z]{2,3}_[a-z]+_[a-z]+_(sm|md|lg|trf)")

Parse = Callable[[list[Sentence]], list[Sentence]]


def parser_folder(name: str) -> Path:
    """The folder of a trained parser: `$DEPGEN_CACHE/parsers/<name>`."""
    return cache_root() / "parsers" / name


def find_parser(name: str, *, packages: bool = False, example: str = "ewt_supar") -> Path:
    """The folder of a parser: a path, the name of one that was trained here, or (with `packages`) an installed package.

    Args:
        name: of the parser, or its path.
        packages: whether an installed spaCy package will do.
        example: the parser of experiments/ that shows how to train one of your own.

    Raises:
        UserError: nothing is there; says where it was looked for, which parsers there are, and how to get one.
    """
    candidates = [parser_folder(name)]
    if "/" in name or "." in name or name.startswith("~"):
        candidates.insert(0, Path(name).expanduser())
    for candidate in candidates:
        if candidate.exists():
            return candidate
    if packages and name.isidentifier() and (spec := find_spec(name)) and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    places = [str(candidate.absolute()) for candidate in candidates]
    if packages:
        places.append(f"an installed package {name!r}")
    known = sorted(path.parent.name for path in parser_folder("").glob(f"*/{DESCRIPTION}"))
    raise UserError(
        f"No parser {name!r}; looked for {' and '.join(places)}.{did_you_mean(name, known)} Trained here: "
        f"{', '.join(known) or 'none'}. {_how_to_get(name, example, spacy=packages)}, or set DEPGEN_CACHE to the "
        "folder whose parsers/ has it."
    )


def _how_to_get(name: str, example: str, *, spacy: bool) -> str:
    train = "depgen train-parser --config experiments/parser"
    if name in EXPERIMENTS:
        return f"Train it by `{train}_{name}.yaml`"
    if spacy and _SPACY_PACKAGE.fullmatch(name):
        return f"Install it by `python -m spacy download {name}`, or name a parser that `{train}_ewt.yaml` trains (ewt)"
    installed = ", install a spaCy pipeline by `python -m spacy download en_core_web_sm`" if spacy else ""
    return f"Train one of your own by `{train}_{'ewt' if spacy else example}.yaml --name {Path(name).name}`{installed}"


def read_description(folder: Path) -> dict[str, Any]:
    """The description of a parser that was trained here; empty for others."""
    path = folder / DESCRIPTION
    return json_object(path, remedy="Train the parser again with --overwrite.") if path.is_file() else {}


def check_kind(folder: Path, kind: str) -> None:
    """Raises UserError unless a parser that was trained here is of this kind; other parsers don't state a kind."""
    found = read_description(folder).get("kind", kind)
    if found != kind:
        raise UserError(
            f"{folder}: expected a {kind} parser, found one of kind {found}. Name it by the annotator of its kind: "
            f"{ANNOTATORS.get(found) or ' or '.join(ANNOTATORS.values())}."
        )


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
        name: of a parser that `depgen train-parser` made, its folder or that of a spaCy pipeline, or the name of an
            installed spaCy package.

    Raises:
        UserError: there is no such parser, or something else lies there.
    """
    folder = find_parser(name, packages=True)
    if not any((folder / file).is_file() for file in (DESCRIPTION, SPACY_META)):
        raise UserError(
            f"--parser {folder}: expected the folder of a parser, with {DESCRIPTION} or {SPACY_META}, found a "
            f"{'folder without them' if folder.is_dir() else 'file'}. Train one (depgen train-parser), or name SuPar's "
            "own file in an experiment's annotator, depgen.annotation.supar.SuparAnnotator."
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


class ParserAnnotator(ABC):
    """Gives each sentence what a parser finds in its words alone. The parser is loaded at the first sentence.

    A parser that was trained here on a lower-cased treebank sees the words lower-cased; the sentences keep theirs.

    Args:
        name: of the parser, its folder, or what else the parser's library can load.
        batch_size: sentences parsed at a time.
        scheme: what to call what it finds; None: as its description says, else the parser's name and its library.
    """

    structure: Structure = "tree"
    library: ClassVar[str]
    packages: ClassVar[bool] = False
    """Whether an installed package will do."""

    def __init__(self, name: str, batch_size: int, scheme: str | None = None) -> None:
        self.batch_size = batch_size
        self.scheme = scheme or self._scheme_of(name)
        self._parse: Parse | None = None
        self._lowercase = False
        self._digest: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parse": None}

    @abstractmethod
    def _content(self) -> str:
        """A digest of the parser's files and of the versions of its library."""

    @abstractmethod
    def _load(self) -> Parse:
        """What parses; says in `_lowercase` whether the words are to be lower-cased."""

    def fingerprint(self) -> str:
        """Of the parser's files and of the versions of its library.

        Raises:
            UserError: there is no such parser, or it may not be read.
        """
        if self._digest is None:
            self._digest = self._content()
        return self._digest

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with what the parser finds; the relation of a tree's root is `root`.

        Raises:
            UserError: no such parser, one of another kind, a sentence or a word is empty, or what the parser refuses.
        """
        check_words(sentences)
        if self._parse is None:
            self._parse = self._load()
        fields = ("heads", "relations", FIELDS[self.structure])
        return [
            replace(sentence, **{name: getattr(parsed, name) for name in fields})
            for sentence, parsed in zip(sentences, self._parse(self._as_trained(sentences)), strict=True)
        ]

    def _as_trained(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The words alone, as the parser has learnt them."""
        bare = [Sentence(sentence.words) for sentence in sentences]
        return [lowercase(sentence) for sentence in bare] if self._lowercase else bare

    def _scheme_of(self, name: str) -> str:
        try:
            place = find_parser(name, packages=self.packages)
        except UserError:
            return f"{name}, {self.library}"  # parsing reports it, with all remedies
        return str(read_description(place).get("scheme", f"{Path(name).name}, {self.library}"))


def lowercase(sentence: Sentence) -> Sentence:
    """The sentence in lower case, placeholders excepted."""
    words = tuple(word if word in PLACEHOLDERS else word.lower() for word in sentence.words)
    return replace(sentence, words=words)
