"""How far two structures over the same words agree: UAS, LAS and UDA of trees, precision, recall and F1 of edges.

Which words or edges count is the caller's choice: treebanks differ in whether punctuation does (UD: yes; the older WSJ
practice: no, by the gold tag).
"""

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from depgen.trees.sentence import Sentence

# -- trees ------------------------------------------------------------------------------------------------------------


def compared_words(gold: Sequence[Sentence], others: Sequence[Sentence]) -> pd.DataFrame:
    """A row for each word of sentences that have two trees, with 100 where it is right and 0 where not.

    Columns: `sentence` (its place, from 0); `length` of the sentence; `relation`, the gold one, `_` where the tree has
    none; `uas`: the heads are the same, roots too, as in DDA; `las`: and so are the relations, subtypes included, NaN
    where a tree of the sentence has none; `uda`: the other tree has an arc between the word and its gold head in either
    direction, or a root is one in both.

    Heads of the other tree may form no tree, as each word's likeliest head by itself.

    >>> one, other = Sentence(("a", "b", "c"), (2, 0, 2)), Sentence(("a", "b", "c"), (2, 1, 2))
    >>> compared_words([one], [other])[["uas", "uda"]].values.tolist()
    [[100.0, 100.0], [0.0, 0.0], [100.0, 100.0]]
    """
    assert [each.words for each in gold] == [each.words for each in others]
    lengths = np.array([len(each) for each in gold], dtype=np.int64)
    sentence = np.repeat(np.arange(len(gold)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    right, own = (
        np.fromiter(chain.from_iterable(each.heads or () for each in side), np.int64, len(sentence))
        for side in (gold, others)
    )
    relations, found = (
        np.array([each for one in side for each in one.relations or ("_",) * len(one)], dtype=object)
        for side in (gold, others)
    )
    named = [one.relations is not None and other.relations is not None for one, other in zip(gold, others, strict=True)]
    same = right == own
    return pd.DataFrame(
        {
            "sentence": sentence,
            "length": lengths[sentence],
            "relation": relations,
            "uas": 100.0 * same,
            "las": np.where(np.array(named, dtype=bool)[sentence], 100.0 * (same & (relations == found)), np.nan),
            "uda": 100.0 * np.isin(_pairs(right, starts), _pairs(own, starts)),
        }
    )


def _pairs(heads: Int[np.ndarray, " words"], starts: Int[np.ndarray, " words"]) -> Int[np.ndarray, " words"]:
    """Each word's pair with its head as one number, whichever of the two is the head; a root is paired with itself."""
    own = np.arange(len(heads))
    other = np.where(heads == 0, own, starts + heads - 1)
    pairs: Int[np.ndarray, " words"] = np.minimum(own, other) * len(heads) + np.maximum(own, other)
    return pairs


def attachment(words: pd.DataFrame) -> dict[str, float]:
    """UAS, LAS and UDA of the words that count: per cent of them (micro average), NaN without any.

    LAS is NaN where a sentence has a tree without relations.
    """
    return {name: float(words[name].mean(skipna=False)) for name in ("uas", "las", "uda")}


# -- graphs and constituents ------------------------------------------------------------------------------------------

Edges = Collection[tuple[int, int, str]]
"""Edges (head, dependent, label) of a graph, or constituents (start, end, label) of a tree."""


def compared_edges(gold: Sequence[Edges], others: Sequence[Edges]) -> pd.DataFrame:
    """A row for each edge that a sentence has in either of two graphs, and whether each graph has it.

    Columns: `sentence` (its place, from 0), `head`, `dependent`, `label`; `gold` and `found`: the graph has the edge;
    `gold_pair` and `found_pair`: it has an edge between the two, with any label.
    """
    rows = [
        (number, *edge, edge in one, edge in other)
        for number, (one, other) in enumerate(zip(map(set, gold), map(set, others), strict=True))
        for edge in sorted(one | other)
    ]
    edges = pd.DataFrame(rows, columns=["sentence", "head", "dependent", "label", "gold", "found"])
    edges = edges.astype({"gold": bool, "found": bool})
    pairs = edges.groupby(["sentence", "head", "dependent"])
    return edges.assign(gold_pair=pairs["gold"].transform("max"), found_pair=pairs["found"].transform("max"))


def edge_scores(edges: pd.DataFrame) -> dict[str, float | int]:
    """Numbers of gold and found edges; precision, recall and F1 without and with labels, per cent (micro average).

    Unlabelled, a pair of several labels is one. A share of nothing is NaN.

    >>> edge_scores(compared_edges([[(0, 2, "root"), (2, 1, "nsubj")]], [[(2, 1, "obj")]]))["unlabelled_recall"]
    50.0
    """
    pairs = edges.drop_duplicates(["sentence", "head", "dependent"])
    return {
        "gold": int(edges["gold"].sum()),
        "found": int(edges["found"].sum()),
        **_shares("unlabelled", pairs["gold_pair"].to_numpy(), pairs["found_pair"].to_numpy()),
        **_shares("labelled", edges["gold"].to_numpy(), edges["found"].to_numpy()),
    }


def _shares(kind: str, gold: Bool[np.ndarray, " edges"], found: Bool[np.ndarray, " edges"]) -> dict[str, float]:
    right, all_gold, all_found = (int(each.sum()) for each in (gold & found, gold, found))
    parts = {"precision": (right, all_found), "recall": (right, all_gold), "f1": (2 * right, all_found + all_gold)}
    return {f"{kind}_{name}": 100 * part / whole if whole else np.nan for name, (part, whole) in parts.items()}
