"""All measures of generated text at once: for `depgen evaluate text` and for the tables.

Scores are times 100 but for the perplexity. Intervals are bootstrap percentile intervals of the mean of item scores;
for Self-BLEU they resample texts while the texts that each was compared with stay. sacreBLEU and Distinct-n have
no item score and get none. LM score, reverse LM score and oracle perplexity want an oracle (`oracle.py`); the items of
the reverse score are the real test sentences, not the texts.

Deviations:
    D1. An empty text scores zero and is counted (`empty="zero"`); the DMLM authors' code drops it together with its
        reference (`empty="drop"`: left out of every measure, counted and logged, NaN among the item scores). Either
        way it has no perplexity and is left out of that mean.
    D2. Texts are given to pretrained models as they are, with spaces between tokens, as the DMLM authors did. Models
        that have learnt from raw text find them odd; `detokenize` gives them raw text, and the settings say so.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from depgen.data.detokenization import detokenize
from depgen.errors import UserError
from depgen.evaluation.text.bertscore import bertscore
from depgen.evaluation.text.gpt2_perplexity import lm_perplexity
from depgen.evaluation.text.oracle import Average, find_oracle, text_losses
from depgen.evaluation.text.outcome import MeasuredItems, NotComputed, mean_of_defined
from depgen.evaluation.text.reverse_lm import reverse_lm_score
from depgen.evaluation.text_documents import check_texts
from depgen.evaluation.trained import checked_device
from depgen.evaluation.union import union_score
from depgen.metrics.bleu import EmptyPolicy, bleu, corpus_bleu, self_bleu
from depgen.metrics.ngrams import distinct
from depgen.metrics.significance import Interval, bootstrap_interval

NAMES = {
    "union": "UNION",
    "bleu1": "BLEU-1",
    "bleu2": "BLEU-2",
    "sacrebleu": "sacreBLEU",
    "distinct2": "Distinct-2",
    "distinct3": "Distinct-3",
    "selfbleu2": "Self-BLEU-2",
    "selfbleu3": "Self-BLEU-3",
    "bertscore": "BERTScore",
    "lm_perplexity": "LM perplexity",
    "oracle_perplexity": "Oracle perplexity",
    "lm": "LM score",
    "rlm": "Reverse LM score",
}
"""The measures in the order of the table, and how they are written for people."""
CONFIDENCE = 0.95
WITHIN_TEXTS = "n-grams inside texts only"
"""What the settings say of Distinct-n with `within_texts`."""
DEFAULTS = {
    **dict.fromkeys(("bleu1", "bleu2"), "by sentence, smoothing method 1 of Chen & Cherry (2014)"),
    **dict.fromkeys(
        ("distinct2", "distinct3"), "n-grams over the border of two texts count, as in the DMLM paper's code"
    ),
    **dict.fromkeys(("selfbleu2", "selfbleu3"), "against all other texts, without smoothing"),
}
"""What a figure depends on where its settings say nothing else."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextOptions:
    """Everything that `text_metrics` lets one choose; options of `depgen evaluate text`.

    Attributes:
        empty: what an empty line is worth: `zero`, or `drop` to leave it out with its reference.
        bertscore_model: folder or hub name of an encoder, or null for no BERTScore.
        bertscore_layer: layer of that encoder; by default the BERTScore authors' choice.
        bertscore_baseline: baseline file of the bert-score package, by which BERTScore is rescaled.
        perplexity_model: folder or hub name of a causal language model, or null for no LM perplexity.
        within_texts: Distinct-n of the n-grams inside texts, as Li et al. (2016) define it. By default n-grams over the
            border of two texts count too, as in the code of DMLM's authors and in our tables.
        detokenize: give pretrained models raw text (`did n't go .` becomes `didn't go.`) in place of tokens. By default
            they are given the tokens as they are.
        union: a run of UNION, such as union_rocstories; by default no UNION.
        oracle: for LM score and oracle perplexity: an experiment that `depgen fit` has trained, such as
            experiments/oracle_news.yaml, or any run folder.
        reverse: train the oracle's network on the texts too, for the reverse LM score.
        average: of nats per token in LM score and reverse LM score: over texts, or over all tokens.
        download: fetch models that are not on this machine from the hub.
        device: where models run, such as `cpu` or `cuda:0`; by default a GPU where there is one.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """

    empty: EmptyPolicy = "zero"
    bertscore_model: str | None = "roberta-large"
    bertscore_layer: int | None = None
    bertscore_baseline: Path | None = None
    perplexity_model: str | None = "gpt2"
    within_texts: bool = False
    detokenize: bool = False
    union: str | None = None
    oracle: str | None = None
    reverse: bool = False
    average: Average = "texts"
    download: bool = False
    device: str | None = None
    resamples: int = 2000
    seed: int = 0


@dataclass(frozen=True)
class TextEvaluation:
    """What was measured on a set of texts; every measure of `NAMES` is in `metrics` or in `not_computed`.

    Attributes:
        texts: how many texts there were.
        empty: how many of them were empty.
        metrics: the figures.
        intervals: 95 % bootstrap intervals, where there are item scores.
        items: item scores in the order of the texts (`rlm`: of the real test sentences); NaN where undefined.
        excluded: items left out of a figure, where there are any.
        not_computed: the reason for each measure without a figure.
        settings: what a figure depends on (models, layers, versions).
        unknown: the share of the texts' words that the oracle reads as `<unk>`, by its figures.
    """

    texts: int
    empty: int
    metrics: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    items: dict[str, Float[np.ndarray, " texts"]] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, float] = field(default_factory=dict)


def text_metrics(
    texts: Sequence[str],
    references: Sequence[str] | None = None,
    options: TextOptions | None = None,
    *,
    prompts: Sequence[str] | None = None,
) -> TextEvaluation:
    """Every measure that can be computed on the texts, and the reason for every other.

    Args:
        texts: one string an item, tokens separated by whitespace.
        references: one reference an item, or None.
        options: models, policies, seeds.
        prompts: what each text continues, for UNION; None: texts are whole stories.

    Raises:
        UserError: there is no text, not one reference or prompt a text, a table in place of one of its columns, or no
            such device.
    """
    options = options or TextOptions()
    checked_device(options.device)
    for name, each in (("texts", texts), ("references", references), ("prompts", prompts)):
        check_texts(each, name)
    for others, what in ((references, "reference"), (prompts, "prompt")):
        if others is not None and len(texts) != len(others):
            raise UserError(f"Expected one {what} a text, found {len(texts)} texts and {len(others)} {what}s.")
    empty = sum(not text.strip() for text in texts)
    if empty == len(texts):
        raise UserError(f"There is no text to evaluate: {len(texts)} items, all of them empty.")
    kept = list(range(len(texts)))
    if empty:
        logger.warning("%d of %d texts are empty; each %s.", empty, len(texts), _EMPTY[options.empty])
        if options.empty == "drop":
            kept = [index for index, text in enumerate(texts) if text.strip()]
    measuring = _Measuring(TextEvaluation(len(texts), empty), kept, options)
    kept_texts = [texts[index] for index in kept]
    kept_references = None if references is None else [references[index] for index in kept]
    measuring.union(kept_texts, None if prompts is None else [prompts[index] for index in kept])
    measuring.overlap(kept_texts, kept_references)
    measuring.diversity(kept_texts)
    measuring.models(kept_texts, kept_references)
    measuring.oracle(kept_texts)
    return measuring.result


_EMPTY = {
    "zero": "scores zero and has no perplexity",
    "drop": "is left out of every measure, together with its reference",
}


@dataclass(frozen=True)
class _Measuring:
    """Fills a `TextEvaluation`, measure by measure, from the texts that are kept."""

    result: TextEvaluation
    kept: list[int]
    options: TextOptions

    def overlap(self, texts: Sequence[str], references: Sequence[str] | None) -> None:
        """BLEU by sentence and by corpus."""
        if references is None:
            for name in ("bleu1", "bleu2", "sacrebleu"):
                self.result.not_computed[name] = "no references were given"
            return
        for order, scores in bleu(texts, references, (1, 2)).items():
            self._add_items(f"bleu{order}", scores)
        try:
            corpus = corpus_bleu(texts, references)
        except UserError as missing:
            self.result.not_computed["sacrebleu"] = str(missing)
        else:
            self.result.metrics["sacrebleu"] = corpus.score
            self.result.settings["sacrebleu"] = corpus.signature

    def union(self, texts: Sequence[str], prompts: Sequence[str] | None) -> None:
        """UNION, by a scorer of our own."""
        if self.options.union is None:
            self.result.not_computed["union"] = "no scorer was named"
        else:
            outcome = union_score(texts, prompts, scorer=self.options.union, device=self._device)
            self._add_outcome("union", outcome)

    @property
    def _device(self) -> str:
        return self.options.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def diversity(self, texts: Sequence[str]) -> None:
        """Distinct-n and Self-BLEU-n."""
        for order in (2, 3):
            share = distinct(texts, order, within_items=self.options.within_texts)
            if isnan(share):
                self.result.not_computed[f"distinct{order}"] = f"the texts hold no {order}-gram"
            else:
                self.result.metrics[f"distinct{order}"] = share
                if self.options.within_texts:
                    self.result.settings[f"distinct{order}"] = WITHIN_TEXTS
        if len(texts) < 2:
            for order in (2, 3):
                self.result.not_computed[f"selfbleu{order}"] = "a text is compared with others, and there is only one"
            return
        for order, scores in self_bleu(texts, (2, 3)).items():
            self._add_items(f"selfbleu{order}", scores)

    def models(self, texts: Sequence[str], references: Sequence[str] | None) -> None:
        """BERTScore and LM perplexity."""
        options, off, device = self.options, "switched off: no model was named", self._device
        texts = self._as_pretrained_models_read(texts)
        references = None if references is None else self._as_pretrained_models_read(references)
        if references is None:
            self.result.not_computed["bertscore"] = "no references were given"
        elif options.bertscore_model is None:
            self.result.not_computed["bertscore"] = off
        else:
            outcome = bertscore(
                texts,
                references,
                model=options.bertscore_model,
                layer=options.bertscore_layer,
                baseline=options.bertscore_baseline,
                device=device,
                download=options.download,
            )
            self._add_outcome("bertscore", outcome, pretrained=True)
        if options.perplexity_model is None:
            self.result.not_computed["lm_perplexity"] = off
        else:
            outcome = lm_perplexity(texts, model=options.perplexity_model, device=device, download=options.download)
            self._add_outcome("lm_perplexity", outcome, pretrained=True)

    def oracle(self, texts: Sequence[str]) -> None:
        """LM score, oracle perplexity and reverse LM score."""
        options, reasons = self.options, self.result.not_computed
        if options.oracle is None:
            reasons.update(dict.fromkeys(("oracle_perplexity", "lm", "rlm"), "no oracle was named"))
            return
        run = find_oracle(options.oracle)
        losses = text_losses(texts, run, device=options.device)
        self._add_outcome("oracle_perplexity", losses.perplexity())
        self._add_outcome("lm", losses.score(options.average))
        if losses.unknown is not None:
            self.result.unknown.update(oracle_perplexity=losses.unknown, lm=losses.unknown)
        if options.reverse:
            outcome = reverse_lm_score(texts, run, average=options.average)
            self.result.settings["rlm"] = outcome.description
            self._add_figure("rlm", outcome.items)
        else:
            reasons["rlm"] = "off by default: it trains a network on the texts"

    def _as_pretrained_models_read(self, texts: Sequence[str]) -> Sequence[str]:
        return list(map(detokenize, texts)) if self.options.detokenize else texts

    def _described(self, description: str, *, pretrained: bool) -> str:
        return f"{description}, texts detokenised" if pretrained and self.options.detokenize else description

    def _add_outcome(self, name: str, outcome: MeasuredItems | NotComputed, *, pretrained: bool = False) -> None:
        if isinstance(outcome, NotComputed):
            self.result.not_computed[name] = outcome.reason
        elif isnan(outcome.value):
            self.result.not_computed[name] = "it is defined for none of the texts"
        else:
            self.result.settings[name] = self._described(outcome.description, pretrained=pretrained)
            self._add_items(name, outcome.items)

    def _add_items(self, name: str, scores: Float[np.ndarray, " kept"]) -> None:
        items = np.full(self.result.texts, np.nan)
        items[self.kept] = scores
        self._add_figure(name, items)

    def _add_figure(self, name: str, items: Float[np.ndarray, " items"]) -> None:
        self.result.items[name] = items
        self.result.metrics[name] = mean_of_defined(items)
        self.result.intervals[name] = bootstrap_interval(
            items, confidence=CONFIDENCE, resamples=self.options.resamples, seed=self.options.seed
        )
        undefined = int(np.isnan(items).sum())
        if undefined:
            self.result.excluded[name] = undefined
