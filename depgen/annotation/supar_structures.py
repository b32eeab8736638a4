"""Graphs and constituents by SuPar parsers that were trained here, for words that are already separated."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depgen.annotation.parser_folders import check_kind, files_digest, find_parser, read_description
from depgen.annotation.treebank import lowercase
from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.trees.annotator import FIELDS, Structure, check_words
from depgen.trees.sentence import Sentence

if TYPE_CHECKING:
    from depgen.annotation.supar_network import SuparNetwork


class _SuparAnnotator(ABC):
    """Gives each sentence what a parser of one kind finds. Trees that a sentence has are left out.

    Args:
        path: the name of a parser that was trained here, or its folder.
        batch_size: sentences parsed at a time.
    """

    structure: Structure
    kind: str
    example: str
    """The parser of experiments/ that shows how to train one."""

    def __init__(self, path: str, batch_size: int = 64) -> None:
        self.path, self.batch_size = path, batch_size
        self.scheme = self._scheme()
        self._parse: Callable[[list[Sentence]], list[Sentence]] | None = None
        self._lowercase = False
        self._digest: str | None = None

    @abstractmethod
    def _network(self) -> "type[SuparNetwork[Any]]":
        """What loads the parser."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parse": None}

    def fingerprint(self) -> str:
        """Of the parser's files and of the versions of SuPar and torch.

        Raises:
            UserError: there is no such parser.
        """
        if self._digest is None:
            content = files_digest(find_parser(self.path, example=self.example))
            self._digest = lines_sha256(["supar", version("supar"), version("torch"), content])
        return self._digest

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with what the parser finds, and without heads.

        Raises:
            UserError: no such parser, one of another kind, a sentence or a word is empty.
        """
        check_words(sentences)
        if self._parse is None:
            self._parse = self._load()
        field = FIELDS[self.structure]
        seen = [Sentence(sentence.words) for sentence in sentences]
        found = self._parse([lowercase(sentence) for sentence in seen] if self._lowercase else seen)
        return [
            replace(sentence, heads=None, relations=None, **{field: getattr(parsed, field)})
            for sentence, parsed in zip(sentences, found, strict=True)
        ]

    def _scheme(self) -> str:
        try:
            folder = find_parser(self.path)
        except UserError:
            return f"{self.path}, SuPar"  # parsing reports it, with all remedies
        return str(read_description(folder).get("scheme", f"{Path(self.path).name}, SuPar"))

    def _load(self) -> Callable[[list[Sentence]], list[Sentence]]:
        folder = find_parser(self.path, example=self.example)
        check_kind(folder, self.kind)
        self._lowercase = bool(read_description(folder).get("lowercase", False))
        return partial(self._network().load(folder).parse, batch_size=self.batch_size)


class SuparGraphAnnotator(_SuparAnnotator):
    """Gives each sentence the graph that SuPar's biaffine graph parser finds; a word may have several heads or none.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser --formalism graph`), or its folder.
        batch_size: sentences parsed at a time.
    """

    structure, kind, example = "graph", "SuPar biaffine graph", "ewt_graph"

    def __init__(self, path: str = "ewt_graph", batch_size: int = 64) -> None:
        super().__init__(path, batch_size)

    def _network(self) -> "type[SuparNetwork[Any]]":
        from depgen.annotation.supar_graph_training import GraphParser

        return GraphParser


class SuparConstituencyAnnotator(_SuparAnnotator):
    """Gives each sentence the constituents that SuPar's CRF parser finds.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser --formalism constituency`), or its
            folder.
        batch_size: sentences parsed at a time.
    """

    structure, kind, example = "constituency", "SuPar CRF constituency", "wsj_constituency"

    def __init__(self, path: str = "wsj_constituency", batch_size: int = 64) -> None:
        super().__init__(path, batch_size)

    def _network(self) -> "type[SuparNetwork[Any]]":
        from depgen.annotation.supar_constituency_training import ConstituencyParser

        return ConstituencyParser
