"""One head list, or one sentence, for a document of several sentences."""

from typing import Literal

from depgen.trees.sentence import Document, Sentence

Joining = Literal["roots", "previous_sentence"]


def joined_heads(document: Document, *, joining: Joining = "roots") -> list[int]:
    """Heads over the document's concatenated words, 1-based, 0 = root; -1 for the words of sentences without heads.

    Args:
        document: sentences, each with its own tree.
        joining: what becomes of the roots. "roots" keeps them all, so every one is a child of BOS, as the authors' code
            of Yang & Wan (2022) does with such a list; what they gave it for a story is not published. The last word
            of a sentence then has a future dependent in the last sentence only: `<eos>`. "previous_sentence", which
            all experiments on stories take, makes roots children of the last word before their sentence.

    >>> story = Document((Sentence(("go", "!"), (0, 1)), Sentence(("she", "went"), (2, 0))), "story")
    >>> joined_heads(story), joined_heads(story, joining="previous_sentence")
    ([0, 1, 4, 0], [0, 1, 4, 2])
    """
    heads: list[int] = []
    for sentence in document.sentences:
        offset = len(heads)
        root = offset if joining == "previous_sentence" else 0
        own = sentence.heads if sentence.heads is not None else (-1,) * len(sentence)
        heads.extend(offset + head if head > 0 else root if head == 0 else head for head in own)
    return heads


def merge_sentences(document: Document) -> Document:
    """The document as one sentence, to be parsed whole: without trees, with tags if all sentences have."""
    tagged = all(sentence.tags is not None for sentence in document.sentences)
    tags = tuple(tag for sentence in document.sentences for tag in sentence.tags or ()) if tagged else None
    return Document((Sentence(tuple(document.words()), tags=tags),), document.identifier)
