"""Slow and obvious versions of what the package computes fast, written from the papers alone."""

import functools
import itertools

import networkx
import torch


def future_dependents_by_loop(heads):
    """Z of each input position as lists of 1-based words; n + 1 is the end (Yang & Wan 2022, Sec. 2.1)."""
    n = len(heads)
    sets = [[] for _ in range(n + 1)]
    for word, head in enumerate(heads, start=1):
        if head == 0:
            sets[0].append(word)
        elif head > 0:
            sets[min(word, head)].append(max(word, head))
    sets[n].append(n + 1)
    return [sorted(targets) for targets in sets]


def dense_mixture(attention, hidden, weight, bias):
    """p(w | x_<t) for all words: Eq. 3 as it stands, [batch length vocab]."""
    p_dep = torch.softmax(hidden @ weight.T + (0 if bias is None else bias), -1)
    batch, length, _ = hidden.shape
    mixed = torch.zeros_like(p_dep)
    for b in range(batch):
        for t in range(length):
            for tau in range(t + 1):
                mixed[b, t] += attention[b, t, tau] * p_dep[b, tau]
    return mixed


def joined_heads(document, *, joining="roots"):
    """Heads over a document's words, 1-based, 0 = root; -1 for sentences without heads (see `DocumentJoining`)."""
    heads = []
    for sentence in document.sentences:
        offset = len(heads)
        root = offset if joining == "previous_sentence" else 0
        own = sentence.heads if sentence.heads is not None else (-1,) * len(sentence)
        heads.extend(offset + head if head > 0 else root if head == 0 else head for head in own)
    return heads


@functools.cache
def all_trees(n):
    """Every tree over n words, with any number of roots, as tuples of 1-based heads (0 = root)."""

    def reaches_root(word, heads):
        for _ in range(n):
            word = heads[word - 1] if word else 0
        return word == 0

    choices = itertools.product(range(n + 1), repeat=n)
    return [heads for heads in choices if all(reaches_root(word, heads) for word in range(1, n + 1))]


def score_of_tree(heads, scores, root_scores):
    """The sum of the scores of a tree's arcs and roots."""
    return sum(root_scores[i] if head == 0 else scores[i][head - 1] for i, head in enumerate(heads))


def tree_by_n_calls(scores, root_scores):
    """The best tree with a single root: one search of networkx for each word being that root."""
    n = len(scores)
    found = []
    for root in range(n):
        graph = networkx.DiGraph([(0, root + 1, {"weight": root_scores[root]})])
        arcs = itertools.permutations(range(n), 2)
        graph.add_weighted_edges_from((head + 1, word + 1, scores[word][head]) for word, head in arcs)
        tree = networkx.maximum_spanning_arborescence(graph)
        heads = {word: head for head, word in tree.edges}
        found.append([heads[word] for word in range(1, n + 1)])
    return max(found, key=lambda heads: score_of_tree(heads, scores, root_scores))
