"""A treebank's own trees or graphs where it has the sentence, another annotator's elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.steps import LEAVE_OUT
from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.trees.annotator import FIELDS, Annotator, SentenceError, Structure, leaves_out, structure_of
from depgen.trees.sentence import Sentence


class KnownTrees:
    """Gives a sentence the tree that a treebank has for the same words; others another annotator's, or none at all.

    A corpus that repeats a treebank's sentences without their trees gets them back so: the language-modelling Penn
    Treebank from the sample of the Wall Street Journal, by the step `depgen.data.steps.Normalized`. Sentences of
    the same words get the same tree, the first in the treebank.

    Args:
        treebank: where the trees are known from.
        otherwise: what parses sentences that it lacks; None refuses them.
        splits: the parts of the treebank to look in.
        leave_unknown: leave them without a tree in place of either, heads of -1 alone, for systems that learn from few
            trees and much text (UDGN's `supervised_weight`).
        structure: whether the treebank gives trees, graphs or constituents; the other annotator gives the same.

    Raises:
        UserError: sentences that it lacks are to be both parsed and left, or the other annotator gives another
            structure.
    """

    def __init__(
        self,
        treebank: Corpus,
        otherwise: Annotator | None = None,
        splits: Sequence[Split] = SPLITS,
        leave_unknown: bool = False,
        structure: Structure = "tree",
    ) -> None:
        if leave_unknown and otherwise is not None:
            raise UserError("Sentences that the treebank lacks are parsed or left: give otherwise or leave_unknown.")
        if otherwise is not None and structure_of(otherwise) != structure:
            raise UserError(
                f"KnownTrees with structure: {structure} needs such an annotator under `otherwise`, found one that "
                f"gives a {structure_of(otherwise)} ({otherwise.scheme})."
            )
        self.treebank, self.otherwise, self.splits = treebank, otherwise, tuple(splits)
        self.structure, self.self_loops = structure, structure == "graph"
        self.leave_unknown = leave_unknown
        self.leaves_out = leave_unknown or (otherwise is not None and leaves_out(otherwise))
        self.scheme = f"{treebank.name}, its own trees"
        if otherwise is not None or leave_unknown:
            self.scheme += f"; other sentences: {'no trees' if otherwise is None else otherwise.scheme}"

    def fingerprint(self) -> str:
        """Of the treebank's parts and of the other annotator."""
        other = "none" if self.otherwise is None else self.otherwise.fingerprint()
        parts = ["known trees", *map(self.treebank.fingerprint, self.splits), other]
        parts += ["unknown sentences left"] if self.leave_unknown else []
        parts += {"tree": [], "graph": ["graphs"]}.get(self.structure, ["constituents"])
        return lines_sha256(parts)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with trees; relations are `_` where the treebank has only heads, and where no tree is given.

        With graphs, edges are None where none are given; with constituents, spans are.

        Raises:
            SentenceError: the treebank lacks a sentence that is not to be left and no other annotator is named, or that
                one refuses it.
        """
        unknown = [index for index, sentence in enumerate(sentences) if sentence.words not in self._trees]
        annotated = [self._filled(sentence) for sentence in sentences]
        for index, tree in zip(unknown, self._parsed(sentences, unknown), strict=True):
            annotated[index] = tree
        return annotated

    def _filled(self, sentence: Sentence) -> Sentence:
        known = self._trees.get(sentence.words)
        if known is None:
            return sentence
        if self.structure != "tree":
            own = {name: getattr(known, name) for name in ("heads", "relations", FIELDS[self.structure])}
            return replace(sentence, **own)
        return replace(sentence, heads=known.heads, relations=known.relations or ("_",) * len(known))

    def _parsed(self, sentences: Sequence[Sentence], unknown: Sequence[int]) -> list[Sentence]:
        if not unknown:
            return []
        if self.leave_unknown and self.structure != "tree":
            nothing: dict[str, Any] = dict.fromkeys(("heads", "relations", FIELDS[self.structure]))
            return [replace(sentences[index], **nothing) for index in unknown]
        if self.leave_unknown:
            left = (sentences[index] for index in unknown)
            return [replace(each, heads=(-1,) * len(each), relations=("_",) * len(each)) for each in left]
        if self.otherwise is None:
            words = " ".join(sentences[unknown[0]].words[:8])
            raise SentenceError(
                unknown[0] + 1,
                f"{self.treebank.name} has no tree for {words!r}; name an annotator under `otherwise`, "
                "or, for a system that needs no tree of every sentence, set `leave_unknown: true`.",
            )
        try:
            return self.otherwise.annotate([sentences[index] for index in unknown])
        except SentenceError as error:
            raise SentenceError(unknown[error.number - 1] + 1, error.complaint) from error

    @cached_property
    def _trees(self) -> Mapping[tuple[str, ...], Sentence]:
        trees: dict[tuple[str, ...], Sentence] = {}
        for split in self.splits:
            for document in self.treebank.documents(split):
                for sentence in document.sentences:
                    needed = FIELDS[self.structure]
                    if getattr(sentence, needed) is None:
                        place = f"{document.identifier} of {self.treebank.name}"
                        raise UserError(f"{place}: expected {needed}, found none. {LEAVE_OUT}.")
                    trees.setdefault(sentence.words, sentence)
        return trees
