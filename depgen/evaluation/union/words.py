"""Words to put in other words' places: content words by part of speech, antonyms, and the forms of verbs."""

import random
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import accumulate
from pathlib import Path

from depgen.annotation.tagger import FUNCTION_WORDS
from depgen.errors import UserError
from depgen.trees.sentence import Sentence
from depgen.trees.text_files import read_lines

CONTENT_TAGS = frozenset(
    ("NN", "NNS", "NNP", "NNPS", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "JJ", "JJR", "JJS", "RB", "RBR", "RBS")
)
VOWELS = "aeiou"

_DATA = resources.files("depgen.evaluation.union")
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
    found: dict[str, list[str]] = defaultdict(list)
    for line in _DATA.joinpath("antonyms.txt").read_text().splitlines():
        one, other = line.split()
        found[one].append(other)
        found[other].append(one)
    return {word: tuple(dict.fromkeys(others)) for word, others in found.items()}


def read_conceptnet_antonyms(path: Path) -> dict[str, tuple[str, ...]]:
    """Antonyms by word, from UNION's `conceptnet_antonym.txt`: lines of `word|||relation|||antonym antonym …`.

    As there, the words of all its relations count (`Antonym`, `NotDesires`, …), and a line without any is passed over.

    Raises:
        UserError: a line of another form.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for number, line in read_lines(path):
        parts = line.strip().split("|||")
        if len(parts) != 3:
            raise UserError(f"{path}:{number}: expected word|||relation|||antonyms, found {line.strip()[:60]!r}.")
        if parts[2].strip():
            found[parts[0]] += parts[2].split()
    return {word: tuple(dict.fromkeys(others)) for word, others in found.items()}


def read_conceptnet_entities(path: Path) -> frozenset[str]:
    """Words that may be swapped, from UNION's `conceptnet_entity.csv`: all fields of a line but the last.

    Entities of several words are passed over, since one word at a time is swapped.

    Raises:
        UserError: a line without `|||`.
    """
    entities = set()
    for number, line in read_lines(path):
        *words, rest = line.strip().split("|||")
        if not words:
            raise UserError(f"{path}:{number}: expected word|||…|||number, found {rest[:60]!r}.")
        if len(words) == 1 and " " not in words[0]:
            entities.add(words[0])
    return frozenset(entities)


class ContentWords:
    """The content words of a corpus by part of speech, with their frequencies.

    Args:
        counts: how often each word was seen with each tag.
        antonyms: by base form; None = the package's own list.
        entities: only these words (or words of which these are the base forms) are content words; None = all that have
            a content word's tag, consist of letters and are no function words.
    """

    def __init__(
        self,
        counts: Mapping[str, Counter[str]],
        *,
        antonyms: Mapping[str, Sequence[str]] | None = None,
        entities: frozenset[str] | None = None,
    ) -> None:
        self.antonyms = own_antonyms() if antonyms is None else antonyms
        self.entities = entities
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
        cls,
        sentences: Iterable[Sentence],
        *,
        antonyms: Mapping[str, Sequence[str]] | None = None,
        entities: frozenset[str] | None = None,
    ) -> "ContentWords":
        """The lexicon of tagged sentences."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            assert sentence.tags is not None
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                counts[tag][word.lower()] += 1
        return cls(counts, antonyms=antonyms, entities=entities)

    def is_content(self, word: str, tag: str) -> bool:
        """Whether the word may be swapped for another."""
        word = word.lower()
        if tag not in CONTENT_TAGS or word in FUNCTION_WORDS or not word.replace("-", "").isalpha():
            return False
        return self.entities is None or word in self.entities or self.base(word, tag) in self.entities

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
        endings = {"VBD": "ed", "VBN": "ed", "VBG": "ing", "VBZ": "s", "NNS": "s"}
        ending = endings.get(tag)
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
        endings = {"VBD": "ed", "VBN": "ed", "VBG": "ing", "VBZ": "s", "NNS": "s"}
        if tag not in endings:
            return base
        return _most_frequent(_with_ending(base, endings[tag]), self._forms.get(tag, Counter()))


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
