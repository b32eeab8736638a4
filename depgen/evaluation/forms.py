"""The form of the text that a run has learnt from (`depgen.trees.text_form`), and whether a corpus is in it."""

import logging
from collections.abc import Mapping
from pathlib import Path

from depgen.data.corpus import Corpus, form_of
from depgen.data.experiment import data_of
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)

_BROUGHT_BY: Mapping[FormName, str] = {
    "bare": "depgen.data.bare_words.BareWords brings a corpus into that form",
    "ptb": "depgen.data.normalized.NormalizedTreebank brings a corpus into that form",
    "stories": "depgen delexicalize brings stories into that form",
    "lower": "Many corpora have an option `lowercase: true`",
}


def form_of_run(run: Path) -> FormName | None:
    """The form of a run's corpus, where its settings name one that says it, or that has been lower-cased."""
    settings = run / "config.yaml"
    return form_in(getattr(data_of(settings), "corpus", None)) if settings.is_file() else None


def form_in(corpus: Corpus | None) -> FormName | None:
    """The form of a corpus that says it, or that has been lower-cased; None of any other."""
    return None if corpus is None else form_of(corpus) or ("lower" if _is_lowercased(corpus) else None)


def _is_lowercased(corpus: object) -> bool:
    """Whether a corpus, or the one that it takes its sentences from, puts words into lower case."""
    while corpus is not None:
        if getattr(corpus, "lowercase", False) is True:
            return True
        corpus = getattr(corpus, "corpus", None)
    return False


def warn_of_another_form(run: Path, corpus: Corpus) -> None:
    """Say in the log that a corpus is not in the form of the text that a run has learnt from, where that is known."""
    learnt, given = form_of_run(run), form_in(corpus)
    if learnt is not None and learnt in _BROUGHT_BY and learnt != given:
        logger.warning(
            "%s has learnt from text in the form `%s`, but %s %s: punctuation is read too or missing, and words that "
            "are spelt otherwise are unknown. %s.",
            run, learnt, corpus.name, f"is in the form `{given}`" if given else "does not say that it is in it",
            _BROUGHT_BY[learnt],
        )  # fmt: skip
