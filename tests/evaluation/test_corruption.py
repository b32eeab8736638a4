import random
from collections import Counter
from itertools import combinations, permutations, product

import pytest

from depgen.evaluation import corruption
from depgen.evaluation.corruption import (
    ContentWords,
    corrupt,
    drawn_operations,
    negate,
    negate_sentences,
    own_antonyms,
    repeat_ngrams,
    repeat_sentences,
    replace_sentences,
    replace_words,
    shuffle_sentences,
    words_of,
)
from depgen.evaluation.union import UnionData
from tests.evaluation.stories import PetStories
from tests.evaluation.taggers import SuffixTagger

DRAWS = 3000


@pytest.fixture
def stories():
    """Those of the training split, tagged."""
    return UnionData(PetStories(), SuffixTagger()).stories("train")


def sentence(text):
    """A sentence from word/TAG, the tag being X where none is given."""
    return tuple(tuple(each.rsplit("/", 1)) if "/" in each else (each, "X") for each in text.split())


def text(sentence):
    return " ".join(word for word, _ in sentence)


def story(letters):
    return tuple(sentence(letter) for letter in letters)


def letters(story):
    return "".join(words_of(story))


def agree(draw, expected):
    """Whether draws have the frequencies of an exact distribution, within five standard deviations."""
    generator = random.Random(5)
    found = Counter(draw(generator) for _ in range(DRAWS))
    assert set(found) <= set(expected)
    assert sum(expected.values()) == pytest.approx(1)
    for outcome, chance in expected.items():
        margin = 5 * (chance * (1 - chance) / DRAWS) ** 0.5
        assert found[outcome] / DRAWS == pytest.approx(chance, abs=margin), outcome


def test_repeated_sentences_are_copies_of_the_first_drawn():
    expected = Counter()
    for drawn in combinations(range(1, 5), 3):
        expected["".join("abcde"[drawn[0]] if i in drawn else "abcde"[i] for i in range(5))] += 1 / 4
    agree(lambda generator: letters(repeat_sentences(story("abcde"), generator)), expected)


def test_shuffling_moves_two_or_more_later_sentences():
    expected = Counter()
    for count in (2, 3, 4):
        moves = [
            (places, order)
            for places in combinations(range(1, 5), count)
            for order in permutations(places)
            if order != places
        ]
        for places, order in moves:
            shuffled = list("abcde")
            for place, source in zip(places, order, strict=True):
                shuffled[place] = "abcde"[source]
            expected["".join(shuffled)] += 1 / 3 / len(moves)
    agree(lambda generator: letters(shuffle_sentences(story("abcde"), generator)), expected)


def test_replaced_sentences_come_from_the_other_story():
    expected = Counter()
    for count in (1, 2):
        for places in combinations((1, 2), count):
            for lent in product("xyz", repeat=count):
                replaced = list("abc")
                for place, letter in zip(places, lent, strict=True):
                    replaced[place] = letter
                ways = 2 * len(list(combinations((1, 2), count))) * 3**count
                expected["".join(replaced)] += 1 / ways
    agree(lambda generator: letters(replace_sentences(story("abc"), story("xyz"), generator)), expected)


def test_repeated_ngrams_stand_twice():
    told = (sentence("a"), sentence("b c d e f"), sentence("g h"))
    expected = Counter()
    for index, size in product((1, 2), range(1, 5)):
        words = [word for word, _ in told[index]]
        size = min(size, len(words))
        for start in range(len(words) - size + 1):
            twice = (*words[: start + size], *words[start:])
            texts = [" ".join(twice) if i == index else text(each) for i, each in enumerate(told)]
            expected["|".join(texts)] += 1 / 8 / (len(words) - size + 1)
    agree(lambda generator: "|".join(map(text, repeat_ngrams(told, generator))), expected)


def test_a_story_of_five_sentences_repeats_two_ngrams():
    lengths = {len(words_of(repeat_ngrams(story("abcde"), random.Random(seed)))) for seed in range(50)}
    assert lengths == {7, 8}  # 8: the word that already stood twice was repeated as a bigram


LEXICON = ContentWords([sentence("dog/NN cat/NN like/VB open/VB")], antonyms={"hot": ["cold"]})


def test_replaced_words_keep_their_tag_and_are_few():
    later = " ".join(["dog/NN the/X"] * 10 + ["hot/JJ"] * 4)
    told = (sentence("dog/NN hot/JJ"), sentence(later))
    changes = Counter()
    for seed in range(600):
        found = replace_words(told, LEXICON, random.Random(seed))
        assert found[0] == told[0]
        pairs = [(a, b) for a, b in zip(told[1], found[1], strict=True) if a != b]
        assert set(pairs) <= {(("dog", "NN"), ("cat", "NN")), (("hot", "JJ"), ("cold", "JJ"))}
        changes[len(pairs)] += 1
    assert set(changes) == {1, 2}  # 15 % of 14 content words
    assert changes[1] / 600 == pytest.approx(0.5, abs=0.1)
    assert replace_words((told[0], sentence("the/X")), LEXICON, random.Random(0)) is None


@pytest.mark.parametrize(
    ("tagged", "expected"),
    [
        ("she/PRP did/VBD n't/RB open/VB it", {"she did open it"}),
        ("she/PRP ca/MD n't/RB go/VB", {"she can go"}),
        ("it/PRP wo/MD not/RB go/VB", {"it will go"}),
        ("nobody/NN came/VBD", {"somebody came"}),
        ("he/PRP never/RB came/VBD", {"he came"}),
        ("he/PRP can/MD go/VB", {"he can not go", "he ca n't go"}),
        ("he/PRP will/MD go/VB", {"he will not go", "he wo n't go"}),
        ("i/PRP am/VBP here/RB", {"i am not here"}),
        ("it/PRP was/VBD hot/JJ", {"it was not hot", "it was n't hot"}),
        ("they/PRP had/VBD gone/VBN", {"they had not gone", "they had n't gone"}),
        ("they/PRP had/VBD dogs/NNS", {"they did not have dogs", "they did n't have dogs"}),
        ("he/PRP went/VBD home/NN", {"he did not go home", "he did n't go home"}),
        ("he/PRP likes/VBZ it", {"he does not like it", "he does n't like it"}),
        ("we/PRP like/VBP it", {"we do not like it", "we do n't like it"}),
        ("to/TO open/VB it", {"to not open it"}),
        ("a dog barking/VBG", {"a dog not barking"}),
    ],
)  # fmt: skip
def test_negation(tagged, expected):
    assert {text(negate(sentence(tagged), LEXICON, random.Random(seed))) for seed in range(20)} == expected


def test_what_has_neither_negation_nor_verb_is_left():
    assert negate(sentence("what a day/NN !"), LEXICON, random.Random(0)) is None
    assert negate(sentence("no/UH"), LEXICON, random.Random(0)) is None
    assert negate_sentences(tuple(sentence("a day/NN") for _ in range(4)), LEXICON, random.Random(0)) is None


def test_negated_sentences_are_some_later_ones():
    told = tuple(sentence(f"{letter} was/VBD here") for letter in "abcde")
    counts = Counter()
    for seed in range(800):
        found = negate_sentences(told, LEXICON, random.Random(seed))
        assert found[0] == told[0]
        counts[sum(a != b for a, b in zip(told, found, strict=True))] += 1
    assert all(counts[number] / 800 == pytest.approx(0.25, abs=0.08) for number in (1, 2, 3, 4))


def test_operations_are_drawn_at_the_published_rates():
    weights = {"repeat": 0.1, "replace": 0.3, "shuffle": 0.4, "negate": 0.2}
    expected = Counter()
    for number, share in zip((1, 2, 3, 4), (0.5, 0.2, 0.2, 0.1), strict=True):
        for order in permutations(weights, number):
            chance, left = share, 1.0
            for operation in order:
                chance *= weights[operation] / left
                left -= weights[operation]
            expected[order] += chance
    agree(lambda generator: tuple(name.split()[0] for name in drawn_operations(generator)), expected)


def test_sentences_and_words_are_drawn_at_the_published_rates():
    generator = random.Random(0)
    drawn = Counter(name for _ in range(DRAWS) for name in drawn_operations(generator))
    for whole, part, share in (
        ("repeat sentences", "repeat n-grams", 0.7),
        ("replace sentences", "replace words", 0.5),
    ):
        assert drawn[whole] / (drawn[whole] + drawn[part]) == pytest.approx(share, abs=0.05)


def test_a_corrupted_story_differs_after_its_first_sentence_and_depends_on_the_generator_alone(stories):
    lexicon = ContentWords(sentence for told in stories for sentence in told)
    for index in range(len(stories)):
        for seed in range(30):
            corrupted = corrupt(stories, index, lexicon, random.Random(f"{seed}"))
            assert corrupted[0] == stories[index][0]
            assert words_of(corrupted) != words_of(stories[index])
            assert len(corrupted) == 5
            assert corrupted == corrupt(stories, index, lexicon, random.Random(f"{seed}"))


def test_where_no_operation_finds_anything_to_do_sentences_are_replaced(monkeypatch):
    monkeypatch.setattr(corruption, "drawn_operations", lambda generator: ["shuffle"])
    corrupted = corrupt([story("abbb"), story("wxyz")], 0, LEXICON, random.Random(0))
    assert set(letters(corrupted)) & set("wxyz")


COUNTS = {
    "NN": Counter({"dog": 6, "cat": 3, "hat": 1, "it": 9, "'s": 4, "bag": 1}),
    "VBD": Counter({"walked": 2, "stopped": 3, "was": 9}),
    "VB": Counter({"stop": 1, "hope": 1, "walk": 1, "require": 1}),
    "JJ": Counter({"solo": 1}),
    "IN": Counter({"of": 3}),
}


@pytest.fixture
def lexicon():
    """The words of COUNTS as often as it says."""
    seen = [tuple((word, tag) for word in words.elements()) for tag, words in COUNTS.items()]
    return ContentWords(seen, antonyms={"love": ["hate"], "happy": ["sad", "happy"]})


def test_other_words_of_the_tag_come_by_frequency(lexicon):
    generator = random.Random(0)
    drawn = Counter(lexicon.swap("hat", "NN", generator) for _ in range(5000))
    assert set(drawn) == {"dog", "cat", "bag"}
    for word, share in (("dog", 0.6), ("cat", 0.3), ("bag", 0.1)):
        assert drawn[word] / 5000 == pytest.approx(share, abs=0.03)
    assert lexicon.swap("solo", "JJ", generator) is None
    assert lexicon.swap("other", "JJR", generator) is None


def test_antonyms_take_the_words_form(lexicon):
    generator = random.Random(0)
    assert lexicon.swap("loved", "VBD", generator) == "hated"
    assert lexicon.swap("Loving", "VBG", generator) == "hating"
    assert {lexicon.swap("happy", "JJ", generator) for _ in range(20)} == {"sad"}


@pytest.mark.parametrize(
    ("word", "tag", "base"),
    [
        ("went", "VBD", "go"), ("taken", "VBN", "take"), ("stopped", "VBD", "stop"), ("hoping", "VBG", "hope"),
        ("walked", "VBD", "walk"), ("required", "VBD", "require"), ("tried", "VBD", "try"), ("goes", "VBZ", "go"),
        ("watches", "VBZ", "watch"), ("cries", "VBZ", "cry"), ("dogs", "NNS", "dog"), ("happy", "JJ", "happy"),
        ("called", "VBD", "call"), ("missed", "VBD", "miss"),
    ],
)  # fmt: skip
def test_base_forms_and_back(lexicon, word, tag, base):
    assert lexicon.base(word, tag) == base
    assert lexicon.inflect(base, tag) == word


def test_only_content_words_are_swapped(lexicon):
    assert lexicon.is_content("dog", "NN")
    for word, tag in (("was", "VBD"), ("[male]", "NNP"), ("dog", "IN"), ("'s", "NN"), ("3", "NN"), ("n't", "RB")):
        assert not lexicon.is_content(word, tag)


def test_the_own_list_goes_both_ways_and_never_to_itself():
    antonyms = own_antonyms()
    assert "sad" in antonyms["happy"]
    assert all(word in antonyms[other] and word != other for word, others in antonyms.items() for other in others)
