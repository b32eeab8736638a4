"""The annotator of a trained parser, found by the parser's name."""

from pkgutil import resolve_name

from depgen.annotation.parser_folders import ANNOTATORS, DESCRIPTION, find_parser, read_description
from depgen.errors import UserError
from depgen.trees.annotator import Annotator


def named_annotator(name: str) -> tuple[str, str] | None:
    """Class and first argument of the annotator of a parser that `depgen train-parser` made; None: there is no such."""
    try:
        folder = find_parser(name)
    except UserError:
        return None
    if not (folder / DESCRIPTION).is_file():
        return None
    kind = str(read_description(folder).get("kind", "spaCy"))
    return ANNOTATORS.get(kind, ANNOTATORS["spaCy"]), "path" if kind.startswith("SuPar") else "pipeline"


def parser_named(name: str) -> Annotator:
    """The annotator of a parser: one that `depgen train-parser` made, a folder, or an installed spaCy package.

    Raises:
        UserError: there is no such parser, or it is a single file.
    """
    folder = find_parser(name, packages=True)
    if not folder.is_dir():
        raise UserError(
            f"--parser {folder}: expected the folder of a parser, found a file. Train one (depgen train-parser), or "
            "name SuPar's own file in an experiment's annotator, depgen.annotation.supar_parser.SuparAnnotator."
        )
    kind = str(read_description(folder).get("kind", "spaCy"))
    annotator: Annotator = resolve_name(ANNOTATORS.get(kind, ANNOTATORS["spaCy"]))(name)
    return annotator
