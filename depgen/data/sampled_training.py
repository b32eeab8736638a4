"""A corpus whose training split a system has written: what a reverse language-model score is trained on."""

from collections.abc import Iterator, Mapping, Sequence

from depgen.data.corpus import Corpus, Split, SplitStatistics
from depgen.data.text_lines import TextLines
from depgen.trees.sentence import Document


class SampledTraining:
    """Texts of a file as the training split; validation and test of another corpus.

    Args:
        corpus: the real one.
        samples: the file, one text a line, tokens separated by white space; empty lines are left out and counted.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(self, corpus: Corpus, samples: str) -> None:
        self.corpus = corpus
        self.samples = TextLines("", train=samples, name=f"samples for {corpus.name}", overlap="keep")
        self.name = self.samples.name

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in file order."""
        return self.samples.documents("train") if split == "train" else self.corpus.documents(split)

    def drawn(self) -> Mapping[Split, Sequence[str]]:
        """Nothing: the training text is a file."""
        return {}

    def fingerprint(self, split: Split) -> str:
        """That of the samples or of the real corpus."""
        return self.samples.fingerprint("train") if split == "train" else self.corpus.fingerprint(split)
