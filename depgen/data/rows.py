"""Documents as rows of tables: words with their trees, which are checked, and token ids with trees over tokens."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Int

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.trees.annotator import FIELDS, Annotator, Rearranger, SentenceError
from depgen.trees.constituency import check_constituents
from depgen.trees.graph import check_graph
from depgen.trees.pieces import LeftDependents, piece_edges, piece_heads
from depgen.trees.sentence import Constituent, Document, Edge, Sentence, check_tree

DocumentRow = dict[str, Any]
"""A document in an annotated table; see `depgen.data.table.AnnotatedSplit`."""


# -- words and their trees --------------------------------------------------------------------------------------------


def annotate_documents(documents: Sequence[Document], annotator: Annotator | None) -> list[DocumentRow]:
    """One row a document, with the trees, graphs or constituents that an annotator gives, which are checked.

    A `Rearranger` gets documents that are annotated.
    """
    for document in documents:
        if not any(len(sentence) for sentence in document.sentences):
            raise UserError(f"{document.identifier}: expected words, found an empty document.")
    places = [(document, n) for document in documents for n in range(len(document.sentences))]
    sentences = [document.sentences[n] for document, n in places]
    if annotator is not None:
        annotate = annotator.rearranged if isinstance(annotator, Rearranger) else annotator.annotate
        try:
            annotated = annotate(sentences)
        except SentenceError as error:
            document, n = places[error.number - 1]
            raise UserError(f"{document.identifier}, sentence {n + 1}: {error.complaint}") from error
        if len(annotated) != len(sentences):
            raise UserError(
                f"{documents[0].identifier} and the documents after it: the annotator ({annotator.scheme}) was given "
                f"{len(sentences)} sentences and gave back {len(annotated)}."
            )
        for (document, n), before, after in zip(places, sentences, annotated, strict=True):
            _check(before, after, f"{document.identifier}, sentence {n + 1}", annotator)
        sentences = annotated
    remaining = iter(sentences)
    return [
        _row(document.identifier, list(islice(remaining, len(document.sentences))), annotator) for document in documents
    ]


def _check(before: Sentence, after: Sentence, place: str, annotator: Annotator) -> None:
    """Raises UserError unless a sentence has what the annotator gives: a tree; or a graph or constituents, and maybe a
    tree.
    """
    by, words, structure = f"{place} ({annotator.scheme})", after.words, annotator.structure
    may_leave_out, field = annotator.leaves_out, FIELDS[structure]
    if words != before.words:
        raise UserError(f"{place}: the annotator ({annotator.scheme}) changed the words.")
    if getattr(after, field) is None and (structure == "tree" or not may_leave_out):
        raise UserError(f"{place}: the annotator ({annotator.scheme}) gave no {field}.")
    if structure == "graph" and after.edges is not None:
        check_graph(after.edges, len(after), by, self_loops=annotator.self_loops, words=words)
    if structure == "constituency" and after.spans is not None:
        check_constituents(after.spans, len(after), by, words=words)
    if after.heads is not None and not (may_leave_out and all(head == -1 for head in after.heads)):
        check_tree(after.heads, by, words=words)


def _row(identifier: str, sentences: Sequence[Sentence], annotator: Annotator | None) -> DocumentRow:
    row: DocumentRow = {
        "identifier": identifier,
        "words": [word for sentence in sentences for word in sentence.words],
        "sentence_lengths": [len(sentence) for sentence in sentences],
    }
    if annotator is not None:
        row["heads"] = [head for tree in sentences for head in tree.heads or (-1,) * len(tree)]
        row["relations"] = [relation for tree in sentences for relation in tree.relations or ("_",) * len(tree)]
        if annotator.structure == "graph":
            row["edges"] = [edges for graph in sentences for edges in _edges_by_word(graph)]
        elif annotator.structure == "constituency":
            row["spans"] = [_span_rows(tree) for tree in sentences]
    return row


def _edges_by_word(sentence: Sentence) -> list[list[dict[str, Any]]]:
    """The edges of each word, as its heads and labels; where no graph was given, a single head of -1."""
    if sentence.edges is None:
        return [[{"head": -1, "label": "_"}] for _ in sentence.words]
    by_word: list[list[dict[str, Any]]] = [[] for _ in sentence.words]
    for head, dependent, label in sentence.edges:
        by_word[dependent - 1].append({"head": head, "label": label})
    return by_word


def _span_rows(sentence: Sentence) -> list[dict[str, Any]]:
    """The constituents of a sentence; where none were given, a start and an end of -1 for each word."""
    if sentence.spans is None:
        return [{"start": -1, "end": -1, "label": "_"}] * len(sentence)
    return [{"start": start, "end": end, "label": label} for start, end, label in sentence.spans]


def document_of_row(row: DocumentRow) -> Document:
    """The document of a row, with the trees, graphs and constituents that it has; None where a sentence has none."""
    ends = np.cumsum(row["sentence_lengths"]).tolist()
    sentences = []
    for number, (end, length) in enumerate(zip(ends, row["sentence_lengths"], strict=True)):
        part = slice(end - length, end)
        columns = {name: tuple(row[name][part]) for name in ("words", "heads", "relations") if name in row}
        if all(head == -1 for head in columns.get("heads", ())):
            columns = {"words": columns["words"]}
        edges: tuple[Edge, ...] | None = None
        if "edges" in row:
            by_word = enumerate(row["edges"][part], start=1)
            edges = tuple((edge["head"], word, edge["label"]) for word, of_word in by_word for edge in of_word)
            edges = None if any(head == -1 for head, _, _ in edges) else edges
        spans: tuple[Constituent, ...] | None = None
        if "spans" in row:
            spans = tuple((span["start"], span["end"], span["label"]) for span in row["spans"][number])
            spans = None if any(start == -1 for start, _, _ in spans) else spans
        sentences.append(Sentence(**columns, edges=edges, spans=spans))
    return Document(tuple(sentences), row["identifier"])


# -- token ids and trees over tokens ----------------------------------------------------------------------------------


def encode_documents(
    table: Any,  # noqa: ANN401  (pyarrow carries no types)
    vocabulary: Vocabulary,
    *,
    names: Mapping[str, list[str]],
    left_dependents: LeftDependents,
    hang_roots_on_the_sentence_before: bool,
) -> dict[str, Any]:
    """Columns of token ids, of where sentences begin among them and end, and of trees over tokens; a list a document.

    All documents are encoded together, as one text, since numpy and Arrow are fast on long arrays alone. Heads, edges
    and constituents then count tokens within their document.

    Args:
        table: some rows of an annotated table, as a `pyarrow.Table`.
        vocabulary: gives words their pieces.
        names: of relations, labels of edges and of constituents, which become numbers: those of the columns wanted.
        left_dependents: see `depgen.trees.pieces`.
        hang_roots_on_the_sentence_before: see `DocumentJoining`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    document_words, words = _lists(table["words"])  # first word of each document, and the end
    document_sentences, lengths = _lists(table["sentence_lengths"])
    lengths = lengths.to_numpy()
    sentence_words = np.concatenate([[0], np.cumsum(lengths)])
    types = words.dictionary_encode()
    pieces_of_types = pa.array(map(vocabulary.pieces, types.dictionary.to_pylist()), pa.list_(pa.int32()))
    word_tokens, ids = _lists(pieces_of_types.take(types.indices))
    document_tokens = word_tokens[document_words]
    word_of_token = np.repeat(np.arange(len(words)), np.diff(word_tokens))

    def numbers(column: str, strings: Any) -> Int[np.ndarray, " strings"]:  # noqa: ANN401
        found: np.ndarray = pc.index_in(strings, value_set=pa.array(names[column])).to_numpy()
        return found

    def over_all(heads: Int[np.ndarray, " arcs"], dependents: Int[np.ndarray, " arcs"]) -> Int[np.ndarray, " arcs"]:
        """1-based heads among all words, of heads within sentences; -1 stays.

        The root of a document's first sentence hangs on the last word of the document before, which `within` makes 0.
        """
        words_before = np.repeat(sentence_words[:-1], lengths)[dependents]
        result = np.where(heads > 0, heads + words_before, heads)
        return np.where(heads == 0, words_before, result) if hang_roots_on_the_sentence_before else result

    def within(heads: Int[np.ndarray, " arcs"], tokens: Int[np.ndarray, " arcs"]) -> Int[np.ndarray, " arcs"]:
        """Heads within documents, of heads among all tokens; 0 and -1 stay."""
        tokens_before = np.repeat(document_tokens[:-1], np.diff(document_tokens))[tokens]
        return np.where(heads > 0, heads - tokens_before, heads)

    columns = {
        "ids": _column(document_tokens, ids),
        "sentences": _nested_offsets(document_sentences, word_tokens[sentence_words]),
    }
    if vocabulary.splits_words:
        word_ends = np.zeros(len(ids), np.uint8)
        word_ends[word_tokens[1:] - 1] = 1
        columns["word_ends"] = _column(document_tokens, word_ends)
    if "relations" in names:
        heads = over_all(_lists(table["heads"])[1].to_numpy(), np.arange(len(words)))
        heads = np.array(piece_heads(heads, word_of_token, left_dependents=left_dependents))
        relations = np.zeros(len(ids), np.int64)
        relations[word_tokens[:-1]] = numbers("relations", _lists(table["relations"])[1])
        columns["heads"] = _column(document_tokens, within(heads, np.arange(len(ids))))
        columns["relations"] = _column(document_tokens, relations)
    if "edges" in names:
        word_edges, edges = _lists(_lists(table["edges"])[1])
        dependents = np.repeat(np.arange(len(words)), np.diff(word_edges))
        heads = over_all(pc.struct_field(edges, "head").to_numpy(), dependents)
        token_edges, heads, edge_of_token = piece_edges(
            word_edges, heads, word_of_token, left_dependents=left_dependents
        )
        tokens = np.repeat(np.arange(len(ids)), np.diff(token_edges))
        labels = np.append(numbers("edges", pc.struct_field(edges, "label")), 0)  # the last: of later pieces
        columns["edge_offsets"] = _nested_offsets(document_tokens, token_edges)
        columns["edge_heads"] = _column(token_edges[document_tokens], within(heads, tokens))
        columns["edge_labels"] = _column(token_edges[document_tokens], labels[edge_of_token])
    if "spans" in names:
        sentence_spans, spans = _lists(_lists(table["spans"])[1])
        document_spans = sentence_spans[document_sentences]
        words_before = np.repeat(sentence_words[:-1], np.diff(sentence_spans))
        tokens_before = np.repeat(document_tokens[:-1], np.diff(document_spans))
        for side in ("start", "end"):
            places = pc.struct_field(spans, side).to_numpy()
            tokens = word_tokens[np.maximum(places, 0) + words_before] - tokens_before
            columns[f"span_{side}s"] = _column(document_spans, np.where(places < 0, -1, tokens))
        columns["span_labels"] = _column(document_spans, numbers("spans", pc.struct_field(spans, "label")))
    return columns


def _lists(column: Any) -> tuple[Int[np.ndarray, " lists_and_one"], Any]:  # noqa: ANN401
    """Where each list of an Arrow column begins among all values, and the end; and the values."""
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    offsets = array.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], array.flatten()


def _column(offsets: Int[np.ndarray, " lists_and_one"], values: Any) -> Any:  # noqa: ANN401
    """The Arrow array of the lists of values that begin at the offsets."""
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def _nested_offsets(outer: Int[np.ndarray, " rows_and_one"], inner: Int[np.ndarray, " lists_and_one"]) -> Any:  # noqa: ANN401
    """Where the inner lists of each row begin, from 0, and end; of rows that begin at these inner lists."""
    counts = np.diff(outer) + 1
    rows = np.repeat(np.arange(len(counts)), counts)
    values = inner[np.arange(len(rows)) - rows] - inner[outer[:-1]][rows]
    return _column(outer + np.arange(len(outer)), values)
