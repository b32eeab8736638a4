"""Samples of a row's texts at several temperatures: curves of quality against diversity, and their trees."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from depgen.annotation.tagger import Tagger
from depgen.data.corpus import SPLITS, Split
from depgen.data.experiment import data_of
from depgen.data.levels import binarization_of
from depgen.data.vocabulary import VOCABULARY_FILE, load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text.samples import moses_texts, sample_scores, texts_of_documents
from depgen.evaluation.trees.generated_trees import (
    SHAPES,
    agreement,
    levels_per_token,
    relations_per_sentence,
    reparsed,
    shapes,
)
from depgen.metrics.bleu import ReferencePool
from depgen.reporting.generation import Generation
from depgen.reporting.measures.texts import generated
from depgen.reporting.numbers import Measure, MeasuredRow, Numbers, TrainedRow
from depgen.training.hyper_parameters import factory
from depgen.trees.annotator import Annotator
from depgen.trees.sentence import Sentence

SAMPLED = ("valid_bleu", "valid_bleu_sd", "test_bleu", "test_bleu_sd", "self_bleu", "self_bleu_sd")
MATCHED = "test_bleu_matched"
"""Test BLEU-5 where Self-BLEU-5 is that of the validation split, between the two temperatures around it."""
CHOSEN = "temperature"
"""The temperature whose validation BLEU-5 and Self-BLEU-5 are nearest to those of training sentences."""
TREES = ("las_*", "uas_*", "other_las_*", "other_uas_*", "parsers_las_*", "levels_per_token_*")


class SampledBleu(Measure):
    """Quality and diversity of samples of texts at several temperatures, by corpus BLEU-5 (Casas et al., 2020).

    Args:
        temperatures: of the samples.
        per_sample: texts of a sample. The number of samples is that of all texts over it.
    """

    needs = "samples"

    def __init__(self, *, temperatures: Sequence[float], per_sample: int = 400) -> None:
        self.temperatures, self.per_sample = list(temperatures), per_sample

    def measure(self, row: TrainedRow) -> Numbers:
        """BLEU-5 against the validation and the test split, and Self-BLEU-5, at each temperature and at `CHOSEN`."""
        found, points = Numbers(), dict[float, dict[str, float]]()
        for temperature in self.temperatures:
            points[temperature] = _scored(row, texts_at(row, temperature), self.per_sample)
            found.metrics.update({f"{name}_{temperature}": value for name, value in points[temperature].items()})
        corpus = _CorpusKey.of(row.corpus)
        real = _training_point(corpus, row.generation.number, row.generation.seed, self.per_sample)
        chosen = nearest({each: (point["valid_bleu"], point["self_bleu"]) for each, point in points.items()}, real)
        found.metrics.update({CHOSEN: chosen, **points[chosen]})
        curve = [(point["self_bleu"], point["test_bleu"]) for point in points.values()]
        diversity = _self_bleu(corpus, self.per_sample)
        matched = at_diversity(curve, diversity)
        if matched is None:
            lowest, highest = min(curve)[0], max(curve)[0]
            found.not_computed[MATCHED] = (
                f"Self-BLEU-5 of the validation split is {diversity:.1f}, and the texts' goes from {lowest:.1f} to "
                f"{highest:.1f}"
            )
        else:
            found.metrics[MATCHED] = matched
        return found

    def measure_split(self, row: MeasuredRow, split: Split) -> Numbers:
        """The same numbers of as many sentences of a split; BLEU against their own split is left out."""
        texts = split_texts(row.corpus, split, row.generation)
        found = _scored(row, texts, min(self.per_sample, len(texts)))
        own = {name for name in found if name.startswith(f"{split}_bleu")}
        reason = "each sentence would be among its own references"
        return Numbers(
            {name: each for name, each in found.items() if name not in own}, not_computed=dict.fromkeys(own, reason)
        )


def _scored(row: MeasuredRow, texts: Sequence[str], per_sample: int) -> dict[str, float]:
    """The numbers that `SAMPLED` names."""
    pools = [_pool(_CorpusKey.of(row.corpus), split) for split in ("valid", "test")]
    scores = sample_scores(moses_texts(texts), pools, per_sample=per_sample)
    values = (*(each for pair in scores.bleu for each in pair), *scores.self_bleu)
    return dict(zip(SAMPLED, values, strict=True))


def texts_at(row: TrainedRow, temperature: float, *, number: int = 0) -> tuple[str, ...]:
    """The texts of a row at a temperature: as many as the table wants, or more."""
    return generated(row, temperature=temperature, samples=max(number, row.generation.number)).texts


def split_texts(corpus: Any, split: Split, how: Generation, *, number: int = 0) -> tuple[str, ...]:  # noqa: ANN401
    """Sentences of a split, drawn by the seed of a table's texts: as many as these, or more, or all of them."""
    drawn = _drawn(_CorpusKey.of(corpus), split, max(number, how.number), how.seed)
    return tuple(" ".join(each.words) for each in drawn)


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


@dataclass(frozen=True)
class _CorpusKey:
    """A corpus, equal to every other whose splits have the same content."""

    digests: tuple[str, ...]
    corpus: Any = field(compare=False)

    @classmethod
    def of(cls, corpus: Any) -> "_CorpusKey":  # noqa: ANN401 - any corpus
        return cls(tuple(corpus.fingerprint(split) for split in SPLITS), corpus)


@lru_cache(maxsize=4)
def _texts(key: _CorpusKey, split: Split) -> tuple[str, ...]:
    return tuple(moses_texts(texts_of_documents(key.corpus.documents(split))))


@lru_cache(maxsize=4)
def _pool(key: _CorpusKey, split: Split) -> ReferencePool:
    return ReferencePool(_texts(key, split))


@lru_cache(maxsize=4)
def _drawn(key: _CorpusKey, split: Split, number: int, seed: int) -> tuple[Sentence, ...]:
    """Different sentences of a split in random order."""
    sentences = [each for document in key.corpus.documents(split) for each in document.sentences]
    places = np.random.default_rng(seed).permutation(len(sentences))[:number]
    return tuple(sentences[place] for place in places)


@lru_cache(maxsize=4)
def _training_point(key: _CorpusKey, number: int, seed: int, per_sample: int) -> tuple[float, float]:
    """BLEU-5 of training sentences against the validation split, and their Self-BLEU-5."""
    texts = moses_texts(" ".join(each.words) for each in _drawn(key, "train", number, seed))
    scores = sample_scores(texts, [_pool(key, "valid")], per_sample=min(per_sample, len(texts)))
    return scores.bleu[0][0], scores.self_bleu[0]


@lru_cache(maxsize=4)
def _self_bleu(key: _CorpusKey, per_sample: int) -> float:
    """Self-BLEU-5 of real text: the mean over as many samples of the validation split as it has, at least one."""
    texts = _texts(key, "valid")
    return sample_scores(texts, [], per_sample=min(per_sample, len(texts))).self_bleu[0]


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
        found = Numbers()
        for temperature in self.temperatures:
            kept = generated(row, temperature=temperature)
            try:
                sentences = kept.sentences()
                trees = {name: reparsed(sentences, parser) for name, parser in parsers.items()}
            except UserError as error:  # pieces of words, or a corpus's own trees
                return Numbers(not_computed=dict.fromkeys(TREES, str(error)))
            for name, parsed in trees.items():
                scores = agreement(sentences, parsed, binarization)
                found.metrics.update(
                    {f"{name}las_{temperature}": scores["las"], f"{name}uas_{temperature}": scores["uas"]}
                )
            found.metrics[f"parsers_las_{temperature}"] = agreement(trees[""], trees["other_"], binarization)["las"]
            found.metrics[f"levels_per_token_{temperature}"] = levels_per_token(sentences, binarization)
        real = [each for document in row.corpus.documents("test") for each in document.sentences][: len(kept.texts)]
        own, other = (reparsed(real, parser) for parser in parsers.values())
        found.metrics["parsers_las_real"] = agreement(own, other, binarization)["las"]
        return found


class TextShapes(Measure):
    """Lengths of texts, depths of their trees, and decoding steps over tokens, text by text (Casas et al., 2020)."""

    needs = "samples"

    def measure(self, row: TrainedRow) -> Numbers:
        """The means and the numbers of each text; of systems without trees, lengths alone."""
        kept = generated(row)
        try:
            return _of_items(shapes(kept.sentences()))
        except UserError as error:
            lengths = {SHAPES[0]: np.array([len(each.split()) for each in kept.texts if each], dtype=np.float64)}
            return dataclasses.replace(_of_items(lengths), not_computed=dict.fromkeys(SHAPES[1:], str(error)))

    def measure_split(self, row: MeasuredRow, split: Split) -> Numbers:
        """The same of sentences of a split, with the trees of the experiment's annotator.

        Raises:
            UserError: the experiment has no annotator.
        """
        annotator = data_of(row.job.config).annotator
        if annotator is None:
            raise UserError(f"Row {row.job.row.name}: expected an experiment with an annotator, which gives the trees.")
        sentences = _drawn(_CorpusKey.of(row.corpus), split, row.generation.number, row.generation.seed)
        return _of_items(shapes([each for each in annotator.annotate(sentences) if len(each)]))


def _of_items(items: dict[str, Any]) -> Numbers:
    return Numbers({name: float(values.mean()) for name, values in items.items()}, items)


class BoostedRelation(Measure):
    """Texts whose expansions with a relation are made more probable (Casas et al., 2020, Table 3).

    Args:
        relation: such as `amod`.
        factors: of the probabilities; 1 changes nothing.
        tagger: class path and arguments of a `depgen.annotation.tagger.Tagger`, by which adjectives are counted.
        per_sample: see `SampledBleu`.
    """

    needs = "samples"

    def __init__(
        self, *, relation: str, factors: Sequence[float], tagger: dict[str, Any], per_sample: int = 400
    ) -> None:
        self.relation, self.factors, self.tagger, self.per_sample = relation, list(factors), tagger, per_sample

    def measure(self, row: TrainedRow) -> Numbers:
        """Adjectives and words with the relation a sentence, BLEU-5 and Self-BLEU-5, by factor."""
        found, tags = Numbers(), factory(self.tagger, Tagger)
        pools = [_pool(_CorpusKey.of(row.corpus), "test")]
        for factor in self.factors:
            kept = generated(row, options={"boost": {self.relation: float(factor)}} if factor != 1 else {})
            scores = sample_scores(moses_texts(kept.texts), pools, per_sample=self.per_sample)
            sentences = kept.sentences()
            tagged = tags.tag([Sentence(each.words) for each in sentences])
            adjectives = sum(tag.startswith("JJ") for each in tagged for tag in each.tags)
            relations = relations_per_sentence(sentences, self.relation)
            values = (adjectives / len(kept.texts), relations, scores.bleu[0][0], scores.self_bleu[0])
            found.metrics.update(zip(_boosted(factor), values, strict=True))
        return found


def _boosted(factor: float) -> list[str]:
    """The names of the numbers of a factor."""
    return [f"{name}_{factor:g}" for name in ("adjectives", "relations", "test_bleu", "self_bleu")]
