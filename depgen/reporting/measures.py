"""What tables name under `measures:`: kinds of numbers of trained rows beyond those of their own tests.

Each imports what it needs once it measures, so that a table is read and printed without torch.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from depgen.errors import check_at_least
from depgen.reporting.definition import TOKENS, WORDS
from depgen.reporting.numbers import Generation, Measure, Numbers, SplitRow, TrainedRow

OWN = ("perplexity", "word_perplexity", "loss", "unk_rate", TOKENS, WORDS)
"""What a system's own test gives is of other items, or of another kind of likelihood, than `Scores`."""


class Texts(Measure):
    """Measures of the texts that a row writes, on the texts of each nucleus.

    Args:
        oracle: the experiment of the language model that judges texts; None where no column needs one.
        empty: what an empty text is worth (`TextOptions.empty`); None takes that of the text measures' options.
        how: the texts are made, as in `Generation`.
    """

    def __init__(
        self,
        *,
        oracle: str | None = None,
        empty: Literal["zero", "drop"] | None = None,
        **how: Any,  # noqa: ANN401 - jsonargparse checks them
    ) -> None:
        self.generation, self.oracle, self.empty = Generation(**how), oracle, empty

    def measure(self, row: TrainedRow) -> Numbers:
        """The text measures of the table's columns."""
        from depgen.reporting.texts import measure_texts

        options = row.options if self.empty is None else replace(row.options, empty=self.empty)
        return measure_texts(replace(row, options=options))

    def keys(self) -> Collection[str]:
        """The text measures, and how many texts there are."""
        from depgen.evaluation.text.measures import NAMES

        return (*NAMES, "texts", "empty")


class SampledBleu(Measure):
    """Quality and diversity of samples of texts at several temperatures, by corpus BLEU-5 (Casas et al., 2020).

    Args:
        temperatures: of the samples.
        per_sample: texts of a sample. The number of samples is that of all texts over it.
        how: the texts are made, as in `Generation`, with `samples` as the number of all texts.
    """

    def __init__(self, *, temperatures: Sequence[float], per_sample: int = 400, **how: Any) -> None:  # noqa: ANN401
        self.generation, self.temperatures, self.per_sample = Generation(**how), list(temperatures), per_sample

    def measure(self, row: TrainedRow) -> Numbers:
        """BLEU-5 against the validation and the test split, and Self-BLEU-5, at each temperature and at the chosen one.

        The chosen one is that whose validation BLEU-5 and Self-BLEU-5 are nearest to those of training sentences.
        """
        from depgen.reporting.samples import measure_samples

        return measure_samples(row, temperatures=self.temperatures, per_sample=self.per_sample)

    def measure_split(self, row: SplitRow) -> Numbers:
        """The same of as many sentences of a split, drawn by the seed of the texts."""
        from depgen.reporting.samples import measure_split

        return measure_split(row, per_sample=self.per_sample)

    def keys(self) -> Collection[str]:
        """Means and deviations over samples by temperature, and test BLEU-5 at the diversity of real text."""
        from depgen.reporting.samples import CHOSEN, MATCHED, SAMPLED

        return (MATCHED, CHOSEN, *SAMPLED, *(f"{name}_{each}" for name in SAMPLED for each in self.temperatures))


class JudgedSamples(SampledBleu):
    """The same, and what language models say of the texts at the chosen temperature (Casas et al., 2020, Table 2).

    Args:
        judges: rows of the table by the column of their perplexity; they are trained first.
        features: the row whose states are the features of MAUVE, unless an option of the text measures names a model.
        mauve_texts: as many texts, and as many sentences of the test split, MAUVE compares.
        how: see `SampledBleu`.
    """

    def __init__(self, *, judges: dict[str, str], features: str, mauve_texts: int = 5000, **how: Any) -> None:  # noqa: ANN401
        super().__init__(**how)
        check_at_least(2, mauve_texts=mauve_texts)
        self.judges, self.features, self.mauve_texts = judges, features, mauve_texts

    def measure(self, row: TrainedRow) -> Numbers:
        """The same, then perplexities of the texts and MAUVE."""
        from depgen.reporting.judges import judged
        from depgen.reporting.samples import CHOSEN, texts_at

        found = super().measure(row)
        found.add(judged(row, lambda number: texts_at(row, found.metrics[CHOSEN], number=number), self))
        return found

    def measure_split(self, row: SplitRow) -> Numbers:
        """The same of sentences of a split."""
        from depgen.reporting.judges import judged
        from depgen.reporting.samples import split_texts

        found = super().measure_split(row)
        found.add(judged(row, lambda number: split_texts(row, number=number), self))
        return found

    def keys(self) -> Collection[str]:
        """Those of samples, a perplexity a judge, GPT-2's, and MAUVE."""
        return (*super().keys(), *self.judges, "gpt2_perplexity", "mauve")


class GeneratedTrees(Measure):
    """Agreement of the trees of generated texts with those of the parser that a row has learnt from and of another.

    Args:
        temperatures: of the texts.
        other_parser: class path and arguments of an annotator that was trained apart.
        how: the texts are made, as in `Generation`.
    """

    def __init__(self, *, temperatures: Sequence[float], other_parser: dict[str, Any], **how: Any) -> None:  # noqa: ANN401
        self.generation, self.temperatures, self.loads = Generation(**how), list(temperatures), other_parser

    def measure(self, row: TrainedRow) -> Numbers:
        """LAS and UAS by temperature, those of the parsers with each other, and levels over tokens."""
        from depgen.reporting.samples import measure_generated_trees

        return measure_generated_trees(row, temperatures=self.temperatures, other_parser=self.loads)

    def keys(self) -> Collection[str]:
        """By temperature; and the agreement of the parsers on the test split."""
        from depgen.reporting.samples import TREES

        return TREES


class TextShapes(Measure):
    """Lengths of texts, depths of their trees, and decoding steps over tokens, text by text (Casas et al., 2020).

    Args:
        how: the texts are made, as in `Generation`.
    """

    def __init__(self, **how: Any) -> None:  # noqa: ANN401 - jsonargparse checks them
        self.generation = Generation(**how)

    def measure(self, row: TrainedRow) -> Numbers:
        """The means and the numbers of each text; of systems without trees, lengths alone."""
        from depgen.reporting.samples import measure_shapes

        return measure_shapes(row)

    def measure_split(self, row: SplitRow) -> Numbers:
        """The same of sentences of a split, with the trees of the experiment's annotator."""
        from depgen.reporting.samples import measure_split_shapes

        return measure_split_shapes(row)

    def keys(self) -> Collection[str]:
        """Those of `depgen.evaluation.trees.generated_trees.shapes`."""
        from depgen.evaluation.trees.generated_trees import SHAPES

        return SHAPES


class BoostedRelation(Measure):
    """Texts whose expansions with a relation are made more probable (Casas et al., 2020, Table 3).

    Args:
        relation: such as `amod`.
        factors: of the probabilities; 1 changes nothing.
        tagger: class path and arguments of a `depgen.annotation.tagger.Tagger`, by which adjectives are counted.
        per_sample: see `SampledBleu`.
        how: the texts are made, as in `Generation`.
    """

    def __init__(
        self,
        *,
        relation: str,
        factors: Sequence[float],
        tagger: dict[str, Any],
        per_sample: int = 400,
        **how: Any,  # noqa: ANN401
    ) -> None:
        self.generation, self.factors, self.loads = Generation(**how), list(factors), tagger
        self.relation, self.per_sample = relation, per_sample

    def measure(self, row: TrainedRow) -> Numbers:
        """Adjectives and words with the relation a sentence, BLEU-5 and Self-BLEU-5, by factor."""
        from depgen.reporting.samples import measure_boosts

        return measure_boosts(
            row, relation=self.relation, factors=self.factors, tagger=self.loads, per_sample=self.per_sample
        )

    def keys(self) -> Collection[str]:
        """By factor."""
        names = ("adjectives", "relations", "test_bleu", "self_bleu")
        return tuple(f"{name}_{factor:g}" for name in names for factor in self.factors)


class Trees(Measure):
    """DDA and UDA of a run's trees by each decoding, per cent.

    Args:
        treebank: the YAML in `experiments/` (without its ending) that `depgen parsing-scores` reads.
    """

    def __init__(self, treebank: str) -> None:
        self.trees = self.treebank = treebank

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies, and the share of unknown words."""
        from depgen.reporting.parses import measure_trees

        return measure_trees(row.job, row.trained.run, self.treebank)

    def keys(self) -> Collection[str]:
        """DDA and UDA by each decoding, and the share of unknown words."""
        from depgen.reporting.parses import DECODINGS

        return (*(f"{measure}_{each}" for measure in ("dda", "uda") for each in DECODINGS), "unknown_words")


class Correlations(Measure):
    """The best attention head's correlation with each relation, in both directions, before the mask between words.

    Args:
        treebank: the YAML in `experiments/` (without its ending) that `depgen head-correlations` reads.
    """

    def __init__(self, treebank: str) -> None:
        self.treebank = treebank

    def measure(self, row: TrainedRow) -> Numbers:
        """A correlation a direction and relation."""
        from depgen.reporting.parses import measure_correlations

        return measure_correlations(row.job, row.trained.run, self.treebank)

    def keys(self) -> Collection[str]:
        """A direction and any relation."""
        from depgen.evaluation.trees.correlations import Direction

        return tuple(f"{each}_*" for each in get_args(Direction))


class Coherence(Measure):
    """A run's accuracy at each task of documents, its deviation over resampled test sets, ties; per cent, and places.

    Args:
        tasks: the YAML files in `experiments/` (without their endings) that `depgen coherence` reads.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tasks

    def measure(self, row: TrainedRow) -> Numbers:
        """The measures of all tasks."""
        from depgen.reporting.coherence import measure_coherence

        return measure_coherence(row.trained.run, self.tasks)

    def keys(self) -> Collection[str]:
        """The accuracy at every kind of task, and what belongs to it."""
        from depgen.evaluation.coherence.arrangements import Task

        return tuple(f"{task}{more}" for task in get_args(Task) for more in ("", "_deviation", "_ties", "_distance"))


class Scores(Measure):
    """Likelihood and speed of a run on one text for all rows; they replace the figures of its test.

    Args:
        text: the YAML in `experiments/` (without its ending) of that text.
    """

    replaces = OWN

    def __init__(self, text: str) -> None:
        self.text = text

    def measure(self, row: TrainedRow) -> Numbers:
        """Perplexity per word, speeds and sizes."""
        from depgen.reporting.scoring import measure_scores

        return measure_scores(row.trained.run, self.text, row.facts)

    def keys(self) -> Collection[str]:
        """Perplexities, speeds and sizes."""
        from depgen.evaluation.likelihood.scored_text import PERPLEXITY

        return (*PERPLEXITY.values(), "unk_rate", "scoring_speed", "training_speed", "inner_parameters")


class FirstOfTest(Measure):
    """Perplexity of the first documents of a run's test split, which replaces that of the whole split.

    Scores that are bounds are sums over as many hypotheses as the row's `beam_size` says.

    Args:
        documents: how many.
    """

    replaces = OWN

    def __init__(self, documents: int) -> None:
        check_at_least(1, documents=documents)
        self.documents = documents

    def measure(self, row: TrainedRow) -> Numbers:
        """Perplexity per token and per word, with the items of both."""
        from depgen.reporting.scoring import measure_first

        return measure_first(row.trained.run, self.documents, row.job.row.beam_size)

    def keys(self) -> Collection[str]:
        """Perplexities, and what they are over."""
        return ("perplexity", "word_perplexity", TOKENS, WORDS)


class SyntaxMeasure(Measure):
    """Base of the accuracies on benchmarks of syntax, per cent.

    Args:
        protocol: `plain`, or `paper`, that of GiLT, as `depgen minimal-pairs` and `syntactic-suites` have it.
        beam_size: hypotheses about the structure of a sentence, of systems whose scores are bounds, in rows that name
            none; None: the system's.
        five_gram: also train a 5-gram model on the row's corpus.
    """

    key: str

    def __init__(
        self, protocol: Literal["plain", "paper"] = "paper", beam_size: int | None = None, five_gram: bool = False
    ) -> None:
        self.options: dict[str, Any] = {"protocol": protocol, "beam_size": beam_size, "five_gram": five_gram}

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies, and the share of items with unknown words."""
        from depgen.reporting.syntax import MEASURED

        options = {**self.options, "beam_size": row.job.row.beam_size or self.options["beam_size"]}
        return MEASURED[self.key](row.trained.run, **options)

    def keys(self) -> Collection[str]:
        """Accuracies, floors and the share of unknown words."""
        return (self.key, f"{self.key}_*")


class MinimalPairs(SyntaxMeasure):
    """Accuracy on the minimal pairs of BLiMP, overall and by phenomenon."""

    key = "blimp"


class SyntacticSuites(SyntaxMeasure):
    """Accuracy on the suites of SyntaxGym, overall and by circuit."""

    key = "suites"


class GraphStatistics(Measure):
    """Arcs and words a sentence of the graphs that a row learns from."""

    def measure(self, row: TrainedRow) -> Numbers:
        """The means over the training sentences, and the share of words without a head."""
        from depgen.reporting.graphs import measure_graphs

        return measure_graphs(row.trained.run)

    def keys(self) -> Collection[str]:
        """Arcs, words, and the share of words without a head."""
        from depgen.reporting.graphs import ARCS, WITHOUT_HEAD, WORDS_OF_GRAPHS

        return (ARCS, WORDS_OF_GRAPHS, WITHOUT_HEAD)
