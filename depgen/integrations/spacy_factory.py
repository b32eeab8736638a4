"""The spaCy component: `nlp.add_pipe("depgen_parser", config={"run": "udgn_ptb"})`.

spaCy finds it by itself where depgen is installed, and imports this module with any pipeline: what systems need is
imported when a parser is made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.attrs import DEP, HEAD
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from depgen.trees.sentence import Sentence

if TYPE_CHECKING:
    from depgen.evaluation.system import System
    from depgen.evaluation.text_documents import TextDocument


@dataclass(frozen=True)
class Parser:
    """Gives each word of a document its head and relation.

    Sentences are those that an earlier component has found, such as spaCy's `sentencizer`; without one a document is a
    sentence. White space that is a token depends on the token before it.

    Attributes:
        system: parses.
    """

    system: "System"

    def __call__(self, doc: Doc) -> Doc:
        """The document with its trees."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """The documents with their trees, in batches."""
        for batch in minibatch(stream, size=batch_size):
            docs = [(doc, _places(doc)) for doc in batch]
            parsed = self.system.parse([_document(doc, places) for doc, places in docs])
            for (doc, places), sentences in zip(docs, parsed.texts, strict=True):
                yield _annotated(doc, places, sentences)


def _places(doc: Doc) -> list[list[int]]:
    """The words of each sentence, by their places among the tokens; no sentence is without words."""
    spans = doc.sents if doc.has_annotation("SENT_START") else [doc]
    return list(filter(None, ([token.i for token in span if not token.is_space] for span in spans)))


def _document(doc: Doc, places: list[list[int]]) -> "TextDocument":
    from depgen.evaluation.text_documents import TextDocument

    sentences = tuple(Sentence(tuple(doc[place].text for place in sentence)) for sentence in places)
    return TextDocument("doc", sentences, tuple(f"token {sentence[0]}" for sentence in places))


def _annotated(doc: Doc, places: list[list[int]], sentences: Sequence[Sentence]) -> Doc:
    """The document with the trees of its sentences."""
    heads = np.arange(len(doc))
    relations = ["dep"] * len(doc)
    for sentence, tree in zip(places, sentences, strict=True):
        for place, head, relation in zip(sentence, tree.heads or (), tree.relations or (), strict=True):
            heads[place] = sentence[head - 1] if head else place
            relations[place] = relation if head else "ROOT"
    words = [place for sentence in places for place in sentence]
    for place in sorted({*range(len(doc))} - {*words}) if words else ():
        heads[place] = max((word for word in words if word < place), default=words[0])
    labels = [doc.vocab.strings.add(relation) for relation in relations]
    columns = np.stack([(heads - np.arange(len(doc))).astype(np.uint64), np.array(labels, np.uint64)], 1)
    return doc.from_array([HEAD, DEP], columns)


def _loaded(run: str | None, device: str | None, form: Any) -> Parser:  # noqa: ANN401, imported where it is used
    from depgen.evaluation.system import load

    return Parser(load(run, device=device, form=form))


# A lambda, because spaCy looks for the arguments `nlp` and `name`, which a decorator of a function hides.
make_parser = Language.factory(
    "depgen_parser",
    assigns=["token.head", "token.dep", "token.is_sent_start"],
    default_config={"run": None, "device": None, "form": None},
    func=lambda nlp, name, run, device, form: _loaded(run, device, form),
)
"""The component's factory; its settings are arguments of `depgen.load`."""
