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
    D7. Antonyms are those of the package's own list, `antonyms.txt`, and all words of letters that are no function
        words can be swapped; the code reads both from lists drawn from ConceptNet.
"""

import random
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from typing import Literal

from depgen.annotation.tagger import FUNCTION_WORDS
from depgen.trees.sentence import Sentence

RULES = "1"
"""Raised when the rules of this module change."""

Story = tuple[Sentence, ...]
Operation = Literal["repeat", "replace", "shuffle", "negate"]
Form = Literal["repeated sentences", "repeated n-grams", "replaced sentences", "replaced words", "shuffled", "negated"]
OPERATIONS: Mapping[Operation, float] = {"repeat": 0.1, "replace": 0.3, "shuffle": 0.4, "negate": 0.2}
NUMBERS = (0.5, 0.2, 0.2, 0.1)
"""Weights of one, two, three and four operations."""
WHOLE_SENTENCES_REPEATED, WHOLE_SENTENCES_REPLACED = 0.7, 0.5
"""How often whole sentences are repeated or replaced; else n-grams, or words."""
WORDS_REPLACED = 0.15
"""The largest share of content words that is replaced, where there are enough of them."""
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
class Corrupted:
    """A negative sample.

    Attributes:
        story: what became of the story.
        forms: what was done to it, in that order.
    """

    story: Story
    forms: tuple[Form, ...]


def corrupt(stories: Sequence[Story], index: int, lexicon: "ContentWords", generator: random.Random) -> Corrupted:
    """A corrupted version of one of the stories, different from it; the others lend sentences.

    Args:
        stories: at least two, of `MIN_SENTENCES` sentences or more.
        index: which of them.
        lexicon: words to put in.
        generator: all that the result depends on, with the stories and the words.
    """
    story = stories[index]
    for _ in range(ATTEMPTS):
        corrupted, forms = story, list[Form]()
        for form in drawn_forms(generator):
            if (changed := _apply(form, corrupted, stories, index, lexicon, generator)) is not None:
                corrupted = changed
                forms.append(form)
        if words_of(corrupted) != words_of(story):
            return Corrupted(corrupted, tuple(forms))
    lent = replace_sentences(story, _other(stories, index, generator), generator)
    return Corrupted(lent, ("replaced sentences",))


def drawn_forms(generator: random.Random) -> list[Form]:
    """The operations of one sample, in the order in which they are carried out."""
    (number,) = generator.choices(range(1, len(NUMBERS) + 1), NUMBERS)
    left = dict(OPERATIONS)
    forms: list[Form] = []
    for _ in range(number):
        (operation,) = generator.choices(list(left), list(left.values()))
        del left[operation]
        match operation:
            case "repeat":
                whole = generator.random() < WHOLE_SENTENCES_REPEATED
                forms.append("repeated sentences" if whole else "repeated n-grams")
            case "replace":
                whole = generator.random() < WHOLE_SENTENCES_REPLACED
                forms.append("replaced sentences" if whole else "replaced words")
            case "shuffle":
                forms.append("shuffled")
            case "negate":
                forms.append("negated")
    return forms


def _apply(
    form: Form,
    story: Story,
    stories: Sequence[Story],
    index: int,
    lexicon: "ContentWords",
    generator: random.Random,
) -> Story | None:
    match form:
        case "repeated sentences":
            return repeat_sentences(story, generator)
        case "repeated n-grams":
            return repeat_ngrams(story, generator)
        case "replaced sentences":
            return replace_sentences(story, _other(stories, index, generator), generator)
        case "replaced words":
            return replace_words(story, lexicon, generator)
        case "shuffled":
            return shuffle_sentences(story, generator)
        case "negated":
            return negate_sentences(story, lexicon, generator)


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


def replace_words(story: Story, lexicon: "ContentWords", generator: random.Random) -> Story | None:
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
    count = generator.randint(1, max(1, int(WORDS_REPLACED * len(places))))
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


def negate_sentences(story: Story, lexicon: "ContentWords", generator: random.Random) -> Story | None:
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


def negate(sentence: Sentence, lexicon: "ContentWords", generator: random.Random) -> Sentence | None:
    """The sentence without its first negation; else with one after its first auxiliary; else before its first verb.

    None where there is neither negation nor verb.
    """
    for rule in (_without_negation, _negated_auxiliary, _negated_verb):
        if (negated := rule(sentence, lexicon, generator)) is not None:
            return negated
    return None


def _without_negation(sentence: Sentence, lexicon: "ContentWords", generator: random.Random) -> Sentence | None:
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


def _negated_auxiliary(sentence: Sentence, lexicon: "ContentWords", generator: random.Random) -> Sentence | None:
    words, tags = [word.lower() for word in sentence.words], _tags(sentence)
    for index, word in enumerate(words):
        perfect = word in _PERFECT and "VBN" in tags[index + 1 : index + 3]
        if word in _AUXILIARIES or perfect:
            short = word in _WITH_NT and generator.random() < 0.5
            first = _BEFORE_NT.get(word, word) if short else word
            return _spliced(sentence, index, index + 1, (first, "n't" if short else "not"), (tags[index], "RB"))
    return None


def _negated_verb(sentence: Sentence, lexicon: "ContentWords", generator: random.Random) -> Sentence | None:
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


CONTENT_TAGS = frozenset(
    ("NN", "NNS", "NNP", "NNPS", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "JJ", "JJR", "JJS", "RB", "RBR", "RBS")
)
VOWELS = "aeiou"
ENDINGS = {"VBD": "ed", "VBN": "ed", "VBG": "ing", "VBZ": "s", "NNS": "s"}
"""Of regular forms, by tag."""

_DATA = resources.files("depgen.evaluation")
_IRREGULAR = [tuple(line.split()) for line in _DATA.joinpath("irregular_verbs.txt").read_text().splitlines()]
_PAST = {base: past for base, past, _ in _IRREGULAR}
_PARTICIPLE = {base: participle for base, _, participle in _IRREGULAR}
_BASE = {form: base for base, *forms in _IRREGULAR for form in forms}


def own_lists() -> tuple[str, ...]:
    """The package's lists as they are: antonyms, irregular verbs, function words."""
    texts = (_DATA.joinpath(name).read_text() for name in ("antonyms.txt", "irregular_verbs.txt"))
    return (*texts, "\n".join(sorted(FUNCTION_WORDS)))


def own_antonyms() -> dict[str, tuple[str, ...]]:
    """The package's own list, in both directions."""
    antonyms: dict[str, list[str]] = defaultdict(list)
    for line in _DATA.joinpath("antonyms.txt").read_text().splitlines():
        one, other = line.split()
        antonyms[one].append(other)
        antonyms[other].append(one)
    return {word: tuple(dict.fromkeys(others)) for word, others in antonyms.items()}


class ContentWords:
    """The content words of a corpus by part of speech, with their frequencies.

    Args:
        counts: how often each word was seen with each tag.
        antonyms: by base form; None = the package's own list.
    """

    def __init__(
        self,
        counts: Mapping[str, Counter[str]],
        *,
        antonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.antonyms = own_antonyms() if antonyms is None else antonyms
        self._forms = {tag: Counter(words) for tag, words in counts.items() if tag in CONTENT_TAGS}
        self._bases = Counter([*_PAST, *self.antonyms])
        for tag in ("VB", "VBP"):
            self._bases.update(self._forms.get(tag, {}))
        self._words: dict[str, list[str]] = {}
        self._sums: dict[str, list[int]] = {}
        for tag, words in self._forms.items():
            kept = sorted(word for word in words if self.is_content(word, tag))
            self._words[tag], self._sums[tag] = kept, list(accumulate(words[word] for word in kept))

    @classmethod
    def of(
        cls, sentences: Iterable[Sentence], *, antonyms: Mapping[str, Sequence[str]] | None = None
    ) -> "ContentWords":
        """The lexicon of tagged sentences."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            assert sentence.tags is not None
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                counts[tag][word.lower()] += 1
        return cls(counts, antonyms=antonyms)

    def is_content(self, word: str, tag: str) -> bool:
        """Whether the word may be swapped: one of letters with a content word's tag that is no function word."""
        word = word.lower()
        return tag in CONTENT_TAGS and word not in FUNCTION_WORDS and word.replace("-", "").isalpha()

    def swap(self, word: str, tag: str, generator: random.Random) -> str | None:
        """An antonym in the word's own form, where there is one, else another word of its tag by frequency.

        None where the corpus has no other word of that tag.
        """
        word = word.lower()
        for known, form in ((word, None), (self.base(word, tag), tag)):
            if opposites := [each for each in self.antonyms.get(known, ()) if each != word]:
                opposite = generator.choice(opposites)
                return opposite if form is None else self.inflect(opposite, form)
        words, sums = self._words.get(tag, []), self._sums.get(tag, [])
        if len(set(words) - {word}) == 0:
            return None
        while True:
            drawn = words[bisect(sums, generator.randrange(sums[-1]))]
            if drawn != word:
                return drawn

    def base(self, word: str, tag: str) -> str:
        """The base form of a verb or noun: irregular ones by list, others by rule, of two forms the more frequent."""
        if tag in ("VBD", "VBN") and word in _BASE:
            return _BASE[word]
        ending = ENDINGS.get(tag)
        if ending is None or not word.endswith(ending) or len(word) <= len(ending) + 1:
            return word
        known = self._forms.get("NN", Counter()) if tag == "NNS" else self._bases
        return _most_frequent(_stems(word, ending), known)

    def inflect(self, base: str, tag: str) -> str:
        """A base form in the form of a tag; where two spellings are possible, the one that the corpus has more of."""
        if tag == "VBD" and base in _PAST:
            return _PAST[base]
        if tag == "VBN" and base in _PARTICIPLE:
            return _PARTICIPLE[base]
        if tag not in ENDINGS:
            return base
        return _most_frequent(_with_ending(base, ENDINGS[tag]), self._forms.get(tag, Counter()))


def _most_frequent(forms: Sequence[str], known: Mapping[str, int]) -> str:
    """The form seen most often, the first of equals."""
    return max(forms, key=lambda form: known.get(form, 0))


def _stems(word: str, ending: str) -> list[str]:
    """What a regular form may come from, the likeliest first.

    >>> _stems("stopped", "ed")
    ['stop', 'stopp', 'stoppe']
    >>> _stems("cries", "s")
    ['cry', 'crie', 'cri']
    """
    stem = word[: -len(ending)]
    if ending == "s":
        if stem.endswith("ie"):
            return [f"{stem[:-2]}y", stem, stem[:-1]]
        if stem.endswith("oe"):
            return [stem[:-1], stem]
        return [stem[:-1], stem] if stem.endswith(("se", "xe", "che", "she", "sse", "zze")) else [stem]
    doubled = len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in f"{VOWELS}ls"
    if ending == "ed" and stem.endswith("i"):
        return [f"{stem[:-1]}y", stem]
    return [stem[:-1], stem, f"{stem}e"] if doubled else [stem, f"{stem}e"]


def _with_ending(base: str, ending: str) -> list[str]:
    """The spellings that a base form may have with an ending, the likeliest first.

    >>> _with_ending("cry", "ed"), _with_ending("hope", "ing"), _with_ending("pass", "s")
    (['cried'], ['hoping', 'hopeing'], ['passes'])
    """
    if base.endswith("y") and base[-2:-1] not in VOWELS and ending != "ing":
        return [f"{base[:-1]}i{'e' if ending == 's' else ''}{ending}"]
    if ending == "s":
        return [f"{base}es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{base}s"]
    if base.endswith("e"):
        return [f"{base}d"] if ending == "ed" else [f"{base[:-1]}ing", f"{base}ing"]
    return [f"{base}{ending}", f"{base}{base[-1]}{ending}"]
