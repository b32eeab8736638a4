"""The form of the text that a run has learnt from (`depgen.trees.text_form`), and corpora brought into it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from depgen.data.corpus import Corpus, WithSteps, form_of
from depgen.data.experiment import data_of
from depgen.data.steps import Rewrite
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.removal import Orphans, keep_words
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS, FormName

logger = logging.getLogger(__name__)

_BROUGHT_BY: Mapping[FormName, str] = {
    "bare": "The step depgen.data.steps.BareWords brings a corpus into that form",
    "ptb": "The step depgen.data.steps.Normalized brings a treebank into that form",
    "stories": "the step depgen.data.steps.PlaceholdersForNames brings stories into that form",
    "lower": "The step depgen.data.steps.Lowercase brings a corpus into that form",
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


@dataclass(frozen=True)
class IntoForm(Rewrite):
    """Brings sentences into a form, their trees closed over the words that go; what is in it already stays as it is.

    Of `bare`, words that lose their root are roots, as by `BareWords`; of others, one of them is, as by `Normalized`.
    """

    into: FormName

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence in the form, maybe without words."""
        form = FORMS[self.into]
        orphans: Orphans = "roots" if self.into == "bare" else "one_root"
        kept = keep_words(sentence, form.kept(sentence), orphans=orphans)
        return replace(kept, words=tuple(map(form.spelt, kept.words)))

    def form(self, form: FormName | None) -> FormName | None:
        """The one that it is brought into."""
        return self.into

    def name(self, name: str) -> str:
        """What results call such a corpus."""
        return f"{name} (brought into the form `{self.into}`)"


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
    return corpus if wanted in ("as_is", form_of(corpus)) else WithSteps(corpus, steps=(IntoForm(wanted),))


def warn_of_another_form(run: Path, corpus: Corpus) -> None:
    """Say in the log that a corpus is not in the form of the text that a run has learnt from, where that is known."""
    learnt, given = form_of_run(run), form_of(corpus)
    if learnt is not None and learnt in _BROUGHT_BY and learnt != given:
        logger.warning(
            "%s has learnt from text in the form `%s`, but %s %s: punctuation is read too or missing, and words that "
            "are spelt otherwise are unknown. %s.",
            run, learnt, corpus.name, f"is in the form `{given}`" if given else "does not say that it is in it",
            _BROUGHT_BY[learnt],
        )  # fmt: skip
