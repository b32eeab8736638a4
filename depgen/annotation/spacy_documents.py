"""Sentences as spaCy documents and back."""

from collections.abc import Sequence
from typing import Any

from depgen.trees.sentence import Sentence


def document(vocab: Any, sentence: Sentence, *, gold: bool) -> Any:  # noqa: ANN401  (spaCy's types)
    """A spaCy `Doc` that holds exactly this sentence, so that the parser cannot split it into several trees."""
    from spacy.tokens import Doc

    if gold:
        return parsed_document(vocab, [sentence])
    words = list(sentence.words)
    return Doc(vocab, words=words, sent_starts=[True] + [False] * (len(words) - 1))


def parsed_document(vocab: Any, sentences: Sequence[Sentence], *, spaces: Sequence[bool] | None = None) -> Any:  # noqa: ANN401
    """A spaCy `Doc` of sentences with their trees; `root` becomes spaCy's `ROOT`.

    Args:
        vocab: of a pipeline.
        sentences: with heads and relations.
        spaces: whether a space follows each word; None: after each.
    """
    from spacy.tokens import Doc

    words, tags = list[str](), list[str]()
    heads, relations = [], []
    for sentence in sentences:
        assert sentence.heads is not None
        assert sentence.relations is not None
        first = len(words)
        for index, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            heads.append(first + (index if head == 0 else head - 1))
            relations.append("ROOT" if head == 0 else relation)
        words += sentence.words
        tags += sentence.tags or ()
    whole = tags if len(tags) == len(words) else []
    return Doc(vocab, words=words, spaces=spaces, tags=whole or None, heads=heads, deps=relations)


def tree_of(doc: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:  # noqa: ANN401  (a spaCy Doc)
    """Heads (1-based, 0 = root) and relations of a parsed `Doc`; spaCy's `ROOT` becomes `root`."""
    heads = tuple(0 if token.head.i == token.i else token.head.i + 1 for token in doc)
    relations = tuple("root" if token.head.i == token.i else token.dep_ for token in doc)
    return heads, relations
