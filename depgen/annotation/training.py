"""The verb `train-parser`: a parser trained on a treebank, once, into the cache; its treebanks and kinds of parsers."""

import hashlib
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol, runtime_checkable

from depgen.annotation.annotator import DESCRIPTION, SCORES, lowercase, parser_folder, read_description
from depgen.annotation.scores import AnyScores, summary_of
from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.steps import LEAVE_OUT
from depgen.errors import UserError, check_at_least
from depgen.locations import (
    file_sha256,
    find_file,
    folder_written_whole,
    lines_sha256,
    made_once,
    write_atomically,
)
from depgen.seeds import checked_seed
from depgen.trees.annotator import FIELDS, Structure
from depgen.trees.conllu import TagColumn, read_conllu
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS

logger = logging.getLogger(__name__)

_NEEDED: Mapping[Structure, tuple[str, str]] = {
    "tree": ("heads", "Name a treebank"),
    "graph": (
        "a graph",
        "Read graphs (SdpTreebank, or Conllu with graphs: true), or train a parser of trees",
    ),
    "constituency": ("constituents", "Read constituents (the format Brackets), or train a parser of trees"),
}
"""What each sentence of a treebank must have, and what to do where none has it."""


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

    structure: Structure = "tree"
    """What the parser gives a sentence."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Named in the scheme, such as `spaCy`."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Everything that the weights depend on besides treebank and seed, for the fingerprint."""

    @abstractmethod
    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> TrainedParser:
        """The parser whose weights did best on `valid` within the step budget."""


# -- treebanks ----------------------------------------------------------------------------------------------------


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
        if self.replace_names:
            sentences = [replace_names(sentence) for sentence in sentences]
        return [lowercase(sentence) for sentence in sentences] if self.lowercase else sentences

    def fingerprint(self) -> str:
        """Of the files' content and of what is done to it."""
        parts = [file_sha256(self._path(part)) for part in SPLITS]
        settings = [self.name, self.lowercase, self.replace_names, self.tags, self.max_sentences]
        return lines_sha256([*parts, *map(str, settings)])

    def _path(self, part: Split) -> Path:
        relative: str = getattr(self, part)
        return find_file(relative, how_to_get="UD treebanks are at https://universaldependencies.org.")


def _check_structures(sentences: Sequence[Sentence], structure: Structure, places: Sequence[str]) -> None:
    """Raises UserError unless each sentence has the structure that is to be learnt."""
    lacking = [place for place, each in zip(places, sentences, strict=True) if getattr(each, FIELDS[structure]) is None]
    if not lacking:
        return
    what, other = _NEEDED[structure]
    remedy = LEAVE_OUT if len(lacking) < len(sentences) else other
    raise UserError(
        f"{lacking[0]}: expected {what} of every sentence, found none: {len(lacking)} of {len(sentences)} sentences "
        f"have none. {remedy}."
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


# -- names in treebanks -------------------------------------------------------------------------------------------

NAME_TAGS = frozenset({"PROPN", "NNP"})
NAME_RELATIONS = frozenset({"nsubj", "nsubj:pass", "vocative", "nmod:poss", "iobj"})
"""Relations whose proper nouns are mostly persons; a place or a brand is more often an oblique or a compound."""


def replace_names(sentence: Sentence) -> Sentence:
    """The sentence with words that look like first names replaced by `[MALE]`, `[FEMALE]` or `[NEUTRAL]`.

    A treebank does not say which proper nouns are persons, so their place in the tree decides: a proper noun in title
    case that heads a flat name (`Ada Lovelace`), or that is a bare subject, vocative, possessor or recipient. Which
    placeholder it becomes depends on the name's letters alone (a hash): a parser only needs to have met all three.
    """
    words = list(sentence.words)
    for index in range(len(words)):
        if _looks_like_name(sentence, index):
            words[index] = PLACEHOLDERS[hashlib.sha256(words[index].lower().encode()).digest()[0] % len(PLACEHOLDERS)]
    return replace(sentence, words=tuple(words))


def _looks_like_name(sentence: Sentence, index: int) -> bool:
    assert sentence.tags is not None
    assert sentence.heads is not None
    assert sentence.relations is not None
    word = sentence.words[index]
    if sentence.tags[index] not in NAME_TAGS or not (word.isalpha() and word.istitle() and len(word) > 1):
        return False
    children = [child for child, head in enumerate(sentence.heads) if head == index + 1]
    if any(sentence.relations[child] == "flat" for child in children):
        return True
    modifiers = ("det", "compound", "amod", "nummod", "nmod")
    bare = not any(sentence.relations[child].split(":")[0] in modifiers for child in children)
    return bare and sentence.relations[index] in NAME_RELATIONS


# -- the verb -----------------------------------------------------------------------------------------------------

AnyTreebank = Treebank | CorpusTreebank


def train_parser(
    treebank: AnyTreebank,
    name: str,
    *,
    parser: ParserTraining | None = None,
    seed: int = 1,
    overwrite: bool = False,
) -> str:
    """Train a parser into `$DEPGEN_CACHE/parsers/<name>`, unless it lies there; its scores, ready to print.

    Args:
        treebank: what it is trained and tested on.
        name: of the folder; annotators name the parser by it.
        parser: what kind, with its options and step budget; by default SuPar's biaffine parser of trees.
        seed: of weights and batches.
        overwrite: replace a parser of that name that was trained otherwise.

    Raises:
        UserError: a treebank file is missing or broken, or has no such structure; another parser has that name; a
            seed is out of range.
    """
    folder = parser_folder(name)
    chosen = parser or resolve_name("depgen.annotation.supar_training.SuparTraining")()
    fingerprint = training_fingerprint(treebank, chosen, checked_seed(seed))

    def train() -> None:
        started = time.perf_counter()
        train, valid = (treebank.sentences(split, chosen.structure) for split in ("train", "valid"))
        logger.info("Training the parser %s on %d sentences: %s.", name, len(train), treebank.scheme(chosen.kind))
        trained = chosen.train(train, valid, seed=seed)
        seconds = time.perf_counter() - started
        description = {
            "kind": chosen.kind, "scheme": treebank.scheme(chosen.kind), "lowercase": treebank.lowercase,
            "fingerprint": fingerprint, "options": chosen.options(), "seed": seed,
        }  # fmt: skip
        scores: dict[str, Any] = {"scheme": description["scheme"]}
        with folder_written_whole(folder) as part:
            trained.save(part, description)
            for split in ("test", "valid"):
                scores[split] = trained.evaluate(treebank.sentences(split, chosen.structure)).as_dict()
            scores["training_seconds"] = round(seconds, 1)
            write_atomically(part / SCORES, json.dumps(scores, indent=2) + "\n")
            write_atomically(part / DESCRIPTION, json.dumps(description, indent=2) + "\n")

    made = made_once(folder, train, is_made=lambda: not overwrite and _is_trained(folder, fingerprint))
    return _report(folder) if made else f"{folder} is up to date.\n{_report(folder)}"


def _is_trained(folder: Path, fingerprint: str) -> bool:
    """Whether the parser lies there; raises UserError if one does that was trained otherwise."""
    if not folder.exists():
        return False
    if read_description(folder).get("fingerprint") != fingerprint:
        raise UserError(
            f"{folder} holds a parser that was trained otherwise (other treebank, options or seed). "
            "Choose another --name, or replace it by --overwrite: its trees will be made again."
        )
    return True


def training_fingerprint(treebank: AnyTreebank, parser: ParserTraining, seed: int) -> str:
    """A digest of the treebank's content, the options and the seed."""
    options = json.dumps(parser.options(), sort_keys=True)
    return lines_sha256([treebank.fingerprint(), parser.kind, options, str(seed)])


def _report(folder: Path) -> str:
    """What is known of a parser: scheme, scores with and without punctuation, speed, time of training."""
    path = folder / SCORES
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        parts = [f"{split:>5}: {summary_of(scores[split])}" for split in ("valid", "test")]
        trained = f"trained in {scores['training_seconds']:,.0f} s"
        return "\n".join((f"{scores['scheme']}: {folder}", *parts, trained))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} does not read as a parser's scores ({type(error).__name__}: {error}). The parser may serve all "
            "the same; for new scores train it again: --overwrite."
        ) from error
