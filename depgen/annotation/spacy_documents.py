"""Sentences as spaCy documents and back."""

from typing import Any

from depgen.trees.sentence import Sentence


def document(vocab: Any, sentence: Sentence, *, gold: bool) -> Any:  # noqa: ANN401  (spaCy's types)
    """A spaCy `Doc` that holds exactly this sentence, so that the parser cannot split it into several trees."""
    from spacy.tokens import Doc

    words = list(sentence.words)
    if not gold:
        return Doc(vocab, words=words, sent_starts=[True] + [False] * (len(words) - 1))
    assert sentence.heads is not None
    assert sentence.relations is not None
    heads = [index if head == 0 else head - 1 for index, head in enumerate(sentence.heads)]
    relations = ["ROOT" if head == 0 else rel for head, rel in zip(sentence.heads, sentence.relations, strict=True)]
    return Doc(vocab, words=words, tags=list(sentence.tags or ()) or None, heads=heads, deps=relations)


def tree_of(doc: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:  # noqa: ANN401  (a spaCy Doc)
    """Heads (1-based, 0 = root) and relations of a parsed `Doc`; spaCy's `ROOT` becomes `root`."""
    heads = tuple(0 if token.head.i == token.i else token.head.i + 1 for token in doc)
    relations = tuple("root" if token.head.i == token.i else token.dep_ for token in doc)
    return heads, relations
