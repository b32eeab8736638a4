"""The annotator of a parser, found by the parser's name or path."""

from pathlib import Path
from pkgutil import resolve_name

from depgen.annotation.parser_folders import ANNOTATORS, DESCRIPTION, find_parser, read_description
from depgen.errors import UserError
from depgen.trees.annotator import Annotator

_SPACY = "meta.json"
"""What the folder of every spaCy pipeline holds."""


def annotator_of(name: str) -> tuple[str, str, str]:
    """Class path, first argument and its value of the annotator of a parser; a path is made absolute.

    Args:
        name: of a parser that `depgen train-parser` made, its folder or that of a spaCy pipeline, or the name of an
            installed spaCy package.

    Raises:
        UserError: there is no such parser, or something else lies there.
    """
    folder = find_parser(name, packages=True)
    if not any((folder / each).is_file() for each in (DESCRIPTION, _SPACY)):
        raise UserError(
            f"--parser {folder}: expected the folder of a parser, with {DESCRIPTION} or {_SPACY}, found a "
            f"{'folder without them' if folder.is_dir() else 'file'}. Train one (depgen train-parser), or name SuPar's "
            "own file in an experiment's annotator, depgen.annotation.supar_parser.SuparAnnotator."
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
