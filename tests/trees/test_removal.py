from hypothesis import assume, given
from hypothesis import strategies as st

from depgen.trees.removal import keep_words, put_words_back
from depgen.trees.sentence import Sentence, check_tree
from tests.trees.trees import head_lists


def ancestors(heads, word):
    """From the word's own head up to the root, 0 left out."""
    found = []
    while heads[word - 1] > 0:
        word = heads[word - 1]
        found.append(word)
    return found


@st.composite
def cut_sentences(draw, **options):
    heads = draw(head_lists(**options))
    kept = draw(st.lists(st.booleans(), min_size=len(heads), max_size=len(heads)))
    words = tuple(f"w{number}" for number in range(1, len(heads) + 1))
    relations = tuple("root" if head == 0 else f"r{head}" for head in heads)
    return Sentence(words, tuple(heads), relations, tags=words), kept


@given(cut_sentences())
def test_words_hang_on_their_nearest_kept_ancestor(cut):
    sentence, kept = cut
    result = keep_words(sentence, kept)
    old = [int(word[1:]) for word in result.words]
    assert old == [number for number, keep in enumerate(kept, start=1) if keep]
    assert result.tags == result.words
    for place, number in enumerate(old):
        above = [word for word in ancestors(sentence.heads, number) if kept[word - 1]]
        if above:
            assert old[result.heads[place] - 1] == above[0]
            assert result.relations[place] == sentence.relations[number - 1]


@given(cut_sentences())
def test_what_loses_all_its_ancestors_hangs_on_the_first_root_or_the_first_such_word(cut):
    sentence, kept = cut
    result = keep_words(sentence, kept)
    assume(result.words)
    check_tree(result.heads, "cut")
    tops = [
        (number, sentence.heads[number - 1] == 0)
        for number, keep in enumerate(kept, start=1)
        if keep and not any(kept[above - 1] for above in ancestors(sentence.heads, number))
    ]
    roots = [number for number, is_root in tops if is_root] or [tops[0][0]]
    place = {int(word[1:]): index for index, word in enumerate(result.words, start=1)}
    for number, _ in tops:
        expected = 0 if number in roots else place[roots[0]]
        assert result.heads[place[number] - 1] == expected
    assert [relation == "root" for relation in result.relations] == [head == 0 for head in result.heads]


@given(cut_sentences())
def test_orphans_may_be_roots_that_keep_their_relations(cut):
    sentence, kept = cut
    result = keep_words(sentence, kept, orphans="roots")
    for place, word in enumerate(result.words):
        number = int(word[1:])
        above = [each for each in ancestors(sentence.heads, number) if kept[each - 1]]
        assert result.heads[place] == (result.words.index(f"w{above[0]}") + 1 if above else 0)
        assert result.relations[place] == sentence.relations[number - 1]


def is_projective(heads):
    return all(
        head == 0 or between == head or head in ancestors(heads, between)
        for word, head in enumerate(heads, start=1)
        if head
        for between in range(min(word, head) + 1, max(word, head))
    )


@given(cut_sentences(single_root=True, max_size=7))
def test_a_projective_tree_of_one_root_stays_one(cut):
    sentence, kept = cut
    assume(is_projective(sentence.heads) and any(kept))
    heads = keep_words(sentence, kept).heads
    check_tree(heads, "cut", single_root=True)
    assert is_projective(heads)


@given(cut_sentences(max_size=7))
def test_words_that_are_put_back_hang_on_the_kept_word_before_them(cut):
    sentence, kept = cut
    bare = keep_words(sentence, kept)
    heads = put_words_back(bare.heads, kept)
    assume(heads)
    check_tree(heads, "back")
    assert keep_words(Sentence(sentence.words, tuple(heads)), kept).heads == bare.heads
    numbers = [number for number, keep in enumerate(kept, start=1) if keep] or [1]
    for number, keep in enumerate(kept, start=1):
        if not keep and number != numbers[0]:
            assert heads[number - 1] == max([each for each in numbers if each < number], default=numbers[0])
    if is_projective(bare.heads):
        assert is_projective(heads)


def test_a_sentence_of_nothing_but_words_left_out_hangs_on_its_first():
    assert put_words_back([], [False, False, False]) == [0, 1, 1]
    assert put_words_back([], [False]) == [0]
    assert put_words_back([], []) == []
    assert put_words_back([-1], [False, True]) == [2, -1]


def test_unannotated_words_stay_so():
    assert keep_words(Sentence(("a", "b", "c"), (-1, -1, -1)), [True, False, True]) == Sentence(("a", "c"), (-1, -1))
    assert keep_words(Sentence(("a", "b")), [False, True]) == Sentence(("b",))
    assert keep_words(Sentence(("a",), (0,), ("root",), ("x",)), [False]) == Sentence((), (), (), ())


def test_constituents_lose_words_left_out():
    sentence = Sentence(("a", "b", "c"), spans=((0, 3, "S"), (0, 1, "NP"), (1, 3, "VP")))
    assert keep_words(sentence, [False, True, True]).spans == ((0, 2, "S"), (0, 2, "VP"))
