"""A trained language model that answers prompts. Section 4.3 and Appendix A of Huang et al. (2026), "GiLT: Augmenting
Transformer Language Models with Dependency Graphs"; tasks of GLUE (Wang et al., 2018).

A prompt names a task's sentences, and the next word is the answer: each class has a word, its verbaliser. Similarities
are a linear function of the last state. All of the language model is fine-tuned.

    paper, code              here
    Post-GPT2, GiLT-GPT2     the run named by `data.init_args.encoder`
    "Label:{l}"              `verbaliser_log_probs`; the first piece of the word that follows
    "linear regression"      `regression`
    graphs of the prompts    `data.init_args.annotator`: `depgen.evaluation.trees.induced_graphs.InducedGraphs`

Deviations
    D1. Similarities are read from the state of a prompt's last token. The code reads the last position of a batch,
        which is padding for shorter prompts.
    D2. Prompts are parsed without their answers. In the code's files answers are part of what is parsed.
    D3. The code takes the likeliest of all words for the answer, and any wrong word for class 0: `answers_among`.
    D4. "F1" of RTE and SST-2 in the paper is accuracy, as in the code.
    D5. The rate of RTE, its batch, and the verbalisers of SST-2 are the code's; the paper has one rate and 0 and 1.
    D6. Losses are divided by the prompts of a batch; the code sums.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from depgen.data.batch import ItemBatch
from depgen.data.prompts import PromptBatch, Prompts, collate_prompts
from depgen.data.sts import HIGHEST
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.networks_of_runs import built, trained_encoder
from depgen.metrics.similarity import PairScores, ScoredPairs, pearson, spearman
from depgen.nn.vocabulary import full_precision, log_softmax_over_vocabulary
from depgen.training.phases import Phase

Selection = Literal["accuracy", "f1", "correlation"]


class PromptedModel(LanguageModel):
    """A trained left-to-right language model, fine-tuned to answer prompts.

    Args:
        vocabulary_size: number of token types; linked from the data.
        selected_by: the figure on the validation split that the best weights are chosen by; `correlation`: the mean of
            Pearson's and Spearman's.
        answers_among: a class's answer is the likeliest of the `verbalisers`, or of the whole `vocabulary`, where every
            other word counts as class 0 (D3).
        architecture: the encoder's class and settings as JSON. None in a new run, whose encoder comes from the run that
            `data.init_args.encoder` names; a checkpoint holds it, and needs that run no more.
        verbalisers: the token of each class; none: answers are similarities. None in a new run likewise.
        kwargs: see `LanguageModel`.

    Logged on the validation and test splits, in per cent: of classes `accuracy`, `f1` of class 1, and both of the
    answer that is most frequent in the split (`majority_accuracy`, `majority_f1`); of similarities `pearson` and
    `spearman`, and their mean, `correlation`.
    """

    encoder: LeftToRight

    def __init__(
        self,
        vocabulary_size: int,
        selected_by: Selection = "accuracy",
        answers_among: Literal["verbalisers", "vocabulary"] = "verbalisers",
        architecture: str | None = None,
        verbalisers: Sequence[int] | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.vocabulary_size, self.architecture = vocabulary_size, architecture
        self.selected_by, self.answers_among, self.verbalisers = selected_by, answers_among, verbalisers
        self.phases = (Phase("fine_tuning", monitor=f"val/one_minus_{selected_by}"),)
        self.val_answers, self.test_answers = ScoredPairs(), ScoredPairs()

    @classmethod
    def figure_names(cls) -> tuple[str, ...]:
        """What a test may log."""
        return ("accuracy", "f1", "majority_accuracy", "majority_f1", "pearson", "spearman", "correlation")

    def configure_model(self) -> None:
        """Build the encoder; in a new run, with the weights of the run that the data names."""
        if hasattr(self, "encoder"):
            return
        if self.architecture is None:
            data = self._data()
            self.architecture, self.encoder = trained_encoder(
                data.encoder_content(), LeftToRight, origin=data.encoder_checkpoint,
                expected="a left-to-right language model, such as GPT-2",
            )  # fmt: skip
            self.verbalisers = data.verbaliser_ids()
            self.hparams.update(architecture=self.architecture, verbalisers=self.verbalisers)
        else:
            self.encoder = built(self.architecture, LeftToRight)
        self.regression = None if self.verbalisers else nn.Linear(self.encoder.backbone.width, 1)
        if bool(self.verbalisers) is (self.selected_by == "correlation"):
            answers = "classes" if self.verbalisers else "similarities"
            raise UserError(f"selected_by: {self.selected_by} is no figure of a task whose answers are {answers}.")
        for parameter in self._unused():
            parameter.requires_grad_(False)

    def _data(self) -> Prompts:
        data: object = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, Prompts):
            raise UserError(
                f"PromptedModel is trained on prompts: set data to {Prompts.__module__}.Prompts, found "
                f"{type(data).__name__}."
            )
        return data

    def _unused(self) -> list[nn.Parameter]:
        """The parameters that no answer depends on: scorers of arcs."""
        scorers: Sequence[nn.Module] = getattr(self.encoder, "scorers", ())
        return [parameter for scorer in scorers for parameter in scorer.parameters()]

    @property
    def collate(self) -> Callable[[ItemBatch], PromptBatch]:
        """Prompts as the encoder reads them, and their answers."""
        return partial(collate_prompts, sequences=self.encoder.collate)

    # -- answers --------------------------------------------------------------------------------------------------

    def last_states(self, batch: PromptBatch) -> Float[Tensor, "batch width"]:
        """The state of each prompt's last token, which predicts the next word."""
        hidden = self.encoder.encode(batch.sequences).hidden
        rows = torch.arange(hidden.size(0), device=hidden.device)
        return hidden[rows, (batch.sequences.lengths - 1).to(hidden.device, non_blocking=True)]

    def verbaliser_log_probs(
        self, states: Float[Tensor, "batch width"]
    ) -> tuple[Float[Tensor, "batch classes"], Float[Tensor, "batch vocab"]]:
        """The log-probability (nats) of each class's word as the next one, and those of all words."""
        backbone = self.encoder.backbone
        words = log_softmax_over_vocabulary(states, backbone.output_weight, backbone.output_bias)
        return words[:, list(self.verbalisers or ())], words

    def similarities(self, states: Float[Tensor, "batch width"]) -> Float[Tensor, " batch"]:
        """A linear function of the last state."""
        assert self.regression is not None
        return full_precision(self.regression(states)[:, 0])

    def forward(self, batch: PromptBatch) -> Float[Tensor, " batch"]:
        """The answer to each prompt: the place of the class, or a similarity from 0 to 5."""
        states = self.last_states(batch)
        if self.regression is not None:
            return self.similarities(states).clamp(0, HIGHEST)
        classes, words = self.verbaliser_log_probs(states)
        if self.answers_among == "verbalisers":
            return classes.argmax(1).to(words.dtype)
        ids = torch.tensor(self.verbalisers, device=words.device)
        return (words.argmax(1)[:, None] == ids).to(words.dtype) @ torch.arange(len(ids), device=ids.device).to(words)

    # -- training -------------------------------------------------------------------------------------------------

    def training_step(self, batch: PromptBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The answers' cross-entropy over all words, or their squared error, per prompt of the global batch."""
        states = self.last_states(batch)
        if self.regression is not None:
            loss = (self.similarities(states) - batch.answers).square().sum()
        else:
            loss = -self.verbaliser_log_probs(states)[0].gather(1, batch.answers.long()[:, None]).sum()
        return self.log_train(loss, batch.global_prompts)

    # -- evaluation -----------------------------------------------------------------------------------------------

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Keep the answers to the validation split."""
        self._keep(self.val_answers, batch)

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Keep the answers to the test split."""
        self._keep(self.test_answers, batch)

    def _keep(self, kept: ScoredPairs, batch: PromptBatch) -> None:
        with torch.autocast(self.device.type, enabled=False):
            answers = self(batch)
        none = torch.zeros_like(batch.items)
        kept.update(answers, batch.answers, items=batch.items, test_sets=none, seen=none.bool())

    def on_validation_epoch_end(self) -> None:
        """Figures of the validation split, and what the phase is judged by."""
        found = self._figures(self.val_answers)
        for name, value in found.items():
            self.log(f"val/{name}", value, prog_bar=name == self.selected_by, batch_size=1)
        self.log(f"val/one_minus_{self.selected_by}", 1 - found[self.selected_by] / 100, batch_size=1)

    def on_test_epoch_end(self) -> None:
        """Figures of the test split."""
        for name, value in self._figures(self.test_answers).items():
            self.log(f"test/{name}", value, batch_size=1)

    def test_scores(self) -> None:
        """None: a prompt has an answer, but neither nll nor tokens."""

    def _figures(self, kept: ScoredPairs) -> dict[str, float]:
        pairs = kept.pairs()
        kept.reset()
        return class_figures(pairs) if self.verbalisers else similarity_figures(pairs)


def class_figures(answers: PairScores) -> dict[str, float]:
    """Accuracy and F1 of class 1, and those of the most frequent answer, per cent."""
    values, counts = np.unique(answers.judged, return_counts=True)
    majority = np.full_like(answers.judged, values[counts.argmax()])
    found = {}
    for prefix, predicted in (("", answers.predicted), ("majority_", majority)):
        positive, right = (predicted == 1).sum() + (answers.judged == 1).sum(), predicted == answers.judged
        both = (right & (answers.judged == 1)).sum()
        found[f"{prefix}accuracy"] = 100 * float(right.mean())
        found[f"{prefix}f1"] = 100 * float(2 * both / positive) if positive else 0.0
    return found


def similarity_figures(answers: PairScores) -> dict[str, float]:
    """Pearson's and Spearman's correlation in points, and their mean; NaN where all answers are equal."""
    found = {
        name: each(answers.predicted, answers.judged) for name, each in (("pearson", pearson), ("spearman", spearman))
    }
    return {**found, "correlation": (found["pearson"] + found["spearman"]) / 2}
