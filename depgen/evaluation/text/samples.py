"""Quality and diversity of samples of texts, as Caccia et al. (2020) and Casas et al. (2020), appendix B, measure them.

Texts are joined to raw text and cut by the Moses tokeniser, references too; BLEU-5 is `depgen.metrics.bleu`.
"""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from depgen.data.detokenization import detokenize, rejoined
from depgen.errors import UserError
from depgen.metrics.bleu import ReferencePool, corpus_self_bleu


def sample_scores(texts: Sequence[str], pools: Mapping[str, ReferencePool], *, per_sample: int) -> pd.DataFrame:
    """BLEU-5 against each pool of references, by its name, and `self_bleu`, Self-BLEU-5; a row a sample.

    Samples are consecutive Moses-tokenised texts; a rest that fills no sample is left out.

    Raises:
        UserError: there are fewer texts than a sample has.
    """
    if len(texts) < per_sample:
        raise UserError(f"Samples of {per_sample} texts: expected at least as many texts, found {len(texts)}.")
    samples = [texts[start : start + per_sample] for start in range(0, len(texts) - per_sample + 1, per_sample)]
    return pd.DataFrame(
        [
            {name: pool.bleu(sample) for name, pool in pools.items()} | {"self_bleu": corpus_self_bleu(sample)}
            for sample in samples
        ]
    )


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
    return [" ".join(tokenizer.tokenize(raw_text(text), escape=False)) for text in texts]


def raw_text(text: str) -> str:
    """A text as people write it, which pretrained models read."""
    return detokenize(rejoined(text))
