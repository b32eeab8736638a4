"""Trees and graphs that a trained system has learnt from raw text, as annotation sources for others."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError, check_at_least
from depgen.evaluation.parsing import BEAM_SIZE, SystemParser, structure_found_by
from depgen.evaluation.reading import reading_of_run
from depgen.evaluation.trained import Trained, load_trained
from depgen.locations import below_runs, file_sha256, lines_sha256
from depgen.training.runs import named_checkpoint
from depgen.trees.annotator import Annotator, Structure
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FormName

TREE_RULES = "4"
"""Raised when the trees of the same run change."""
GRAPH_RULES = "1"
"""Raised when the graphs of the same run change."""


class Induced(Annotator):
    """What a run finds in sentences, by options of `SystemParser`; in another process, the run is loaded again.

    Attributes:
        structure: what its system must find.
    """

    structure: Structure

    def __init__(
        self,
        run: str,
        *,
        form: FormName | None,
        device: str | None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self.run, self.form, self.device, self.options = run, form, device, options

    def __getstate__(self) -> dict[str, Any]:
        assert self.source  # the newest run may be another one later
        return {name: value for name, value in self.__dict__.items() if name != "trained"}

    @cached_property
    def source(self) -> tuple[Path, Path]:
        """The run folder and the checkpoint; UserError where there is no such run."""
        return named_checkpoint(self.run)

    @cached_property
    def trained(self) -> Trained:
        """The system, in evaluation mode."""
        return load_trained(self.source[1], device=self.device, form=self.form)

    @property
    def called(self) -> str:
        """What results call the run: its path below `$DEPGEN_RUNS`, elsewhere its name without folders."""
        below = below_runs(self.run)
        return Path(below).name if Path(below).is_absolute() else below

    def digests(self) -> list[str]:
        """Of the checkpoint and of the run's vocabulary."""
        run, checkpoint = self.source
        return [file_sha256(checkpoint), file_sha256(run / VOCABULARY_FILE)]

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations, always a single root, or with edges; labels are `root` and `dep`."""
        if (found := structure_found_by(self.trained)) != self.structure:
            name = type(self.trained.model).__name__
            raise UserError(f"{self.run}: expected a run that finds a {self.structure}, found a {name}: a {found}.")
        return SystemParser([self.trained], **self.options).annotate(sentences)


class InducedTrees(Induced):
    """Gives each sentence the tree that a run of UDGN, or of another system that parses, finds in it.

    Words are read in the form of the text that the run has learnt from: what that text lacks (punctuation) is left out,
    the others are spelt as there. What was left out hangs on the last word before it that was read, at the beginning of
    a sentence on the first one; a sentence of nothing else hangs on its first word. Relations are `root` and `dep`.

    Args:
        run: a run folder (its best checkpoint), a checkpoint file, a folder of runs or an experiment (the newest); as
            paths from here or below `$DEPGEN_RUNS`.
        form: what sentences are brought into (`depgen.trees.text_form`): by default the form of the run's corpus, in
            which text that has it already stays as it is; `bare` or `ptb`, or `as_is`, where the corpus does not say.
        tokens_per_batch: parsed at a time, padding included; no tree depends on it, but of StructFormer's with the
            published `calibration: batch`, which couples all that are parsed together.
        device: cpu, cuda, …; by default a GPU where there is one.
        attention_head: (masked Transformer) the layer and attention head that it parses by, both 0-based, such as
            `depgen evaluate parsing` chooses; by default those that it was trained with, if any.
    """

    structure: Structure = "tree"

    def __init__(
        self,
        run: str,
        *,
        form: FormName | None = None,
        tokens_per_batch: int = 8192,
        device: str | None = None,
        attention_head: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            run, form=form, device=device, attention_head=attention_head, tokens_per_batch=tokens_per_batch
        )
        by = "" if attention_head is None else ", layer {} head {}".format(*attention_head)
        self.scheme = f"induced by {self.called} (tree{by})"

    def fingerprint(self) -> str:
        """Of the checkpoint, the run's vocabulary and the options."""
        form = self.form or reading_of_run(self.source[0]).form
        parts = ["induced trees", TREE_RULES, "tree", str(form), *self.digests()]
        if (attention_head := self.options["attention_head"]) is not None:
            parts.append("attention head {} {}".format(*attention_head))
        return lines_sha256(parts)


class InducedGraphs(Induced):
    """Gives each sentence the likeliest graph that a run of GiLT finds as it reads its words as they are.

    Args:
        run: a run folder (its best checkpoint), a checkpoint file, a folder of runs or an experiment (the newest).
        beam_size: hypotheses about the graph of a sentence.
        tokens_per_batch: parsed at a time, padding included.
        device: cpu, cuda, …; by default a GPU where there is one.
    """

    structure = "graph"

    def __init__(
        self, run: str, *, beam_size: int = BEAM_SIZE, tokens_per_batch: int = 8192, device: str | None = None
    ) -> None:
        check_at_least(1, beam_size=beam_size)
        super().__init__(run, form="as_is", device=device, beam_size=beam_size, tokens_per_batch=tokens_per_batch)
        self.scheme = f"graphs induced by {self.called} (beam {beam_size})"

    def fingerprint(self) -> str:
        """Of the checkpoint, the run's vocabulary and the beam."""
        return lines_sha256(["induced graphs", GRAPH_RULES, str(self.options["beam_size"]), *self.digests()])
