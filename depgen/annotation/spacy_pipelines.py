"""spaCy's pipelines, trained here, in a folder or installed, reduced to the component that is wanted."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from depgen.annotation.parser_folders import check_kind, files_digest, find_parser, read_description
from depgen.errors import UserError
from depgen.locations import lines_sha256

SHARED = ("tok2vec", "transformer")
"""Components that others read from."""


class Pipeline(NamedTuple):
    """What `load_pipeline` finds.

    Attributes:
        nlp: spaCy's `Language`.
        lowercase: whether it was trained on lower-cased words.
    """

    nlp: Any
    lowercase: bool


def load_pipeline(name: str, components: Sequence[str], *, alone: bool = True, remedy: str = "") -> Pipeline:
    """A pipeline with one of the components at least.

    Args:
        name: of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        components: of spaCy's names; the first is the one that a message asks for.
        alone: whether to take out the others, but for those that they read from.
        remedy: what a message says to do where none is in the pipeline.

    Raises:
        UserError: no such pipeline, or one without these components.
    """
    import spacy

    folder = find_parser(name, packages=True)
    check_kind(folder, "spaCy")
    use_numpy_ops()
    try:
        nlp = spacy.load(folder if (folder / "config.cfg").is_file() else name)
    except OSError as error:
        raise UserError(f"{folder}: expected a spaCy pipeline; spaCy says: {error}") from error
    if not set(components) & set(nlp.pipe_names):
        raise UserError(
            f"{folder}: expected a spaCy pipeline with the component {components[0]}, found {nlp.pipe_names}. {remedy}"
        )
    if alone:
        nlp.select_pipes(enable=[each for each in nlp.pipe_names if each in (*SHARED, *components)])
    return Pipeline(nlp, bool(read_description(folder).get("lowercase", False)))


def pipeline_fingerprint(name: str) -> str:
    """A digest of what annotations by a pipeline depend on: its files and spaCy's version.

    Raises:
        UserError: no such pipeline.
    """
    return lines_sha256(["spacy", version("spacy"), files_digest(find_parser(name, packages=True))])


def use_numpy_ops() -> None:
    """Let thinc multiply matrices through numpy: spaCy's own BLIS build is several times slower on many CPUs.

    Thinc has no configuration option for it; it holds for pipelines built or loaded afterwards in this context.
    """
    from thinc.api import NumpyOps, set_current_ops

    set_current_ops(NumpyOps(use_blis=False))
