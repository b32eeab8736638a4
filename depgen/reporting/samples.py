"""Samples of a row's texts at several temperatures: curves of quality against diversity, and their trees."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from depgen.annotation.tagger import Tagger
from depgen.data.corpus import Split
from depgen.data.experiment import data_of
from depgen.data.levels import TreeForm
from depgen.data.saved_vocabulary import load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.text.samples import moses_texts, sample_scores, texts_of_documents
from depgen.evaluation.trees.generated_trees import (
    agreement,
    levels_per_token,
    relations_per_sentence,
    reparsed,
    sentence_of,
)
from depgen.metrics.pooled_bleu import ReferencePool
from depgen.reporting.numbers import Numbers, TrainedRow
from depgen.reporting.texts import generate, generated_rows
from depgen.training.hyper_parameters import factory
from depgen.trees.annotator import Annotator
from depgen.trees.sentence import Sentence

TREES = ("las_*", "uas_*", "other_las_*", "other_uas_*", "parsers_las_*", "levels_per_token_*")
SAMPLED = ("valid_bleu", "valid_bleu_sd", "test_bleu", "test_bleu_sd", "self_bleu", "self_bleu_sd")
MATCHED = "test_bleu_matched"
"""Test BLEU-5 where Self-BLEU-5 is that of the validation split, between the two temperatures around it."""


def measure_samples(row: TrainedRow, *, temperatures: list[float], per_sample: int) -> Numbers:
    """The numbers of `depgen.reporting.measures.SampledBleu`."""
    found, curve = Numbers(), []
    pools = [_pool(_CorpusKey.of(row.corpus), split) for split in ("valid", "test")]
    for temperature in temperatures:
        texts = generate(row.job, row.trained, None, temperature=temperature, device=row.options.device, wait=row.wait)
        scores = sample_scores(moses_texts(texts), pools, per_sample=per_sample)
        values = (*(each for pair in scores.bleu for each in pair), *scores.self_bleu)
        found.metrics.update({f"{name}_{temperature}": value for name, value in zip(SAMPLED, values, strict=True)})
        curve.append((scores.self_bleu[0], scores.bleu[1][0]))
    real = _self_bleu(_CorpusKey.of(row.corpus), per_sample)
    matched = at_diversity(curve, real)
    if matched is None:
        lowest, highest = min(curve)[0], max(curve)[0]
        found.not_computed[MATCHED] = (
            f"Self-BLEU-5 of the validation split is {real:.1f}, and the texts' goes from {lowest:.1f} to {highest:.1f}"
        )
    else:
        found.metrics[MATCHED] = matched
    return found


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
    """A corpus, equal to every other whose validation and test splits have the same content."""

    digests: tuple[str, ...]
    corpus: Any = field(compare=False)

    @classmethod
    def of(cls, corpus: Any) -> "_CorpusKey":  # noqa: ANN401 - any corpus
        return cls(tuple(corpus.fingerprint(split) for split in ("valid", "test")), corpus)


@lru_cache(maxsize=4)
def _texts(key: _CorpusKey, split: Split) -> tuple[str, ...]:
    return tuple(moses_texts(texts_of_documents(key.corpus.documents(split))))


@lru_cache(maxsize=4)
def _pool(key: _CorpusKey, split: Split) -> ReferencePool:
    return ReferencePool(_texts(key, split))


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
