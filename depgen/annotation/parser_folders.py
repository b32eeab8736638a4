"""Where trained parsers lie, their descriptions, and the message when one is missing."""

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from depgen.errors import UserError, did_you_mean
from depgen.locations import cache_root, file_sha256, json_object

DESCRIPTION = "parser.json"
"""Scheme, kind, options and fingerprint of the training."""

SCORES = "scores.json"
"""Attachment scores and speed; no part of the parser's fingerprint."""


MADE_BY_MAKE = ("ewt", "ewt_lowercased", "ewt_normalized", "wsj_normalized")
"""The parsers of `make parser`; experiments/ has a file for each of them."""

BY_EXPERIMENT = ("ewt_supar", "ewt_graph", "ewt_content", "wsj_constituency")
"""Other parsers that experiments/ has a file for."""

ANNOTATORS = {
    "spaCy": "depgen.annotation.spacy_parser.SpacyAnnotator",
    "SuPar biaffine": "depgen.annotation.supar_parser.SuparAnnotator",
    "SuPar biaffine graph": "depgen.annotation.supar_structures.SuparGraphAnnotator",
    "SuPar CRF constituency": "depgen.annotation.supar_structures.SuparConstituencyAnnotator",
}
"""The annotator of each kind of parser."""

SPACY_PACKAGE = re.compile(r"[a-z]{2,3}_[a-z]+_[a-z]+_(sm|md|lg|trf)")


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
    if name in MADE_BY_MAKE:
        return f"Train it by `make parser` or `{train}_{name}.yaml`"
    if name in BY_EXPERIMENT:
        return f"Train it by `{train}_{name}.yaml`"
    if spacy and SPACY_PACKAGE.fullmatch(name):
        return f"Install it by `python -m spacy download {name}`, or name a parser that `{train}_ewt.yaml` trains (ewt)"
    installed = ", install a spaCy pipeline by `python -m spacy download en_core_web_sm`" if spacy else ""
    return f"Train one of your own by `{train}_{'ewt' if spacy else example}.yaml --name {Path(name).name}`{installed}"


def read_description(folder: Path) -> dict[str, Any]:
    """The description of a parser that was trained here; empty for others."""
    path = folder / DESCRIPTION
    return json_object(path, remedy="Train the parser again with --overwrite.") if path.is_file() else {}


def check_kind(folder: Path, kind: str) -> None:
    """Raises UserError unless a parser that was trained here is of this kind; other parsers don't state a kind.

    Raises:
        UserError: it is of another kind.
    """
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
