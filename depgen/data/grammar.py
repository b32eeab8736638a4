"""Probabilistic dependency grammars of whole documents: sampling with gold trees, probabilities of strings, entropy.

A document is a Markov chain over *states* (who, where, what happened so far); each step emits one sentence. A
sentence comes from a context-free grammar whose symbols carry features (words, number, gender), and whose rules say
which part is the head and how the others depend on it. A final full stop ends each sentence.

The entropy is that of derivations. It is the entropy of strings when each string has one derivation, which is a promise
of the grammar and not of this file; `log_probability` sums over all derivations, whether there is one or more.
"""

import math
from bisect import bisect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, Protocol, runtime_checkable

from depgen.trees.sentence import Sentence

SENTENCE_END = "."
"""The last word of every sentence, and of nothing else."""


class Word(NamedTuple):
    """A terminal: surface form and universal part-of-speech tag."""

    form: str
    tag: str


class Symbol(NamedTuple):
    """A nonterminal: the function that lists its rules, and the features that are its arguments."""

    expand: Callable[..., "list[Rule]"]
    features: tuple[Hashable, ...]


class Part(NamedTuple):
    """One element of a right-hand side: its relation to the part at index `head` ("" and -1 for the head itself)."""

    symbol: Word | Symbol
    relation: str
    head: int


class Rule(NamedTuple):
    """A right-hand side and its weight among the rules of its symbol."""

    weight: float
    parts: tuple[Part, ...]


class Step(NamedTuple):
    """One step of a document: with this weight, this sentence is next and the document continues in this state."""

    weight: float
    sentence: Symbol
    state: Hashable


@runtime_checkable
class DocumentLanguage(Protocol):
    """What a grammar of documents must say: how one continues at stage `stage` from `state` (None at its start)."""

    def steps(self, stage: str, state: Any) -> list[Step]:  # noqa: ANN401
        """The possible next sentences; weights need not sum to 1."""
        ...


class Sample(NamedTuple):
    """A sampled document and the log-probability (nats) of the choices that made it."""

    sentences: tuple[Sentence, ...]
    log_probability: float


def word(form: str, tag: str) -> Word:
    """A terminal."""
    return Word(form, tag)


def symbol(expand: Callable[..., list[Rule]], *features: Hashable) -> Symbol:
    """A nonterminal with features."""
    return Symbol(expand, features)


def rule(weight: float, *elements: Word | Symbol | tuple[str, Word | Symbol] | tuple[str, Word | Symbol, int]) -> Rule:
    """A rule from its elements in order: the bare one is the head, `(relation, symbol)` depends on it.

    `(relation, symbol, index)` depends on the element at that index instead; a discontinuous constituent is written so.
    """
    bare = [k for k, element in enumerate(elements) if isinstance(element, Word | Symbol)]
    assert len(bare) == 1, f"a rule has one head, found {len(bare)} in {elements}"
    parts = []
    for element in elements:
        if isinstance(element, Word | Symbol):
            parts.append(Part(element, "", -1))
        else:
            parts.append(Part(element[1], element[0], element[2] if len(element) == 3 else bare[0]))
    return Rule(weight, tuple(parts))


@dataclass(slots=True, eq=False)
class _Node:
    """A symbol made ready: rules merged and normalised, children as nodes; everything is filled on first use."""

    symbol: Symbol
    probabilities: list[float] = field(default_factory=list)
    cumulative: list[float] = field(default_factory=list)
    bodies: "list[_Body]" = field(default_factory=list)
    starts: "dict[str, list[tuple[float, _Stack, int]]] | None" = None
    needed: int = 0
    moments: tuple[float, float] | None = None


class _Body(NamedTuple):
    children: "tuple[_Node | Word, ...]"
    head: int
    arcs: tuple[tuple[int, int, str], ...]  # (dependent, head, relation), indices of children
    log_probability: float


_Stack = tuple["_Node | Word", ...]


class _Turn(NamedTuple):
    """The steps from one state at one stage, merged and normalised."""

    probabilities: list[float]
    cumulative: list[float]
    sentences: list[_Node]
    states: list[Hashable]


class SentenceGrammar:
    """The symbols of a language, made ready on first use; grammars of documents can share one.

    It keeps what it has once worked out of a symbol, so a symbol's function must be pure.
    """

    def __init__(self) -> None:
        self._nodes: dict[Symbol, _Node] = {}
        self._bits: dict[str, int] = {}

    def node(self, entry: Symbol) -> _Node:
        """The node of a symbol, whose rules may not be listed yet."""
        node = self._nodes.get(entry)
        if node is None:
            node = self._nodes[entry] = _Node(entry)
        return node

    def prepare(self, node: _Node) -> None:
        """Fill a node's rules; equal right-hand sides are merged, so that they are one derivation."""
        if node.bodies:
            return
        weights: dict[tuple[Part, ...], float] = {}
        for weight, parts in node.symbol.expand(*node.symbol.features):
            if weight > 0:
                weights[parts] = weights.get(parts, 0.0) + weight
        node.probabilities, node.cumulative = _normalise(list(weights.values()))
        for p, parts in zip(node.probabilities, weights, strict=True):
            symbols = (part.symbol for part in parts)
            children = tuple(entry if isinstance(entry, Word) else self.node(entry) for entry in symbols)
            arcs = tuple((k, part.head, part.relation) for k, part in enumerate(parts) if part.head >= 0)
            head = next(k for k, part in enumerate(parts) if part.head < 0)
            node.bodies.append(_Body(children, head, arcs, math.log(p)))

    def moments(self, node: _Node) -> tuple[float, float]:
        """Entropy in nats and expected number of words of a symbol's strings."""
        if node.moments is None:
            self.prepare(node)
            entropy = length = 0.0
            for p, body in zip(node.probabilities, node.bodies, strict=True):
                entropy -= p * body.log_probability
                for child in body.children:
                    inner, words = (0.0, 1.0) if isinstance(child, Word) else self.moments(child)
                    entropy += p * inner
                    length += p * words
            node.moments = (entropy, length)
        return node.moments

    def inside(self, node: _Node, words: Sequence[str], absent: int) -> float:
        """Probability that a symbol yields these words, by a top-down parser that carries all stacks of symbols.

        `absent` has the bits of all words that the sentence lacks: rules that need one of them are passed over.
        """
        alive: list[tuple[float, _Stack]] = [(1.0, (node,))]
        for form in words:
            reached: list[tuple[float, _Stack]] = []
            while alive:
                mass, stack = alive.pop()
                if not stack:
                    continue
                top, rest = stack[0], stack[1:]
                if type(top) is Word:
                    if top.form == form:
                        reached.append((mass, rest))
                else:
                    starts = top.starts or self._starts(top)  # type: ignore[union-attr, arg-type]
                    for p, children, needed in starts.get(form, ()):
                        if not needed & absent:
                            alive.append((mass * p, children + rest))
            alive = reached
        return math.fsum(mass for mass, stack in alive if not stack)

    def _starts(self, node: _Node) -> "dict[str, list[tuple[float, _Stack, int]]]":
        """For each first word of a symbol, the rules that may lead to it: probability, children, words they need."""
        if node.starts is None:
            self.prepare(node)
            node.needed = -1
            starts: dict[str, list[tuple[float, _Stack, int]]] = {}
            for p, body in zip(node.probabilities, node.bodies, strict=True):
                needed = 0
                for child in body.children:
                    needed |= self.bit(child.form) if isinstance(child, Word) else self.needed(child)
                node.needed &= needed
                first = body.children[0]
                for form in (first.form,) if isinstance(first, Word) else self._starts(first):
                    starts.setdefault(form, []).append((p, body.children, needed))
            node.starts = starts
        return node.starts

    def needed(self, node: _Node) -> int:
        """The words that are in every string of a symbol, one bit each."""
        self._starts(node)
        return node.needed

    def bit(self, form: str) -> int:
        """The bit of a word in sets of words."""
        return self._bits.setdefault(form, 1 << len(self._bits))


class DocumentGrammar:
    """The documents of a language whose k-th sentence is at stage `plan[k]`.

    Args:
        language: says how a document continues, sentence by sentence.
        plan: the stage of each sentence; its length is the number of sentences of every document.
        sentences: the symbols made ready; pass the same to grammars that share symbols, to save time.
    """

    def __init__(
        self, language: DocumentLanguage, plan: Sequence[str], *, sentences: SentenceGrammar | None = None
    ) -> None:
        self.language = language
        self.plan = tuple(plan)
        self._sentences = sentences or SentenceGrammar()
        self._turns: dict[tuple[str, Hashable], _Turn] = {}
        self._document_moments: tuple[float, float] | None = None

    # Sampling

    def sample(self, generator: Random) -> Sample:
        """A document with heads, relations and tags, and the log-probability of its derivation."""
        random = generator.random
        state: Hashable = None
        sentences, total = [], 0.0
        for stage in self.plan:
            turn = self._turn(stage, state)
            choice = bisect(turn.cumulative, random())
            state = turn.states[choice]
            total += math.log(turn.probabilities[choice])
            writer = _Writer(self._sentences, random)
            writer.heads[writer.write(turn.sentences[choice]) - 1] = 0
            sentences.append(writer.sentence())
            total += writer.log_probability
        return Sample(tuple(sentences), total)

    # Entropy

    def moments(self) -> tuple[float, float]:
        """Entropy in nats and expected number of words of a document, both exact; end-of-document signs not counted."""
        if self._document_moments is None:
            entropy = length = 0.0
            states: dict[Hashable, float] = {None: 1.0}
            for stage in self.plan:
                following: dict[Hashable, float] = {}
                for state, mass in states.items():
                    turn = self._turn(stage, state)
                    for p, node, after in zip(turn.probabilities, turn.sentences, turn.states, strict=True):
                        inner, words = self._sentences.moments(node)
                        entropy += mass * p * (inner - math.log(p))
                        length += mass * p * words
                        following[after] = following.get(after, 0.0) + mass * p
                states = following
            self._document_moments = (entropy, length)
        return self._document_moments

    # Scoring of strings

    def log_probability(self, words: Sequence[str]) -> float:
        """Log-probability (nats) of a document's words, from the words alone; -inf if the grammar lacks them.

        All derivations are summed: over states from sentence to sentence, over stacks of symbols within a sentence.
        """
        sentences = _split_sentences(words)
        if len(sentences) != len(self.plan):
            return -math.inf
        total = 0.0
        states: dict[Hashable, float] = {None: 1.0}
        for stage, sentence in zip(self.plan, sentences, strict=True):
            reached: dict[Hashable, float] = {}
            present = 0
            for form in sentence:
                present |= self._sentences.bit(form)
            for state, mass in states.items():
                turn = self._turn(stage, state)
                for p, node, after in zip(turn.probabilities, turn.sentences, turn.states, strict=True):
                    needed = node.needed or self._sentences.needed(node)
                    inside = 0.0 if needed & ~present else self._sentences.inside(node, sentence, ~present)
                    if inside:
                        reached[after] = reached.get(after, 0.0) + mass * p * inside
            likelihood = sum(reached.values())
            if not likelihood:
                return -math.inf
            total += math.log(likelihood)
            states = {state: mass / likelihood for state, mass in reached.items()}
        return total

    def _turn(self, stage: str, state: Hashable) -> _Turn:
        turn = self._turns.get((stage, state))
        if turn is None:
            weights: dict[tuple[Symbol, Hashable], float] = {}
            for weight, sentence, after in self.language.steps(stage, state):
                if weight > 0:
                    weights[sentence, after] = weights.get((sentence, after), 0.0) + weight
            probabilities, cumulative = _normalise(list(weights.values()))
            nodes = [self._sentences.node(sentence) for sentence, _ in weights]
            turn = _Turn(probabilities, cumulative, nodes, [after for _, after in weights])
            self._turns[stage, state] = turn
        return turn


def _split_sentences(words: Sequence[str]) -> list[Sequence[str]]:
    """Sentences by their full stops; what follows the last one is a sentence without."""
    sentences, start = [], 0
    for position, form in enumerate(words, start=1):
        if form == SENTENCE_END or position == len(words):
            sentences.append(words[start:position])
            start = position
    return sentences


def _normalise(weights: list[float]) -> tuple[list[float], list[float]]:
    """Probabilities, and their running sums without the last, so that `bisect` finds an index in range."""
    assert weights, "a symbol without rules"
    total = math.fsum(weights)
    probabilities = [weight / total for weight in weights]
    return probabilities, list(accumulate(probabilities))[:-1]


class _Writer:
    """Writes one sentence and its tree, word by word."""

    __slots__ = ("_grammar", "_random", "forms", "heads", "log_probability", "relations", "tags")

    def __init__(self, grammar: SentenceGrammar, random: Callable[[], float]) -> None:
        self._grammar = grammar
        self._random = random
        self.forms: list[str] = []
        self.tags: list[str] = []
        self.heads: list[int] = []
        self.relations: list[str] = []
        self.log_probability = 0.0

    def write(self, node: _Node) -> int:
        """Append the words of a symbol; the 1-based position of its head, whose own head is still open."""
        if not node.bodies:
            self._grammar.prepare(node)
        body = node.bodies[bisect(node.cumulative, self._random())] if node.cumulative else node.bodies[0]
        self.log_probability += body.log_probability
        positions = []
        for child in body.children:
            if type(child) is Word:
                self.forms.append(child.form)
                self.tags.append(child.tag)
                self.heads.append(-1)
                self.relations.append("root")
                positions.append(len(self.forms))
            else:
                positions.append(self.write(child))  # type: ignore[arg-type]
        for dependent, head, relation in body.arcs:
            place = positions[dependent] - 1
            self.heads[place] = positions[head]
            self.relations[place] = relation
        return positions[body.head]

    def sentence(self) -> Sentence:
        """What was written."""
        return Sentence(tuple(self.forms), tuple(self.heads), tuple(self.relations), tuple(self.tags))
