"""Quality and diversity of samples of texts, as Caccia et al. (2020) and Casas et al. (2020), appendix B, measure them.

Texts are joined to raw text and cut by the Moses tokeniser, references too; BLEU-5 is `depgen.metrics.bleu`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from depgen.data.detokenization import detokenize, rejoined
from depgen.errors import UserError
from depgen.metrics.bleu import ReferencePool, corpus_self_bleu
from depgen.trees.sentence import Document


@dataclass(frozen=True)
class SampleScores:
    """Means and standard deviations (n - 1) over samples; a deviation of one sample is NaN.

    Attributes:
        bleu: against each pool of references, in their order.
        self_bleu: of each text of a sample against the sample's others.
    """

    bleu: tuple[tuple[float, float], ...]
    self_bleu: tuple[float, float]


def sample_scores(texts: Sequence[str], pools: Sequence[ReferencePool], *, per_sample: int) -> SampleScores:
    """BLEU-5 and Self-BLEU-5 of consecutive samples of Moses-tokenised texts; a rest that fills no sample is left out.

    Raises:
        UserError: there are fewer texts than a sample has.
    """
    if len(texts) < per_sample:
        raise UserError(f"Samples of {per_sample} texts: expected at least as many texts, found {len(texts)}.")
    samples = [texts[start : start + per_sample] for start in range(0, len(texts) - per_sample + 1, per_sample)]
    bleu = tuple(_summary([pool.bleu(sample) for sample in samples]) for pool in pools)
    return SampleScores(bleu, _summary([corpus_self_bleu(sample) for sample in samples]))


def _summary(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def moses_texts(texts: Iterable[str]) -> list[str]:
    """Texts as the Moses tokeniser cuts them, without escapes, tokens separated by blanks.

    Raises:
        UserError: the tokeniser is not installed.
    """
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise UserError("sacremoses is not installed: pip install 'depgen[text-metrics]'") from error
    tokenizer = MosesTokenizer("en")
    return [" ".join(tokenizer.tokenize(detokenize(rejoined(text)), escape=False)) for text in texts]


def texts_of_documents(documents: Iterable[Document]) -> list[str]:
    """The sentences of documents, words separated by blanks."""
    return [" ".join(sentence.words) for document in documents for sentence in document.sentences]
