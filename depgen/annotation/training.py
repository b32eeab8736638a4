"""What the verb `train-parser` asks of a kind of parser, and the treebank that it is trained on."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from depgen.annotation.scores import AnyScores
from depgen.annotation.treebank import transform
from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.steps import LEAVE_OUT
from depgen.errors import UserError, check_at_least
from depgen.locations import file_sha256, find_file, lines_sha256
from depgen.trees.annotator import FIELDS, Structure
from depgen.trees.conllu import TagColumn, read_conllu
from depgen.trees.sentence import Sentence

_OTHER_TREEBANK: Mapping[Structure, str] = {
    "tree": "Name a treebank",
    "graph": "Read graphs (SdpTreebank, or the format Conllu with graphs: true), or train a parser by --formalism tree",
    "constituency": "Read constituents (the format Brackets), or train a parser by --formalism tree",
}


@runtime_checkable
class TrainedParser(Protocol):
    """A parser in memory."""

    def evaluate(self, gold: list[Sentence]) -> AnyScores:
        """Scores and speed on sentences with gold words."""
        ...

    def save(self, folder: Path, description: dict[str, Any]) -> None:
        """Write everything that parsing needs into an existing folder; `description` has `scheme` and `lowercase`."""
        ...


class ParserTraining(ABC):
    """A kind of parser with the options of its training; named by class path in a YAML file."""

    kind: str
    """Named in the scheme, such as `spaCy`."""
    structure: Structure = "tree"
    """What the parser gives a sentence."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Everything that the weights depend on besides treebank and seed, for the fingerprint."""

    @abstractmethod
    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> TrainedParser:
        """The parser whose weights did best on `valid` within the step budget."""


@dataclass(frozen=True)
class Treebank:
    """A CoNLL-U treebank and what is done to its words.

    Attributes:
        name: how schemes name it, such as `UD English-EWT`.
        train: CoNLL-U file, relative to `$DEPGEN_DATA`.
        valid: the like, to choose weights by.
        test: the like, for the scores.
        lowercase: lower-case the words.
        replace_names: put `[MALE]`, `[FEMALE]` and `[NEUTRAL]` in place of words that look like first names.
        tags: the column whose tags a tagger learns and which names are recognised by.
        max_sentences: use only this number of sentences of each file, the first ones; None for all.

    Raises:
        UserError: `max_sentences` leaves nothing.
    """

    name: str
    train: str
    valid: str
    test: str
    lowercase: bool = False
    replace_names: bool = False
    tags: TagColumn = "xpos"
    max_sentences: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, max_sentences=self.max_sentences)

    def scheme(self, kind: str) -> str:
        """The name of such a parser in every result that depends on it.

        >>> Treebank("UD English-EWT", "", "", "", lowercase=True, replace_names=True).scheme("spaCy")
        'UD English-EWT (lower-cased, names replaced), spaCy'
        """
        possible = {"lower-cased": self.lowercase, "names replaced": self.replace_names}
        changes = ", ".join(change for change, done in possible.items() if done)
        return f"{self.name} ({changes}), {kind}" if changes else f"{self.name}, {kind}"

    def sentences(self, part: Split, structure: Structure = "tree") -> list[Sentence]:
        """The transformed sentences of a part, with what a parser learns from.

        Raises:
            UserError: the file is missing, broken or has sentences without trees, or without what is to be learnt.
        """
        path = self._path(part)
        documents = read_conllu(path, tags=self.tags, by_document=False, graphs=structure == "graph")
        sentences = [sentence for document in documents for sentence in document.sentences][: self.max_sentences]
        lacking = [n for n, each in enumerate(sentences, start=1) if each.heads is None or each.relations is None]
        if lacking:
            remedy = (
                f" {LEAVE_OUT} in depgen.annotation.training.CorpusTreebank." if len(lacking) < len(sentences) else ""
            )
            raise UserError(
                f"{path}: expected HEAD and DEPREL of every sentence, {len(lacking)} of {len(sentences)} have none, "
                f"sentence {lacking[0]} first.{remedy}"
            )
        _check_structures(sentences, structure, [f"{path}, sentence {n}" for n in range(1, len(sentences) + 1)])
        for number, sentence in enumerate(sentences, start=1):
            if self.replace_names and sentence.tags is None:
                raise UserError(
                    f"{path}: replace_names needs tags, sentence {number} has none in column {self.tags}; set "
                    "treebank.tags to upos or xpos, or treebank.replace_names to false."
                )
        return transform(sentences, lower=self.lowercase, names=self.replace_names)

    def fingerprint(self) -> str:
        """Of the files' content and of what is done to it."""
        parts = [file_sha256(self._path(part)) for part in SPLITS]
        settings = [self.name, self.lowercase, self.replace_names, self.tags, self.max_sentences]
        return lines_sha256([*parts, *map(str, settings)])

    def _path(self, part: Split) -> Path:
        relative: str = getattr(self, part)
        return find_file(relative, how_to_get="UD treebanks are at https://universaldependencies.org.")


_NAMES: Mapping[Structure, str] = {"tree": "heads", "graph": "a graph", "constituency": "constituents"}


def _check_structures(sentences: Sequence[Sentence], structure: Structure, places: Sequence[str]) -> None:
    """Raises UserError unless each sentence has the structure that is to be learnt.

    Raises:
        UserError: one has not.
    """
    lacking = [place for place, each in zip(places, sentences, strict=True) if getattr(each, FIELDS[structure]) is None]
    if not lacking:
        return
    remedy = LEAVE_OUT if len(lacking) < len(sentences) else _OTHER_TREEBANK[structure]
    raise UserError(
        f"{lacking[0]}: expected {_NAMES[structure]} of every sentence, found none: {len(lacking)} of {len(sentences)} "
        f"sentences have none. {remedy}."
    )


class CorpusTreebank:
    """The trees, graphs or constituents of a corpus as they are, whatever reads or rewrites its sentences.

    Words without relations (NLTK's `.dp` files) are given `root` and `dep`, so that the labelled scores are the
    unlabelled ones.

    Args:
        corpus: where the sentences come from; its splits are what is trained on, chosen by and tested on.
    """

    lowercase = False

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def scheme(self, kind: str) -> str:
        """The name of such a parser in every result that depends on it."""
        return f"{self.corpus.name}, {kind}"

    def sentences(self, part: Split, structure: Structure = "tree") -> list[Sentence]:
        """The sentences of a split, with what a parser learns from.

        Raises:
            UserError: a sentence has no heads, or no graph or constituents where these are to be learnt.
        """
        places = list[str]()
        sentences = list[Sentence]()
        for document in self.corpus.documents(part):
            for sentence in document.sentences:
                heads = None if sentence.relations else sentence.heads
                sentences.append(sentence if heads is None else sentence.with_heads(heads))
                places.append(f"{document.identifier} of {self.corpus.name}")
        _check_structures(sentences, structure, places)
        return sentences

    def fingerprint(self) -> str:
        """Of the corpus's name and content."""
        parts = [self.corpus.name, *map(self.corpus.fingerprint, SPLITS)]
        return lines_sha256(parts)
