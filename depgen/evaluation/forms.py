"""The form of the text that a run has learnt from (`depgen.trees.text_form`), and corpora brought into it."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from depgen.data.corpus import Corpus, Split, SplitStatistics, form_in
from depgen.data.experiment import data_of
from depgen.data.sentences import rewritten_documents
from depgen.locations import lines_sha256
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.removal import Orphans, keep_words
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FORMS, FormName

logger = logging.getLogger(__name__)

_BROUGHT_BY: Mapping[FormName, str] = {
    "bare": "depgen.data.bare_words.BareWords brings a corpus into that form",
    "bare_cased": "depgen.data.bare_words.BareWords with lowercase: false brings a corpus into that form",
    "ptb": "depgen.data.normalized.NormalizedTreebank brings a corpus into that form",
    "stories": "depgen delexicalize brings stories into that form",
    "lower": "Many corpora have an option `lowercase: true`",
}


def kept_reading(run: Path, *, checkpoint: Path | None = None) -> Mapping[str, Any]:
    """How the data module of a run gives texts to its system; empty where that is not known.

    Of a folder without settings it is what a checkpoint keeps; files of earlier versions keep nothing.
    """
    settings = run / "config.yaml"
    if settings.is_file():
        found: Mapping[str, Any] = getattr(data_of(settings), "reading", {})
        return found
    states = load_checkpoint(checkpoint, mmap=True).values() if checkpoint and checkpoint.is_file() else ()
    return next((state["reading"] for state in states if isinstance(state, Mapping) and "reading" in state), {})


def form_of_run(run: Path, *, checkpoint: Path | None = None) -> FormName | None:
    """The form of a run's corpus, where its settings name one that says it, or that has been lower-cased."""
    found: FormName | None = kept_reading(run, checkpoint=checkpoint).get("form")
    return found


class BroughtIntoForm:
    """A corpus whose sentences are brought into a form, their trees closed over the words that go.

    Of `bare` and `bare_cased`, words that lose their root are roots, as in `BareWords`; of others, one of them is, as
    in `NormalizedTreebank`. Sentences without a word of the form are left out and counted.

    Args:
        corpus: where the sentences come from.
        form: what they are brought into; what is in it already stays as it is.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(self, corpus: Corpus, form: FormName) -> None:
        self.corpus, self.form = corpus, form
        self.name = f"{corpus.name} (brought into the form `{form}`)"

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split that have a word of the form."""
        return rewritten_documents(self.corpus.documents(split), self._brought, corpus=self.name, split=split)

    def _brought(self, sentence: Sentence) -> Sentence:
        form = FORMS[self.form]
        orphans: Orphans = "roots" if self.form in ("bare", "bare_cased") else "one_root"
        kept = keep_words(sentence, form.kept(sentence), orphans=orphans)
        return replace(kept, words=tuple(map(form.spelt, kept.words)))

    def fingerprint(self, split: Split) -> str:
        """A digest of the other corpus and the form."""
        parts = ["BroughtIntoForm", self.form, self.corpus.fingerprint(split)]
        return lines_sha256(parts)


def in_form_of_run(run: Path, corpus: Corpus, form: FormName | None = None) -> Corpus:
    """A corpus in the form of the text that a run has learnt from; its name says where it had to be brought into it.

    A corpus that is in the form stays as it is, and so does one of a run whose form is unknown, which is logged.

    Args:
        run: the run's folder.
        corpus: of any form.
        form: to take in place of the run's; `as_is` leaves the corpus as it is.
    """
    wanted = form or form_of_run(run)
    if wanted is None:
        logger.warning(
            "The corpus of %s does not say in which form its text is, so %s is read as it is: words that are spelt "
            "otherwise there are unknown. Name the form by --form; as_is means none.",
            run, corpus.name,
        )  # fmt: skip
        return corpus
    return corpus if wanted in ("as_is", form_in(corpus)) else BroughtIntoForm(corpus, wanted)


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
