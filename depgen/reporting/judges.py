"""What language models say of texts (Casas et al., 2020, Table 2): perplexities by rows and by GPT-2, and MAUVE.

Deviations, all where the paper is silent:
    D1. Each text is read by itself, its `<eos>` is counted, and words unknown to a judge are read as `<unk>`; the share
        of these is kept.
    D2. GPT-2 is the model that an option of the text measures names; the paper's is GPT-2 XL.
    D3. MAUVE, which the paper lacks, is against sentences of the test split.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from depgen.data.detokenization import detokenize, rejoined
from depgen.evaluation.text.gpt2_perplexity import corpus_perplexity
from depgen.evaluation.text.mauve import mauve_score
from depgen.evaluation.text.measures import ORACLE
from depgen.evaluation.text.oracle import text_losses
from depgen.evaluation.text.outcome import MeasuredSet, NotComputed
from depgen.reporting.jobs import fit
from depgen.reporting.measures import JudgedSamples
from depgen.reporting.numbers import Numbers, SplitRow, TrainedRow
from depgen.reporting.results import UNKNOWN
from depgen.reporting.samples import split_texts

GPT2, MAUVE = "gpt2_perplexity", "mauve"


def judged(row: TrainedRow | SplitRow, texts_of: Callable[[int], Sequence[str]], measure: JudgedSamples) -> Numbers:
    """Perplexities of texts and their MAUVE.

    Args:
        row: whose.
        texts_of: from a number to that many of its texts or more; to all of them where there are fewer.
        measure: names judges and numbers.

    Raises:
        UserError: the table has no row of a judge's name, or the judge has no exact likelihood.
        filelock.Timeout: another process trains a judge, and this one does not wait.
    """
    found, options = Numbers(), row.options
    texts = list(texts_of(0))
    for key, name in measure.judges.items():
        losses = text_losses(texts, _run(row, name), device=options.device)
        found.metrics[key] = losses.corpus_perplexity()
        found.metrics[key + UNKNOWN] = losses.unknown or 0.0
        found.settings[key] = f"{losses.description}, over all tokens, <eos> counted, each text by itself"
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.perplexity_model is None:
        _add(found, GPT2, NotComputed("switched off: no model was named"))
    else:
        raw = [detokenize(rejoined(text)) for text in texts]
        model = options.perplexity_model
        _add(found, GPT2, corpus_perplexity(raw, model=model, device=device, download=options.download))
    _add(found, MAUVE, _mauve(row, texts_of(measure.mauve_texts)[: measure.mauve_texts], measure, device))
    return found


def _mauve(
    row: TrainedRow | SplitRow, texts: Sequence[str], measure: JudgedSamples, device: str
) -> MeasuredSet | NotComputed:
    """MAUVE of texts against as many sentences of the test split."""
    test = SplitRow(row.job, "test", row.corpus, row.options, row.depgen, row.wait)
    real, model = split_texts(test, number=measure.mauve_texts)[: measure.mauve_texts], row.options.mauve_model
    if model is None or model == ORACLE:
        return mauve_score(texts, real, model=_run(row, measure.features), device=device)
    sides = ([detokenize(rejoined(text)) for text in side] for side in (texts, real))
    return mauve_score(*sides, model=model, device=device, download=row.options.download)


def _run(row: TrainedRow | SplitRow, name: str) -> Path:
    """The run of a row of the table at the same size and seed, trained where it is not."""
    job = dataclasses.replace(row.job, row=row.job.definition.row(name))
    return fit(job, row.depgen, wait=row.wait).run


def _add(found: Numbers, name: str, outcome: MeasuredSet | NotComputed) -> None:
    if isinstance(outcome, NotComputed):
        found.not_computed[name] = outcome.reason
    else:
        found.metrics[name], found.settings[name] = outcome.value, outcome.description
