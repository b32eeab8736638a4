"""Similarity of two sentences by a masked language model. Section 4.5 of Shen, Tan, Sordoni, Li, Zhou & Courville
(2022), ACL, "Unsupervised Dependency Graph Network".

A trained model reads each sentence whole, nothing masked; the mean of its last states is the sentence vector. A small
network over two of these gives the pair's similarity, and all is fine-tuned on pairs that people have judged.

    paper, code       here
    encoder           the run named by `data.init_args.encoder`: any system whose `read` returns states
    h                 `sentence_vectors`
    [u * v, |u - v|]  `pair_features`
    "Freeze parser"   `finetune: frozen_parser`

Deviations
    D1. The paper fine-tunes on the STS Benchmark, its code on SICK too, which is the default (`depgen.data.sts`).
    D2. The paper reports Spearman's correlation, the code computes Pearson's: both are logged. The code selects by the
        Benchmark's development set, where the default is its Pearson (`selected_by`).
    D3. Frozen parts are not changed, but their dropout stays on in training, as in the code.
    D4. The network over pairs is as wide as the encoder's states, 512 in the code.
"""

import logging
import math
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from depgen.data.sentence_pairs import PairBatch, SentencePairs
from depgen.data.sts import HIGHEST, TEST_SETS
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.language_models.masked import MaskedLanguageModel
from depgen.language_models.networks_of_runs import built, trained_encoder
from depgen.metrics.similarity import PairScores, ScoredPairs, pearson, spearman, spearman_interval
from depgen.nn.dropout import Dropout
from depgen.nn.lengths import mask_of
from depgen.nn.vocabulary import full_precision
from depgen.training.phases import Phase

log = logging.getLogger(__name__)

READ_AT_ONCE = 4
"""Parts of a batch, by length, in which sentences are read."""

Finetune = Literal["full", "frozen_parser", "classifier"]
CORRELATIONS = ("spearman", "pearson", "unseen_spearman", "unseen_pearson")


# -- networks ---------------------------------------------------------------------------------------------------------


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
        self.hidden, self.output, self.dropout = nn.Linear(2 * width, width), nn.Linear(width, 1), Dropout(dropout)
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


# -- the system -------------------------------------------------------------------------------------------------------


class SentenceSimilarity(LanguageModel):
    """A trained masked language model and a network over pairs of its sentence vectors.

    Args:
        vocabulary_size: number of token types; linked from the data.
        finetune: what is trained: `full`, all; `frozen_parser`, all but what the encoder's trees depend on (of
            StructFormer the embeddings too, which its parser shares); `classifier`, the network over pairs alone.
        dropout: of that network.
        selected_by: the correlation on the validation split that the best weights are chosen by.
        architecture: the encoder's class and settings as JSON. None in a new run, whose encoder comes from the run that
            `data.init_args.encoder` names; a checkpoint holds it, and needs that run no more.
        kwargs: see `LanguageModel`; the scheduler of a plateau sees 1 - r, which falls.

    Logged on the validation split: `loss` (mean squared error), `spearman` and `pearson` (points), and one minus the
    correlation that selects; on the test split, of each set: both correlations, the 95 % bootstrap interval of
    Spearman's (`_low`, `_high`), both over the pairs that were neither trained nor chosen on (`_unseen_spearman`,
    `_unseen_pearson`), and the means of these over the sets.
    """

    encoder: MaskedLanguageModel
    head: PairHead

    def __init__(
        self,
        vocabulary_size: int,
        finetune: Finetune = "full",
        dropout: float = 0.1,
        selected_by: Literal["pearson", "spearman"] = "pearson",
        architecture: str | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.vocabulary_size, self.finetune, self.dropout = vocabulary_size, finetune, dropout
        self.selected_by, self.architecture = selected_by, architecture
        self.phases = (Phase("fine_tuning", monitor=f"val/one_minus_{selected_by}"),)
        self.val_pairs, self.test_pairs = ScoredPairs(), ScoredPairs()

    @classmethod
    def figure_names(cls) -> tuple[str, ...]:
        """What a test may log."""
        return tuple(f"{name}_{each}" for name in (*TEST_SETS, "mean") for each in CORRELATIONS)

    def configure_model(self) -> None:
        """Build the encoder; in a new run, with the weights of the run that the data names."""
        if hasattr(self, "encoder"):
            return
        if self.architecture is None:
            data = self._data()
            self.architecture, self.encoder = trained_encoder(
                data.encoder_content(), MaskedLanguageModel, origin=data.encoder_checkpoint,
                expected="a masked language model, such as UDGN",
            )  # fmt: skip
            self.hparams["architecture"] = self.architecture
            log.info("Encoder: %s", data.encoder_checkpoint)
        else:
            self.encoder = built(self.architecture, MaskedLanguageModel)
        types, width = self.encoder.output_weight.shape
        assert types == self.vocabulary_size, f"an encoder of {types} types, a vocabulary of {self.vocabulary_size}"
        self.head = PairHead(width, dropout=self.dropout)
        self._freeze()

    def _data(self) -> SentencePairs:
        data: object = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, SentencePairs):
            raise UserError(
                f"SentenceSimilarity is trained on pairs of sentences: set data to {SentencePairs.__module__}."
                f"SentencePairs, found {type(data).__name__}."
            )
        return data

    def _freeze(self) -> None:
        """Leave out of training what is not to change, and the output's bias, which no state depends on."""
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
        if isinstance(bias := self.encoder.output_bias, nn.Parameter):
            frozen.append(bias)
        for parameter in frozen:
            parameter.requires_grad_(False)

    def forward(self, batch: PairBatch) -> Float[Tensor, " pairs"]:
        """The similarity of each pair, from 0 to 5."""
        first, second = self.vectors(batch.tokens, batch.lengths).chunk(2)
        return cast(Tensor, self.head(first, second))

    def vectors(
        self, tokens: Int[Tensor, "sentences length"], lengths: Int[Tensor, " sentences"]
    ) -> Float[Tensor, "sentences width"]:
        """The vector of each sentence; sentences of like length are encoded together, as most are short."""
        order = lengths.argsort()
        parts = [(rows.to(tokens.device, non_blocking=True), lengths[rows]) for rows in order.chunk(READ_AT_ONCE)]
        vectors = [self._vectors(tokens[rows], some) for rows, some in parts]
        return torch.cat(vectors)[order.argsort().to(tokens.device, non_blocking=True)]

    def _vectors(
        self, tokens: Int[Tensor, "sentences length"], lengths: Int[Tensor, " sentences"]
    ) -> Float[Tensor, "sentences width"]:
        tokens = tokens[:, : int(lengths.max())]
        return sentence_vectors(self.encoder.encode(tokens, lengths).hidden, lengths)

    # -- training -------------------------------------------------------------------------------------------------

    def training_step(self, batch: PairBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The mean squared error over the global batch."""
        predicted = self(batch)
        return self.log_train((predicted - batch.scores).square().sum(), batch.global_pairs)

    # -- evaluation -----------------------------------------------------------------------------------------------

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Keep what is predicted for the validation split."""
        self._keep(self.val_pairs, batch)

    def test_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Keep what is predicted for the test sets."""
        self._keep(self.test_pairs, batch)

    def _keep(self, kept: ScoredPairs, batch: PairBatch) -> None:
        """Predict, without autocast, whose rounding would make ranks equal."""
        with torch.autocast(self.device.type, enabled=False):
            predicted = self(batch)
        kept.update(predicted, batch.scores, items=batch.items, test_sets=batch.test_sets, seen=batch.seen)

    def on_validation_epoch_end(self) -> None:
        """Correlations on the validation split, and what the phase is judged by."""
        pairs = self._all(self.val_pairs)
        found = {"pearson": pearson(pairs.predicted, pairs.judged), "spearman": spearman(pairs.predicted, pairs.judged)}
        for name, value in found.items():
            self.log(f"val/{name}", value, prog_bar=name == self.selected_by, batch_size=1)
        self.log(f"val/one_minus_{self.selected_by}", 1 - found[self.selected_by] / 100, batch_size=1)
        self.log("val/loss", float(((pairs.predicted - pairs.judged) ** 2).mean()), batch_size=1)

    def on_test_epoch_end(self) -> None:
        """Correlations of every test set that has pairs, and their means."""
        for name, value in similarity_figures(self._all(self.test_pairs)).items():
            self.log(f"test/{name}", value, batch_size=1)

    def test_scores(self) -> None:
        """None: a pair has a similarity, but neither nll nor tokens."""

    @staticmethod
    def _all(kept: ScoredPairs) -> PairScores:
        """All pairs that were kept, which are then forgotten."""
        pairs = kept.pairs()
        kept.reset()
        return pairs


def similarity_figures(pairs: PairScores) -> dict[str, float]:
    """Correlations of each test set, as `SentenceSimilarity` names them, and their means over all sets."""
    figures: dict[str, float] = {}
    for number, name in enumerate(TEST_SETS):
        here, unseen = pairs.of(number), pairs.of(number, unseen=True)
        if not len(here.items):
            continue
        interval = spearman_interval(here.predicted, here.judged)
        figures |= {
            f"{name}_spearman": interval.value,
            f"{name}_spearman_low": interval.low,
            f"{name}_spearman_high": interval.high,
            f"{name}_pearson": pearson(here.predicted, here.judged),
            f"{name}_unseen_spearman": spearman(unseen.predicted, unseen.judged),
            f"{name}_unseen_pearson": pearson(unseen.predicted, unseen.judged),
        }
    for kind in CORRELATIONS:
        figures[f"mean_{kind}"] = sum(figures.get(f"{name}_{kind}", math.nan) for name in TEST_SETS) / len(TEST_SETS)
    return figures
