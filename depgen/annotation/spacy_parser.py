"""Trees by a spaCy pipeline, for words that are already separated."""

from dataclasses import replace

from depgen.annotation.parser_annotator import Parse, ParserAnnotator
from depgen.annotation.spacy_documents import document, tree_of
from depgen.annotation.spacy_pipelines import load_pipeline, pipeline_fingerprint
from depgen.trees.sentence import Sentence


class SpacyAnnotator(ParserAnnotator):
    """Gives each sentence the tree that a spaCy pipeline finds; always a single root.

    The pipeline is loaded at the first sentence. A pipeline trained here on a lower-cased treebank sees the words
    lower-cased; the sentences keep theirs.

    Args:
        pipeline: the name of one that was trained here (`depgen train-parser`), a folder, or an installed package such
            as `en_core_web_sm`.
        batch_size: sentences parsed at a time; 64 was the fastest on a CPU. The trees do not depend on it.
    """

    library, packages = "spaCy", True

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 64) -> None:
        self.pipeline = pipeline
        super().__init__(pipeline, batch_size)

    def _content(self) -> str:
        return pipeline_fingerprint(self.pipeline)

    def _load(self) -> Parse:
        nlp, self._lowercase = load_pipeline(self.pipeline, ["parser"])

        def parse(sentences: list[Sentence]) -> list[Sentence]:
            docs = nlp.pipe((document(nlp.vocab, each, gold=False) for each in sentences), batch_size=self.batch_size)
            trees = map(tree_of, docs)
            return [
                replace(each, heads=heads, relations=relations)
                for each, (heads, relations) in zip(sentences, trees, strict=True)
            ]

        return parse
