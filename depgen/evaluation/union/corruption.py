"""Negative samples of UNION (Guan & Huang, 2020, section 3.1): repeat, replace, shuffle, negate.

A story is a tuple of tagged sentences; its first sentence is never touched. Each operation is a function of a story and
a generator and returns the corrupted story, or None where it finds nothing to do. Rates are those of the authors' code
(`Data/gen_train_data.py`): 1, 2, 3 or 4 different operations with probability .5, .2, .2, .1, drawn one after the other
with weights repeat .1, replace .3, shuffle .4, negate .2 (normalised by their sum, as the code does: it is 1, and again
among those not drawn yet), and carried out in the order drawn.

Deviations, from the authors' code:
    D1. A story that comes out unchanged is drawn again, so that no human story is labelled as corrupted; the code keeps
        it.
    D2. Any n-gram of a sentence can be repeated. The code repeats one only where its first choice runs over the
        sentence's end, and then that before it, which its paper does not say.
    D3. Replaced words are different ones, drawn from all content words after the first sentence; the code draws a
        sentence first and may replace a word twice. Words are swapped by their tag in the human story; the code tags
        what earlier operations left.
    D4. Antonyms come in the form of the word whose place they take (`loved`, `hated`); the code leaves the base form.
    D5. Negation writes `wo n't`, `ca n't`, and only `not` after words without a form in `n't`; it takes `not` back from
        `ca n't` as `can`; an infinitive after `to` becomes `not go`. The code yields `will n't`, `ca` and
        `to do n't go`, from which a classifier could tell corrupted stories without reading them.
    D6. Sentences come from another story than the one at hand; the code may draw the same.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from depgen.errors import UserError
from depgen.evaluation.union.words import ContentWords
from depgen.trees.sentence import Sentence

RULES = "1"
"""Raised when the rules of this module, or those of `words`, change."""

Story = tuple[Sentence, ...]
Operation = Literal["repeat", "replace", "shuffle", "negate"]
Form = Literal["repeated sentences", "repeated n-grams", "replaced sentences", "replaced words", "shuffled", "negated"]
MIN_SENTENCES = 3
"""Fewer leave nothing to shuffle after the first."""
LONGEST_NGRAM = 4
ATTEMPTS = 10

NEGATIONS: Mapping[str, str] = {
    "not": "", "n't": "", "never": "", "no": "", "hardly": "", "scarcely": "", "barely": "", "seldom": "",
    "nobody": "somebody", "nothing": "something", "none": "some", "nowhere": "somewhere", "neither": "either",
    "cannot": "can",
}  # fmt: skip
"""Negating words, and what replaces them where the negation is removed."""
_BEFORE_NOT: Mapping[str, str] = {"ca": "can", "wo": "will", "sha": "shall"}
_BEFORE_NT = {whole: short for short, whole in _BEFORE_NOT.items()}
_PERFECT = frozenset(("have", "has", "had", "'ve"))
_WITH_NT = _PERFECT - {"'ve"} | {
    "would", "will", "can", "could", "shall", "should", "must", "do", "does", "did", "is", "are", "was", "were",
}  # fmt: skip
_AUXILIARIES = _WITH_NT - _PERFECT | {"may", "might", "am", "be", "been", "'m", "'re", "'ll"}


@dataclass(frozen=True)
class Rates:
    """How negative samples are drawn; the defaults are the published ones.

    Attributes:
        operations: weight of each operation; those of weight 0 are never drawn, even where more are wanted.
        numbers: weight of one, two, three and four operations.
        whole_sentences_repeated: share of repetitions that repeat sentences; the others repeat n-grams.
        whole_sentences_replaced: share of replacements that replace sentences; the others replace words.
        words_replaced: at most this share of the content words is replaced, and at least one.
    """

    operations: Mapping[Operation, float] = field(
        default_factory=lambda: {"repeat": 0.1, "replace": 0.3, "shuffle": 0.4, "negate": 0.2}
    )
    numbers: Sequence[float] = (0.5, 0.2, 0.2, 0.1)
    whole_sentences_repeated: float = 0.7
    whole_sentences_replaced: float = 0.5
    words_replaced: float = 0.15

    def __post_init__(self) -> None:
        """Refuse what can't be drawn by.

        Raises:
            UserError: weights that are negative or all 0; a share beyond 0 to 1.
        """
        for name, weights in (("operations", list(self.operations.values())), ("numbers", list(self.numbers))):
            if not (all(0 <= weight < math.inf for weight in weights) and any(weights)):
                raise UserError(
                    f"{name}: expected weights of 0 or more, one of them above 0, found {getattr(self, name)}."
                )
        for name in ("whole_sentences_repeated", "whole_sentences_replaced", "words_replaced"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name}: expected a share from 0 to 1, found {getattr(self, name)}.")


@dataclass(frozen=True)
class Corrupted:
    """A negative sample.

    Attributes:
        story: what became of the story.
        forms: what was done to it, in that order.
    """

    story: Story
    forms: tuple[Form, ...]


class Corruptor:
    """Draws negative samples.

    Args:
        lexicon: words to put in.
        rates: of operations.
    """

    def __init__(self, lexicon: ContentWords, rates: Rates | None = None) -> None:
        self.lexicon, self.rates = lexicon, rates or Rates()

    def corrupt(self, stories: Sequence[Story], index: int, generator: random.Random) -> Corrupted:
        """A corrupted version of one of the stories, different from it; the others lend sentences.

        Args:
            stories: at least two, of `MIN_SENTENCES` sentences or more.
            index: which of them.
            generator: all that the result depends on, with the stories.
        """
        story = stories[index]
        for _ in range(ATTEMPTS):
            corrupted, forms = story, list[Form]()
            for form in self.draw(generator):
                if (changed := self._apply(form, corrupted, stories, index, generator)) is not None:
                    corrupted = changed
                    forms.append(form)
            if words_of(corrupted) != words_of(story):
                return Corrupted(corrupted, tuple(forms))
        lent = replace_sentences(story, _other(stories, index, generator), generator)
        return Corrupted(lent, ("replaced sentences",))

    def draw(self, generator: random.Random) -> list[Form]:
        """The operations of one sample, in the order in which they are carried out."""
        rates = self.rates
        (number,) = generator.choices(range(1, len(rates.numbers) + 1), rates.numbers)
        left = {operation: weight for operation, weight in rates.operations.items() if weight}
        forms: list[Form] = []
        for _ in range(min(number, len(left))):
            (operation,) = generator.choices(list(left), list(left.values()))
            del left[operation]
            forms.append(self._form(operation, generator))
        return forms

    def _form(self, operation: Operation, generator: random.Random) -> Form:
        match operation:
            case "repeat":
                whole = generator.random() < self.rates.whole_sentences_repeated
                return "repeated sentences" if whole else "repeated n-grams"
            case "replace":
                whole = generator.random() < self.rates.whole_sentences_replaced
                return "replaced sentences" if whole else "replaced words"
            case "shuffle":
                return "shuffled"
            case "negate":
                return "negated"

    def _apply(
        self, form: Form, story: Story, stories: Sequence[Story], index: int, generator: random.Random
    ) -> Story | None:
        match form:
            case "repeated sentences":
                return repeat_sentences(story, generator)
            case "repeated n-grams":
                return repeat_ngrams(story, generator)
            case "replaced sentences":
                return replace_sentences(story, _other(stories, index, generator), generator)
            case "replaced words":
                return replace_words(story, self.lexicon, generator, share=self.rates.words_replaced)
            case "shuffled":
                return shuffle_sentences(story, generator)
            case "negated":
                return negate_sentences(story, self.lexicon, generator)


def words_of(story: Story) -> list[str]:
    """All words in order, lower-cased."""
    return [word.lower() for sentence in story for word in sentence.words]


def _other(stories: Sequence[Story], index: int, generator: random.Random) -> Story:
    drawn = generator.randrange(len(stories) - 1)
    return stories[drawn + (drawn >= index)]


def repeat_sentences(story: Story, generator: random.Random) -> Story:
    """One sentence more than half of them, rounded down, all become the first of those drawn."""
    drawn = generator.sample(range(1, len(story)), min(1 + len(story) // 2, len(story) - 1))
    return tuple(story[min(drawn)] if index in drawn else sentence for index, sentence in enumerate(story))


def repeat_ngrams(story: Story, generator: random.Random) -> Story:
    """Half as many times as there are sentences: 1 to 4 successive words of a sentence are repeated."""
    sentences = list(story)
    for _ in range(len(story) // 2):
        index = generator.randrange(1, len(story))
        sentence = sentences[index]
        size = min(generator.randint(1, LONGEST_NGRAM), len(sentence))
        end = size + generator.randrange(len(sentence) - size + 1)
        sentences[index] = _spliced(
            sentence, end, end, sentence.words[end - size : end], _tags(sentence)[end - size : end]
        )
    return tuple(sentences)


def replace_sentences(story: Story, other: Story, generator: random.Random) -> Story:
    """One or more sentences, all but the first at most, each become some sentence of one other story."""
    count = generator.randint(1, len(story) - 1)
    drawn = generator.sample(range(1, len(story)), count)
    return tuple(generator.choice(other) if index in drawn else sentence for index, sentence in enumerate(story))


def replace_words(
    story: Story, lexicon: ContentWords, generator: random.Random, *, share: float = 0.15
) -> Story | None:
    """One or more content words, at most a share of them, become their antonyms, or others of the same tag."""
    places = [
        (number, index)
        for number, sentence in enumerate(story[1:], start=1)
        for index, (word, tag) in enumerate(zip(sentence.words, _tags(sentence), strict=True))
        if lexicon.is_content(word, tag)
    ]
    if not places:
        return None
    sentences = list(story)
    count = generator.randint(1, max(1, int(share * len(places))))
    for number, index in generator.sample(places, count):
        sentence = sentences[number]
        tag = _tags(sentence)[index]
        if (word := lexicon.swap(sentence.words[index], tag, generator)) is not None:
            sentences[number] = _spliced(sentence, index, index + 1, (word,), (tag,))
    return tuple(sentences)


def shuffle_sentences(story: Story, generator: random.Random) -> Story | None:
    """Two or more sentences, all but the first at most, change places."""
    if len(set(story[1:])) == 1:
        return None
    count = generator.randint(2, len(story) - 1)
    while True:
        places = generator.sample(range(1, len(story)), count)
        sources = generator.sample(places, count)
        shuffled = list(story)
        for place, source in zip(places, sources, strict=True):
            shuffled[place] = story[source]
        if tuple(shuffled) != story:
            return tuple(shuffled)


def negate_sentences(story: Story, lexicon: ContentWords, generator: random.Random) -> Story | None:
    """One or more sentences, all but the first at most, gain or lose a negation."""
    for _ in range(ATTEMPTS):
        drawn = generator.sample(range(1, len(story)), generator.randint(1, len(story) - 1))
        sentences, changed = list(story), False
        for index in drawn:
            if (negated := negate(story[index], lexicon, generator)) is not None:
                sentences[index], changed = negated, True
        if changed:
            return tuple(sentences)
    return None


def negate(sentence: Sentence, lexicon: ContentWords, generator: random.Random) -> Sentence | None:
    """The sentence without its first negation; else with one after its first auxiliary; else before its first verb.

    None where there is neither negation nor verb.
    """
    for rule in (_without_negation, _negated_auxiliary, _negated_verb):
        if (negated := rule(sentence, lexicon, generator)) is not None:
            return negated
    return None


def _without_negation(sentence: Sentence, lexicon: ContentWords, generator: random.Random) -> Sentence | None:
    words = [word.lower() for word in sentence.words]
    index = next((index for index, word in enumerate(words) if word in NEGATIONS), None)
    if index is None or len(words) == 1:
        return None
    instead = tuple(NEGATIONS[words[index]].split())
    result = _spliced(sentence, index, index + 1, instead, _tags(sentence)[index : index + 1] * len(instead))
    if words[index] in ("n't", "not") and index and words[index - 1] in _BEFORE_NOT:
        result = _spliced(
            result, index - 1, index, (_BEFORE_NOT[words[index - 1]],), _tags(sentence)[index - 1 : index]
        )
    return result


def _negated_auxiliary(sentence: Sentence, lexicon: ContentWords, generator: random.Random) -> Sentence | None:
    words, tags = [word.lower() for word in sentence.words], _tags(sentence)
    for index, word in enumerate(words):
        perfect = word in _PERFECT and "VBN" in tags[index + 1 : index + 3]
        if word in _AUXILIARIES or perfect:
            short = word in _WITH_NT and generator.random() < 0.5
            first = _BEFORE_NT.get(word, word) if short else word
            return _spliced(sentence, index, index + 1, (first, "n't" if short else "not"), (tags[index], "RB"))
    return None


def _negated_verb(sentence: Sentence, lexicon: ContentWords, generator: random.Random) -> Sentence | None:
    words, tags = [word.lower() for word in sentence.words], _tags(sentence)
    index = next((index for index, tag in enumerate(tags) if tag.startswith("VB")), None)
    if index is None:
        return None
    tag = tags[index]
    if tag in ("VBG", "VBN") or (tag == "VB" and words[index - 1 : index] == ["to"]):
        return _spliced(sentence, index, index, ("not",), ("RB",))
    auxiliary = {"VBD": "did", "VBZ": "does"}.get(tag, "do")
    base = {"has": "have", "had": "have"}.get(words[index]) or lexicon.base(words[index], tag)
    negation = generator.choice(("not", "n't"))
    return _spliced(sentence, index, index + 1, (auxiliary, negation, base), (tag, "RB", "VB"))


def _tags(sentence: Sentence) -> tuple[str, ...]:
    assert sentence.tags is not None, "stories are tagged before they are corrupted"
    return sentence.tags


def _spliced(sentence: Sentence, start: int, stop: int, words: Sequence[str], tags: Sequence[str]) -> Sentence:
    """The sentence with other words from `start` up to `stop`; a tree, if any, is lost."""
    tagged = _tags(sentence)
    return Sentence(
        (*sentence.words[:start], *words, *sentence.words[stop:]), tags=(*tagged[:start], *tags, *tagged[stop:])
    )
