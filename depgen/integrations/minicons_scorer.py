"""Scores by minicons' methods: `pip install 'depgen[minicons]'`.

`DepgenScorer("dmlm_rocstories").sequence_score(["the cat ran ."], bos_token=True)` scores a text by a run.
"""

from pathlib import Path

from minicons.scorer import IncrementalLMScorer

from depgen.evaluation.system import load
from depgen.integrations.next_word_model import NextWordModel, SystemTokenizer


class DepgenScorer(IncrementalLMScorer):  # type: ignore[misc]
    """`minicons.scorer.IncrementalLMScorer` of a system that predicts words from left to right.

    As in minicons, the first token of a text has a score with `bos_token=True` alone. Runs are trained with this token
    in front of every text, so that scores without it mean little.

    Args:
        run: what `depgen.load` takes.
        device: cpu, cuda, …; by default a GPU where there is one.

    Raises:
        UserError: there is no such system, or it predicts words from both sides.
    """

    def __init__(self, run: str | Path | None = None, device: str | None = None) -> None:
        system = load(run, device=device)
        model = NextWordModel(system).eval()
        super().__init__(model, device=str(model.device), tokenizer=SystemTokenizer(system))
