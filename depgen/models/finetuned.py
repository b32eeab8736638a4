"""Trained language models fine-tuned on tasks: GLUE by prompts and verbalisers, similarity by sentence vectors.

**Prompts** (`PromptedModel`): Section 4.3 and Appendix A of Huang et al. (2026), "GiLT: Augmenting Transformer Language
Models with Dependency Graphs". A prompt names a task's sentences, and the next word is the answer: each class has a
word, its verbaliser. Similarities are a linear function of the last state. All of the language model is fine-tuned.

    paper, code              here
    Post-GPT2, GiLT-GPT2     the run named by `data.init_args.encoder`
    "Label:{l}"              `verbaliser_log_probs`; the first piece of the word that follows
    "linear regression"      `regression`
    graphs of the prompts    `data.init_args.annotator`: `depgen.evaluation.induced.InducedGraphs`

Deviations
    D1. Similarities are read from the state of a prompt's last token. The code reads the last position of a batch,
        which is padding for shorter prompts.
    D2. Prompts are parsed without their answers. In the code's files answers are part of what is parsed.
    D3. The code takes the likeliest of all words for the answer, and any wrong word for class 0: `answers_among`.
    D4. "F1" of RTE and SST-2 in the paper is accuracy, as in the code.
    D5. The rate of RTE, its batch, and the verbalisers of SST-2 are the code's; the paper has one rate and 0 and 1.
    D6. Losses are divided by the prompts of a batch; the code sums.

**Pairs** (`SentenceSimilarity`): Section 4.5 of Shen, Tan, Sordoni, Li, Zhou & Courville (2022), ACL, "Unsupervised
Dependency Graph Network". A masked language model reads each sentence whole, nothing masked; the mean of its last
states is the sentence vector. A small network over two of these gives the pair's similarity, and all is fine-tuned.

    paper, code       here
    encoder           the run named by `data.init_args.encoder`: any masked language model
    h                 `sentence_vectors`
    [u * v, |u - v|]  `pair_features`
    "Freeze parser"   `finetune: frozen_parser`

Deviations
    D7. The paper fine-tunes on the STS Benchmark, its code on SICK too, which is the default (`depgen.data.tasks`).
    D8. The paper reports Spearman's correlation, the code computes Pearson's: both are logged. The code selects by the
        Benchmark's development set, where the default is its Pearson (`selected_by`).
    D9. Frozen parts are not changed, but their dropout stays on in training, as in the code.
    D10. The network over pairs is as wide as the encoder's states, 512 in the code.
    D11. Numbers are written as in the encoder's training text; the code writes each run of digits as `N`.
"""

import json
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from jsonargparse import ArgumentError
from torch import Tensor, nn

from depgen.data.batch import ItemBatch
from depgen.data.tasks import HIGHEST, TEST_SETS, TaskBatch, TaskData, collate_examples
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.masked import MaskedLanguageModel
from depgen.metrics.similarity import PairScores, ScoredPairs, pearson, spearman, spearman_interval
from depgen.nn.lengths import mask_of
from depgen.nn.vocabulary import full_precision, log_softmax_over_vocabulary
from depgen.training.checkpoints import load_checkpoint
from depgen.training.class_paths import known_classes_alone
from depgen.training.phases import Phase

log = logging.getLogger(__name__)

_NOT_OF_THE_NETWORK = ("optimizer", "scheduler", "_instantiator")


class FineTuned(LanguageModel):
    """A trained network and what a task needs beside it, fine-tuned together.

    A system says which networks it takes (`encoder_kind`), makes its own layers in `add_layers`, answers the examples
    of a batch by `forward`, and gives the figures of a split by `figures_of`. The figures are logged; no example has
    nll or tokens.

    Args:
        vocabulary_size: number of token types; linked from the data.
        selected_by: the figure (per cent) on the validation split that the best weights are chosen by.
        architecture: the encoder's class and settings as JSON. None in a new run, whose encoder comes from the run that
            `data.init_args.encoder` names; a checkpoint holds it, and needs that run no more.
        kwargs: see `LanguageModel`; the scheduler of a plateau sees one minus the figure, which falls.
    """

    encoder: LanguageModel
    encoder_kind: type[LanguageModel]

    def __init__(
        self,
        vocabulary_size: int,
        *,
        selected_by: str,
        architecture: str | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.selected_by, self.architecture = vocabulary_size, selected_by, architecture
        self.phases = (Phase("fine_tuning", monitor=f"val/one_minus_{selected_by}"),)
        self.answers = ScoredPairs()

    def add_layers(self) -> None:
        """Make what is needed beside the encoder, and freeze what is not to change."""
        raise NotImplementedError(f"{type(self).__name__} has no add_layers")

    def figures_of(self, answers: PairScores, stage: Literal["val", "test"]) -> dict[str, float]:
        """The figures of a split by name, `selected_by` among those of the validation split."""
        raise NotImplementedError(f"{type(self).__name__} has no figures_of")

    # -- the network of a run -------------------------------------------------------------------------------------

    @property
    def data(self) -> TaskData:
        """The data of the trainer."""
        return cast(TaskData, self.trainer.datamodule)  # type: ignore[attr-defined]

    def configure_model(self) -> None:
        """Build the encoder, in a new run with the weights of the run that the data names, and the other layers."""
        if hasattr(self, "encoder"):
            return
        if self.architecture is None:
            origin = self.data.encoder_checkpoint
            content = load_checkpoint(origin)
            settings: dict[str, Any] = content.get("hyper_parameters") or {}
            of_network = {name: value for name, value in settings.items() if not name.endswith(_NOT_OF_THE_NETWORK)}
            self.architecture = self.hparams["architecture"] = json.dumps(of_network, sort_keys=True)
            self.encoder = self._network(self.architecture, origin)
            self.encoder.load_state_dict(content["state_dict"])
            log.info("Encoder: %s", origin)
        else:
            self.encoder = self._network(self.architecture)
        self.add_layers()

    def _network(self, architecture: str, *origin: Path) -> LanguageModel:
        """The network of an architecture, with random weights; a checkpoint that says so is named in messages."""
        from lightning.pytorch.cli import instantiate_module

        settings = json.loads(architecture)
        try:
            with known_classes_alone(*origin):
                return instantiate_module(self.encoder_kind, settings)
        except ArgumentError as error:
            raise UserError(
                f"{''.join(f'{path}: ' for path in origin)}expected a {self.encoder_kind.__name__}, found "
                f"{settings.get('_class_path', 'another system')} ({error}). Name a run of one by "
                "data.init_args.encoder."
            ) from error

    @property
    def collate(self) -> Callable[[ItemBatch], TaskBatch]:
        """Examples as the encoder reads them, and their answers."""
        return partial(collate_examples, sequences=self.encoder.collate)

    # -- validation and test --------------------------------------------------------------------------------------

    def validation_step(self, batch: TaskBatch, batch_idx: int) -> None:
        """Answer without autocast, whose rounding would make ranks equal, and keep the answers."""
        with torch.autocast(self.device.type, enabled=False):
            predicted: Float[Tensor, " batch"] = self(batch)
        self.answers.update(predicted, batch.answers, items=batch.items, test_sets=batch.test_sets, seen=batch.seen)

    def test_step(self, batch: TaskBatch, batch_idx: int) -> None:
        """The same."""
        self.validation_step(batch, batch_idx)

    def on_validation_epoch_end(self) -> None:
        """Log the figures of the validation split, and what the phase is judged by."""
        figures = self._log_figures("val")
        self.log(f"val/one_minus_{self.selected_by}", 1 - figures[self.selected_by] / 100, batch_size=1)

    def on_test_epoch_end(self) -> None:
        """Log the figures of the test split."""
        self._log_figures("test")

    def _log_figures(self, stage: Literal["val", "test"]) -> dict[str, float]:
        """The figures of all answers that were kept, which are then forgotten."""
        figures = self.figures_of(self.answers.compute(), stage)
        self.answers.reset()
        for name, value in figures.items():
            self.log(f"{stage}/{name}", value, prog_bar=name == self.selected_by, batch_size=1)
        return figures

    def test_scores(self) -> None:
        """None: an example has an answer, but neither nll nor tokens."""


# -- prompts ----------------------------------------------------------------------------------------------------------


class PromptedModel(FineTuned):
    """A trained left-to-right language model, fine-tuned to answer prompts.

    Args:
        vocabulary_size: number of token types; linked from the data.
        selected_by: the figure on the validation split that the best weights are chosen by; `correlation`: the mean of
            Pearson's and Spearman's.
        answers_among: a class's answer is the likeliest of the `verbalisers`, or of the whole `vocabulary`, where every
            other word counts as class 0 (D3).
        verbalisers: the token of each class; none: answers are similarities. None in a new run, which takes them from
            the data.
        kwargs: see `FineTuned`.

    Logged on the validation and test splits, in per cent: of classes `accuracy`, `f1` of class 1, and both of the
    answer that is most frequent in the split (`majority_accuracy`, `majority_f1`); of similarities `pearson` and
    `spearman`, and their mean, `correlation`.
    """

    encoder: LeftToRight
    encoder_kind = LeftToRight

    def __init__(
        self,
        vocabulary_size: int,
        selected_by: Literal["accuracy", "f1", "correlation"] = "accuracy",
        answers_among: Literal["verbalisers", "vocabulary"] = "verbalisers",
        verbalisers: Sequence[int] | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(vocabulary_size, selected_by=selected_by, **kwargs)
        self.save_hyperparameters()
        self.answers_among, self.verbalisers = answers_among, verbalisers

    def add_layers(self) -> None:
        """For similarities, the regression."""
        if self.verbalisers is None:
            self.verbalisers = self.hparams["verbalisers"] = self.data.verbaliser_ids()
        self.regression = None if self.verbalisers else nn.Linear(self.encoder.backbone.width, 1)
        if bool(self.verbalisers) is (self.selected_by == "correlation"):
            answers = "classes" if self.verbalisers else "similarities"
            raise UserError(f"selected_by: {self.selected_by} is no figure of a task whose answers are {answers}.")
        scorer: nn.Module | None = getattr(self.encoder, "scorer", None)
        if scorer is not None:  # of arcs, on which no answer depends
            scorer.requires_grad_(False)

    def last_states(self, batch: TaskBatch) -> Float[Tensor, "batch width"]:
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

    def forward(self, batch: TaskBatch) -> Float[Tensor, " batch"]:
        """The answer to each prompt: the place of the class, or a similarity from 0 to 5."""
        states = self.last_states(batch)
        if self.regression is not None:
            return self.similarities(states).clamp(0, HIGHEST)
        classes, words = self.verbaliser_log_probs(states)
        if self.answers_among == "verbalisers":
            return classes.argmax(1).to(words.dtype)
        ids = torch.tensor(self.verbalisers, device=words.device)
        return (words.argmax(1)[:, None] == ids).to(words.dtype) @ torch.arange(len(ids), device=ids.device).to(words)

    def training_step(self, batch: TaskBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The answers' cross-entropy over all words, or their squared error, per prompt of the global batch."""
        states = self.last_states(batch)
        if self.regression is not None:
            loss = (self.similarities(states) - batch.answers).square().sum()
        else:
            loss = -self.verbaliser_log_probs(states)[0].gather(1, batch.answers.long()[:, None]).sum()
        return self.log_train(loss, batch.global_examples)

    def figures_of(self, answers: PairScores, stage: Literal["val", "test"]) -> dict[str, float]:
        """Those of classes or of similarities."""
        if self.verbalisers:
            return class_figures(answers)
        figures = correlations(answers)
        return {**figures, "correlation": (figures["pearson"] + figures["spearman"]) / 2}


def class_figures(answers: PairScores) -> dict[str, float]:
    """Accuracy and F1 of class 1, and those of the most frequent answer, per cent."""
    values, counts = np.unique(answers.judged, return_counts=True)
    majority = np.full_like(answers.judged, values[counts.argmax()])
    figures = {}
    for prefix, predicted in (("", answers.predicted), ("majority_", majority)):
        positive, right = (predicted == 1).sum() + (answers.judged == 1).sum(), predicted == answers.judged
        both = (right & (answers.judged == 1)).sum()
        figures[f"{prefix}accuracy"] = 100 * float(right.mean())
        figures[f"{prefix}f1"] = 100 * float(2 * both / positive) if positive else 0.0
    return figures


def correlations(answers: PairScores) -> dict[str, float]:
    """Pearson's and Spearman's correlation in points; NaN where all answers are equal."""
    predicted, judged = answers.predicted, answers.judged
    return {"pearson": pearson(predicted, judged), "spearman": spearman(predicted, judged)}


# -- pairs ------------------------------------------------------------------------------------------------------------

READ_AT_ONCE = 4
"""Parts of a batch, by length, in which sentences are read."""
CORRELATIONS = ("spearman", "pearson", "unseen_spearman", "unseen_pearson")


def sentence_vectors(
    states: Float[Tensor, "sentences length width"], lengths: Int[Tensor, " sentences"]
) -> Float[Tensor, "sentences width"]:
    """The mean of each sentence's states over its words.

    >>> sentence_vectors(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
    [[2.0]]
    """
    lengths = lengths.to(states.device, non_blocking=True)
    is_word = mask_of(lengths, states.shape[1])
    return states.masked_fill(~is_word[:, :, None], 0).sum(1) / lengths[:, None]


def pair_features(
    first: Float[Tensor, "pairs width"], second: Float[Tensor, "pairs width"]
) -> Float[Tensor, "pairs features"]:
    """[u * v, |u - v|]: the same whichever sentence comes first."""
    return torch.cat((first * second, (first - second).abs()), 1)


class PairHead(nn.Module):
    """The similarity of two sentence vectors: one hidden layer, and five times a sigmoid.

    Args:
        width: of sentence vectors and of the hidden layer.
        dropout: of features and hidden layer.
    """

    def __init__(self, width: int, *, dropout: float) -> None:
        super().__init__()
        self.hidden, self.output, self.dropout = nn.Linear(2 * width, width), nn.Linear(width, 1), nn.Dropout(dropout)
        for layer in (self.hidden, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, first: Float[Tensor, "pairs width"], second: Float[Tensor, "pairs width"]
    ) -> Float[Tensor, " pairs"]:
        """From 0 to `HIGHEST`."""
        features = self.dropout(pair_features(first, second))
        hidden = self.dropout(F.elu(self.hidden(features)))
        return HIGHEST * full_precision(self.output(hidden)[:, 0]).sigmoid()


class SentenceSimilarity(FineTuned):
    """A trained masked language model and a network over pairs of its sentence vectors.

    Args:
        vocabulary_size: number of token types; linked from the data.
        finetune: what is trained: `full`, all; `frozen_parser`, all but what the encoder's trees depend on (of
            StructFormer the embeddings too, which its parser shares); `classifier`, the network over pairs alone.
        dropout: of that network.
        selected_by: the correlation on the validation split that the best weights are chosen by.
        kwargs: see `FineTuned`.

    Logged on the validation split: `loss` (mean squared error), `spearman` and `pearson` (points), and one minus the
    correlation that selects; on the test split, of each set: both correlations, the 95 % bootstrap interval of
    Spearman's (`_low`, `_high`), both over the pairs that were neither trained nor chosen on (`_unseen_spearman`,
    `_unseen_pearson`), and the means of these over the sets.
    """

    encoder: MaskedLanguageModel
    encoder_kind = MaskedLanguageModel
    head: PairHead

    def __init__(
        self,
        vocabulary_size: int,
        finetune: Literal["full", "frozen_parser", "classifier"] = "full",
        dropout: float = 0.1,
        selected_by: Literal["pearson", "spearman"] = "pearson",
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(vocabulary_size, selected_by=selected_by, **kwargs)
        self.save_hyperparameters()
        self.finetune, self.dropout = finetune, dropout

    def add_layers(self) -> None:
        """The network over pairs."""
        self.head = PairHead(self.encoder.output_weight.shape[1], dropout=self.dropout)
        frozen: list[nn.Parameter] = []
        if self.finetune == "classifier":
            frozen = list(self.encoder.parameters())
        elif self.finetune == "frozen_parser":
            frozen = list(self.encoder.parser_parameters())
            if not frozen:
                raise UserError(
                    f"finetune: frozen_parser needs an encoder with a parser, found {type(self.encoder).__name__}, "
                    "which has none. Take full or classifier."
                )
        if isinstance(bias := self.encoder.output_bias, nn.Parameter):  # on which no state depends
            frozen.append(bias)
        for parameter in frozen:
            parameter.requires_grad_(False)

    def forward(self, batch: TaskBatch) -> Float[Tensor, " pairs"]:
        """The similarity of each pair, from 0 to 5."""
        vectors = self.vectors(batch.sequences.tokens, batch.sequences.lengths)
        first, second = vectors.view(2, len(batch.answers), -1)
        return cast(Tensor, self.head(first, second))

    def vectors(
        self, tokens: Int[Tensor, "sentences length"], lengths: Int[Tensor, " sentences"]
    ) -> Float[Tensor, "sentences width"]:
        """The vector of each sentence; sentences of like length are encoded together, as most are short."""
        order = lengths.argsort()
        parts = []
        for rows in order.chunk(READ_AT_ONCE):
            some = tokens[rows.to(tokens.device, non_blocking=True), : int(lengths[rows].max())]
            parts.append(sentence_vectors(self.encoder.encode(some, lengths[rows]).hidden, lengths[rows]))
        return torch.cat(parts)[order.argsort().to(tokens.device, non_blocking=True)]

    def training_step(self, batch: TaskBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The mean squared error over the global batch."""
        return self.log_train((self(batch) - batch.answers).square().sum(), batch.global_examples)

    def figures_of(self, answers: PairScores, stage: Literal["val", "test"]) -> dict[str, float]:
        """Correlations and loss of the validation split, correlations of each set of the test split."""
        if stage == "test":
            return set_correlations(answers)
        return {**correlations(answers), "loss": float(((answers.predicted - answers.judged) ** 2).mean())}


def set_correlations(pairs: PairScores) -> dict[str, float]:
    """Correlations of each test set, as `SentenceSimilarity` names them, and their means over all sets."""
    figures: dict[str, float] = {}
    for number, name in enumerate(TEST_SETS):
        whole, unseen = pairs.of(number), pairs.of(number, unseen=True)
        if not len(whole.items):
            continue
        interval = spearman_interval(whole.predicted, whole.judged)
        figures |= {
            f"{name}_spearman": interval.value,
            f"{name}_spearman_low": interval.low,
            f"{name}_spearman_high": interval.high,
            f"{name}_pearson": pearson(whole.predicted, whole.judged),
            f"{name}_unseen_spearman": spearman(unseen.predicted, unseen.judged),
            f"{name}_unseen_pearson": pearson(unseen.predicted, unseen.judged),
        }
    for kind in CORRELATIONS:
        figures[f"mean_{kind}"] = sum(figures.get(f"{name}_{kind}", math.nan) for name in TEST_SETS) / len(TEST_SETS)
    return figures
