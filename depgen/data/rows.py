"""Documents as rows of tables: words with their trees, which are checked, and token ids with trees over tokens."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Int

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.trees.annotator import (
    FIELDS,
    Annotator,
    Rearranger,
    SentenceError,
    has_self_loops,
    leaves_out,
    structure_of,
)
from depgen.trees.constituency import check_constituents
from depgen.trees.graph import check_graph
from depgen.trees.pieces import LeftDependents, piece_edges, piece_heads
from depgen.trees.sentence import Constituent, Document, Edge, Sentence
from depgen.trees.tree import check_tree

Row = dict[str, Any]


def annotate_documents(documents: Sequence[Document], annotator: Annotator | None) -> list[Row]:
    """One row a document, trees checked: a single head a word, within the sentence, no cycle; and graphs or
    constituents, where the annotator gives such. It may leave sentences out that say so. A `Rearranger`
    gets documents that are annotated.

    Raises:
        UserError: an empty document, a sentence that the annotator refuses, other words than were given, no heads,
            edges or spans, heads that form no tree, edges that form no graph, constituents that cross.
    """
    sentences = [sentence for document in documents for sentence in document.sentences]
    try:
        annotated = iter(_annotated(sentences, annotator))
    except SentenceError as error:
        raise UserError(f"{_place(documents, error.number)}: {error.complaint}") from error
    rows: list[Row] = []
    for document in documents:
        if not any(len(sentence) for sentence in document.sentences):
            raise UserError(f"{document.identifier}: expected words, found an empty document.")
        trees = list(islice(annotated, len(document.sentences)))
        row: Row = {
            "identifier": document.identifier,
            "words": list(document.words()),
            "sentence_lengths": [len(sentence) for sentence in document.sentences],
        }
        if annotator is not None:
            _check(document, trees, annotator)
            row["heads"] = [head for tree in trees for head in tree.heads or (-1,) * len(tree)]
            row["relations"] = [relation for tree in trees for relation in tree.relations or ("_",) * len(tree)]
            if structure_of(annotator) == "graph":
                row["edges"] = [edges for graph in trees for edges in _edges_by_word(graph)]
            elif structure_of(annotator) == "constituency":
                row["spans"] = [_span_rows(tree) for tree in trees]
        rows.append(row)
    if annotator is not None and (surplus := len(list(annotated))):
        raise UserError(
            f"{documents[-1].identifier}: the annotator ({annotator.scheme}) gave back {surplus} sentences too many."
        )
    return rows


def _annotated(sentences: list[Sentence], annotator: Annotator | None) -> list[Sentence]:
    if isinstance(annotator, Rearranger):
        return annotator.rearranged(sentences)
    return sentences if annotator is None else annotator.annotate(sentences)


def document_of_row(row: Row) -> Document:
    """The document of a row, with the trees, graphs and constituents that it has; None where a sentence has none."""
    ends = np.cumsum(row["sentence_lengths"]).tolist()
    sentences = []
    for number, (end, length) in enumerate(zip(ends, row["sentence_lengths"], strict=True)):
        part = slice(end - length, end)
        columns = {name: tuple(row[name][part]) for name in ("words", "heads", "relations") if name in row}
        if all(head == -1 for head in columns.get("heads", ())):
            columns = {"words": columns["words"]}
        edges = _edges_of(row["edges"][part]) if "edges" in row else None
        spans = _spans_of(row["spans"][number]) if "spans" in row else None
        sentences.append(Sentence(**columns, edges=edges, spans=spans))
    return Document(tuple(sentences), row["identifier"])


def merge_sentences(document: Document) -> Document:
    """The document as one sentence, to be parsed whole: without trees, with tags if all sentences have."""
    tagged = all(sentence.tags is not None for sentence in document.sentences)
    tags = tuple(tag for sentence in document.sentences for tag in sentence.tags or ()) if tagged else None
    return Document((Sentence(tuple(document.words()), tags=tags),), document.identifier)


def _place(documents: Sequence[Document], number: int) -> str:
    """Document and sentence within it of the sentence with this number (from 1) among all of them."""
    places = (
        f"{document.identifier}, sentence {n}" for document in documents for n in range(1, len(document.sentences) + 1)
    )
    return next(islice(places, number - 1, None))


def _check(document: Document, trees: Sequence[Sentence], annotator: Annotator) -> None:
    if len(trees) != len(document.sentences):
        raise UserError(f"{document.identifier}: the annotator ({annotator.scheme}) gave back too few sentences.")
    for number, (sentence, tree) in enumerate(zip(document.sentences, trees, strict=True), start=1):
        where = f"{document.identifier}, sentence {number}"
        if tree.words != sentence.words:
            raise UserError(f"{where}: the annotator ({annotator.scheme}) changed the words.")
        _check_structure(tree, where, annotator)


def _check_structure(found: Sentence, where: str, annotator: Annotator) -> None:
    """Raises UserError unless a sentence has what the annotator gives: a tree; or a graph or constituents, and maybe a
    tree.
    """
    left, by = leaves_out(annotator), f"{where} ({annotator.scheme})"
    structure = structure_of(annotator)
    field = FIELDS[structure]
    if getattr(found, field) is None and (structure == "tree" or not left):
        raise UserError(f"{where}: the annotator ({annotator.scheme}) gave no {field}.")
    if structure == "graph" and found.edges is not None:
        check_graph(found.edges, len(found), by, self_loops=has_self_loops(annotator), words=found.words)
    if structure == "constituency" and found.spans is not None:
        check_constituents(found.spans, len(found), by, words=found.words)
    if found.heads is not None and not (left and all(head == -1 for head in found.heads)):
        check_tree(found.heads, by, words=found.words)


def _edges_of(words: Sequence[Sequence[Row]]) -> tuple[Edge, ...] | None:
    """The edges of a sentence, in the order in which a sentence has them; None where it has no graph."""
    edges = [(edge["head"], word, edge["label"]) for word, of_word in enumerate(words, 1) for edge in of_word]
    return None if any(head == -1 for head, _, _ in edges) else tuple(edges)


def _spans_of(spans: Sequence[Row]) -> tuple[Constituent, ...] | None:
    """The constituents of a sentence; None where it was given none."""
    found = tuple((span["start"], span["end"], span["label"]) for span in spans)
    return None if any(start == -1 for start, _, _ in found) else found


def _span_rows(sentence: Sentence) -> list[Row]:
    """The constituents of a sentence; where none were given, a start and an end of -1 for each word."""
    if sentence.spans is None:
        return [{"start": -1, "end": -1, "label": "_"}] * len(sentence)
    return [{"start": start, "end": end, "label": label} for start, end, label in sentence.spans]


def _edges_by_word(sentence: Sentence) -> list[list[Row]]:
    """The edges of each word, as its heads and labels; where no graph was given, a single head of -1."""
    if sentence.edges is None:
        return [[{"head": -1, "label": "_"}] for _ in sentence.words]
    by_word: list[list[Row]] = [[] for _ in sentence.words]
    for head, dependent, label in sentence.edges:
        by_word[dependent - 1].append({"head": head, "label": label})
    return by_word


def encoded_row(
    row: Row,
    *,
    vocabulary: Vocabulary,
    numbers: dict[str, dict[str, int]],
    has_trees: bool,
    left_dependents: LeftDependents,
    hang_roots_on_the_sentence_before: bool,
) -> dict[str, Any]:
    """A document's token ids, where its sentences begin among them and end, and its trees over tokens.

    Heads, edges and constituents count tokens within the document.

    Args:
        row: of an annotated table.
        vocabulary: gives words their pieces.
        numbers: of the names of relations, labels of edges and of constituents.
        has_trees: whether its heads are wanted.
        left_dependents: see `depgen.trees.pieces`.
        hang_roots_on_the_sentence_before: see `DocumentJoining`.
    """
    pieces = [vocabulary.pieces(word) for word in row["words"]]
    counts = np.array([len(of_word) for of_word in pieces])
    first = np.concatenate([[0], counts.cumsum()])  # piece of each word, and the end
    word_of_piece = np.repeat(np.arange(len(counts)), counts)
    joined = partial(_joined, hang_roots_on_the_sentence_before=hang_roots_on_the_sentence_before)
    lengths = np.array(row["sentence_lengths"])
    ends = lengths.cumsum()
    sentence_starts = np.repeat(ends - lengths, lengths)  # of each word: the first word of its sentence
    columns: dict[str, Any] = {
        "ids": np.array([token for of_word in pieces for token in of_word], np.int32),
        "sentences": first[np.concatenate([[0], ends])],
    }
    if vocabulary.splits_words:
        columns["word_ends"] = np.zeros(len(word_of_piece), np.uint8)
        columns["word_ends"][first[1:] - 1] = 1

    if has_trees:
        heads = joined(np.array(row["heads"]), sentence_starts)
        relations = np.zeros(len(word_of_piece), np.int64)
        relations[first[:-1]] = [numbers["relations"][relation] for relation in row["relations"]]
        columns["heads"] = np.array(piece_heads(heads, word_of_piece, left_dependents=left_dependents), np.int32)
        columns["relations"] = relations
    if "edges" in row:
        edges = [edge for of_word in row["edges"] for edge in of_word]
        edge_counts = np.array([len(of_word) for of_word in row["edges"]])
        heads = np.array([edge["head"] for edge in edges], np.int64)
        heads = joined(heads, np.repeat(sentence_starts, edge_counts))
        offsets, heads, edge_of_piece = piece_edges(
            np.concatenate([[0], edge_counts.cumsum()]), heads, word_of_piece, left_dependents=left_dependents
        )
        labels = np.array([*(numbers["edges"][edge["label"]] for edge in edges), 0])  # the last: of later pieces
        columns |= {"edge_offsets": offsets, "edge_heads": heads, "edge_labels": labels[edge_of_piece]}
    if "spans" in row:
        begins = ends - lengths
        places = [
            (first[begin + span["start"]], first[begin + span["end"]]) if span["start"] >= 0 else (-1, -1)
            for begin, spans in zip(begins, row["spans"], strict=True)
            for span in spans
        ]
        columns["span_starts"], columns["span_ends"] = np.array(places, np.int32).reshape(-1, 2).T
        columns["span_labels"] = [numbers["spans"][span["label"]] for spans in row["spans"] for span in spans]
    return columns


def _joined(
    heads: Int[np.ndarray, " arcs"],
    sentence_starts: Int[np.ndarray, " arcs"],
    *,
    hang_roots_on_the_sentence_before: bool,
) -> Int[np.ndarray, " arcs"]:
    """1-based heads within the document, of heads within sentences that begin after so many words; -1 stays."""
    within = np.where(heads > 0, heads + sentence_starts, heads)
    return np.where(heads == 0, sentence_starts, within) if hang_roots_on_the_sentence_before else within
