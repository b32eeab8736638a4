"""Probabilistic dependency grammars of whole documents: sampling with gold trees, exact probabilities of strings, entropy.

A document is a Markov chain over *states* (who, where, what happened so far); each step emits one sentence. A sentence
comes from a context-free grammar whose symbols carry features (words, number, gender), and whose rules say which part is
the head and how the others depend on it. Sentences are told apart by their final full stop.

The entropy is that of derivations. It is the entropy of strings when each string has one derivation, which is a promise
of the grammar and not of this file; `log_probability` sums over all derivations, whether there is one or more.
"""

import math
from bisect import bisect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, Protocol

from depgen.trees.sentence import Sentence


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
    """One step of a document: with this weight, this sentence is said and the document goes on in this state."""

    weight: float
    sentence: Symbol
    state: Hashable


class DocumentLanguage(Protocol):
    """What a grammar of documents must say: how a document goes on at stage `stage` from `state` (None at its start)."""

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
    openings: "dict[str, list[tuple[float, _Stack]]] | None" = None
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


class DocumentGrammar:
    """The documents of a language whose k-th sentence is at stage `plan[k]`.

    Args:
        language: says how a document goes on, sentence by sentence.
        plan: the stage of each sentence; its length is the number of sentences of every document.
    """

    def __init__(self, language: DocumentLanguage, plan: Sequence[str]) -> None:
        self.language = language
        self.plan = tuple(plan)
        self._nodes: dict[Symbol, _Node] = {}
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
            writer = _Writer(self, random)
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
                        inner, words = self._node_moments(node)
                        entropy += mass * p * (inner - math.log(p))
                        length += mass * p * words
                        following[after] = following.get(after, 0.0) + mass * p
                states = following
            self._document_moments = (entropy, length)
        return self._document_moments

    def _node_moments(self, node: _Node) -> tuple[float, float]:
        if node.moments is None:
            self._prepare(node)
            entropy = length = 0.0
            for p, body in zip(node.probabilities, node.bodies, strict=True):
                entropy -= p * body.log_probability
                for child in body.children:
                    inner, words = (0.0, 1.0) if isinstance(child, Word) else self._node_moments(child)
                    entropy += p * inner
                    length += p * words
            node.moments = (entropy, length)
        return node.moments

    # Scoring of strings

    def log_probability(self, words: Sequence[str]) -> float:
        """log p of a string of words in nats, summed over all its derivations; -inf if the grammar lacks it."""
        return sum(self.word_log_probabilities(words, complete=True))

    def word_log_probabilities(self, words: Sequence[str], *, complete: bool = False) -> list[float]:
        """log p(word | words before it) in nats, by a top-down parser that carries all derivations of the prefix.

        The list ends with a -inf at the first impossible word. With `complete` the words must be a whole document:
        one that stops early gets a final -inf.
        """
        scores: list[float] = []
        alive = self._begin(0, None, 1.0)
        for position, form in enumerate(words):
            reached: list[tuple[float, int, Hashable, _Stack]] = []
            for mass, stage, state, stack in alive:
                for p, rest in self._openings(stack[0]).get(form, ()):
                    remaining = rest + stack[1:]
                    if remaining or position == len(words) - 1:
                        reached.append((mass * p, stage, state, remaining))
                    else:
                        reached.extend(self._begin(stage, state, mass * p))
            total = sum(mass for mass, *_ in reached)
            scores.append(math.log(total) if total > 0 else -math.inf)
            if not total:
                return scores
            alive = [(mass / total, *rest) for mass, *rest in reached]  # type: ignore[misc]
        if complete:
            finished = sum(mass for mass, stage, _, stack in alive if not stack and stage == len(self.plan))
            scores.append(math.log(finished) if finished > 0 else -math.inf)
        return scores

    def _begin(self, stage: int, state: Hashable, mass: float) -> list[tuple[float, int, Hashable, _Stack]]:
        """The ways to begin the sentence at `stage`: mass, stage after it, state after it, symbols to come."""
        if stage == len(self.plan):
            return []
        turn = self._turn(self.plan[stage], state)
        return [
            (mass * p, stage + 1, after, (node,))
            for p, node, after in zip(turn.probabilities, turn.sentences, turn.states, strict=True)
        ]

    def _openings(self, child: _Node | Word) -> "dict[str, list[tuple[float, _Stack]]]":
        """For each first word of a symbol, the ways to get it: probability, and the symbols that remain."""
        if isinstance(child, Word):
            return {child.form: [(1.0, ())]}
        if child.openings is None:
            self._prepare(child)
            openings: dict[str, list[tuple[float, _Stack]]] = {}
            for p, body in zip(child.probabilities, child.bodies, strict=True):
                for form, ways in self._openings(body.children[0]).items():
                    openings.setdefault(form, []).extend((p * q, rest + body.children[1:]) for q, rest in ways)
            child.openings = openings
        return child.openings

    # Rules made ready

    def _node(self, entry: Symbol) -> _Node:
        node = self._nodes.get(entry)
        if node is None:
            node = self._nodes[entry] = _Node(entry)
        return node

    def _prepare(self, node: _Node) -> None:
        """Fill a node's rules; equal right-hand sides are merged, so that they are one derivation."""
        if node.bodies:
            return
        weights: dict[tuple[Part, ...], float] = {}
        for weight, parts in node.symbol.expand(*node.symbol.features):
            if weight > 0:
                weights[parts] = weights.get(parts, 0.0) + weight
        node.probabilities, node.cumulative = _normalise(list(weights.values()))
        for p, parts in zip(node.probabilities, weights, strict=True):
            children = tuple(part.symbol if isinstance(part.symbol, Word) else self._node(part.symbol) for part in parts)
            arcs = tuple((k, part.head, part.relation) for k, part in enumerate(parts) if part.head >= 0)
            head = next(k for k, part in enumerate(parts) if part.head < 0)
            node.bodies.append(_Body(children, head, arcs, math.log(p)))

    def _turn(self, stage: str, state: Hashable) -> _Turn:
        turn = self._turns.get((stage, state))
        if turn is None:
            weights: dict[tuple[Symbol, Hashable], float] = {}
            for weight, sentence, after in self.language.steps(stage, state):
                if weight > 0:
                    weights[sentence, after] = weights.get((sentence, after), 0.0) + weight
            probabilities, cumulative = _normalise(list(weights.values()))
            nodes = [self._node(sentence) for sentence, _ in weights]
            turn = _Turn(probabilities, cumulative, nodes, [after for _, after in weights])
            self._turns[stage, state] = turn
        return turn


def _normalise(weights: list[float]) -> tuple[list[float], list[float]]:
    """Probabilities, and their running sums without the last, so that `bisect` finds an index in range."""
    assert weights, "a symbol without rules"
    total = math.fsum(weights)
    probabilities = [weight / total for weight in weights]
    return probabilities, list(accumulate(probabilities))[:-1]


class _Writer:
    """Writes one sentence and its tree, word by word."""

    __slots__ = ("_grammar", "_random", "forms", "heads", "log_probability", "relations", "tags")

    def __init__(self, grammar: DocumentGrammar, random: Callable[[], float]) -> None:
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
            self._grammar._prepare(node)
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
