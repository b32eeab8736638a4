"""Trees, graphs and constituents by SuPar's parsers, for words that are already separated.

SuPar 1.1.4 (2023) needs some repairs for today's torch. They touch SuPar's own modules only, never torch's: loading
stays safe for everybody else in the process. `tests/annotation/test_supar_fixes.py` notices when one is no longer
needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from depgen.annotation.annotator import (
    Parse,
    ParserAnnotator,
    check_kind,
    files_digest,
    find_parser,
    read_description,
)
from depgen.decoding.projective_trees import ProjectiveTrees
from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.training.class_paths import run_being_read
from depgen.trees.annotator import SentenceError, Structure, check_words
from depgen.trees.sentence import Sentence

if TYPE_CHECKING:
    from torch import Tensor

    from depgen.annotation.supar_training import BiaffineParser, TreeParser

KINDS: Mapping[Structure, str] = {
    "tree": "SuPar biaffine",
    "graph": "SuPar biaffine graph",
    "constituency": "SuPar CRF constituency",
}
"""How descriptions and schemes name the parser of each structure."""
MAX_WORDS = 900
"""SuPar itself looks for cycles by recursion, one level a word; Python allows about a thousand."""


class _SuparAnnotator(ParserAnnotator):
    """Gives each sentence what a SuPar parser finds that was trained here.

    Args:
        path: the name of the parser, or its folder.
        batch_size: sentences parsed at a time.
        scheme: what to call what it finds; None: as its description says.
    """

    library = "SuPar"
    example: ClassVar[str]
    """The parser of experiments/ that shows how to train one."""

    def __init__(self, path: str, batch_size: int = 64, scheme: str | None = None) -> None:
        self.path = path
        super().__init__(path, batch_size, scheme)

    def _place(self) -> Path | None:
        """The parser's folder or file."""
        return find_parser(self.path, example=self.example)

    def _content(self) -> str:
        place = self._place()
        return lines_sha256(["supar", version("supar"), version("torch"), files_digest(place) if place else self.path])

    def _load(self) -> Parse:
        return partial(self._trained().parse, batch_size=self.batch_size)

    def _trained(self) -> "BiaffineParser":
        """The parser that was trained into the folder."""
        from depgen.annotation.supar_training import PARSERS

        folder = self._place()
        assert folder is not None
        check_kind(folder, KINDS[self.structure])
        self._lowercase = bool(read_description(folder).get("lowercase", False))
        return PARSERS[self.structure].load(folder)


class SuparGraphAnnotator(_SuparAnnotator):
    """Gives each sentence the graph that SuPar's biaffine graph parser finds; a word may have several heads or none.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser`), or its folder.
        batch_size: sentences parsed at a time.
    """

    structure, example = "graph", "ewt_graph"

    def __init__(self, path: str = "ewt_graph", batch_size: int = 64) -> None:
        super().__init__(path, batch_size)


class SuparConstituencyAnnotator(_SuparAnnotator):
    """Gives each sentence the constituents that SuPar's CRF parser finds.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser`), or its folder.
        batch_size: sentences parsed at a time.
    """

    structure, example = "constituency", "wsj_constituency"

    def __init__(self, path: str = "wsj_constituency", batch_size: int = 64) -> None:
        super().__init__(path, batch_size)


class SuparAnnotator(_SuparAnnotator):
    """Gives each sentence the best tree with a single root under a SuPar biaffine parser.

    Args:
        path: the name of a parser that was trained here (`depgen train-parser`), its folder, or SuPar's own file.
        trust_checkpoint: load SuPar's own file, which is a pickle: whoever made it can run any code here. With it, a
            name that SuPar knows, such as `biaffine-dep-en`, or an `https://` address is downloaded by SuPar. In a run
            folder, whose settings may be anybody's, it has no effect.
        batch_size: sentences parsed at a time.
        scheme: what to call the trees of SuPar's own file; parsers that were trained here say it themselves.
    """

    example = "ewt_supar"

    def __init__(
        self,
        path: str = "ewt_supar",
        trust_checkpoint: bool = False,
        batch_size: int = 64,
        scheme: str | None = None,
    ) -> None:
        self._refused_for = run_being_read.get() if trust_checkpoint else None
        self.trust_checkpoint = trust_checkpoint and self._refused_for is None
        self._parser: TreeParser | None = None
        super().__init__(path, batch_size, scheme)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_parser": None}

    def distributions(self, sentences: Sequence[Sentence]) -> list[ProjectiveTrees]:
        """Random fields over the projective trees of sentences with one root, whose potentials are the arcs' scores.

        Raises:
            UserError: no such parser, SuPar's own file, or a sentence that is empty.
        """
        from depgen.annotation.supar_training import TreeParser

        check_words(sentences)
        if self._parser is None:
            place = self._place()
            if place is None or not place.is_dir():
                raise UserError(
                    f"{self.path}: expected a parser that was trained here, whose scores of arcs are at hand, found "
                    "SuPar's own file: train one by depgen train-parser."
                )
            parser = self._trained()
            assert isinstance(parser, TreeParser)
            self._parser = parser
        return self._parser.by_length(
            self._parser.distributions, self._as_trained(sentences), batch_size=self.batch_size
        )

    def _load(self) -> Parse:
        place = self._place()
        if place is not None and place.is_dir():
            return super()._load()
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


# -- repairs of SuPar ---------------------------------------------------------------------------------------------


class _TorchThatUnpickles(ModuleType):
    """Torch, but `load` runs the code that a pickle holds."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        import torch

        return getattr(torch, name)

    @staticmethod
    def load(path: str, **options: Any) -> Any:  # noqa: ANN401
        import torch

        return torch.load(path, **{"map_location": "cpu", **options, "weights_only": False})


@contextmanager
def trusted_loading() -> Iterator[None]:
    """Within it, SuPar's `Parser.load` (and the end of `Parser.train`) unpickle: torch >= 2.6 refuses otherwise.

    SuPar's files hold pickled functions. Whoever made such a file can run any code here.
    """
    import supar.parsers.parser as module

    original = module.torch
    module.torch = _TorchThatUnpickles("torch")
    try:
        yield
    finally:
        module.torch = original


def load_supar_file(path: str | Path) -> Any:  # noqa: ANN401  (supar.Parser)
    """SuPar's own parser from its own file, or by the name of one that SuPar downloads. Runs the code in the file."""
    import supar

    apply_fixes()
    with trusted_loading():
        return supar.Parser.load(str(path))


def apply_fixes() -> None:
    """Replace what SuPar calls in deprecated ways; harmless when repeated.

    Its `pad` warns at every padded batch of indexing by a list of slices; its LSTM, of torch's `apply_permutation`.
    """
    import supar.modules.lstm
    import supar.modules.pretrained
    import supar.structs.fn
    import supar.utils.field
    import supar.utils.fn

    for module in (supar.utils.fn, supar.structs.fn, supar.utils.field, supar.modules.pretrained):
        module.pad = pad
    supar.modules.lstm.apply_permutation = apply_permutation


def pad(
    tensors: Sequence["Tensor"],
    padding_value: int | float = 0,
    total_length: int | None = None,
    padding_side: str = "right",
) -> "Tensor":
    """SuPar's `pad`, indexing by a tuple."""
    size = [len(tensors), *(max(tensor.size(axis) for tensor in tensors) for axis in range(tensors[0].dim()))]
    if total_length is not None:
        assert total_length >= size[1]
        size[1] = total_length
    padded = tensors[0].new_full(size, padding_value)
    for row, tensor in zip(padded, tensors, strict=True):
        row[tuple(slice(-n, None) if padding_side == "left" else slice(0, n) for n in tensor.shape)] = tensor
    return padded


def apply_permutation(tensor: "Tensor", permutation: "Tensor", dim: int = 1) -> "Tensor":
    """What torch's function of this name returns."""
    return tensor.index_select(dim, permutation)
