"""Part-of-speech tags (Penn Treebank's) for words that are already separated."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

from depgen.annotation.parser_folders import check_kind, files_digest, find_parser, read_description
from depgen.annotation.spacy_documents import document, use_numpy_ops
from depgen.annotation.spacy_parser import check_words
from depgen.annotation.treebank import lowercase
from depgen.errors import UserError
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
    """The tagger of a spaCy pipeline, which `depgen train-parser` trains beside the parser.

    Args:
        pipeline: the name of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        batch_size: sentences tagged at a time; the tags do not depend on it.
    """

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 256) -> None:
        self.pipeline, self.batch_size = pipeline, batch_size
        self.method = f"spaCy pipeline {pipeline}"

    def fingerprint(self) -> str:
        """Of the pipeline's files and spaCy's version."""
        parts = ["spacy", version("spacy"), files_digest(find_parser(self.pipeline, packages=True))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags.

        Raises:
            UserError: no such pipeline, a pipeline without a tagger, a sentence or a word is empty.
        """
        check_words(sentences)
        pipeline, lower = self._load()
        seen = [lowercase(sentence) for sentence in sentences] if lower else sentences
        docs = pipeline.pipe((document(pipeline.vocab, s, gold=False) for s in seen), batch_size=self.batch_size)
        return [
            replace(sentence, tags=tuple(token.tag_ for token in doc))
            for sentence, doc in zip(sentences, docs, strict=True)
        ]

    def _load(self) -> tuple[Any, bool]:
        """The pipeline, reduced to its tagger, and whether it wants lower case."""
        import spacy

        folder = find_parser(self.pipeline, packages=True)
        check_kind(folder, "spaCy")
        use_numpy_ops()
        try:
            pipeline = spacy.load(folder if (folder / "config.cfg").is_file() else self.pipeline)
        except OSError as error:
            raise UserError(f"{folder}: expected a spaCy pipeline; spaCy says: {error}") from error
        if "tagger" not in pipeline.pipe_names:
            raise UserError(
                f"{folder}: expected a spaCy pipeline with a tagger, found {pipeline.pipe_names}. Train one on a "
                "treebank with tags, or name depgen.annotation.tagger.SuffixTagger, which needs none."
            )
        wanted = ("tok2vec", "transformer", "tagger")
        pipeline.select_pipes(enable=[name for name in pipeline.pipe_names if name in wanted])
        return pipeline, bool(read_description(folder).get("lowercase", False))


class SuffixTagger:
    """Tags by rule, for where no tagger is at hand: function words by list, the rest by their endings.

    A function word is `IN`, what has no letter `.`, a placeholder in brackets `NNP`. After `to` and modal verbs
    stands `VB`. Of the rest `-ing` is `VBG`, `-ed` `VBD`, `-ly` `RB`, `-ful -ous -able -ible -ive -less -ish` `JJ`,
    `-s` (not `-ss`) `NNS`, everything else `NN`.
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
        return hashlib.sha256("\n".join(["suffix 1", *sorted(FUNCTION_WORDS)]).encode()).hexdigest()

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
