"""An annotated table as token ids, heads and edges: encoded once into flat arrays, which every later start maps.

The arrays lie in `$DEPGEN_CACHE/encodings/<digest>/`, each in a `.npy` file. The table is encoded batch by batch of
Arrow, so that memory does not grow with the corpus, nor do the offsets of its strings beyond 32 bits.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from jaxtyping import Int

from depgen.data.encoded import Coded, CodedEdges, CodedSpans, EncodedSplit
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.locations import cache_root, folder_written_whole, lines_sha256, made_once, write_atomically
from depgen.trees.pieces import LeftDependents, piece_edges, piece_heads

FORMAT = "1"
"""Part of every encoding's key: raised when the arrays change."""

SUMMARY = "summary.json"

DocumentJoining = Literal["roots", "previous_sentence", "whole"]
"""How the trees of a document's sentences become one.

`roots` keeps all roots, so every one is a child of BOS, as the authors' code of Yang & Wan (2022) does with such a
list; what they gave it for a story is not published. The last word of a sentence then has a future dependent in the
last sentence only: `<eos>`. `previous_sentence`, which all experiments on stories take, makes roots children of the
last word before their sentence. `whole` parses a document as one sentence.
"""

Columns = dict[str, np.ndarray]


def encoded_table(
    table: Any,  # noqa: ANN401  (datasets carries no types)
    vocabulary: Vocabulary,
    *,
    joining: DocumentJoining,
    left_dependents: LeftDependents,
) -> EncodedSplit:
    """The split of an annotated table, encoded unless its arrays lie in the cache; other processes wait.

    Args:
        table: see `depgen.data.annotated`.
        vocabulary: gives words their pieces.
        joining: see `DocumentJoining`.
        left_dependents: see `depgen.trees.pieces`.

    Raises:
        UserError: the cache can't be written, or what is there is damaged.
    """
    files = sorted(vocabulary.files().items())
    key = [
        FORMAT,
        table._fingerprint,
        str(len(table)),
        joining,
        left_dependents,
        *(text for file in files for text in file),
    ]
    folder = cache_root() / "encodings" / lines_sha256(key)[:32]
    encode = partial(_encode, table, vocabulary, folder, joining=joining, left_dependents=left_dependents)
    made_once(folder, encode, is_made=(folder / SUMMARY).is_file)
    try:
        return _read(folder, vocabulary)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder} is damaged ({str(error)[:120]}). Delete the folder: it is made again from the corpus."
        ) from error


def _read(folder: Path, vocabulary: Vocabulary) -> EncodedSplit:
    summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    arrays = {name: _mapped(folder / f"{name}.npy") for name in summary["arrays"]}

    def coded(name: str) -> Coded:
        return Coded(arrays[name], np.array(summary[name], dtype=object))

    return EncodedSplit(
        ids=arrays["ids"],
        offsets=arrays["offsets"],
        sentences=arrays["sentences"],
        documents=arrays["documents"],
        heads=arrays.get("heads"),
        vocabulary=vocabulary,
        relations=coded("relations") if "heads" in arrays else None,
        word_ends=arrays.get("word_ends"),
        edges=CodedEdges(arrays["edge_offsets"], arrays["edge_heads"], coded("labels")) if "labels" in arrays else None,
        unknown=summary["unknown"],
        spans=_spans(arrays, coded("categories")) if "categories" in arrays else None,
    )


def _spans(arrays: Columns, labels: Coded) -> CodedSpans:
    return CodedSpans(arrays["span_offsets"], arrays["span_starts"], arrays["span_ends"], labels)


def _mapped(path: Path) -> np.ndarray:
    """An array of a file, mapped and not read; a plain array, which is sliced faster than a `memmap`."""
    try:
        mapped: np.ndarray = np.load(path, mmap_mode="r").view(np.ndarray)
    except ValueError:  # an array without elements can't be mapped
        mapped = np.load(path)
    return mapped


def _encode(
    table: Any,  # noqa: ANN401
    vocabulary: Vocabulary,
    folder: Path,
    *,
    joining: DocumentJoining,
    left_dependents: LeftDependents,
) -> None:
    """Write the arrays of a table into a folder."""
    encoder = _Encoder(vocabulary, joining, left_dependents)
    with folder_written_whole(folder) as part:
        columns: dict[str, _GrowingArray] = {}
        for batch in table.data.to_batches():
            for name, values in encoder.encoded(batch).items():
                if name not in columns:
                    columns[name] = _GrowingArray(part / f"{name}.npy", values.dtype)
                columns[name].append(values)
        for column in columns.values():
            column.close()
        left_out = set() if encoder.pieces_differ else {"word_ends"}
        left_out |= set() if encoder.any_head else {"heads", "relations"}
        for name in left_out & set(columns):
            columns[name].path.unlink()
        tables = {name: list(getattr(encoder, name)) for name in ("relations", "labels", "categories")}
        summary = {"arrays": sorted(set(columns) - left_out), "unknown": encoder.unknown, **tables}
        write_atomically(part / SUMMARY, json.dumps(summary, ensure_ascii=False) + "\n")


class _GrowingArray:
    """A `.npy` file that grows at its end; its header says how long it is once it is closed."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.length = path, dtype, 0
        self._stream: BinaryIO = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        """Write values after those that there are."""
        assert values.dtype == self.dtype, f"{self.path.name}: {values.dtype} after {self.dtype}"
        self._stream.write(np.ascontiguousarray(values).data)
        self.length += len(values)

    def close(self) -> None:
        """Write the length."""
        self._stream.seek(0)
        self._write_header()
        self._stream.close()

    def _write_header(self) -> None:  # numpy leaves room for a longer length, so that the header's size stays
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._stream, description)


class _Encoder:
    """Encodes the batches of a table, one after the other.

    Attributes:
        relations: place of each relation in the table of relations; "" is the first, of later pieces of a word.
        labels: the same for labels of edges.
        categories: the same for labels of constituents.
        any_head: whether any word had a head.
        pieces_differ: whether any word had other than one piece.
        unknown: how many tokens were `<unk>`.
    """

    def __init__(self, vocabulary: Vocabulary, joining: DocumentJoining, left_dependents: LeftDependents) -> None:
        self.vocabulary, self.joining, self.left_dependents = vocabulary, joining, left_dependents
        self.relations, self.labels, self.categories = {"": 0}, {"": 0}, dict[str, int]()
        self.any_head = self.pieces_differ = False
        self.unknown = 0
        self._ends: dict[str, int] = {}

    def encoded(self, batch: Any) -> Columns:  # noqa: ANN401
        """The arrays that a batch of documents adds to; see `EncodedSplit`."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        words = _Words(*_lists(columns["words"]), *_lists(columns["sentence_lengths"]))
        ids, pieces = self._pieces(words.strings)
        starts = np.concatenate([[0], np.cumsum(pieces)])  # of each word's pieces, and the end
        word_ends = np.zeros(len(ids), dtype=bool)
        word_ends[starts[1:] - 1] = True
        self.pieces_differ |= bool((pieces != 1).any())
        self.unknown += int((ids == self.vocabulary.unk).sum())
        found = {
            "ids": ids,
            "word_ends": word_ends,
            "offsets": self._chained("offsets", starts[words.documents]),
            "sentences": self._chained("sentences", starts[words.sentences]),
            "documents": self._chained("documents", words.sentences_of_documents),
        }
        if "heads" in columns:
            found |= self._trees(columns, words, starts)
        if "edges" in columns:
            found |= self._graphs(columns["edges"], words, starts)
        if "spans" in columns:
            found |= self._constituents(columns["spans"], words, starts)
        return found

    def _pieces(self, words: Any) -> tuple[Int[np.ndarray, " tokens"], Int[np.ndarray, " words"]]:  # noqa: ANN401
        """The ids of all words' pieces, and how many each has; each word type is looked up once."""
        coded = words.dictionary_encode()
        pieces = [self.vocabulary.pieces(word) for word in coded.dictionary.to_pylist()]
        counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
        flat = np.array([i for piece in pieces for i in piece], dtype=np.int32)
        types = coded.indices.to_numpy()
        of_words = counts[types]
        starts = np.cumsum(counts) - counts
        within = np.arange(of_words.sum()) - np.repeat(np.cumsum(of_words) - of_words, of_words)
        return flat[np.repeat(starts[types], of_words) + within], of_words

    def _trees(self, columns: dict[str, Any], words: "_Words", starts: Int[np.ndarray, " _"]) -> Columns:
        of_words = _lists(columns["heads"])[1].to_numpy().astype(np.int64)
        self.any_head |= bool((of_words != -1).any())
        numbers = np.arange(len(of_words))
        joined = words.joined(of_words, numbers, previous_sentence=self.joining == "previous_sentence")
        heads = np.array(piece_heads(joined, _word_of_piece(starts), left_dependents=self.left_dependents))
        relations = np.zeros(len(heads), dtype=np.int32)
        relations[starts[:-1]] = _codes(_lists(columns["relations"])[1], self.relations)
        within = np.where(heads > 0, heads - _item_starts(words, starts), heads)
        return {"heads": within.astype(np.int32), "relations": relations}

    def _graphs(self, column: Any, words: "_Words", starts: Int[np.ndarray, " _"]) -> Columns:  # noqa: ANN401
        import pyarrow.compute as pc

        offsets, edges = _lists(_lists(column)[1])
        heads = pc.struct_field(edges, "head").to_numpy().astype(np.int64)
        dependents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        joined = words.joined(heads, dependents, previous_sentence=self.joining == "previous_sentence")
        of_pieces, heads, edge_of = piece_edges(
            offsets, joined, _word_of_piece(starts), left_dependents=self.left_dependents
        )
        codes = np.append(
            _codes(pc.struct_field(edges, "label"), self.labels), 0
        )  # -1, of later pieces: 0, which is ""
        item_starts = np.repeat(_item_starts(words, starts), np.diff(of_pieces))
        return {
            "edge_offsets": self._chained("edge_offsets", of_pieces),
            "edge_heads": np.where(heads > 0, heads - item_starts, heads).astype(np.int32),
            "labels": codes[edge_of].astype(np.int32),
        }

    def _constituents(self, column: Any, words: "_Words", starts: Int[np.ndarray, " _"]) -> Columns:  # noqa: ANN401
        import pyarrow.compute as pc

        of_documents, sentences = _lists(column)
        of_sentences, spans = _lists(sentences)
        first_words = np.repeat(words.sentences[:-1], np.diff(of_sentences))
        by_item = of_sentences[of_documents]
        first_tokens = np.repeat(starts[words.documents][:-1], np.diff(by_item))
        bounds = {}
        for name in ("start", "end"):
            places = pc.struct_field(spans, name).to_numpy().astype(np.int64)
            tokens = starts[np.maximum(places, 0) + first_words] - first_tokens
            bounds[f"span_{name}s"] = np.where(places < 0, places, tokens).astype(np.int32)
        codes = _codes(pc.struct_field(spans, "label"), self.categories)
        return {"span_offsets": self._chained("span_offsets", by_item), **bounds, "categories": codes}

    def _chained(self, name: str, bounds: Int[np.ndarray, " bounds"]) -> Int[np.ndarray, " _"]:
        """Bounds within a batch as bounds within all; the first of the first batch is kept."""
        first, before = name not in self._ends, self._ends.get(name, 0)
        self._ends[name] = before + int(bounds[-1])
        return (bounds[0 if first else 1 :] + before).astype(np.int64)


@dataclass(frozen=True)
class _Words:
    """The words of a batch of documents, and where documents and sentences begin among them, and the end."""

    documents: Int[np.ndarray, " documents_and_one"]
    strings: Any
    sentences_of_documents: Int[np.ndarray, " documents_and_one"]
    lengths: Any

    @property
    def sentences(self) -> Int[np.ndarray, " sentences_and_one"]:
        """Where each sentence begins among the words, and the end."""
        return np.concatenate([[0], np.cumsum(self.lengths.to_numpy(), dtype=np.int64)])

    def joined(
        self, heads: Int[np.ndarray, " arcs"], dependents: Int[np.ndarray, " arcs"], *, previous_sentence: bool
    ) -> Int[np.ndarray, " arcs"]:
        """1-based heads within the batch of arcs whose heads are counted within their sentences; 0 and -1 stay.

        Args:
            heads: of each arc.
            dependents: the 0-based word of each, within the batch.
            previous_sentence: whether roots hang on the last word before their sentence; of a document's first sentence
                that is the last word of the document before, which is 0 when heads are counted within the document.
        """
        sentence_starts = np.repeat(self.sentences[:-1], self.lengths.to_numpy())[dependents]
        joined = np.where(heads > 0, heads + sentence_starts, heads)
        return np.where(heads == 0, sentence_starts, joined) if previous_sentence else joined


def _lists(column: Any) -> tuple[Int[np.ndarray, " lists_and_one"], Any]:  # noqa: ANN401
    """Where the lists of an Arrow array begin among their values, and the end; and the values."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], column.flatten()


def _item_starts(words: _Words, starts: Int[np.ndarray, " words_and_one"]) -> Int[np.ndarray, " tokens"]:
    """Of each token, the first one of its item."""
    bounds = starts[words.documents]
    return np.repeat(bounds[:-1], np.diff(bounds))


def _word_of_piece(starts: Int[np.ndarray, " words_and_one"]) -> Int[np.ndarray, " pieces"]:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _codes(strings: Any, places: dict[str, int]) -> Int[np.ndarray, " strings"]:  # noqa: ANN401
    """The place of each string in a table, to which new ones are added."""
    coded = strings.dictionary_encode()
    types = [places.setdefault(each, len(places)) for each in coded.dictionary.to_pylist()]
    found: np.ndarray = np.array(types, dtype=np.int32)[coded.indices.to_numpy()]
    return found
