"""Graphs that a system finds as it reads, as an annotation source for others."""

from collections.abc import Sequence

from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError, check_at_least
from depgen.evaluation.trees.annotating_run import AnnotatingRun, called
from depgen.evaluation.trees.graph_parser import BEAM_SIZE, GraphParser
from depgen.language_models.left_to_right import GraphNetwork
from depgen.locations import file_sha256, lines_sha256
from depgen.trees.annotator import Structure
from depgen.trees.sentence import Sentence

RULES = "1"
"""Raised when the graphs of the same run change."""


class InducedGraphs(AnnotatingRun):
    """Gives each sentence the likeliest graph that a run of GiLT finds as it reads its words as they are.

    Args:
        run: a run folder (its best checkpoint), a checkpoint file, a folder of runs or an experiment (the newest).
        beam_size: hypotheses about the graph of a sentence.
        tokens_per_batch: parsed at a time, padding included.
        device: cpu, cuda, …; by default a GPU where there is one.
    """

    structure: Structure = "graph"

    def __init__(
        self, run: str, *, beam_size: int = BEAM_SIZE, tokens_per_batch: int = 8192, device: str | None = None
    ) -> None:
        check_at_least(1, beam_size=beam_size)
        super().__init__(run, device, form="as_is")
        self.beam_size, self.tokens_per_batch = beam_size, tokens_per_batch
        self.scheme = f"graphs induced by {called(run)} (beam {beam_size})"

    def fingerprint(self) -> str:
        """Of the checkpoint, the run's vocabulary and the beam.

        Raises:
            UserError: there is no such run.
        """
        run, checkpoint = self.source
        files = (checkpoint, run / VOCABULARY_FILE)
        return lines_sha256(["induced graphs", RULES, str(self.beam_size), *map(file_sha256, files)])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with edges, labelled `root` and `dep`.

        Raises:
            UserError: no such run, or one of a system that finds no graphs; a sentence or a word is empty.
        """
        if not isinstance(self.trained.model, GraphNetwork):
            kind = type(self.trained.model).__name__
            raise UserError(f"run: expected a system that finds graphs, such as GiLT, found {kind}, {self.run}.")
        parser = GraphParser(self.trained, self.tokens_per_batch, beam_size=self.beam_size)
        return parser.annotate(sentences)
