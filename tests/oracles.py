"""Slow and obvious versions of what the package computes fast, written from the papers alone."""

import torch


def future_dependents_by_loop(heads, *, root_target=True, eos_target=True):
    """Z of each input position as lists of 1-based words; n + 1 is the end (Yang & Wan 2022, Sec. 2.1)."""
    n = len(heads)
    sets = [[] for _ in range(n + 1)]
    for word, head in enumerate(heads, start=1):
        if head == 0:
            if root_target:
                sets[0].append(word)
        elif head > 0:
            sets[min(word, head)].append(max(word, head))
    if eos_target:
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
