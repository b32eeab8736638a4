"""Trees or graphs of one file against those of another: the measure `attachment`.

Trees have UAS, LAS and UDA. Graphs have precision, recall and F1 of their edges, as in the scorers of SemEval 2014 and
2015 (Oepen et al., 2014, 2015; github.com/semantic-dependency-parsing/toolkit): a top node is an edge from the root,
punctuation counts, and a second score leaves the edges from the root out. Enhanced graphs of Universal Dependencies are
compared likewise (Bouma et al., 2020, ELAS), after paths through empty nodes are contracted.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.measure import Measured
from depgen.metrics.attachment import attachment, compared_edges, compared_words, edge_scores
from depgen.trees.conllu import ConlluBlock, read_blocks
from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sdp import TOP, SdpBlock, read_sdp_blocks
from depgen.trees.sentence import Edge, Sentence
from depgen.trees.text_files import unpacked

logger = logging.getLogger(__name__)
LENGTHS = {
    10: "1 to 10 words",
    20: "11 to 20 words",
    30: "21 to 30 words",
    40: "31 to 40 words",
    np.inf: "over 40 words",
}
"""The groups of sentences by length: the most words of each, and its name."""


@dataclass(frozen=True)
class AttachmentOptions:
    """The options of `attachment`.

    Attributes:
        gold: the file of gold trees (CoNLL-U) or graphs (`.sdp`, or DEPS of CoNLL-U); `.gz` is unpacked.
        predicted: the file of other trees or graphs of the same sentences, in the same order.
        structure: what is compared, `tree` or `graph`; by default graphs where a file is SDP, and trees of others.
        by: also a row for each relation, or for sentences of 1 to 10, 11 to 20, … words (punctuation included).
        punctuation: what the row `without punctuation`, and with `by` every further row, leaves out: words of the gold
            `relation` punct, the default of trees, or those that are punctuation by their `form`, the default of
            graphs. Edges from or to such a word are left out.
    """

    gold: Path
    predicted: Path
    structure: Literal["tree", "graph"] | None = None
    by: Literal["relation", "length"] | None = None
    punctuation: Punctuation | None = None


def attachment_of_files(options: AttachmentOptions) -> Measured:
    """Scores (per cent) of the trees or graphs of a file against gold ones of the same words; an item is a sentence.

    Of trees: UAS is the share of words with the right head (roots count, as in DDA); LAS of those with the right
    relation too, subtypes included, and none where a tree has no relations; UDA of those whose gold pair of word and
    head the other tree has in either direction. All are over words, not means over sentences.

    Of graphs: precision, recall and F1 of pairs of head and dependent, a pair of several labels being one; and of edges
    with their labels, subtypes included. All are over the edges of all sentences. Edges from the root (tops of SDP) and
    of punctuation count, as in SemEval 2015; further rows leave them out. Found edges without their labels belong to no
    relation: a relation has unlabelled recall alone.
    """
    paths = (options.gold, options.predicted)
    sdp = [path for path in paths if _is_sdp(path)]
    if sdp and options.structure == "tree":
        raise UserError(f"structure: tree, but {sdp[0]} is SDP, which holds graphs: leave it out, or name CoNLL-U.")
    of_graphs = bool(sdp) or options.structure == "graph"
    gold, others = _sentences(*paths, _with_graph if of_graphs else _with_tree)
    left_out = [is_punctuation(each, options.punctuation or ("form" if of_graphs else "relation")) for each in gold]
    scores: Callable[..., dict[str, float | int]]
    if of_graphs:
        whole, relation = "all edges", "label"
        table = _edges(paths, gold, others, left_out, tops=bool(sdp))
        groups = {"without root edges": table[table["head"] > 0]}
    else:
        whole, relation, groups = "all words", "relation", {}
        table = compared_words(gold, others).assign(is_punctuation=[*chain.from_iterable(left_out)])
    scores = edge_scores if of_graphs else _tree_scores
    content = table[~table["is_punctuation"]]
    rows = list[dict[str, Any]]()
    if options.by == "length":
        table_of = pd.cut(content["length"], [0, *LENGTHS], labels=[*LENGTHS.values()])
        rows += [_row("length", name, scores(own)) for name, own in content.groupby(table_of, observed=True)]
    elif options.by == "relation":
        of_relation = _scores_of_relation if of_graphs else scores
        rows += [_row("relation", name, of_relation(own)) for name, own in content.groupby(relation)]
    for name, own in {**groups, "without punctuation": content, whole: table}.items():
        rows.append(_row("overall", name, scores(own)))
    items = [{"sentence": number, **scores(own)} for number, own in table.groupby("sentence")]
    return Measured(pd.DataFrame(items), pd.DataFrame(rows))


def _row(level: str, name: object, scores: Mapping[str, float | int]) -> dict[str, Any]:
    return {"level": level, "name": name, **scores}


def _tree_scores(words: pd.DataFrame) -> dict[str, float | int]:
    return {"words": len(words), **attachment(words)}


def _scores_of_relation(edges: pd.DataFrame) -> dict[str, float | int]:
    """Of the edges with one label; a gold pair is found with any label."""
    found = edges.loc[edges["gold"], "found_pair"]
    recall = 100 * found.mean() if len(found) else np.nan
    of_pairs = {"unlabelled_precision": np.nan, "unlabelled_recall": recall, "unlabelled_f1": np.nan}
    return edge_scores(edges) | of_pairs


# -- files ------------------------------------------------------------------------------------------------------------


def _is_sdp(path: Path) -> bool:
    """Whether a file is SDP; one of any other ending is CoNLL-U."""
    return unpacked(path).suffix.lower() == ".sdp"


def _sentences(
    gold: Path, predicted: Path, read: Callable[[ConlluBlock | SdpBlock], Sentence]
) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences of both files, once it is certain that they are the same words."""
    blocks = [[*(read_sdp_blocks(path) if _is_sdp(path) else read_blocks(path))] for path in (gold, predicted)]
    sentences = [list(map(read, each)) for each in blocks]
    for number, (one, other) in enumerate(zip(*sentences, strict=False), start=1):
        if one.words != other.words:
            raise UserError(
                f"{blocks[1][number - 1].where(1)}: expected the words of sentence {number} of {gold}, "
                f"{' '.join(one.words)!r}, found {' '.join(other.words)!r}."
            )
    if len(sentences[0]) != len(sentences[1]):
        shorter, longer = sorted(zip(map(len, sentences), (gold, predicted), strict=True))
        raise UserError(
            f"{longer[1]} has more sentences than {shorter[1]}, which has {shorter[0]}: expected the same sentences in "
            "the same order."
        )
    return sentences[0], sentences[1]


def _with_tree(block: ConlluBlock | SdpBlock) -> Sentence:
    sentence = block.sentence()
    if sentence.heads is None:
        raise UserError(
            f"{block.where(1)}: expected a tree in columns 7 and 8, found none. Graphs in DEPS are compared by "
            "structure: graph."
        )
    return sentence


def _with_graph(block: ConlluBlock | SdpBlock) -> Sentence:
    sentence = block.sentence()
    return sentence if isinstance(block, SdpBlock) else replace(sentence, edges=block.edges())


def _edges(
    paths: Sequence[Path],
    gold: Sequence[Sentence],
    others: Sequence[Sentence],
    left_out: Sequence[Sequence[bool]],
    *,
    tops: bool,
) -> pd.DataFrame:
    """The edges of both files; with `tops`, all edges from the root have the label of SDP's.

    Sentences without a graph count as empty, with a warning: in CoNLL-U a graph without edges looks the same as none.
    """
    for path, sentences in zip(paths, (gold, others), strict=True):
        without = [sentence for sentence in sentences if sentence.edges is None]
        if len(without) == len(sentences):
            has = "trees alone" if without[0].heads is not None else "none"
            raise UserError(
                f"{path}: expected graphs in DEPS (column 9), found {has}: give both files graphs, or leave structure "
                "out to compare trees."
            )
        if without:
            empty, all_of_them = len(without), len(sentences)
            logger.warning(
                "%s: %d of %d sentences have no edge in DEPS: their graphs count as empty.", path, empty, all_of_them
            )

    def labelled(sentence: Sentence) -> list[Edge]:
        return [(head, word, label if head or not tops else TOP) for head, word, label in sentence.edges or ()]

    edges = compared_edges([labelled(each) for each in gold], [labelled(each) for each in others])
    ends = zip(edges["sentence"], edges["head"], edges["dependent"], strict=True)
    touches = [
        any(word and left_out[number][word - 1] for word in (head, dependent)) for number, head, dependent in ends
    ]
    return edges.assign(
        is_punctuation=np.array(touches, dtype=bool), length=edges["sentence"].map(lambda k: len(gold[k]))
    )
