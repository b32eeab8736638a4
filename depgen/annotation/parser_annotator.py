"""What annotators that parse share: the parser's name, scheme and fingerprint, and how sentences are given to it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from depgen.annotation.parser_folders import find_parser, read_description
from depgen.annotation.treebank import lowercase
from depgen.errors import UserError
from depgen.trees.annotator import FIELDS, Structure, check_words
from depgen.trees.sentence import Sentence

Parse = Callable[[list[Sentence]], list[Sentence]]


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
        """A digest of the parser's files and of the versions of its library.

        Raises:
            UserError: there is no such parser.
        """

    @abstractmethod
    def _load(self) -> Parse:
        """What parses; says in `_lowercase` whether the words are to be lower-cased.

        Raises:
            UserError: there is no such parser, or it is of another kind.
        """

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
        return [
            replace(sentence, **{name: getattr(found, name) for name in ("heads", "relations", FIELDS[self.structure])})
            for sentence, found in zip(sentences, self._parse(self._as_trained(sentences)), strict=True)
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
