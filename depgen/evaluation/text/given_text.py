"""Texts with gaps, or beginnings of texts, with the trees by which a system that writes trees completes them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from depgen.annotation.named_parser import parser_named
from depgen.annotation.trivial import GoldTrees
from depgen.data.experiment import data_of
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.skeletons import TO_BE_WRITTEN, GivenTree, given_tree
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.trees.annotator import SentenceError, structure_of
from depgen.trees.conllu import Block, read_blocks
from depgen.trees.sentence import Sentence

REMEDY = "Give prompts with their trees, in a file that ends in .conllu, or name a parser (`--parser NAME`)."


def read_given_texts(path: Path) -> list[TextDocument]:
    """The sentences of a CoNLL-U file, each a prompt with its tree; an empty node (`2.1`) is a gap.

    Raises:
        UserError: it is no CoNLL-U, or a sentence has no tree.
    """
    found = []
    for block in read_blocks(path):
        place = f"{path}:{block.numbers[0]}"
        found.append(TextDocument(place, (_with_gaps(block, place),), (place,)))
    return found


def _with_gaps(block: Block, place: str) -> Sentence:
    """The sentence of a block, with a word of head -1 for each empty node."""
    sentence = block.sentence()
    if sentence.heads is None or sentence.relations is None:
        raise UserError(f"{place}: expected heads and relations, found `_`. Give the whole tree, or bare text.")
    is_word = np.array(["." not in columns[0] for _, columns in block.nodes])
    return _inserted(sentence, is_word)


def _inserted(sentence: Sentence, is_word: np.ndarray) -> Sentence:
    """A sentence with its tree and words of head -1 where a mask of the new words says so."""
    numbers = np.append(0, 1 + np.flatnonzero(is_word))
    words, relations = (np.full(len(is_word), TO_BE_WRITTEN, dtype=object) for _ in range(2))
    heads = np.full(len(is_word), -1)
    words[is_word], heads[is_word] = sentence.words, numbers[np.array(sentence.heads, np.int64)]
    relations[is_word] = sentence.relations or ("dep",) * len(sentence)
    return Sentence(tuple(words.tolist()), tuple(heads.tolist()), tuple(relations.tolist()))


def given_trees(
    prompts: Sequence[TextDocument], trained: Trained, reading: Reading, *, parser: str | None = None
) -> list[GivenTree | None]:
    """The tree over each prompt's tokens; None where no word is given.

    A word `_` without a head is a gap. A prompt without gaps is continued: it has one at its end.

    Args:
        prompts: each a sentence, with a tree or without.
        trained: the system.
        reading: what words are brought into.
        parser: of prompts without trees; by default the annotator of the run.

    Raises:
        UserError: a prompt has several sentences, words that the vocabulary lacks, or no tree can be found.
    """
    read = [_read(prompt, number, reading) for number, prompt in enumerate(prompts, start=1)]
    bare = [k for k, each in enumerate(read) if each is not None and each[0].heads is None]
    if bare:
        sentences = [each[0] for each in read if each is not None and each[0].heads is None]
        for k, sentence in zip(bare, _annotated(sentences, bare, trained, parser), strict=True):
            found = read[k]
            assert found is not None
            read[k] = sentence, found[1]
    return [
        None if each is None else _of_tokens(_inserted(*each), trained.vocabulary, number)
        for number, each in enumerate(read, start=1)
    ]


def _read(prompt: TextDocument, number: int, reading: Reading) -> tuple[Sentence, np.ndarray] | None:
    """The given words, and of all words, gaps included, whether they are given; None without any."""
    if not prompt.sentences:
        return None
    if len(prompt.sentences) > 1:
        raise UserError(f"prompt {number}: expected one sentence, found {len(prompt.sentences)} lines. Give one each.")
    (sentence,) = prompt.sentences
    if sentence.heads is None:
        is_word = np.array([word != TO_BE_WRITTEN for word in sentence.words])
    else:
        is_word = np.array(sentence.heads) >= 0
    given = Sentence(tuple(word for word, kept in zip(sentence.words, is_word, strict=True) if kept))
    if not len(given):
        return None
    kept = np.array([word == TO_BE_WRITTEN for word in given.words]) | np.array(reading.kept(given))
    words = tuple(
        word if word == TO_BE_WRITTEN else reading.spelt(Sentence((word,)), [True])[0]
        for word, keep in zip(given.words, kept, strict=True) if keep
    )  # fmt: skip
    if sentence.heads is None:
        every = is_word.copy()
        every[is_word] = kept
        return (Sentence(words), is_word[~is_word | every]) if words else None
    if not kept.all():
        dropped = given.words[int(np.flatnonzero(~kept)[0])]
        raise UserError(
            f"prompt {number}: the form of the run's text ({reading.form}) leaves out {dropped!r}, which has a place "
            "in the tree. Leave it out of the file, or set form to as_is."
        )
    numbers = np.append(0, np.cumsum(is_word))
    heads = tuple(int(numbers[head]) for head in np.array(sentence.heads)[is_word])
    relations = tuple(np.array(sentence.relations, dtype=object)[is_word].tolist())
    return Sentence(words, heads, relations), is_word


def _annotated(
    sentences: Sequence[Sentence], places: Sequence[int], trained: Trained, parser: str | None
) -> list[Sentence]:
    """The sentences with trees.

    Raises:
        UserError: nothing gives them trees.
    """
    annotator: Any = parser_named(parser) if parser is not None else _own_annotator(trained)
    if structure_of(annotator) != "tree":
        raise UserError(f"Prompts need trees, but {annotator.scheme} gives a {structure_of(annotator)}. {REMEDY}")
    try:
        found: list[Sentence] = annotator.annotate(sentences)
    except SentenceError as error:
        raise UserError(f"prompt {places[error.number - 1] + 1}: {error.complaint} {REMEDY}") from error
    for place, sentence in zip(places, found, strict=True):
        if sentence.heads is None or min(sentence.heads) < 0:
            raise UserError(f"prompt {place + 1}: {annotator.scheme} gives it no tree. {REMEDY}")
    return found


def _own_annotator(trained: Trained) -> Any:  # noqa: ANN401
    """The annotator that a run was trained with."""
    settings = trained.run / "config.yaml"
    annotator = getattr(data_of(settings), "annotator", None) if settings.is_file() else None
    if annotator is None or isinstance(annotator, GoldTrees):
        raise UserError(f"{trained.run} has no annotator that parses, and prompts need trees. {REMEDY}")
    return annotator


def _of_tokens(sentence: Sentence, vocabulary: Vocabulary, number: int) -> GivenTree:
    tree = given_tree(sentence, vocabulary.pieces, unknown=vocabulary.unk, name=f"prompt {number}")
    return tree if tree.gaps else replace(tree, gaps=(len(tree.tokens),))
