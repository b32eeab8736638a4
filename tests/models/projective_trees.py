"""All projective trees with one root over a few words."""

from tests import oracles


def all_heads(length):
    """The heads of every projective tree: 1-based, 0 = root."""
    return [heads for heads in oracles.all_trees(length) if heads.count(0) == 1 and is_projective(heads)]


def is_projective(heads):
    """Whether each word between a word and its head hangs below the head."""
    return all(
        head in ancestors(heads, between)
        for word, head in enumerate(heads, start=1)
        for between in range(min(word, head) + 1, max(word, head))
        if head
    )


def ancestors(heads, word):
    """The words above a word."""
    return [heads[word - 1], *ancestors(heads, heads[word - 1])] if word else []


def edges_of_heads(heads):
    """The edges of a tree, as a system gives them."""
    return tuple((head, word, "dep" if head else "root") for word, head in enumerate(heads, start=1))


def all_trees(length):
    """The edges of every projective tree."""
    return [edges_of_heads(heads) for heads in all_heads(length)]


def all_beginnings(length):
    """The edges of every projective tree, and of several side by side, whose roots wait for words to come."""
    waiting = [heads[:-1] for heads in all_heads(length + 1) if heads[-1] == 0 and heads.count(length + 1) > 1]
    several = [[(head, word, "dep") for head, word, _ in edges_of_heads(heads) if head <= length] for heads in waiting]
    return [*all_trees(length), *map(tuple, several)]
