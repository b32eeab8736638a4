"""Sentences with the brackets that a system finds in them, one sentence a line."""

import numpy as np

from depgen.errors import UserError
from depgen.evaluation.encoded_text import TextEncoder
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.bracketing import Bracketer, constituents_over_words
from depgen.evaluation.unit_scores import batches_of
from depgen.trees.constituency import UNNAMED, format_constituents
from depgen.trees.sentence import Constituent


def bracketed_lines(
    system: Trained, document: TextDocument, *, beam_size: int | None = None, tokens_per_batch: int = 8192
) -> list[str]:
    """Each sentence with a pair of brackets around each constituent, and with its label where the system has labels.

    With labels, a line is a tree as in the Penn Treebank, without tags: `(S (NP the dog) (VP barks) .)`. Without, there
    are brackets around two words or more, as `depgen predict` writes them. Words that the system does not read keep
    their place and begin and end no constituent. But with labels the outermost constituent has all words; that of a
    sentence of which nothing is read is `TOP`.

    Args:
        system: brackets sentences itself, as Pushdown and TG do.
        document: its sentences.
        beam_size: the most bracketings of a sentence that are compared, where a beam is; None: the system's.
        tokens_per_batch: bracketed at once, padding included.

    Raises:
        UserError: the system brackets no sentences.
    """
    model, vocabulary = system.model, system.vocabulary
    if not isinstance(model, Bracketer):
        raise UserError(
            f"format: brackets: {type(model).__name__} brackets no sentences itself: take a run of Pushdown or TG, or "
            "leave the format out."
        )
    encoder = TextEncoder(system, as_one=False)
    read = encoder.sentences(document)
    filled = [each for each in read if len(each.encoding.ids)]
    units, trees = encoder.units(document, read), {id(each): list[Constituent]() for each in read}
    for places in batches_of(units, tokens_per_batch=tokens_per_batch):
        chosen = [filled[place] for place in places]
        found = model.bracketings(
            [units[place][0] for place in places], vocabulary=vocabulary, beam_size=beam_size,
            word_starts=[np.diff(each.encoding.word_of_piece, prepend=-1) > 0 for each in chosen],
        )  # fmt: skip
        for each, of_tokens in zip(chosen, found, strict=True):
            owner = np.flatnonzero(each.kept).tolist()
            over_words = constituents_over_words(of_tokens, each.encoding.word_of_piece)
            trees[id(each)] = [(owner[start], owner[end - 1] + 1, label) for start, end, label in over_words]
    has_labels = any(label for tree in trees.values() for *_, label in tree)
    lines = []
    for each in read:
        words, tree = each.sentence.words, trees[id(each)]
        if has_labels:
            root = tree[0][2] if tree else UNNAMED
            tree = [(0, len(words), root), *tree[1:]]
        lines.append(format_constituents(words, tree))
    return lines
