"""An invented treebank."""

from depgen.trees.sentence import Document


class Treebank:
    """Sentences with trees: the same in every split, or a list by split."""

    def __init__(self, sentences):
        self.name, self.published, self.sentences = "invented", {}, sentences

    def fingerprint(self, split):
        return "invented"

    def documents(self, split):
        sentences = self.sentences[split] if isinstance(self.sentences, dict) else self.sentences
        yield Document(tuple(sentences), split)
