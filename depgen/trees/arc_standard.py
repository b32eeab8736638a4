"""Projective trees as sequences of arc-standard actions.

A word is put on the stack (`SHIFT`). `LEFT` makes the word on top the head of the one below it, `RIGHT` the one below
the head of the word on top; the dependent leaves the stack. A word takes its dependents on the left before those on the
right, so that a tree has one sequence.
"""

from collections.abc import Sequence

SHIFT, LEFT, RIGHT, ROOT = 0, 1, 2, 3
"""The actions; `ROOT` takes the last word off the stack, and is no part of the sequences of this file."""
NO_HEAD = -1
"""The head of a word that has none yet."""


def arc_actions(heads: Sequence[int]) -> list[int]:
    """The actions that build a tree's arcs, each as early as it can be built.

    Where the tree is not projective or has several roots, some arcs are not built.

    Args:
        heads: 1-based head of each word, 0 = root, `NO_HEAD` where none is known.

    >>> arc_actions([2, 0, 2])  # LEFT once the second word is there, RIGHT once the third has all its dependents
    [0, 0, 1, 0, 2]
    """
    pending = [0] * (len(heads) + 1)
    for head in heads:
        if head > 0:
            pending[head] += 1
    stack, actions = list[int](), list[int]()
    for word in range(1, len(heads) + 1):
        stack.append(word)
        actions.append(SHIFT)
        while len(stack) > 1:
            below, top = stack[-2:]
            if heads[below - 1] == top and not pending[below]:
                del stack[-2]
                actions.append(LEFT)
                pending[top] -= 1
            elif heads[top - 1] == below and not pending[top]:
                stack.pop()
                actions.append(RIGHT)
                pending[below] -= 1
            else:
                break
    return actions


def heads_of_actions(actions: Sequence[int]) -> list[int]:
    """The head of each word; `NO_HEAD` for those that are left on the stack.

    >>> heads_of_actions([0, 0, 1, 0, 2])
    [2, -1, 2]
    """
    heads, stack = list[int](), list[int]()
    for action in actions:
        if action == SHIFT:
            heads.append(NO_HEAD)
            stack.append(len(heads))
        else:
            dependent = stack.pop(-2 if action == LEFT else -1)
            heads[dependent - 1] = stack[-1]
    return heads


def are_built(heads: Sequence[int], actions: Sequence[int]) -> bool:
    """Whether the actions build all arcs between words."""
    return len(actions) - len(heads) == sum(head > 0 for head in heads)


def single_root(heads: Sequence[int]) -> list[int]:
    """The tree with all roots but the first as dependents of the first.

    >>> single_root([0, 1, 0])
    [0, 1, 1]
    """
    root = next((word for word, head in enumerate(heads, start=1) if head == 0), 0)
    return [root if head == 0 and word != root else head for word, head in enumerate(heads, start=1)]
