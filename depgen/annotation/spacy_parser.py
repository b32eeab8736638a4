"""Trees by a spaCy pipeline, for words that are already separated."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from depgen.annotation.parser_folders import check_kind, files_digest, find_parser, read_description
from depgen.annotation.spacy_documents import document, tree_of, use_numpy_ops
from depgen.annotation.treebank import lowercase
from depgen.errors import UserError
from depgen.trees.annotator import SentenceError
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
        self._loaded: Any = None
        self._lowercase = False
        self._digest: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def fingerprint(self) -> str:
        """Of the pipeline's files and spaCy's version.

        Raises:
            UserError: there is no such pipeline.
        """
        if self._digest is None:
            parts = ["spacy", version("spacy"), files_digest(find_parser(self.pipeline, packages=True))]
            self._digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._digest

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations; the root's relation is `root`.

        Raises:
            UserError: no such pipeline, a pipeline without parser, a sentence or a word is empty.
        """
        check_words(sentences)
        pipeline = self._load()
        seen = [lowercase(sentence) for sentence in sentences] if self._lowercase else sentences
        docs = pipeline.pipe((document(pipeline.vocab, s, gold=False) for s in seen), batch_size=self.batch_size)
        annotated = []
        for sentence, doc in zip(sentences, docs, strict=True):
            heads, relations = tree_of(doc)
            annotated.append(replace(sentence, heads=heads, relations=relations))
        return annotated

    def _scheme(self) -> str:
        try:
            folder = find_parser(self.pipeline, packages=True)
        except UserError:
            return f"{self.pipeline}, spaCy"  # said with all remedies when trees are asked for
        return str(read_description(folder).get("scheme", f"{Path(self.pipeline).name}, spaCy"))

    def _load(self) -> Any:  # noqa: ANN401  (spaCy's Language)
        if self._loaded is None:
            import spacy

            folder = find_parser(self.pipeline, packages=True)
            check_kind(folder, "spaCy")
            use_numpy_ops()
            source = folder if (folder / "config.cfg").is_file() else self.pipeline
            try:
                pipeline = spacy.load(source)
            except OSError as error:
                raise UserError(f"{folder}: expected a spaCy pipeline; spaCy says: {error}") from error
            if "parser" not in pipeline.pipe_names:
                raise UserError(f"{folder}: expected a spaCy pipeline with a parser, found {pipeline.pipe_names}.")
            wanted = ("tok2vec", "transformer", "parser")
            pipeline.select_pipes(enable=[name for name in pipeline.pipe_names if name in wanted])
            self._lowercase = bool(read_description(folder).get("lowercase", False))
            self._loaded = pipeline
        return self._loaded


def check_words(sentences: Sequence[Sentence]) -> None:
    """Nothing, if every sentence has words and every word has a visible character.

    Raises:
        SentenceError: one has not.
    """
    for number, sentence in enumerate(sentences, start=1):
        if not sentence.words:
            raise SentenceError(number, "expected words to parse, found none.")
        for position, word in enumerate(sentence.words, start=1):
            if not word.strip():
                raise SentenceError(
                    number,
                    f"expected words to parse, found {word!r} as word {position}: {' '.join(sentence.words[:8])!r}",
                )
