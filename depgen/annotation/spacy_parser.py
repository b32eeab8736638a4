"""Trees by a spaCy pipeline, for words that are already separated."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from depgen.annotation.parser_folders import find_parser, read_description
from depgen.annotation.spacy_documents import document, tree_of
from depgen.annotation.spacy_pipelines import Pipeline, load_pipeline, pipeline_fingerprint
from depgen.annotation.treebank import lowercase
from depgen.errors import UserError
from depgen.trees.annotator import check_words
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)


class SpacyAnnotator:
    """Gives each sentence the tree that a spaCy pipeline finds; always a single root.

    The pipeline is loaded at the first sentence. A pipeline trained here on a lower-cased treebank sees the words
    lower-cased; the sentences keep theirs.

    Args:
        pipeline: the name of one that was trained here (`depgen train-parser`), a folder, or an installed package such
            as `en_core_web_sm`.
        batch_size: sentences parsed at a time; 64 was the fastest on a CPU. The trees do not depend on it.
    """

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 64) -> None:
        self.pipeline = pipeline
        self.batch_size = batch_size
        self.scheme = self._scheme()
        self._loaded: Pipeline | None = None
        self._digest: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def fingerprint(self) -> str:
        """Of the pipeline's files and spaCy's version.

        Raises:
            UserError: there is no such pipeline.
        """
        if self._digest is None:
            self._digest = pipeline_fingerprint(self.pipeline)
        return self._digest

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations; the root's relation is `root`.

        Raises:
            UserError: no such pipeline, a pipeline without parser, a sentence or a word is empty.
        """
        check_words(sentences)
        if self._loaded is None:
            self._loaded = load_pipeline(self.pipeline, ["parser"])
        nlp, lower = self._loaded
        seen = [lowercase(sentence) for sentence in sentences] if lower else sentences
        docs = nlp.pipe((document(nlp.vocab, s, gold=False) for s in seen), batch_size=self.batch_size)
        annotated = []
        for sentence, doc in zip(sentences, docs, strict=True):
            heads, relations = tree_of(doc)
            annotated.append(replace(sentence, heads=heads, relations=relations))
        return annotated

    def _scheme(self) -> str:
        try:
            folder = find_parser(self.pipeline, packages=True)
        except UserError:
            return f"{self.pipeline}, spaCy"  # parsing reports it, with all remedies
        return str(read_description(folder).get("scheme", f"{Path(self.pipeline).name}, spaCy"))
