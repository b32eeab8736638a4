"""Graphs and constituents by SuPar parsers that were trained here, for words that are already separated."""

from abc import abstractmethod
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from depgen.annotation.parser_annotator import Parse, ParserAnnotator
from depgen.annotation.parser_folders import check_kind, files_digest, find_parser, read_description
from depgen.locations import lines_sha256

if TYPE_CHECKING:
    from depgen.annotation.supar_network import SuparNetwork


class TrainedBySupar(ParserAnnotator):
    """Gives each sentence what a SuPar parser of one kind finds, which was trained here.

    Args:
        path: the name of the parser, or its folder.
        batch_size: sentences parsed at a time.
        scheme: what to call what it finds; None: as its description says.
    """

    library = "SuPar"
    kind: ClassVar[str]
    example: ClassVar[str]
    """The parser of experiments/ that shows how to train one."""

    def __init__(self, path: str, batch_size: int = 64, scheme: str | None = None) -> None:
        self.path = path
        super().__init__(path, batch_size, scheme)

    @abstractmethod
    def _network(self) -> "type[SuparNetwork[Any]]":
        """What loads the parser."""

    def _content(self) -> str:
        return self._digest_of(files_digest(find_parser(self.path, example=self.example)))

    def _digest_of(self, content: str) -> str:
        return lines_sha256(["supar", version("supar"), version("torch"), content])

    def _load(self) -> Parse:
        return partial(self._trained(find_parser(self.path, example=self.example)).parse, batch_size=self.batch_size)

    def _trained(self, folder: Path) -> "SuparNetwork[Any]":
        """The parser that was trained into a folder."""
        check_kind(folder, self.kind)
        self._lowercase = bool(read_description(folder).get("lowercase", False))
        return self._network().load(folder)


class SuparGraphAnnotator(TrainedBySupar):
    """Gives each sentence the graph that SuPar's biaffine graph parser finds; a word may have several heads or none.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser --formalism graph`), or its folder.
        batch_size: sentences parsed at a time.
    """

    structure = "graph"
    kind, example = "SuPar biaffine graph", "ewt_graph"

    def __init__(self, path: str = "ewt_graph", batch_size: int = 64) -> None:
        super().__init__(path, batch_size)

    def _network(self) -> "type[SuparNetwork[Any]]":
        from depgen.annotation.supar_graph_training import GraphParser

        return GraphParser


class SuparConstituencyAnnotator(TrainedBySupar):
    """Gives each sentence the constituents that SuPar's CRF parser finds.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser --formalism constituency`), or its
            folder.
        batch_size: sentences parsed at a time.
    """

    structure = "constituency"
    kind, example = "SuPar CRF constituency", "wsj_constituency"

    def __init__(self, path: str = "wsj_constituency", batch_size: int = 64) -> None:
        super().__init__(path, batch_size)

    def _network(self) -> "type[SuparNetwork[Any]]":
        from depgen.annotation.supar_constituency_training import ConstituencyParser

        return ConstituencyParser
