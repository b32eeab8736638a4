"""Samples of a row's texts at several temperatures: curves of quality against diversity, and their trees.

Deviations of the perplexities of texts (Casas et al., 2020, Table 2), all where the paper is silent:
    D1. Each text is read by itself, its `<eos>` is counted, and words unknown to a judge are read as `<unk>`; the share
        of these is kept.
    D2. GPT-2 is the model that an option of the text measures names; the paper's is GPT-2 XL.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from depgen.annotation.spacy import Tagger
from depgen.data.corpus import SPLITS, Split
from depgen.data.experiment import data_of
from depgen.data.levels import binarization_of
from depgen.data.vocabulary import VOCABULARY_FILE, load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text_judges import NotComputedError, corpus_perplexity
from depgen.evaluation.text_measures import moses_texts, raw_text, sample_scores
from depgen.evaluation.text_oracle import description_of, text_losses
from depgen.evaluation.trained import checked_device
from depgen.metrics.attachment import attachment, compared_words
from depgen.metrics.bleu import ReferencePool
from depgen.metrics.item_scores import perplexity
from depgen.reporting.jobs import fit
from depgen.reporting.measures import Measure, MeasuredRow, Numbers, TrainedRow
from depgen.reporting.measures.texts import generated
from depgen.reporting.results import UNKNOWN
from depgen.training.hyper_parameters import factory
from depgen.trees.annotator import Annotator
from depgen.trees.binarization import Binarization, binary_dependencies, depths, lifted, written_tree
from depgen.trees.punctuation import is_punctuation
from depgen.trees.sentence import Sentence

MATCHED = "test_bleu_matched"
"""Test BLEU-5 where Self-BLEU-5 is that of the validation split, between the two temperatures around it."""
CHOSEN = "temperature"
"""The temperature whose validation BLEU-5 and Self-BLEU-5 are nearest to those of training sentences."""
GPT2 = "gpt2_perplexity"
TREES = ("las_*", "uas_*", "other_las_*", "other_uas_*", "parsers_las_*", "levels_per_token_*")


class SampledBleu(Measure):
    """Quality and diversity of samples of texts at several temperatures, by corpus BLEU-5 (Casas et al., 2020).

    Args:
        temperatures: of the samples.
        per_sample: texts of a sample. The number of samples is that of all texts over it.
        judges: rows of the table by the column of the perplexity that they give the texts at the chosen temperature;
            they are trained first. With judges, GPT-2 reads the texts too.
    """

    needs = "samples"

    def __init__(
        self, *, temperatures: Sequence[float], per_sample: int = 400, judges: Mapping[str, str] | None = None
    ) -> None:
        self.temperatures, self.per_sample, self.judges = list(temperatures), per_sample, judges

    def measure(self, row: TrainedRow) -> Numbers:
        """BLEU-5 against the validation and the test split, and Self-BLEU-5, at each temperature and at `CHOSEN`."""
        texts = {tau: list(generated(row, temperature=tau)["text"]) for tau in self.temperatures}
        points = {tau: _scored(row, own, self.per_sample) for tau, own in texts.items()}
        numbers = Numbers({f"{name}_{tau}": value for tau, point in points.items() for name, value in point.items()})
        real = _Real.of(row.corpus)
        learnt = _training_point(real, row.generation.number, row.generation.seed, self.per_sample)
        chosen = nearest({tau: (point["valid_bleu"], point["self_bleu"]) for tau, point in points.items()}, learnt)
        numbers.metrics.update({CHOSEN: chosen, **points[chosen]})
        curve = [(point["self_bleu"], point["test_bleu"]) for point in points.values()]
        valid = _texts(real, "valid")  # its mean over as many samples as it has, at least one
        diversity = sample_scores(valid, {}, per_sample=min(self.per_sample, len(valid)))["self_bleu"].mean()
        matched = at_diversity(curve, diversity)
        if matched is None:
            lowest, highest = min(curve)[0], max(curve)[0]
            numbers.not_computed[MATCHED] = (
                f"Self-BLEU-5 of the validation split is {diversity:.1f}, and the texts' goes from {lowest:.1f} to "
                f"{highest:.1f}"
            )
        else:
            numbers.metrics[MATCHED] = matched
        self._judge(row, texts[chosen], numbers)
        return numbers

    def measure_split(self, row: MeasuredRow, split: Split) -> Numbers:
        """The same numbers of as many sentences of a split; BLEU against their own split is left out."""
        sentences = _drawn(_Real.of(row.corpus), split, row.generation.number, row.generation.seed)
        texts = _words(sentences)
        scores = _scored(row, texts, min(self.per_sample, len(texts)))
        own = [name for name in scores if name.startswith(f"{split}_bleu")]
        reason = "each sentence would be among its own references"
        numbers = Numbers(
            {name: scores[name] for name in scores if name not in own}, not_computed=dict.fromkeys(own, reason)
        )
        self._judge(row, texts, numbers)
        return numbers

    def _judge(self, row: MeasuredRow, texts: Sequence[str], numbers: Numbers) -> None:
        """Add what the judges and GPT-2 say of texts."""
        if self.judges is None:
            return
        options = row.options
        for key, name in self.judges.items():
            job = dataclasses.replace(row.job, row=row.job.definition.row(name))
            run = fit(job, row.depgen).run
            losses = text_losses(texts, run, device=options.device)
            scored = losses.dropna()
            numbers.metrics[key] = perplexity(scored["nll"].sum(), int(scored["tokens"].sum()))
            numbers.metrics[key + UNKNOWN] = losses["unknown"].sum() / max(losses["words"].sum(), 1)
            numbers.settings[key] = f"{description_of(run)}, over all tokens, <eos> counted, each text by itself"
        if options.perplexity_model is None:
            numbers.not_computed[GPT2] = "switched off: no model was named"
            return
        raw, model = [raw_text(text) for text in texts], options.perplexity_model
        try:
            score = corpus_perplexity(
                raw, model=model, device=checked_device(options.device), download=options.download
            )
        except NotComputedError as reason:
            numbers.not_computed[GPT2] = str(reason)
        else:
            numbers.metrics[GPT2], numbers.settings[GPT2] = score.value, score.settings or ""


def _scored(row: MeasuredRow, texts: Sequence[str], per_sample: int) -> dict[str, float]:
    """Means over samples of `valid_bleu`, `test_bleu` and `self_bleu`, and their standard deviations (`_sd`)."""
    pools = {f"{split}_bleu": _pool(_Real.of(row.corpus), split) for split in SPLITS if split != "train"}
    scores = sample_scores(moses_texts(texts), pools, per_sample=per_sample)
    return {**scores.mean(), **scores.std().add_suffix("_sd")}


def nearest(points: Mapping[float, tuple[float, float]], real: tuple[float, float]) -> float:
    """The temperature whose point of quality and diversity is nearest to that of real text.

    >>> nearest({0.7: (30.0, 22.0), 1.0: (20.0, 9.0), 1.2: (13.0, 5.0)}, (21.5, 6.6))
    1.0
    """
    return min(points, key=lambda temperature: math.dist(points[temperature], real))


def at_diversity(curve: list[tuple[float, float]], self_bleu: float) -> float | None:
    """BLEU at a Self-BLEU, linear between the points around it; None outside of the curve.

    >>> at_diversity([(10.0, 30.0), (5.0, 20.0)], 7.5), at_diversity([(10.0, 30.0), (5.0, 20.0)], 4.0)
    (25.0, None)
    """
    diversity, quality = np.array(sorted(curve)).T
    if not diversity[0] <= self_bleu <= diversity[-1]:
        return None
    return float(np.interp(self_bleu, diversity, quality))


# -- real text, which the rows of a table share -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Real:
    """A corpus, equal to every other whose splits have the same content."""

    digests: tuple[str, ...]
    corpus: Any = field(compare=False)

    @classmethod
    def of(cls, corpus: Any) -> "_Real":  # noqa: ANN401 - any corpus
        return cls(tuple(corpus.fingerprint(split) for split in SPLITS), corpus)


@lru_cache(maxsize=4)
def _texts(real: _Real, split: Split) -> tuple[str, ...]:
    sentences = [sentence for document in real.corpus.documents(split) for sentence in document.sentences]
    return tuple(moses_texts(_words(sentences)))


@lru_cache(maxsize=4)
def _pool(real: _Real, split: Split) -> ReferencePool:
    return ReferencePool(_texts(real, split))


@lru_cache(maxsize=4)
def _drawn(real: _Real, split: Split, number: int, seed: int) -> tuple[Sentence, ...]:
    """Different sentences of a split in random order: as many, or all."""
    sentences = [sentence for document in real.corpus.documents(split) for sentence in document.sentences]
    places = np.random.default_rng(seed).permutation(len(sentences))[:number]
    return tuple(sentences[place] for place in places)


@lru_cache(maxsize=4)
def _training_point(real: _Real, number: int, seed: int, per_sample: int) -> tuple[float, float]:
    """BLEU-5 of training sentences against the validation split, and their Self-BLEU-5."""
    texts = moses_texts(_words(_drawn(real, "train", number, seed)))
    scores = sample_scores(texts, {"bleu": _pool(real, "valid")}, per_sample=min(per_sample, len(texts))).mean()
    return scores["bleu"], scores["self_bleu"]


def _words(sentences: Sequence[Sentence]) -> list[str]:
    return [" ".join(sentence.words) for sentence in sentences]


# -- trees of texts ---------------------------------------------------------------------------------------------------


def _with_trees(texts: pd.DataFrame) -> list[Sentence]:
    """The texts that are not empty, each with its tree; UserError where there are none over their words."""
    structures = texts["structure"] if "structure" in texts else [{}] * len(texts)
    return [sentence_of(text, structure) for text, structure in zip(texts["text"], structures, strict=True) if text]


class GeneratedTrees(Measure):
    """Agreement of the trees of generated texts with those of the parser that a row has learnt from and of another.

    Args:
        temperatures: of the texts.
        other_parser: class path and arguments of an annotator that was trained apart.
    """

    needs = "samples"

    def __init__(self, *, temperatures: Sequence[float], other_parser: dict[str, Any]) -> None:
        self.temperatures, self.other_parser = list(temperatures), other_parser

    def measure(self, row: TrainedRow) -> Numbers:
        """LAS and UAS by temperature, those of the parsers with each other, and levels over tokens."""
        data = data_of(row.trained.run / "config.yaml")
        if data.annotator is None:
            return Numbers(not_computed=dict.fromkeys(TREES, "it writes texts without trees"))
        binarization = binarization_of(load_vocabulary(row.trained.run / VOCABULARY_FILE))
        parsers = {"": data.annotator, "other_": factory(self.other_parser, Annotator)}
        metrics = dict[str, float]()
        for temperature in self.temperatures:
            try:
                sentences = _with_trees(generated(row, temperature=temperature))
                trees = {name: reparsed(sentences, parser) for name, parser in parsers.items()}
            except UserError as error:  # pieces of words, or a corpus's own trees
                return Numbers(not_computed=dict.fromkeys(TREES, str(error)))
            for name, parsed in trees.items():
                scores = agreement(sentences, parsed, binarization)
                metrics.update({f"{name}{score}_{temperature}": scores[score] for score in ("las", "uas")})
            metrics[f"parsers_las_{temperature}"] = agreement(trees[""], trees["other_"], binarization)["las"]
            metrics[f"levels_per_token_{temperature}"] = levels_per_token(sentences, binarization)
        real = [sentence for document in row.corpus.documents("test") for sentence in document.sentences]
        own, other = (reparsed(real[: row.generation.number], parser) for parser in parsers.values())
        metrics["parsers_las_real"] = agreement(own, other, binarization)["las"]
        return Numbers(metrics)


class TextShapes(Measure):
    """Lengths of texts, depths of their trees, and decoding steps over tokens, text by text (Casas et al., 2020)."""

    needs = "samples"

    def measure(self, row: TrainedRow) -> Numbers:
        """The means and the numbers of each text; of systems without trees, lengths alone."""
        texts = generated(row)
        try:
            return _of_items(shapes(_with_trees(texts)))
        except UserError as error:
            lengths = {SHAPES[0]: np.array([len(text.split()) for text in texts["text"] if text], dtype=np.float64)}
            return dataclasses.replace(_of_items(lengths), not_computed=dict.fromkeys(SHAPES[1:], str(error)))

    def measure_split(self, row: MeasuredRow, split: Split) -> Numbers:
        """The same of sentences of a split, with the trees of the experiment's annotator."""
        annotator = data_of(row.job.config).annotator
        if annotator is None:
            raise UserError(f"Row {row.job.row.name}: expected an experiment with an annotator, which gives the trees.")
        sentences = _drawn(_Real.of(row.corpus), split, row.generation.number, row.generation.seed)
        return _of_items(shapes([sentence for sentence in annotator.annotate(sentences) if len(sentence)]))


def _of_items(items: dict[str, Any]) -> Numbers:
    return Numbers({name: float(values.mean()) for name, values in items.items()}, items)


class BoostedRelation(Measure):
    """Texts whose expansions with a relation are made more probable (Casas et al., 2020, Table 3).

    Args:
        relation: such as `amod`.
        factors: of the probabilities; 1 changes nothing.
        tagger: class path and arguments of a `depgen.annotation.spacy.Tagger`, by which adjectives are counted.
        per_sample: see `SampledBleu`.
    """

    needs = "samples"

    def __init__(
        self, *, relation: str, factors: Sequence[float], tagger: dict[str, Any], per_sample: int = 400
    ) -> None:
        self.relation, self.factors, self.tagger, self.per_sample = relation, list(factors), tagger, per_sample

    def measure(self, row: TrainedRow) -> Numbers:
        """Adjectives and words with the relation a sentence, BLEU-5 and Self-BLEU-5, by factor."""
        metrics, tagger = dict[str, float](), factory(self.tagger, Tagger)
        pools = {"test_bleu": _pool(_Real.of(row.corpus), "test")}
        for factor in self.factors:
            texts = generated(row, options={"boost": {self.relation: float(factor)}} if factor != 1 else {})
            sentences = _with_trees(texts)
            tagged = tagger.tag([Sentence(sentence.words) for sentence in sentences])
            adjectives = sum(tag.startswith("JJ") for sentence in tagged for tag in sentence.tags)
            scores = sample_scores(moses_texts(texts["text"]), pools, per_sample=self.per_sample).mean()
            values = {
                "adjectives": adjectives / len(texts),
                "relations": relations_per_sentence(sentences, self.relation),
                **scores,
            }
            metrics.update({f"{name}_{factor:g}": value for name, value in values.items()})
        return Numbers(metrics)


# -- trees that came with texts, against a parser's -------------------------------------------------------------------


def sentence_of(text: str, structure: Mapping[str, Any]) -> Sentence:
    """A generated text with its tree."""
    words = tuple(text.split())
    if len(structure.get("heads", ())) != len(words):
        raise UserError("Expected texts with a tree over their words, found one over others, such as pieces of words.")
    return Sentence(words, tuple(structure["heads"]), tuple(structure["relations"]))


def agreement(found: Sequence[Sentence], other: Sequence[Sentence], binarization: Binarization) -> dict[str, float]:
    """UAS, LAS and UDA of two trees over the same words, both binarised.

    >>> from depgen.trees.sentence import Sentence
    >>> one = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obj"))
    >>> two = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obl"))
    >>> round(agreement([one], [two], "left-right")["las"], 1)
    66.7
    """

    def written(sentences: Sequence[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            heads, relations = _written(sentence, binarization)
            yield Sentence(sentence.words, tuple(heads.tolist()), tuple(relations))

    words = compared_words([*written(found)], [*written(other)])
    is_word = [not each for sentence in found for each in is_punctuation(sentence, "form")]
    return attachment(words[np.array(is_word, dtype=bool)])


def reparsed(sentences: Sequence[Sentence], annotator: Annotator) -> list[Sentence]:
    """The same words with the trees of an annotator."""
    return annotator.annotate([Sentence(each.words) for each in sentences])


def levels_per_token(sentences: Sequence[Sentence], binarization: Binarization) -> float:
    """The mean over sentences of the number of levels over that of tokens, of binarised trees."""
    ratios = [float(depths(_written(each, binarization)[0]).max()) / len(each) for each in sentences if len(each)]
    return float(np.mean(ratios)) if ratios else float("nan")


SHAPES = ("length", "depth", "steps_balanced", "steps_tree", "steps_binarized")
"""The numbers of `shapes`."""


def shapes(sentences: Sequence[Sentence]) -> dict[str, Float[np.ndarray, " sentences"]]:
    """Words, levels of the binarised tree, and levels over words of three trees; Section 6 of Casas et al. (2020).

    The trees are the binary one of least depth, the sentence's as it is, and the sentence's binarised.

    Args:
        sentences: with trees and at least one word.

    >>> found = shapes([Sentence(("my", "dog", "also", "likes", "eating", "sausage"), (2, 4, 4, 0, 4, 5))])
    >>> {name: round(float(values[0]), 2) for name, values in found.items()}
    {'length': 6.0, 'depth': 3.0, 'steps_balanced': 0.5, 'steps_tree': 0.5, 'steps_binarized': 0.5}
    """
    words = np.array([len(each) for each in sentences], dtype=np.float64)
    plain, binary = (
        np.array([depths(heads).max() for heads in trees], dtype=np.float64)
        for trees in (
            [each.heads or () for each in sentences],
            [binary_dependencies(lifted(each.heads or ())) for each in sentences],
        )
    )
    balanced = np.floor(np.log2(words)) + 1
    return dict(zip(SHAPES, (words, binary, balanced / words, plain / words, binary / words), strict=True))


def relations_per_sentence(sentences: Sequence[Sentence], relation: str) -> float:
    """The mean number of words with a relation; subtypes, such as `amod:x`, count."""
    counts = [sum(each.split(":")[0] == relation for each in sentence.relations or ()) for sentence in sentences]
    return float(np.mean(counts)) if counts else float("nan")


def _written(sentence: Sentence, binarization: Binarization) -> tuple[np.ndarray, list[str]]:
    if sentence.heads is None or sentence.relations is None:
        raise UserError("Expected sentences with trees and relations, found one without.")
    return written_tree(sentence.heads, sentence.relations, binarization)
