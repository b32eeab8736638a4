"""Part-of-speech tags (Penn Treebank's) for words that are already separated."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Protocol, runtime_checkable

from depgen.annotation.spacy_documents import document
from depgen.annotation.spacy_pipelines import load_pipeline, pipeline_fingerprint
from depgen.annotation.treebank import lowercase
from depgen.locations import lines_sha256
from depgen.trees.annotator import check_words
from depgen.trees.sentence import Sentence

FUNCTION_WORDS = frozenset(resources.files("depgen.annotation").joinpath("function_words.txt").read_text().split())
"""Pronouns, determiners, auxiliaries, prepositions, conjunctions, particles and the adverbs that grammar needs."""


@runtime_checkable
class Tagger(Protocol):
    """Anything that gives each word a tag of the Penn Treebank.

    Attributes:
        method: what results call it.
    """

    method: str

    def fingerprint(self) -> str:
        """A digest of everything that the tags depend on."""
        ...

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags."""
        ...


class SpacyTagger:
    """The tagger of a spaCy pipeline, which `depgen train-parser` trains with the parser.

    Args:
        pipeline: the name of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        batch_size: sentences tagged at a time; the tags do not depend on it.
    """

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 256) -> None:
        self.pipeline, self.batch_size = pipeline, batch_size
        self.method = f"spaCy pipeline {pipeline}"

    def fingerprint(self) -> str:
        """Of the pipeline's files and spaCy's version."""
        return pipeline_fingerprint(self.pipeline)

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags.

        Raises:
            UserError: no such pipeline, a pipeline without a tagger, a sentence or a word is empty.
        """
        check_words(sentences)
        nlp, lower = load_pipeline(
            self.pipeline,
            ["tagger"],
            remedy="Train one on a tagged treebank, or name depgen.annotation.tagger.SuffixTagger, which wants none.",
        )
        seen = [lowercase(sentence) for sentence in sentences] if lower else sentences
        docs = nlp.pipe((document(nlp.vocab, s, gold=False) for s in seen), batch_size=self.batch_size)
        return [
            replace(sentence, tags=tuple(token.tag_ for token in doc))
            for sentence, doc in zip(sentences, docs, strict=True)
        ]


class SuffixTagger:
    """Tags by rule, for where no tagger is at hand: function words by list, the rest by their endings.

    A function word is `IN`, what has no letter `.`, a placeholder in brackets `NNP`. A verb after `to` and
    modal verbs is `VB`. Of the rest `-ing` is `VBG`, `-ed` `VBD`, `-ly` `RB`, `-ful -ous -able -ible -ive -less
    -ish` `JJ`, `-s` (not `-ss`) `NNS`, everything else `NN`.
    """

    method = "rules on endings"
    _ENDINGS = (
        ("ing", "VBG"), ("ed", "VBD"), ("ly", "RB"), ("ful", "JJ"), ("ous", "JJ"), ("able", "JJ"), ("ible", "JJ"),
        ("ive", "JJ"), ("less", "JJ"), ("ish", "JJ"), ("ss", "NN"), ("s", "NNS"),
    )  # fmt: skip
    _BEFORE_VERBS = frozenset(
        ("to", "can", "could", "will", "would", "shall", "should", "may", "might", "must", "ca", "wo")
    )

    def fingerprint(self) -> str:
        """The version of the rules and the list of function words."""
        return lines_sha256(["suffix 1", *sorted(FUNCTION_WORDS)])

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags."""
        return [replace(sentence, tags=self._tags([w.lower() for w in sentence.words])) for sentence in sentences]

    def _tags(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(self._one(word, before) for word, before in zip(words, ("", *words), strict=False))

    def _one(self, word: str, before: str) -> str:
        if word.startswith("["):
            return "NNP"
        if not any(character.isalpha() for character in word):
            return "."
        if word in FUNCTION_WORDS:
            return "IN"
        if before in self._BEFORE_VERBS:
            return "VB"
        return next((tag for ending, tag in self._ENDINGS if word.endswith(ending)), "NN")
