"""Any corpus as UDGN reads it: sentences of words alone, in lower case, with `N` for digits.

A model is evaluated on text that is written as the text it has learnt from:

    learnt from                                        evaluated on
    `BareWords` over any corpus                        `BareWords` over the treebank or text
    the language-modelling Penn Treebank (`ptb/`)      `NormalizedTreebank(treebank, words_of=...)`, or `ptb/` itself

The Penn Treebank's text is never wrapped in `BareWords`: it is without punctuation already, and its `N` would become a
letter. Treebanks with tags (`ConlluTreebank`, `DependencyColumns`, `BracketedTreebank`) lose their punctuation by
these; tokenised text (Wikinews, WikiText, news) by form.
"""

from collections.abc import Iterator, Mapping

from depgen.data.corpus import Corpus, Split, SplitStatistics, form_in
from depgen.data.files import log_left_out
from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.trees.bare_words import bare_words
from depgen.trees.removal import Orphans
from depgen.trees.sentence import Document
from depgen.trees.text_form import FormName

RULES = "1"
"""Raised when the rules of `depgen.trees.bare_words` change."""


class BareWords:
    """The sentences of another corpus by the rules of `depgen.trees.bare_words`, one a document.

    Sentences without a word, such as rules of asterisks, are left out and counted.

    Args:
        corpus: where the sentences come from.
        orphans: what becomes of words whose tree loses its root (`depgen.trees.removal`): each is a root, as in the
            authors' code, or they hang on one.
        lowercase: whether words are lower-cased, as in the paper.
        name: what results call it; by default the other corpus's name and "bare words".

    Raises:
        UserError: capitals are to stay, but the other corpus has none.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self, corpus: Corpus, *, orphans: Orphans = "roots", lowercase: bool = True, name: str | None = None
    ) -> None:
        self.corpus, self.orphans, self.lowercase = corpus, orphans, lowercase
        self.form: FormName = "bare" if lowercase else "bare_cased"
        if not lowercase and form_in(corpus) not in (None, "as_is", "bare_cased"):
            raise UserError(f"BareWords: lowercase: false keeps capitals, but {corpus.name} has none: leave it out.")
        self.name = name or f"{corpus.name} (bare words)"

    def documents(self, split: Split) -> Iterator[Document]:
        """The sentences of a split; identifiers are the document's and the sentence's number in it, from 1."""
        left_out = 0
        for document in self.corpus.documents(split):
            for number, sentence in enumerate(document.sentences, start=1):
                bare = bare_words(sentence, orphans=self.orphans, lowercase=self.lowercase)
                if bare.words:
                    yield Document((bare,), f"{document.identifier}:{number}")
                else:
                    left_out += 1
        log_left_out(left_out, "sentences without words", corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """A digest of the other corpus, the rules, what becomes of orphans and whether capitals stay."""
        parts = ["BareWords", RULES, self.orphans, self.corpus.fingerprint(split)]
        parts += [] if self.lowercase else ["capitals"]
        return lines_sha256(parts)
