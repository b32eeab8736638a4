"""Slow and obvious versions of what the package computes fast, written from the papers alone."""

import functools
import itertools

import numpy as np
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


def chu_liu_edmonds(weights):
    """The head of each node but 0, the root, in the best arborescence; weights[dependent, head], -inf forbids."""
    weights = weights.copy()
    np.fill_diagonal(weights, -np.inf)
    heads = {node: int(weights[node].argmax()) for node in range(1, len(weights))}
    cycle = next(filter(None, (_cycle_from(node, heads) for node in heads)), None)
    if cycle is None:
        return heads
    others = [node for node in range(len(weights)) if node not in cycle]
    new = len(others)
    kept = np.array([weights[node, heads[node]] for node in cycle])
    smaller = np.full((new + 1, new + 1), -np.inf)
    smaller[:new, :new] = weights[np.ix_(others, others)]
    smaller[:new, new] = weights[np.ix_(others, cycle)].max(1)
    smaller[new, :new] = (weights[np.ix_(cycle, others)] - kept[:, None]).max(0)
    found = chu_liu_edmonds(smaller)
    for node, head in found.items():
        if node == new:
            source = others[head]
            heads[cycle[int((weights[cycle, source] - kept).argmax())]] = source
        else:
            target = others[node]
            heads[target] = others[head] if head != new else cycle[int(weights[target, cycle].argmax())]
    return heads


def _cycle_from(node, heads):
    path = []
    while node and node not in path:
        path.append(node)
        node = heads[node]
    return path[path.index(node) :] if node else None


def tree_by_n_calls(scores, root_scores):
    """The best tree with a single root: one search for each word being that root."""
    n = len(scores)
    found = []
    for root in range(n):
        weights = np.full((n + 1, n + 1), -np.inf)
        weights[1:, 1:] = scores
        weights[root + 1, 0] = root_scores[root]
        heads = chu_liu_edmonds(weights)
        found.append([heads[word] for word in range(1, n + 1)])
    return max(found, key=lambda heads: score_of_tree(heads, scores, root_scores))
