"""Systems whose preferences are known beforehand, and small corpora of numbered sentences."""

import types

import numpy as np

from depgen.data.corpus import Corpus
from depgen.language_models.base import LanguageModel
from depgen.trees.sentence import Document, Sentence


class Listed:
    """Documents of a list, of which every split is the same."""

    published = types.MappingProxyType({})

    def __init__(self, documents, name="listed"):
        self.name = name
        self._documents = [
            Document(tuple(Sentence(tuple(words.split())) for words in sentences), f"d{place}")
            for place, sentences in enumerate(documents)
        ]

    def documents(self, split):
        return iter(self._documents)

    def fingerprint(self, split):
        return self.name


assert isinstance(Listed([]), Corpus)


class Toy(LanguageModel):
    """Scores a document by a rule; remembers how many it has read."""

    def __init__(self, rule, *, sentence_context="document"):
        super().__init__()
        self.rule, self.sentence_context, self.documents_read = rule, sentence_context, 0
        self.eval()

    def sentence_log_probs(self, documents, *, vocabulary):
        self.documents_read += len(documents)
        return [[np.array(each) for each in self.rule([list(ids) for ids in document])] for document in documents]


def counting(document):
    """Each sentence that begins with the number after that of the one before is certain, every other one unlikely."""
    before = [document[0][0] - 1, *(ids[0] for ids in document)]
    return [[0.0 if ids[0] == last + 1 else -3.0] for ids, last in zip(document, before, strict=False)]


def blind(document):
    """Likelihoods of sentences by themselves, which rounding could make depend on their order."""
    return [[-1 / (7 + sum(ids))] for ids in document]
