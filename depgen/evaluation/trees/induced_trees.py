"""Trees that a system has learnt from raw text, as an annotation source for others."""

from collections.abc import Sequence
from functools import cached_property

from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.decoding.heads import Decoding
from depgen.errors import UserError
from depgen.evaluation.reading import reading_of_run
from depgen.evaluation.trees.annotating_run import AnnotatingRun, called
from depgen.evaluation.trees.head_networks import parser_of
from depgen.evaluation.trees.induced_parser import InducedParser
from depgen.locations import file_sha256, lines_sha256
from depgen.trees.annotator import Structure, check_words
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FormName

RULES: dict[Decoding, str] = {"tree": "4", "argmax": "5"}
"""Raised when the trees of the same run change."""


class InducedTrees(AnnotatingRun):
    """Gives each sentence the tree that a run of UDGN, or of another system that parses, finds in it.

    Words are read in the form of the text that the run has learnt from: what that text lacks (punctuation) is left out,
    the others are spelt as there. What was left out hangs on the last word before it that was read, at the beginning of
    a sentence on the first one; a sentence of nothing else hangs on its first word. Relations are `root` and `dep`.

    Args:
        run: a run folder (its best checkpoint), a checkpoint file, a folder of runs or an experiment (the newest); as
            paths from here or below `$DEPGEN_RUNS`.
        decoding: `tree`, the best tree with a single root; or `argmax`, each word's likeliest head, of which as few
            are changed as make a tree with a single root: one in each cycle, so that the tree is the most probable.
        form: what sentences are brought into (`depgen.trees.text_form`): by default the form of the run's corpus, in
            which text that has it already stays as it is; `bare` or `ptb`, or `as_is`, where the corpus does not say.
        tokens_per_batch: parsed at a time, padding included; no tree depends on it, but of StructFormer's with the
            published `calibration: batch`, which couples all that are parsed together.
        device: cpu, cuda, …; by default a GPU where there is one.
        attention_head: (masked Transformer) the layer and attention head that it parses by, both 0-based, such as
            `depgen evaluate parsing` chooses; by default those that it was trained with, if any.
        likely_heads: give graphs too: the tree and, of each word, all heads that are at least this likely; None: trees
            alone.

    Raises:
        UserError: `likely_heads` is no such probability.
    """

    remedy = (
        " Trees are induced by a run of a system that parses: train one, such as `depgen fit --config "
        "experiments/udgn_ptb.yaml --size small` or the rows of `depgen reproduce udgn_table1`, and name it."
    )

    def __init__(
        self,
        run: str,
        decoding: Decoding = "tree",
        *,
        form: FormName | None = None,
        tokens_per_batch: int = 8192,
        device: str | None = None,
        attention_head: tuple[int, int] | None = None,
        likely_heads: float | None = None,
    ) -> None:
        if likely_heads is not None and not 0 < likely_heads <= 1:
            raise UserError(f"likely_heads: expected a probability above 0 and at most 1, found {likely_heads}.")
        super().__init__(run, device, form)
        self.decoding, self.tokens_per_batch = decoding, tokens_per_batch
        self.attention_head = attention_head
        self.likely_heads = None if likely_heads is None else float(likely_heads)
        self.structure: Structure = "tree" if likely_heads is None else "graph"
        by = "" if attention_head is None else ", layer {} head {}".format(*attention_head)
        also = "" if likely_heads is None else f", heads of {likely_heads} and more"
        self.scheme = f"induced by {called(run)} ({decoding}{by}{also})"

    def fingerprint(self) -> str:
        """Of the checkpoint, the run's vocabulary and the options.

        Raises:
            UserError: there is no such run.
        """
        run, checkpoint = self.source
        files = (checkpoint, run / VOCABULARY_FILE)
        parts = ["induced trees", RULES[self.decoding], self.decoding, self.text_form, *map(file_sha256, files)]
        if self.attention_head is not None:
            parts.append("attention head {} {}".format(*self.attention_head))
        if self.likely_heads is not None:
            parts.append(f"heads of {self.likely_heads}")
        return lines_sha256(parts)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations, always a single root; with `likely_heads`, with edges too.

        Raises:
            UserError: no such run, one of a system that does not parse, a sentence or a word is empty.
        """
        check_words(sentences)
        parser = InducedParser(
            self.trained, self.tokens_per_batch, decoding=self.decoding, attention_head=self.attention_head
        )  # fmt: skip
        found = parser.annotate(sentences)
        return found if self.likely_heads is None else parser.with_graphs(found, least=self.likely_heads)

    @cached_property
    def text_form(self) -> FormName:
        """The form that sentences are brought into.

        Raises:
            UserError: none was named, and the run's corpus does not say; or the run does not parse.
        """
        found = self.form or reading_of_run(self.source[0]).form
        if found is None:
            parser_of(self.trained)  # a run that does not parse is refused for that
            raise UserError(f"The corpus of {self.run} does not say in which form its text is: name it by `form`.")
        return found
