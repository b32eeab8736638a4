"""The embedded corpus: stories that a grammar of ours generates, with gold trees and known probabilities.

Document k of a split depends on the seed, the split and k alone: a smaller corpus is a prefix of a larger one, and the
splits are independent random streams.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.grammar import DocumentGrammar, SentenceGrammar
from depgen.data.story_grammar.language import StoryLanguage
from depgen.data.story_grammar.lexicon import LEXICON
from depgen.errors import UserError
from depgen.trees.sentence import Document

GRAMMAR_VERSION = 1  # goes into the fingerprint: raise it with every change of the words or probabilities
SHORTEST_STORY = 4
_SENTENCES = SentenceGrammar()


def story_plan(sentences: int) -> tuple[str, ...]:
    """The stages of a story of this number of sentences: details fill what is between company and turn."""
    return ("opening", "company", *["detail"] * (sentences - SHORTEST_STORY), "turn", "ending")


def document_plan(sentences: int, episode: int) -> tuple[str, ...]:
    """The stages of a long document: episodes of the same people, of `episode` sentences each; the last is longer."""
    episodes = max(1, sentences // episode)
    return story_plan(episode) * (episodes - 1) + story_plan(sentences - episode * (episodes - 1))


@cache
def story_grammar(plan: tuple[str, ...], non_projective: float = 0.0) -> DocumentGrammar:
    """The grammar of stories with these stages, shared by all corpora of the process."""
    return DocumentGrammar(StoryLanguage(LEXICON, non_projective), plan, sentences=_SENTENCES)


class GeneratedStories:
    """Stories about a protagonist and a companion, generated with heads, relations and tags.

    Args:
        train: number of training documents.
        valid: number of validation documents.
        test: number of test documents.
        seed: of the three random streams.
        sentences_per_story: length of a story, or of an episode of a long document; at least 4.
        non_projective: probability of an extraposed relative clause, a non-projective arc, in each sentence.
        document_sentences: if given, documents of this many sentences, each a chain of episodes of the same people.
        name: what results call it.

    Raises:
        UserError: a size or a probability out of range.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        train: int = 2000,
        valid: int = 300,
        test: int = 300,
        *,
        seed: int = 1,
        sentences_per_story: int = 5,
        non_projective: float = 0.0,
        document_sentences: int | None = None,
        name: str = "generated",
    ) -> None:
        self.name = name
        self.seed = seed
        self.sizes: dict[Split, int] = {"train": train, "valid": valid, "test": test}
        self.non_projective = non_projective
        for split, size in self.sizes.items():
            if size < 0:
                raise UserError(f"GeneratedStories: {split} must be a number of documents, found {size}.")
        if not 0 <= non_projective <= 1:
            raise UserError(f"GeneratedStories: non_projective is a probability from 0 to 1, found {non_projective}.")
        if sentences_per_story < SHORTEST_STORY:
            raise UserError(
                f"GeneratedStories: sentences_per_story must be at least {SHORTEST_STORY} (opening, company, turn, "
                f"ending), found {sentences_per_story}."
            )
        if document_sentences is not None and document_sentences < sentences_per_story:
            raise UserError(
                f"GeneratedStories: document_sentences must hold an episode of {sentences_per_story} sentences, found "
                f"{document_sentences}; raise it or lower sentences_per_story."
            )
        if document_sentences is None:
            self.plan = story_plan(sentences_per_story)
        else:
            self.plan = document_plan(document_sentences, sentences_per_story)
        self.grammar = story_grammar(self.plan, float(non_projective))

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, generated again at each call."""
        for k in range(self.sizes[split]):
            yield self.document(split, k)

    def document(self, split: Split, index: int) -> Document:
        """Document `index` of a split, whatever the split's size."""
        sample = self.grammar.sample(Random(f"{self.seed}/{split}/{index}"))
        return Document(sample.sentences, f"{self.name}-{split}-{index}")

    def fingerprint(self, split: Split) -> str:
        """SHA-256 over what determines the text: grammar version, seed, split, size and stages."""
        what = [GRAMMAR_VERSION, self.seed, split, self.sizes[split], self.plan, float(self.non_projective)]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    def log_probability(self, document: Document) -> float:
        """Log-probability (nats) of a document's words and its end, from the words alone; -inf if impossible."""
        return self.grammar.log_probability(list(document.words()))

    def entropy(self) -> float:
        """Expected -log p of a document in nats, exact."""
        return self.grammar.moments()[0]

    def tokens_per_document(self) -> float:
        """Expected number of tokens of a document with its one eos, exact."""
        return self.grammar.moments()[1] + 1

    def entropy_per_token(self) -> float:
        """Expected nats of a document over its expected tokens, the eos counted: log perplexity of the true source."""
        return self.entropy() / self.tokens_per_document()

    def test_floor(self, split: Split = "test") -> float:
        """Mean -log p per token (nats, eos counted) of the very split under the true grammar.

        Raises:
            UserError: the split is empty.
        """
        nll, tokens = [], 0
        for document in self.documents(split):
            nll.append(-self.log_probability(document))
            tokens += sum(len(sentence) for sentence in document.sentences) + 1
        if not tokens:
            raise UserError(f"GeneratedStories: no floor for the empty split {split!r}; raise its size.")
        return math.fsum(nll) / tokens
