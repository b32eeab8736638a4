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
from depgen.data.levels import TreeForm
from depgen.data.saved_vocabulary import load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text.samples import moses_texts, sample_scores, texts_of_documents
from depgen.evaluation.trees.generated_trees import (
    SHAPES,
    agreement,
    levels_per_token,
    relations_per_sentence,
    reparsed,
    sentence_of,
    shapes,
)
from depgen.metrics.pooled_bleu import ReferencePool
from depgen.reporting.numbers import Numbers, SplitRow, TrainedRow
from depgen.reporting.texts import generate, generated_rows
from depgen.training.hyper_parameters import factory
from depgen.trees.annotator import Annotator
from depgen.trees.sentence import Sentence

TREES = ("las_*", "uas_*", "other_las_*", "other_uas_*", "parsers_las_*", "levels_per_token_*")
SAMPLED = ("valid_bleu", "valid_bleu_sd", "test_bleu", "test_bleu_sd", "self_bleu", "self_bleu_sd")
MATCHED = "test_bleu_matched"
"""Test BLEU-5 where Self-BLEU-5 is that of the validation split, between the two temperatures around it."""
CHOSEN = "temperature"
"""The temperature whose validation BLEU-5 and Self-BLEU-5 are nearest to those of training sentences."""


def measure_samples(row: TrainedRow, *, temperatures: list[float], per_sample: int) -> Numbers:
    """The numbers of `depgen.reporting.measures.SampledBleu`."""
    found, points = Numbers(), dict[float, dict[str, float]]()
    for temperature in temperatures:
        points[temperature] = _scored(row, texts_at(row, temperature), per_sample)
        found.metrics.update({f"{name}_{temperature}": value for name, value in points[temperature].items()})
    corpus = _CorpusKey.of(row.corpus)
    real, diversity = _training_point(corpus, *_wanted(row), per_sample), _self_bleu(corpus, per_sample)
    chosen = nearest({each: (point["valid_bleu"], point["self_bleu"]) for each, point in points.items()}, real)
    found.metrics.update({CHOSEN: chosen, **points[chosen]})
    curve = [(point["self_bleu"], point["test_bleu"]) for point in points.values()]
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


def measure_split(row: SplitRow, *, per_sample: int) -> Numbers:
    """The numbers of `SampledBleu` of a split's sentences, which have no BLEU against themselves."""
    texts = split_texts(row)
    found = _scored(row, texts, min(per_sample, len(texts)))
    own = {name for name in found if name.startswith(f"{row.split}_bleu")}
    reason = "each sentence would be among its own references"
    return Numbers({name: each for name, each in found.items() if name not in own}, {}, {}, dict.fromkeys(own, reason))


def _scored(row: TrainedRow | SplitRow, texts: Sequence[str], per_sample: int) -> dict[str, float]:
    """The numbers that `SAMPLED` names."""
    pools = [_pool(_CorpusKey.of(row.corpus), split) for split in ("valid", "test")]
    scores = sample_scores(moses_texts(texts), pools, per_sample=per_sample)
    values = (*(each for pair in scores.bleu for each in pair), *scores.self_bleu)
    return dict(zip(SAMPLED, values, strict=True))


def _wanted(row: TrainedRow | SplitRow) -> tuple[int, int]:
    """How many texts the table wants, and their seed."""
    assert row.job.generation is not None
    assert isinstance(row.job.generation.samples, int)
    return row.job.generation.samples, row.job.generation.seed


def texts_at(row: TrainedRow, temperature: float, *, number: int = 0) -> tuple[str, ...]:
    """The texts of a row at a temperature: as many as the table wants, or more."""
    return generate(
        row.job, row.trained, None, temperature=temperature, samples=max(number, _wanted(row)[0]),
        device=row.options.device, wait=row.wait,
    )  # fmt: skip


def split_texts(row: SplitRow, *, number: int = 0) -> tuple[str, ...]:
    """Sentences of a split, drawn by the seed of the table's texts: as many as these, or more, or all of them."""
    return tuple(" ".join(each.words) for each in split_sentences(row, number=number))


def split_sentences(row: SplitRow, *, number: int = 0) -> tuple[Sentence, ...]:
    """The sentences of `split_texts`."""
    least, seed = _wanted(row)
    return _drawn(_CorpusKey.of(row.corpus), row.split, max(number, least), seed)


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


def measure_generated_trees(row: TrainedRow, *, temperatures: list[float], other_parser: Any) -> Numbers:  # noqa: ANN401
    """The numbers of `depgen.reporting.measures.GeneratedTrees`."""
    data = data_of(row.trained.run / "config.yaml")
    if data.annotator is None:
        return Numbers(not_computed=dict.fromkeys(TREES, "it writes texts without trees"))
    form = TreeForm.of(load_vocabulary(row.trained.run / "vocabulary"))
    parsers = {"": data.annotator, "other_": factory(other_parser, Annotator)}
    found = Numbers()
    for temperature in temperatures:
        rows = generated_rows(
            row.job, row.trained, None, temperature=temperature, device=row.options.device, wait=row.wait
        )
        try:
            sentences = [sentence_of(each["text"], each["structure"]) for each in rows if each["text"]]
            trees = {name: reparsed(sentences, parser) for name, parser in parsers.items()}
        except UserError as error:  # pieces of words, or a corpus's own trees
            return Numbers(not_computed=dict.fromkeys(TREES, str(error)))
        for name, parsed in trees.items():
            scores = agreement(sentences, parsed, form)
            found.metrics.update({f"{name}las_{temperature}": scores.las, f"{name}uas_{temperature}": scores.uas})
        found.metrics[f"parsers_las_{temperature}"] = agreement(trees[""], trees["other_"], form).las
        found.metrics[f"levels_per_token_{temperature}"] = levels_per_token(sentences)
    real = [sentence for document in row.corpus.documents("test") for sentence in document.sentences][: len(rows)]
    own, other = (reparsed(real, parser) for parser in parsers.values())
    found.metrics["parsers_las_real"] = agreement(own, other, form).las
    return found


def measure_shapes(row: TrainedRow) -> Numbers:
    """The numbers of `depgen.reporting.measures.TextShapes`."""
    rows = generated_rows(row.job, row.trained, None, device=row.options.device, wait=row.wait)
    filled = [each for each in rows if each["text"]]
    try:
        return _of_items(shapes([sentence_of(each["text"], each.get("structure") or {}) for each in filled]))
    except UserError as error:
        lengths = {SHAPES[0]: np.array([len(each["text"].split()) for each in filled], dtype=np.float64)}
        return dataclasses.replace(_of_items(lengths), not_computed=dict.fromkeys(SHAPES[1:], str(error)))


def measure_split_shapes(row: SplitRow) -> Numbers:
    """The same of a split's sentences.

    Raises:
        UserError: the row's experiment has no annotator.
    """
    annotator = data_of(row.job.config).annotator
    if annotator is None:
        raise UserError(f"Row {row.job.row.name}: expected an experiment with an annotator, which gives the trees.")
    return _of_items(shapes([each for each in annotator.annotate(split_sentences(row)) if len(each)]))


def _of_items(items: dict[str, Any]) -> Numbers:
    return Numbers({name: float(values.mean()) for name, values in items.items()}, items)


def measure_boosts(row: TrainedRow, *, relation: str, factors: list[float], tagger: Any, per_sample: int) -> Numbers:  # noqa: ANN401
    """The numbers of `depgen.reporting.measures.BoostedRelation`."""
    found, tags = Numbers(), factory(tagger, Tagger)
    pools = [_pool(_CorpusKey.of(row.corpus), "test")]
    for factor in factors:
        boost = {"boost": {relation: float(factor)}} if factor != 1 else {}
        rows = generated_rows(row.job, row.trained, None, options=boost, device=row.options.device, wait=row.wait)
        texts = [each["text"] for each in rows]
        scores = sample_scores(moses_texts(texts), pools, per_sample=per_sample)
        sentences = [sentence_of(each["text"], each["structure"]) for each in rows if each["text"]]
        tagged = tags.tag([Sentence(each.words) for each in sentences])
        adjectives = sum(tag.startswith("JJ") for each in tagged for tag in each.tags)
        values = {
            "adjectives": adjectives / len(rows),
            "relations": relations_per_sentence(sentences, relation),
            "test_bleu": scores.bleu[0][0],
            "self_bleu": scores.self_bleu[0],
        }
        found.metrics.update({f"{name}_{factor:g}": value for name, value in values.items()})
    return found
