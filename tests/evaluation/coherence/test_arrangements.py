"""What is asked about documents, against all orders of short ones; draws by seed and corpus alone."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from depgen.errors import UserError
from depgen.evaluation.coherence.arrangements import CoherenceOptions, inserted, shuffled, trials
from tests.evaluation.coherence.toys import Listed

STORIES = Listed([[f"{story} {place}" for place in range(4)] for story in ("a", "b", "c", "d")])


def generator(seed=0):
    return np.random.default_rng(seed)


def texts(trial):
    """Of each question, the candidates' sentences as strings."""
    orders = [[" ".join(trial.sentences[place].words) for place in order] for order in trial.arrangements.tolist()]
    return [[orders[place] for place in each.candidates.tolist()] for each in trial.questions]


def test_every_order_is_as_probable_as_every_other():
    drawn = Counter(other for (_, (other, _)) in shuffled((0, 1, 2), 6000, generator()))
    assert drawn.keys() == set(permutations(range(3)))
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.parametrize("sentences", [1, 2, 3, 4])
def test_insertion_asks_for_every_place_of_every_sentence(sentences):
    document = tuple(range(sentences))
    asked = inserted(document, None, generator())
    assert len(asked) == sentences
    for taken, candidates in enumerate(asked):
        others = [each for each in document if each != taken]
        expected = {(*others[:place], taken, *others[place:]): abs(place - taken) for place in range(sentences)}
        assert dict(candidates) == expected
        assert candidates[0] == (document, 0)
    assert len(inserted(document, 2, generator())) == min(2, sentences)
    taken = {asked.index(one) for seed in range(200) for one in inserted(document, 1, generator(seed))}
    assert taken == set(range(sentences)) or sentences == 2  # where it is one question to take the one or the other


def test_the_same_text_is_the_same_arrangement():
    corpus = Listed([["x", "x", "y"]])
    (order,) = trials(CoherenceOptions(shuffles=50), corpus)
    assert [each.words for each in order.sentences] == [("x",), ("y",)]
    assert sorted(map(tuple, order.arrangements.tolist())) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert (0, 0) in {tuple(each.candidates.tolist()) for each in order.questions}, "a shuffle that is the document"
    (insertion,) = trials(CoherenceOptions(task="insertion", insertions=None), corpus)
    assert texts(insertion) == [
        [["x", "x", "y"], ["x", "y", "x"]],
        [["x", "x", "y"], ["x", "y", "x"]],
        [["x", "x", "y"], ["x", "y", "x"], ["y", "x", "x"]],
    ]
    assert [each.distances.tolist() for each in insertion.questions] == [[0, 2], [0, 1], [0, 1, 2]]


def test_endings_are_those_of_other_documents():
    for trial, story in zip(trials(CoherenceOptions(task="ending", distractors=2), STORIES), "abcd", strict=True):
        for true, other in texts(trial):
            assert true == [f"{story} {place}" for place in range(4)]
            assert other[:3] == true[:3]
            assert other[3][0] in set("abcd") - {story}
            assert other[3][1:] == " 3"
        assert len({other[3] for _, other in texts(trial)}) == 2
    same = Listed([["a", "end"], ["b", "end"], ["c", "fin"]])
    assert [texts(trial)[0][1][1] for trial in trials(CoherenceOptions(task="ending", distractors=1), same)] == [
        "fin", "fin", "end",
    ]  # fmt: skip
    with pytest.raises(UserError, match="more than 2 different endings among the documents, found 2"):
        trials(CoherenceOptions(task="ending", distractors=2), same)


@pytest.mark.parametrize("task", ["order", "insertion", "ending"])
def test_draws_depend_on_the_seed_and_the_corpus_alone(task):
    number = {"order": {"shuffles": 3}, "insertion": {"insertions": 1}, "ending": {"distractors": 1}}[task]
    asked = CoherenceOptions(task=task, **number)
    first, again = (list(map(texts, trials(asked, STORIES))) for _ in range(2))
    assert first == again
    others = (trials(CoherenceOptions(task=task, **number, seed=k), STORIES) for k in (1, 2))
    assert any(first != list(map(texts, other)) for other in others)
    shorter = trials(CoherenceOptions(task="order", shuffles=3, max_documents=2), STORIES)
    if task == "order":
        assert list(map(texts, shorter)) == first[:2]


def test_long_documents_are_cut_into_pieces_of_like_length():
    words = [f"w{place}" for place in range(11)]
    found = trials(CoherenceOptions(sentences=4, shuffles=1), Listed([words, words[:4], words[:1]]))
    assert [trial.name for trial in found] == ["d0:1", "d0:2", "d0:3", "d1", "d2"]
    assert [trial.document for trial in found] == ["d0", "d0", "d0", "d1", "d2"]
    assert [texts(trial)[0][0] for trial in found] == [words[:4], words[4:8], words[8:], words[:4], words[:1]]


def test_what_has_no_order_is_left_out():
    corpus = Listed([["a", "", "b"], [""], ["c"]])
    assert [texts(trial)[0][0] for trial in trials(CoherenceOptions(shuffles=1), corpus)] == [["a", "b"], ["c"]]
    assert [trial.name for trial in trials(CoherenceOptions(task="insertion"), corpus)] == ["d0"]
    for task in ("order", "insertion", "ending"):
        with pytest.raises(UserError, match="listed test: expected documents of several sentences, found none"):
            trials(CoherenceOptions(task=task), Listed([["a"], ["b"]]))


def test_a_piece_has_no_ending():
    with pytest.raises(UserError, match="sentences: a piece of a document does not end where the document does"):
        CoherenceOptions(task="ending", sentences=4)
