"""Trees or graphs of one file against those of another, also by relation or by length of sentences.

Trees have UAS, LAS and UDA. Graphs have precision, recall and F1 of their edges, as in the scorers of SemEval 2014 and
2015 (Oepen et al., 2014, 2015; github.com/semantic-dependency-parsing/toolkit): a top node is an edge from the root,
punctuation counts, and a second score leaves the edges from the root out. Enhanced graphs of Universal Dependencies are
compared likewise (Bouma et al., 2020, ELAS), after paths through empty nodes are contracted.
"""

import json as jsonlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TypeVar

from depgen.errors import UserError
from depgen.metrics.attachment import Attachment, ComparedWord, compared_words
from depgen.metrics.labelled import labelled_scores
from depgen.trees.conllu import ConlluBlock, read_blocks
from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sdp import TOP, SdpBlock, read_sdp_blocks
from depgen.trees.sentence import Edge, Sentence
from depgen.trees.text_files import unpacked

logger = logging.getLogger(__name__)
T = TypeVar("T")
By = Literal["relation", "length"]
Row = dict[str, float | int]
Rows = dict[str, Row]
LENGTHS = (10, 20, 30, 40)
"""The most words of the sentences of a group; longer ones are a group too."""
TREE_SCORES: Mapping[str, str] = {"words": "words", "uas": "UAS", "las": "LAS", "uda": "UDA"}
GRAPH_SCORES: Mapping[str, str] = {
    "gold": "gold",
    "found": "found",
    "unlabelled_precision": "UP",
    "unlabelled_recall": "UR",
    "unlabelled_f1": "UF",
    "labelled_precision": "LP",
    "labelled_recall": "LR",
    "labelled_f1": "LF",
}
"""Keys of JSON and heads of columns."""
NAN = float("nan")


def file_scores(
    gold: Path,
    predicted: Path,
    *,
    structure: Literal["tree", "graph"] | None = None,
    by: By | None = None,
    punctuation: Punctuation | None = None,
    json: bool = False,
) -> str:
    """Scores (per cent) of the trees or graphs of a file against gold ones of the same words; tab-separated.

    Of trees: UAS is the share of words with the right head (roots count, as in DDA); LAS of those with the right
    relation too, subtypes included, and none where a tree has no relations; UDA of those whose gold pair of word and
    head the other tree has in either direction. All are over words, not means over sentences.

    Of graphs: precision, recall and F1 (UP, UR, UF) of pairs of head and dependent, a pair of several labels being one;
    and of edges with their labels (LP, LR, LF), subtypes included. All are over the edges of all sentences. Edges from
    the root (tops of SDP) and of punctuation count, as in SemEval 2015; further lines leave them out. A share of no
    edges is `-`. Found edges without their labels belong to no relation: a relation has unlabelled recall alone.

    Args:
        gold: the file of gold trees (CoNLL-U) or graphs (`.sdp`, or DEPS of CoNLL-U); `.gz` is unpacked.
        predicted: the file of other trees or graphs of the same sentences, in the same order.
        structure: what is compared, `tree` or `graph`; by default graphs where a file is SDP, and trees of others.
        by: a line for each relation, or for sentences of 1 to 10, 11 to 20, … words (punctuation included).
        punctuation: what the line `without punctuation`, and with `by` every further line, leaves out: words of the
            gold `relation` punct, the default of trees, or those that are punctuation by their `form`, the default of
            graphs. Edges from or to such a word are left out.
        json: print JSON.

    Raises:
        UserError: a file is missing or of another format, lacks trees or graphs, or has other words than the other
            file; punctuation is left out by relations, and the gold file has none.
    """
    sdp = [path for path in (gold, predicted) if _is_sdp(path)]
    if sdp and structure == "tree":
        raise UserError(f"structure: tree, but {sdp[0]} is SDP, which holds graphs: leave it out, or name CoNLL-U.")
    if sdp or structure == "graph":
        columns, name = GRAPH_SCORES, "graphs"
        rows = _graph_rows(_graphs(gold, predicted, punctuation or "form", tops=bool(sdp)), by)
    else:
        columns, name = TREE_SCORES, "trees"
        pairs = _pairs(gold, predicted, _with_tree)
        rows = _tree_rows([word for pair in pairs for word in compared_words(*pair, punctuation or "relation")], by)
    if json:
        finite = {
            group: {key: None if value != value else value for key, value in row.items()} for group, row in rows.items()
        }
        return jsonlib.dumps({"gold": str(gold), "predicted": str(predicted), "rows": finite}, allow_nan=False)
    lines = ["\t".join([name, *columns.values()])]
    lines += ["\t".join([group, *(_cell(row[key]) for key in columns)]) for group, row in rows.items()]
    return "\n".join(lines)


def _is_sdp(path: Path) -> bool:
    """Whether a file is SDP; one of any other ending is CoNLL-U."""
    return unpacked(path).suffix.lower() == ".sdp"


def _cell(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "-" if value != value else f"{value:.2f}"


def _pairs(
    gold: Path, predicted: Path, read: Callable[[ConlluBlock | SdpBlock], Sentence]
) -> Iterator[tuple[Sentence, Sentence]]:
    """The sentences of both files, once it is certain that they are the same words."""
    for number, (one, other) in enumerate(zip_longest(_blocks(gold), _blocks(predicted)), start=1):
        if one is None or other is None:
            longer, shorter = (gold, predicted) if other is None else (predicted, gold)
            raise UserError(
                f"{longer} has more sentences than {shorter}, which has {number - 1}: expected the same sentences in "
                "the same order."
            )
        first, second = read(one), read(other)
        if first.words != second.words:
            place = next(
                (place for place, (a, b) in enumerate(zip(first.words, second.words, strict=False)) if a != b),
                min(len(first), len(second)),
            )
            found, expected = (each.words[place] if place < len(each) else "its end" for each in (second, first))
            raise UserError(
                f"{other.where(min(place + 1, len(second)))}: sentence {number} has {found!r} as word {place + 1}, in "
                f"{gold} it is {expected!r}: expected the same words in both files."
            )
        yield first, second


def _blocks(path: Path) -> Iterator[ConlluBlock | SdpBlock]:
    return read_sdp_blocks(path) if _is_sdp(path) else read_blocks(path)


def _grouped(
    items: Iterable[T], key: Callable[[T], str], names: Iterable[str], scores: Callable[[list[T]], Row]
) -> Rows:
    """The scores of each group that has items."""
    groups: dict[str, list[T]] = {name: [] for name in names}
    for item in items:
        groups[key(item)].append(item)
    return {name: scores(group) for name, group in groups.items() if group}


def _length(words: int) -> str:
    return _length_name(sum(words > most for most in LENGTHS))


def _length_name(number: int) -> str:
    """The name of a group of lengths.

    >>> _length_name(0), _length_name(4)
    ('1 to 10 words', 'over 40 words')
    """
    if number == len(LENGTHS):
        return f"over {LENGTHS[-1]} words"
    return f"{1 + (LENGTHS[number - 1] if number else 0)} to {LENGTHS[number]} words"


_LENGTH_NAMES = [_length_name(number) for number in range(len(LENGTHS) + 1)]


# -- trees --------------------------------------------------------------------------------------------------------


def _tree_rows(words: list[ComparedWord], by: By | None) -> Rows:
    content = [word for word in words if not word.is_punctuation]
    rows = {"all words": _scores(words), "without punctuation": _scores(content)}
    if by == "relation":
        rows |= _grouped(content, lambda word: word.relation, sorted({word.relation for word in content}), _scores)
    elif by == "length":
        rows |= _grouped(content, lambda word: _length(word.length), _LENGTH_NAMES, _scores)
    return rows


def _with_tree(block: ConlluBlock | SdpBlock) -> Sentence:
    sentence = block.sentence()
    if sentence.heads is None:
        raise UserError(
            f"{block.where(1)}: expected a tree in columns 7 and 8, found none. Graphs in DEPS are compared by "
            "structure: graph."
        )
    return sentence


def _scores(words: list[ComparedWord]) -> Row:
    return asdict(Attachment.of(words))


# -- graphs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Graphs:
    """The edges of a sentence in both files."""

    length: int
    is_punctuation: Sequence[bool]
    gold: Sequence[Edge]
    found: Sequence[Edge]

    def only(self, counts: Callable[[Edge], bool]) -> "_Graphs":
        """The graphs with the edges that count."""
        return replace(self, gold=list(filter(counts, self.gold)), found=list(filter(counts, self.found)))

    def is_content(self, edge: Edge) -> bool:
        """Whether neither end of an edge is punctuation; the root is none."""
        return not any(word and self.is_punctuation[word - 1] for word in edge[:2])


def _graphs(gold: Path, predicted: Path, punctuation: Punctuation, *, tops: bool) -> list[_Graphs]:
    """The graphs of both files; with `tops`, all edges from the root have the label of SDP's."""

    def edges(sentence: Sentence) -> list[Edge]:
        return [(head, word, label if head or not tops else TOP) for head, word, label in sentence.edges or ()]

    pairs = list(_pairs(gold, predicted, _with_graph))
    for path, sentences in zip((gold, predicted), zip(*pairs, strict=True), strict=True):
        _check_graphs(path, sentences)
    return [_Graphs(len(one), is_punctuation(one, punctuation), edges(one), edges(other)) for one, other in pairs]


def _with_graph(block: ConlluBlock | SdpBlock) -> Sentence:
    sentence = block.sentence()
    return sentence if isinstance(block, SdpBlock) else replace(sentence, edges=block.edges())


def _check_graphs(path: Path, sentences: Sequence[Sentence]) -> None:
    """Raises UserError if no sentence has a graph; where some have none, a warning says that they count as empty.

    In CoNLL-U a graph without edges looks the same as no graph.
    """
    without = [sentence for sentence in sentences if sentence.edges is None]
    if len(without) == len(sentences):
        has = "trees alone" if without[0].heads is not None else "none"
        raise UserError(
            f"{path}: expected graphs in DEPS (column 9), found {has}: give both files graphs, or leave structure out "
            "to compare trees."
        )
    if without:
        logger.warning(
            "%s: %d of %d sentences have no edge in DEPS: their graphs count as empty.",
            path,
            len(without),
            len(sentences),
        )


def _graph_rows(graphs: list[_Graphs], by: By | None) -> Rows:
    content = [each.only(each.is_content) for each in graphs]
    rows = {
        "all edges": _graph_scores(graphs),
        "without root edges": _graph_scores([each.only(lambda edge: edge[0] > 0) for each in graphs]),
        "without punctuation": _graph_scores(content),
    }
    if by == "relation":
        labels = {label for each in content for *_, label in (*each.gold, *each.found)}
        rows |= {label: _scores_of_relation(content, label) for label in sorted(labels)}
    elif by == "length":
        rows |= _grouped(content, lambda each: _length(each.length), _LENGTH_NAMES, _graph_scores)
    return rows


def _scores_of_relation(graphs: Sequence[_Graphs], label: str) -> Row:
    own = [each.only(lambda edge: edge[2] == label) for each in graphs]
    pairs = [replace(one, found=every.found) for one, every in zip(own, graphs, strict=True)]
    unlabelled = {
        "unlabelled_precision": NAN,
        "unlabelled_recall": _graph_scores(pairs)["unlabelled_recall"],
        "unlabelled_f1": NAN,
    }
    return _graph_scores(own) | unlabelled


def _graph_scores(graphs: Sequence[_Graphs]) -> Row:
    """Per cent; NaN for a share of nothing."""
    gold, found = ([each.gold for each in graphs], [each.found for each in graphs])
    scores = labelled_scores(gold, found)
    parts = {"precision": scores["found"], "recall": scores["gold"], "f1": scores["found"] + scores["gold"]}
    return {key: scores[key] if parts.get(key.rpartition("_")[2], 1) else NAN for key in GRAPH_SCORES}
