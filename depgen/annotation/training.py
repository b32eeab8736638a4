"""A parser trained on a treebank, once, into the cache: what it learns from, its scores, its description."""

import hashlib
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from depgen.annotation.annotator import DESCRIPTION, SCORES, Parser, lowercased, parser_folder, read_description
from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.steps import LEAVE_OUT
from depgen.errors import UserError, checked_seed
from depgen.locations import folder_written_whole, json_object, lines_sha256, made_once, write_atomically
from depgen.metrics.attachment import attachment, compared_edges, compared_words, edge_scores
from depgen.trees.annotator import FIELDS, Structure
from depgen.trees.punctuation import is_punctuation
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS

logger = logging.getLogger(__name__)


@runtime_checkable
class TrainedParser(Parser, Protocol):
    """A parser in memory that can be written."""

    def save(self, folder: Path) -> None:
        """Write everything that parsing needs into an existing folder."""
        ...


class ParserTraining(ABC):
    """A kind of parser with the options of its training; named by class path in a YAML file."""

    structure: Structure = "tree"
    """What the parser gives a sentence."""
    kind: str
    """How schemes name it, such as `spaCy`."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Everything that the weights depend on besides treebank and seed, for the fingerprint."""

    @abstractmethod
    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> TrainedParser:
        """The parser whose weights did best on `valid` within the step budget."""


def train_parser(
    corpus: Corpus,
    name: str,
    parser: ParserTraining,
    *,
    lowercase: bool = False,
    replace_names: bool = False,
    seed: int = 1,
    overwrite: bool = False,
) -> str:
    """Train a parser into `$DEPGEN_CACHE/parsers/<name>`, unless it lies there; its scores, ready to print.

    Args:
        corpus: a treebank; its splits are what the parser is trained on, chosen by and tested on.
        name: of the folder; annotators name the parser by it.
        parser: what kind, with its options and step budget.
        lowercase: lower-case the treebank's words, and those of every sentence that the parser will be given.
        replace_names: put `[MALE]`, `[FEMALE]` and `[NEUTRAL]` in place of words that look like first names.
        seed: of weights and batches.
        overwrite: replace a parser of that name that was trained otherwise.

    Raises:
        UserError: the treebank is missing or broken, or has no such structure; another parser has that name; a seed is
            out of range.
    """
    folder = parser_folder(name)
    changes = [*["lower-cased"] * lowercase, *["names replaced"] * replace_names]
    source = f"{corpus.name} ({', '.join(changes)})" if changes else corpus.name
    scheme = f"{source}, {parser.kind}"
    options = json.dumps(parser.options(), sort_keys=True)
    parts = [source, *map(corpus.fingerprint, SPLITS), parser.kind, options, str(checked_seed(seed))]
    description = {
        "kind": parser.kind, "scheme": scheme, "lowercase": lowercase, "fingerprint": lines_sha256(parts),
        "options": parser.options(), "seed": seed,
    }  # fmt: skip

    def sentences(split: Split) -> list[Sentence]:
        learnt = sentences_to_learn(corpus, split, parser.structure)
        learnt = [with_placeholders(sentence) for sentence in learnt] if replace_names else learnt
        return [lowercased(sentence) for sentence in learnt] if lowercase else learnt

    def make() -> None:
        started = time.perf_counter()
        train, valid = sentences("train"), sentences("valid")
        logger.info("Training the parser %s on %d sentences: %s.", name, len(train), scheme)
        trained = parser.train(train, valid, seed=seed)
        seconds = time.perf_counter() - started
        with folder_written_whole(folder) as part:
            trained.save(part)
            scores = {
                "scheme": scheme,
                "test": scores_of(trained, sentences("test"), parser.structure),
                "valid": scores_of(trained, valid, parser.structure),
                "training_seconds": round(seconds, 1),
            }
            write_atomically(part / SCORES, json.dumps(scores, indent=2) + "\n")
            write_atomically(part / DESCRIPTION, json.dumps(description, indent=2) + "\n")

    def is_made() -> bool:
        if overwrite or not folder.exists():
            return False
        if read_description(folder).get("fingerprint") != description["fingerprint"]:
            raise UserError(
                f"{folder} holds a parser that was trained otherwise (other treebank, options or seed). Choose another "
                "name, or replace it by --overwrite: its trees will be made again."
            )
        return True

    made = made_once(folder, make, is_made=is_made)
    return _report(folder) if made else f"{folder} is up to date.\n{_report(folder)}"


def _report(folder: Path) -> str:
    """What is known of a parser: scheme, scores, speed, time of training."""
    scores = json_object(folder / SCORES, remedy="For new scores train the parser again: --overwrite.")
    parts = [f"{split:>5}: {summary_of(scores[split])}" for split in ("valid", "test")]
    return "\n".join((f"{scores['scheme']}: {folder}", *parts, f"trained in {scores['training_seconds']:,.0f} s"))


# -- what is learnt ---------------------------------------------------------------------------------------------------


def sentences_to_learn(corpus: Corpus, split: Split, structure: Structure) -> list[Sentence]:
    """The sentences of a split of a treebank.

    Words without relations (NLTK's `.dp` files) are given `root` and `dep`, so that the labelled scores are the
    unlabelled ones.

    Raises:
        UserError: a sentence has no heads, or no graph or constituents where these are to be learnt.
    """
    field = FIELDS[structure]
    sentences, lacking = list[Sentence](), list[str]()
    for document in corpus.documents(split):
        for sentence in document.sentences:
            if getattr(sentence, field) is None:
                lacking.append(document.identifier)
            heads = None if sentence.relations else sentence.heads
            sentences.append(sentence if heads is None else sentence.with_heads(heads))
    if lacking:
        raise UserError(
            f"{lacking[0]} of {corpus.name}: expected {field} of every sentence, found none: {len(lacking)} of "
            f"{len(sentences)} sentences have none. {LEAVE_OUT}. Graphs of CoNLL-U are read with graphs: true."
        )
    return sentences


NAME_TAGS = frozenset({"PROPN", "NNP"})
NAME_RELATIONS = frozenset({"nsubj", "nsubj:pass", "vocative", "nmod:poss", "iobj"})
"""Relations whose proper nouns are mostly persons; a place or a brand is more often an oblique or a compound."""


def with_placeholders(sentence: Sentence) -> Sentence:
    """The sentence with words that look like first names replaced by `[MALE]`, `[FEMALE]` or `[NEUTRAL]`.

    A treebank does not say which proper nouns are persons, so their place in the tree decides: a proper noun in title
    case that heads a flat name (`Ada Lovelace`), or that is a bare subject, vocative, possessor or recipient. Which
    placeholder it becomes depends on the name's letters alone (a hash): a parser only needs to have met all three.

    Raises:
        UserError: the sentence has no tags.
    """
    words = list(sentence.words)
    for index, word in enumerate(words):
        if _looks_like_name(sentence, index):
            words[index] = PLACEHOLDERS[hashlib.sha256(word.lower().encode()).digest()[0] % len(PLACEHOLDERS)]
    return replace(sentence, words=tuple(words))


def _looks_like_name(sentence: Sentence, index: int) -> bool:
    if sentence.tags is None:
        raise UserError(f"replace_names needs tags, which {' '.join(sentence.words[:8])!r} has not.")
    assert sentence.heads is not None
    assert sentence.relations is not None
    word = sentence.words[index]
    if sentence.tags[index] not in NAME_TAGS or not (word.isalpha() and word.istitle() and len(word) > 1):
        return False
    dependents = [sentence.relations[place] for place, head in enumerate(sentence.heads) if head == index + 1]
    if "flat" in dependents:
        return True
    modifiers = ("det", "compound", "amod", "nummod", "nmod")
    bare = not any(relation.split(":")[0] in modifiers for relation in dependents)
    return bare and sentence.relations[index] in NAME_RELATIONS


# -- scores -----------------------------------------------------------------------------------------------------------


def scores_of(parser: Parser, gold: Sequence[Sentence], structure: Structure = "tree") -> dict[str, float]:
    """Scores of a parser on sentences with gold words, in per cent, and the words that it parses in a second.

    Of trees UAS and LAS, with punctuation and without it (by the gold relations; subtypes count: `nmod:poss` is not
    `nmod`). Of graphs and constituents `edge_scores`: root edges count, and all constituents, also the whole
    sentence, single words and punctuation, unlike in the program EVALB.
    """
    started = time.perf_counter()
    parsed = parser.parse([Sentence(sentence.words) for sentence in gold])
    seconds = time.perf_counter() - started
    if structure == "tree":
        words = compared_words(gold, parsed)
        counted = ~np.concatenate([is_punctuation(sentence, "relation") for sentence in gold])
        every, apart = attachment(words), attachment(words[counted])
        scores = {
            "uas": every["uas"], "las": every["las"],
            "uas_without_punctuation": apart["uas"], "las_without_punctuation": apart["las"],
        }  # fmt: skip
    else:
        right, found = ([getattr(each, FIELDS[structure]) or () for each in side] for side in (gold, parsed))
        scores = edge_scores(compared_edges(right, found))
    count = sum(map(len, gold))
    return {**scores, "words": count, "sentences": len(gold), "words_per_second": count / seconds}


def summary_of(scores: Mapping[str, float]) -> str:
    """One line of scores: UAS and LAS, or F1, precision and recall; sizes and speed."""
    if "uas" in scores:
        line = (
            "UAS {uas:.2f}, LAS {las:.2f}; without punctuation UAS {uas_without_punctuation:.2f}, "
            "LAS {las_without_punctuation:.2f}"
        )
    else:
        line = (
            "unlabelled F1 {unlabelled_f1:.2f} (precision {unlabelled_precision:.2f}, recall {unlabelled_recall:.2f}), "
            "labelled F1 {labelled_f1:.2f} (precision {labelled_precision:.2f}, recall {labelled_recall:.2f}); {found} "
            "found of {gold} gold"
        )
    return (line + "; {sentences} sentences, {words} words, {words_per_second:,.0f} words/s").format(**scores)
