"""Negative samples of UNION (Guan & Huang, 2020, section 3.1): repeat, replace, shuffle, negate.

A story is a tuple of sentences of (word, tag); its first sentence is never touched. Each operation is a function of a
story and a generator and returns the corrupted story, or None where it finds nothing to do. Rates are those of the
authors' code (`Data/gen_train_data.py`): 1, 2, 3 or 4 different operations with probability .5, .2, .2, .1, drawn one
after the other with weights repeat .1, replace .3, shuffle .4, negate .2 (normalised by their sum, as the code does: it
is 1, and again among those not drawn yet), and carried out in the order drawn.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from itertools import accumulate

TaggedSentence = tuple[tuple[str, str], ...]
Story = tuple[TaggedSentence, ...]

NUMBERS = (0.5, 0.2, 0.2, 0.1)
"""Weights of one, two, three and four operations."""
OPERATIONS = {"repeat": 0.1, "replace": 0.3, "shuffle": 0.4, "negate": 0.2}
PARTS = {
    "repeat": (0.7, "repeat sentences", "repeat n-grams"),
    "replace": (0.5, "replace sentences", "replace words"),
}
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


def corrupt(stories: Sequence[Story], index: int, lexicon: "ContentWords", generator: random.Random) -> Story:
    """A corrupted version of one of the stories, different from it; the others lend sentences.

    Args:
        stories: at least two, of `MIN_SENTENCES` sentences or more.
        index: which of them.
        lexicon: words to put in.
        generator: all that the result depends on, with the stories and the words.
    """

    def lend_sentences(story: Story) -> Story:
        other = generator.randrange(len(stories) - 1)
        return replace_sentences(story, stories[other + (other >= index)], generator)

    operations: Mapping[str, Callable[[Story], Story | None]] = {
        "repeat sentences": lambda story: repeat_sentences(story, generator),
        "repeat n-grams": lambda story: repeat_ngrams(story, generator),
        "replace sentences": lend_sentences,
        "replace words": lambda story: replace_words(story, lexicon, generator),
        "shuffle": lambda story: shuffle_sentences(story, generator),
        "negate": lambda story: negate_sentences(story, lexicon, generator),
    }
    for _ in range(ATTEMPTS):
        corrupted = stories[index]
        for name in drawn_operations(generator):
            corrupted = operations[name](corrupted) or corrupted
        if words_of(corrupted) != words_of(stories[index]):
            return corrupted
    return lend_sentences(stories[index])


def drawn_operations(generator: random.Random) -> list[str]:
    """The operations of one sample, in the order in which they are carried out."""
    (number,) = generator.choices(range(1, len(NUMBERS) + 1), NUMBERS)
    left = dict(OPERATIONS)
    drawn: list[str] = []
    for _ in range(number):
        (operation,) = generator.choices(list(left), list(left.values()))
        del left[operation]
        if operation in PARTS:
            share, of_sentences, of_words = PARTS[operation]
            operation = of_sentences if generator.random() < share else of_words
        drawn.append(operation)
    return drawn


def words_of(story: Story) -> list[str]:
    """All words in order, lower-cased."""
    return [word.lower() for sentence in story for word, _ in sentence]


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
        sentences[index] = sentence[:end] + sentence[end - size :]
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
        for index, (word, tag) in enumerate(sentence)
        if lexicon.is_content(word, tag)
    ]
    if not places:
        return None
    sentences = list(map(list, story))
    count = generator.randint(1, max(1, int(WORDS_REPLACED * len(places))))
    for number, index in generator.sample(places, count):
        word, tag = sentences[number][index]
        sentences[number][index] = (lexicon.swap(word, tag, generator) or word, tag)
    return tuple(map(tuple, sentences))


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
        negated = {index: sentence for index in drawn if (sentence := negate(story[index], lexicon, generator))}
        if negated:
            return tuple(negated.get(index, sentence) for index, sentence in enumerate(story))
    return None


def negate(sentence: TaggedSentence, lexicon: "ContentWords", generator: random.Random) -> TaggedSentence | None:
    """The sentence without its first negation; else with one after its first auxiliary; else before its first verb.

    None where there is neither negation nor verb.
    """
    return (
        _without_negation(sentence)
        or _negated_auxiliary(sentence, generator)
        or _negated_verb(sentence, lexicon, generator)
    )


def _without_negation(sentence: TaggedSentence) -> TaggedSentence | None:
    words = words_of((sentence,))
    index = next((index for index, word in enumerate(words) if word in NEGATIONS), None)
    if index is None or len(words) == 1:
        return None
    before, instead = sentence[:index], NEGATIONS[words[index]]
    if words[index] in ("n't", "not") and index and words[index - 1] in _BEFORE_NOT:
        before = (*before[:-1], (_BEFORE_NOT[words[index - 1]], before[-1][1]))
    return (*before, *([(instead, sentence[index][1])] if instead else []), *sentence[index + 1 :])


def _negated_auxiliary(sentence: TaggedSentence, generator: random.Random) -> TaggedSentence | None:
    for index, (word, (_, tag)) in enumerate(zip(words_of((sentence,)), sentence, strict=True)):
        perfect = word in _PERFECT and "VBN" in [tag for _, tag in sentence[index + 1 : index + 3]]
        if word in _AUXILIARIES or perfect:
            short = word in _WITH_NT and generator.random() < 0.5
            auxiliary = (_BEFORE_NT.get(word, word) if short else word, tag)
            return (*sentence[:index], auxiliary, ("n't" if short else "not", "RB"), *sentence[index + 1 :])
    return None


def _negated_verb(sentence: TaggedSentence, lexicon: "ContentWords", generator: random.Random) -> TaggedSentence | None:
    words = words_of((sentence,))
    index = next((index for index, (_, tag) in enumerate(sentence) if tag.startswith("VB")), None)
    if index is None:
        return None
    tag = sentence[index][1]
    if tag in ("VBG", "VBN") or (tag == "VB" and words[index - 1 : index] == ["to"]):
        return (*sentence[:index], ("not", "RB"), *sentence[index:])
    auxiliary = {"VBD": "did", "VBZ": "does"}.get(tag, "do")
    base = {"has": "have", "had": "have"}.get(words[index]) or lexicon.base(words[index], tag)
    negated = ((auxiliary, tag), (generator.choice(("not", "n't")), "RB"), (base, "VB"))
    return (*sentence[:index], *negated, *sentence[index + 1 :])


# -- words to put in --------------------------------------------------------------------------------------------------

CONTENT_TAGS = frozenset(
    ("NN", "NNS", "NNP", "NNPS", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "JJ", "JJR", "JJS", "RB", "RBR", "RBS")
)
VOWELS = "aeiou"
ENDINGS = {"VBD": "ed", "VBN": "ed", "VBG": "ing", "VBZ": "s", "NNS": "s"}
"""Of regular forms, by tag."""

_DATA = resources.files("depgen.evaluation")
FUNCTION_WORDS = frozenset(_DATA.joinpath("function_words.txt").read_text().split())
"""Pronouns, determiners, auxiliaries, prepositions, conjunctions, particles and the adverbs that grammar needs."""
_IRREGULAR = [tuple(line.split()) for line in _DATA.joinpath("irregular_verbs.txt").read_text().splitlines()]
_IRREGULAR_FORMS = {
    "VBD": {base: past for base, past, _ in _IRREGULAR},
    "VBN": {base: participle for base, _, participle in _IRREGULAR},
}
_BASE = {form: base for base, *forms in _IRREGULAR for form in forms}


def own_antonyms() -> dict[str, list[str]]:
    """The package's own list, in both directions."""
    antonyms: dict[str, list[str]] = defaultdict(list)
    for line in _DATA.joinpath("antonyms.txt").read_text().splitlines():
        one, other = line.split()
        antonyms[one].append(other)
        antonyms[other].append(one)
    return {word: list(dict.fromkeys(others)) for word, others in antonyms.items()}


class ContentWords:
    """The content words of tagged sentences by part of speech, with their frequencies.

    Args:
        sentences: of a corpus.
        antonyms: by base form; None = the package's own list.
    """

    def __init__(
        self, sentences: Iterable[TaggedSentence], *, antonyms: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.antonyms = own_antonyms() if antonyms is None else antonyms
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            for word, tag in sentence:
                self._forms[tag][word.lower()] += 1
        self._bases = Counter([*_IRREGULAR_FORMS["VBD"], *self.antonyms]) + self._forms["VB"] + self._forms["VBP"]
        self._words: dict[str, list[str]] = {}
        self._sums: dict[str, list[int]] = {}
        for tag, counts in self._forms.items():
            self._words[tag] = sorted(word for word in counts if self.is_content(word, tag))
            self._sums[tag] = list(accumulate(counts[word] for word in self._words[tag]))

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
            if opposites := [opposite for opposite in self.antonyms.get(known, ()) if opposite != word]:
                opposite = generator.choice(opposites)
                return opposite if form is None else self.inflect(opposite, form)
        words, sums = self._words.get(tag, []), self._sums.get(tag, [])
        if not {*words} - {word}:
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
        return _most_frequent(_stems(word, ending), self._forms["NN"] if tag == "NNS" else self._bases)

    def inflect(self, base: str, tag: str) -> str:
        """A base form in the form of a tag; where two spellings are possible, the one that the corpus has more of."""
        irregular = _IRREGULAR_FORMS.get(tag, {}).get(base)
        if irregular is not None or tag not in ENDINGS:
            return irregular or base
        return _most_frequent(_with_ending(base, ENDINGS[tag]), self._forms[tag])


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
