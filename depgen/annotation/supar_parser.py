"""Trees by a SuPar dependency parser, for words that are already separated."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from depgen.annotation.parser_annotator import Parse
from depgen.annotation.parser_folders import files_digest, find_parser
from depgen.annotation.supar_structures import TrainedBySupar
from depgen.decoding.projective_trees import ProjectiveTrees
from depgen.errors import UserError
from depgen.training.class_paths import run_being_read
from depgen.trees.annotator import SentenceError, check_words
from depgen.trees.sentence import Sentence

if TYPE_CHECKING:
    from depgen.annotation.supar_training import BiaffineParser

MAX_WORDS = 900
"""SuPar itself looks for cycles by recursion, one level a word; Python allows about a thousand."""


class SuparAnnotator(TrainedBySupar):
    """Gives each sentence the best tree with a single root under a SuPar biaffine parser.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser`), its folder, or SuPar's own file.
        trust_checkpoint: load SuPar's own file, which is a pickle: whoever made it can run any code here. With it, a
            name that SuPar knows, such as `biaffine-dep-en`, or an `https://` address is downloaded by SuPar. In a run
            folder, whose settings may be anybody's, it has no effect.
        batch_size: sentences parsed at a time.
        scheme: what to call the trees of SuPar's own file; parsers that were trained here say it themselves.
    """

    kind, example = "SuPar biaffine", "ewt_supar"

    def __init__(
        self,
        path: str = "ewt_supar",
        trust_checkpoint: bool = False,
        batch_size: int = 64,
        scheme: str | None = None,
    ) -> None:
        self._refused_for = run_being_read.get() if trust_checkpoint else None
        self.trust_checkpoint = trust_checkpoint and self._refused_for is None
        self._parser: BiaffineParser | None = None
        super().__init__(path, batch_size, scheme)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_parser": None}

    def distributions(self, sentences: Sequence[Sentence]) -> list[ProjectiveTrees]:
        """Random fields over the projective trees of sentences with one root, whose potentials are the arcs' scores.

        Raises:
            UserError: no such parser, SuPar's own file, or a sentence that is empty.
        """
        check_words(sentences)
        if self._parser is None:
            place = self._place()
            if place is None or not place.is_dir():
                raise UserError(
                    f"{self.path}: expected a parser that was trained here, whose scores of arcs are at hand, found "
                    "SuPar's own file: train one by depgen train-parser."
                )
            self._parser = cast("BiaffineParser", self._trained(place))
        return self._parser.by_length(
            self._parser.distributions, self._as_trained(sentences), batch_size=self.batch_size
        )

    def _network(self) -> "type[BiaffineParser]":
        from depgen.annotation.supar_training import BiaffineParser

        return BiaffineParser

    def _content(self) -> str:
        place = self._place()
        return self._digest_of(files_digest(place) if place else self.path)

    def _load(self) -> Parse:
        place = self._place()
        if place is not None and place.is_dir():
            return super()._load()
        from depgen.annotation.supar_compatibility import load_supar_file

        return partial(_parse_by_supar, load_supar_file(place or self.path))

    def _place(self) -> Path | None:
        """The parser's folder or file; None for a trusted name or address that SuPar downloads."""
        try:
            place = find_parser(self.path)
        except UserError:
            if self.trust_checkpoint and _is_downloadable(self.path):
                return None
            raise
        if place.is_dir() or self.trust_checkpoint:
            return place
        if self._refused_for is not None:
            raise UserError(
                f"{self._refused_for}: {place} is a pickle: loading it runs whatever code its maker put there, so "
                "none is loaded for a run folder. Take a parser that was trained by `depgen train-parser`."
            )
        raise UserError(
            f"{place} is a file in SuPar's own format, a pickle: loading it runs whatever code its maker put there. "
            "If you trust where it comes from, add trust_checkpoint: true to the path. Parsers trained by "
            "`depgen train-parser` are folders of weights and JSON and need no trust."
        )


def _is_downloadable(path: str) -> bool:
    import supar

    return path.startswith(("http://", "https://")) or any(path in names for names in supar.MODEL.values())


def _parse_by_supar(parser: Any, sentences: Sequence[Sentence]) -> list[Sentence]:  # noqa: ANN401  (supar.Parser)
    """Trees by SuPar's own `predict`; white space within a word would end it there, so it becomes `_`."""
    for number, sentence in enumerate(sentences, start=1):
        if len(sentence) > MAX_WORDS:
            raise SentenceError(
                number,
                f"{len(sentence)} words; SuPar's own search for trees takes at most {MAX_WORDS}. Split it, or use a "
                "parser that was trained here.",
            )
    words = [["_".join(word.split()) for word in sentence.words] for sentence in sentences]
    parsed = parser.predict(words, prob=False, verbose=False, tree=True, proj=False)
    trees = []
    for sentence, heads, relations in zip(sentences, parsed.arcs, parsed.rels, strict=True):
        own = tuple("root" if head == 0 else relation for head, relation in zip(heads, relations, strict=True))
        trees.append(replace(sentence, heads=tuple(heads), relations=own))
    return trees
