"""What language models say of texts (Casas et al., 2020, Table 2): perplexities by rows and by GPT-2.

Deviations, all where the paper is silent:
    D1. Each text is read by itself, its `<eos>` is counted, and words unknown to a judge are read as `<unk>`; the share
        of these is kept.
    D2. GPT-2 is the model that an option of the text measures names; the paper's is GPT-2 XL.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from depgen.data.corpus import Split
from depgen.data.detokenization import detokenize, rejoined
from depgen.evaluation.text.gpt2_perplexity import corpus_perplexity
from depgen.evaluation.text.oracle import text_losses
from depgen.evaluation.text.outcome import MeasuredSet, NotComputed
from depgen.reporting.jobs import fit
from depgen.reporting.measures.samples import CHOSEN, SampledBleu, split_texts, texts_at
from depgen.reporting.numbers import MeasuredRow, Numbers, TrainedRow
from depgen.reporting.results import UNKNOWN

GPT2 = "gpt2_perplexity"


class JudgedSamples(SampledBleu):
    """The numbers of `SampledBleu`, and what language models say of the texts at the chosen temperature.

    Args:
        judges: rows of the table by the column of their perplexity; they are trained first.
        options: see `SampledBleu`.
    """

    def __init__(self, *, judges: dict[str, str], **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.judges = judges

    def measure(self, row: TrainedRow) -> Numbers:
        """The numbers of `SampledBleu`, then perplexities of the texts.

        Raises:
            UserError: the table has no row of a judge's name, or the judge has no exact likelihood.
        """
        found = super().measure(row)
        self._judge(row, texts_at(row, found.metrics[CHOSEN], number=row.generation.number), found)
        return found

    def measure_split(self, row: MeasuredRow, split: Split) -> Numbers:
        """The same of sentences of a split."""
        found = super().measure_split(row, split)
        self._judge(row, split_texts(row.corpus, split, row.generation, number=row.generation.number), found)
        return found

    def _judge(self, row: MeasuredRow, texts: Sequence[str], found: Numbers) -> None:
        """Add the perplexities of the texts."""
        options, judged = row.options, list(texts)
        for key, name in self.judges.items():
            losses = text_losses(judged, _run(row, name), device=options.device)
            found.metrics[key] = losses.corpus_perplexity()
            found.metrics[key + UNKNOWN] = losses.unknown or 0.0
            found.settings[key] = f"{losses.description}, over all tokens, <eos> counted, each text by itself"
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        if options.perplexity_model is None:
            _add(found, GPT2, NotComputed("switched off: no model was named"))
        else:
            model, raw = options.perplexity_model, _raw(judged)
            _add(found, GPT2, corpus_perplexity(raw, model=model, device=device, download=options.download))


def _raw(texts: Sequence[str]) -> list[str]:
    """The texts as people write them, which GPT-2 and its like read."""
    return [detokenize(rejoined(text)) for text in texts]


def _run(row: MeasuredRow, name: str) -> Path:
    """The run of a row of the table at the same size and seed, trained where it is not."""
    job = dataclasses.replace(row.job, row=row.job.definition.row(name))
    return fit(job, row.depgen).run


def _add(found: Numbers, name: str, outcome: MeasuredSet | NotComputed) -> None:
    if isinstance(outcome, NotComputed):
        found.not_computed[name] = outcome.reason
    else:
        found.metrics[name], found.settings[name] = outcome.value, outcome.description
