"""All constituency trees over a few words, and random ones."""

from itertools import product

from hypothesis import strategies as st

from tests.trees.trees import constituents

LABELS = ["TOP"]
"""Of the contract."""


def all_strings(length, *, labels, max_openings):
    """Every string of words (None) and brackets: (label, True) opens, (label, False) closes; one bracket around all."""
    found = [((), ())]  # a string that ends with a word, or is empty, and what is open
    for word in range(length):
        longer = []
        for string, around in found:
            for closed in range(len(around) if word else 1):
                ends = tuple((label, False) for label in reversed(around[len(around) - closed :]))
                left = around[: len(around) - closed]
                for opened in range(0 if word else 1, max_openings + 1):
                    for new in product(labels, repeat=opened):
                        begins = tuple((label, True) for label in new)
                        longer.append(((*string, *ends, *begins, None), (*left, *new)))
        found = longer
    return [(*string, *((label, False) for label in reversed(around))) for string, around in found]


def spans_of_string(string):
    """The constituents of such a string, in top-down order."""
    words, around, found = 0, [], []
    for symbol in string:
        if symbol is None:
            words += 1
        elif symbol[1]:
            around.append((words, len(found)))
            found.append(None)
        else:
            start, place = around.pop()
            found[place] = (start, words, symbol[0])
    return found


def all_trees(length, *, labels, max_openings):
    """The constituents of each such tree, as a system gives them."""
    return [tuple(spans_of_string(each)) for each in all_strings(length, labels=labels, max_openings=max_openings)]


@st.composite
def trees(draw, *, most_words=7):
    """A length and the constituents of a tree, with numbers for labels, one of them around all words."""
    length = draw(st.integers(1, most_words))
    within = [(start, end, ["S", "NP", "VP"].index(label)) for start, end, label in draw(constituents(length))]
    return length, [(0, length, draw(st.integers(0, 2))), *within]
