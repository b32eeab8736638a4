"""Treebanks with gold trees or graphs: CoNLL-U files, SDP files, and NLTK's `.dp` files such as the sample of the Wall
Street Journal.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from depgen.data.corpus import Split
from depgen.data.files import SeededFiles, SplitFiles, with_trees_alone
from depgen.errors import UserError
from depgen.trees.conllu import TagColumn, read_conllu
from depgen.trees.dependency_columns import read_dependency_columns
from depgen.trees.enhanced import EmptyNodes
from depgen.trees.graph import without_relations
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)

EWT = "ud_english_ewt"


class ConlluTreebank(SplitFiles):
    """A treebank in CoNLL-U with its trees and tags; by default UD English-EWT.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: files of the training split; `.gz` is unpacked.
        valid: files of the validation split.
        test: files of the test split.
        tags: the column of part-of-speech tags.
        documents_by: whether a document is what `# newdoc` begins or each sentence.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; the folder's name if not given.
        graphs: whether sentences get the enhanced graphs in DEPS too.
        empty_nodes: whether paths through empty nodes of these are contracted, or graphs with empty nodes are refused.
        without: relations whose edges the graphs lose, such as `punct`; see `depgen.trees.graph.without_relations`. One
            that no training sentence has is named in the log.
        with_trees_only: whether sentences without a tree, or with `graphs` without a graph, are left out and counted.

    Raises:
        UserError: relations to leave out, but no graphs.
    """

    how_to_get = "Treebanks in CoNLL-U are at https://universaldependencies.org, in github.com/UniversalDependencies."

    def __init__(
        self,
        folder: str = EWT,
        *,
        train: Sequence[str] = ("en_ewt-ud-train.conllu",),
        valid: Sequence[str] = ("en_ewt-ud-dev.conllu",),
        test: Sequence[str] = ("en_ewt-ud-test.conllu",),
        tags: TagColumn = "xpos",
        documents_by: Literal["newdoc", "sentence"] = "newdoc",
        lowercase: bool = False,
        name: str | None = None,
        graphs: bool = False,
        empty_nodes: EmptyNodes = "contract",
        without: Sequence[str] = (),
        with_trees_only: bool = False,
    ) -> None:
        if without and not graphs:
            raise UserError(f"without: {list(without)} leaves edges out of graphs: set graphs: true, or remove it.")
        name = name or ("UD English-EWT" if folder == EWT else None)
        files: dict[Split, Sequence[str]] = {"train": train, "valid": valid, "test": test}
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap="keep")
        self.tags, self.documents_by = tags, documents_by
        self.graphs, self.empty_nodes, self.without = graphs, empty_nodes, tuple(without)
        self.with_trees_only = with_trees_only

    def read_split(self, split: Split) -> Iterator[Document]:
        """All documents of a split's files, in file order."""
        documents = super().read_split(split)
        if self.with_trees_only:
            field = "edges" if self.graphs else "heads"
            documents = with_trees_alone(documents, field, corpus=self.name, split=split)
        return self._without_relations(documents, split) if self.without else documents

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The documents of a file; identifiers are those of the treebank."""
        return read_conllu(
            path,
            tags=self.tags,
            by_document=self.documents_by == "newdoc",
            graphs=self.graphs,
            empty_nodes=self.empty_nodes,
        )

    def options(self) -> dict[str, object]:
        """See `SplitFiles`."""
        graphs = {"graphs": self.graphs, "empty_nodes": self.empty_nodes} if self.graphs else {}
        without = {"without": sorted(self.without)} if self.without else {}
        only = {"with_trees_only": True} if self.with_trees_only else {}
        own: dict[str, object] = {"tags": self.tags, "documents_by": self.documents_by}
        return {**super().options(), **own, **graphs, **without, **only}

    def _without_relations(self, documents: Iterable[Document], split: Split) -> Iterator[Document]:
        """The documents, their graphs without the relations; one that no training sentence has is named in the log."""
        unseen = set(self.without)
        for document in documents:
            sentences = list(document.sentences)
            for place, sentence in enumerate(sentences):
                if sentence.edges is None:
                    continue
                kept = without_relations(sentence.edges, self.without)
                if len(kept) < len(sentence.edges):
                    unseen -= {each for each in unseen if without_relations(sentence.edges, [each]) != sentence.edges}
                    sentences[place] = replace(sentence, edges=kept)
            yield replace(document, sentences=tuple(sentences))
        if unseen and split == "train":
            logger.warning(
                "%s, train: no edge has a relation %s, which `without` leaves out: is it spelt so in the treebank?",
                self.name, ", ".join(sorted(unseen)),
            )  # fmt: skip


class SdpTreebank(SplitFiles):
    """Semantic dependency graphs in SDP files of SemEval 2014 or 2015, one representation (DM, PAS or PSD) a file.

    The files are sold by the Linguistic Data Consortium (LDC2016T10).

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: files of the training split; `.gz` is unpacked.
        valid: files of the validation split.
        test: files of the test split.
        documents_by: whether a document is each sentence, or the sentences whose eight-digit identifiers differ in the
            last three digits alone.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; the folder's name if not given.
    """

    how_to_get = "SDP files are in LDC2016T10 of the Linguistic Data Consortium; samples are at sdp.delph-in.net."

    def __init__(
        self,
        folder: str,
        *,
        train: Sequence[str],
        valid: Sequence[str],
        test: Sequence[str],
        documents_by: Literal["sentence", "document"] = "sentence",
        lowercase: bool = False,
        name: str | None = None,
    ) -> None:
        files: dict[Split, Sequence[str]] = {"train": train, "valid": valid, "test": test}
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap="keep")
        self.documents_by = documents_by

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The documents of a file; identifiers are the file's."""
        return read_sdp(path, by_document=self.documents_by == "document")

    def options(self) -> dict[str, object]:
        """See `SplitFiles`."""
        return {**super().options(), "documents_by": self.documents_by}


class DependencyColumns(SeededFiles):
    """A treebank in NLTK's `.dp` files, one document each; by default the 5 % sample of the Wall Street Journal.

    The sample has no official splits. Files not listed are split by document: see `depgen.data.files.seeded_split`.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: files of the training split; None for the seeded split of all files, to be given for all three or none.
        valid: files of the validation split.
        test: files of the test split.
        valid_documents: size of the validation split, if seeded.
        test_documents: size of the test split, if seeded.
        seed: of the split.
        lowercase: whether words are lower-cased.
        name: what results call the corpus.
    """

    how_to_get = "The sample is NLTK's: nltk.download('dependency_treebank')."

    def __init__(
        self,
        folder: str = "wsj_sample/dependency",
        *,
        train: Sequence[str] | None = None,
        valid: Sequence[str] | None = None,
        test: Sequence[str] | None = None,
        valid_documents: int = 20,
        test_documents: int = 20,
        seed: int = 0,
        lowercase: bool = False,
        name: str = "WSJ sample",
    ) -> None:
        listed: dict[Split, Sequence[str] | None] = {"train": train, "valid": valid, "test": test}
        files = {split: names for split, names in listed.items() if names is not None}
        if len(files) not in (0, 3):
            raise UserError(f"{name}: expected files for train, valid and test or for none, found {sorted(files)}.")
        super().__init__(
            folder, "*.dp", valid_documents=valid_documents, test_documents=test_documents, seed=seed,
            lowercase=lowercase, name=name, files=files,
        )  # fmt: skip

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The document of a file; its identifier is the file's name without its ending."""
        yield Document(tuple(read_dependency_columns(path)), self.identifier(path))

    def identifier(self, path: Path) -> str:
        """The file's name without its ending."""
        return path.stem
