"""Positions of the names of people in a story, as spaCy's pipelines find them."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from depgen.annotation.spacy_pipelines import Pipeline, load_pipeline
from depgen.data.names import NO_NAMES, Gender, Position, Story, people


class NameFinder(Protocol):
    """Says which tokens of a story are names of people; results name its `method`."""

    method: str

    def find(self, story: Story) -> set[Position]:
        """The positions of names."""
        ...


class EntityNames:
    """Names as a spaCy pipeline's entity recogniser finds them (labels PERSON and PER).

    Raises:
        UserError: no such pipeline, or one without an entity recogniser.
    """

    def __init__(self, pipeline: str) -> None:
        self.method = f"entities of the spaCy pipeline {pipeline}"
        self._pipeline = load_pipeline(pipeline, ["ner", "entity_ruler"], alone=False)

    def find(self, story: Story) -> set[Position]:
        """The positions of tokens in entities that are people."""
        return {
            (number, token.i)
            for number, sentence in enumerate(_parse(self._pipeline, story))
            for token in sentence
            if token.ent_type_ in ("PERSON", "PER") and token.text not in ("'s", "’s", "'")
        }


class ProperNounNames:
    """Names among the proper nouns of a spaCy tagger, by the evidence of `people`.

    Raises:
        UserError: no such pipeline, or one without a tagger.
    """

    def __init__(self, pipeline: str, genders: Mapping[str, Gender | None]) -> None:
        self.method = f"proper nouns of the spaCy pipeline {pipeline}"
        self._pipeline = load_pipeline(pipeline, ["tagger", "morphologizer"], alone=False)
        self._genders = genders

    def find(self, story: Story) -> set[Position]:
        """The positions of proper nouns that name people."""
        proper = {
            (number, token.i)
            for number, sentence in enumerate(_parse(self._pipeline, story))
            for token in sentence
            if (token.tag_ == "NNP" or token.pos_ == "PROPN") and token.lower_ not in NO_NAMES
        }
        return people(story, proper, self._genders)


def _parse(pipeline: Pipeline, story: Story) -> Iterable[Any]:
    """A spaCy `Doc` for each sentence, in lower case where the pipeline has learnt from such words."""
    from spacy.tokens import Doc

    nlp = pipeline.nlp
    read = [[token.lower() for token in sentence] if pipeline.lowercase else list(sentence) for sentence in story]
    return nlp.pipe([Doc(nlp.vocab, words=words) for words in read])  # type: ignore[no-any-return]
