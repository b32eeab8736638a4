"""UNION (Guan & Huang, 2020): the probability that a story is a human's, by a classifier that is trained here.

A pretrained encoder learns to tell human stories from corrupted versions (`depgen.evaluation.corruption`), which are
drawn again in every epoch. The loss is the cross-entropy of the two classes and, with a weight, that of the human
story's words, predicted from each version at their own places. The weights of the epoch with the largest area under the
ROC curve on the validation split are taken. `experiments/union_rocstories.yaml` is the published training.

Deviation:
    D1. Places that the human or the corrupted version lacks are not reconstructed. The authors' code scores padding
        too, where the corrupted version is the shorter one.
"""

import json
import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from torchmetrics.classification import BinaryAUROC

from depgen.annotation.spacy import SpacyTagger, Tagger
from depgen.data.corpus import Corpus, Split, log_left_out
from depgen.data.sampler import RankBatch, ResumableLoader, TokenBudgetBatches, drawn_epoch
from depgen.errors import UserError
from depgen.evaluation.corruption import MIN_SENTENCES, ContentWords, Story, corrupt, words_of
from depgen.evaluation.text_judges import (
    NotComputedError,
    TextScore,
    load_pretrained,
    mean_score,
    pad_right,
    padded_batches,
)
from depgen.nn.precise import precise
from depgen.training.checkpoints import load_checkpoint
from depgen.training.hyper_parameters import plain_settings
from depgen.training.phases import Phase, Phases, best_value
from depgen.training.randomness import StepSeed
from depgen.training.runs import NoRunError, best_checkpoint, experiment_name, find_run, read_record
from depgen.training.schedules import warmup_factor

ROCSTORIES = "union_rocstories"
"""The experiment whose newest run judges the texts of tables, that of their size where there is one."""
IGNORED = -100
DROPOUT, WARMUP, WEIGHT_DECAY = 0.1, 0.1, 0.01

logger = logging.getLogger(__name__)


class StoryBatch(NamedTuple):
    """Human stories, their corrupted versions and their first sentences, as texts."""

    human: list[str]
    corrupted: list[str]
    first: list[str]


def text_of(story: Story) -> str:
    """The words with a space between, in lower case."""
    return " ".join(words_of(story))


# -- data -------------------------------------------------------------------------------------------------------------


class StoryPairs(Dataset[StoryBatch]):
    """Batches of stories of a split and of one corrupted version of each, which depends on (source, story).

    Args:
        stories: of the split, tagged.
        lexicon: words to put in.
        source: seed and epoch, or what else the corrupted versions depend on.
    """

    def __init__(self, stories: Sequence[Story], lexicon: ContentWords, source: str) -> None:
        self.stories, self.lexicon, self.source = stories, lexicon, source

    def __len__(self) -> int:
        return len(self.stories)

    def corrupted(self, index: int) -> Story:
        """The corrupted version of a story."""
        return corrupt(self.stories, index, self.lexicon, random.Random(f"{self.source}/{index}"))

    def __getitems__(self, share: RankBatch) -> StoryBatch:
        """The stories of a batch (called by torch's fetcher)."""
        indices = [int(index) for index in share.indices]
        return StoryBatch(
            [text_of(self.stories[index]) for index in indices],
            [text_of(self.corrupted(index)) for index in indices],
            [text_of(self.stories[index][:1]) for index in indices],
        )


class UnionData(L.LightningDataModule):
    """The stories of a corpus and their corrupted versions.

    Args:
        corpus: of stories of three sentences or more; shorter documents are left out and counted.
        tagger: gives words their parts of speech; None: spaCy.
        tokens_per_batch: of human stories, padding included; as many again of corrupted ones come to them.
        seed: of the order and of the corrupted versions in training.
    """

    def __init__(
        self, corpus: Corpus, tagger: Tagger | None = None, *, tokens_per_batch: int = 640, seed: int = 1
    ) -> None:
        super().__init__()
        self.corpus, self.tagger = corpus, tagger or SpacyTagger()
        self.tokens_per_batch, self.seed = tokens_per_batch, seed
        self._stories: dict[Split, list[Story]] = {}
        self._lexicon: ContentWords | None = None

    def stories(self, split: Split) -> list[Story]:
        """The tagged stories of a split."""
        if split not in self._stories:
            documents = list(self.corpus.documents(split))
            stories = [document.sentences for document in documents if len(document.sentences) >= MIN_SENTENCES]
            where = f"{self.corpus.name}, {split}"
            log_left_out(len(documents) - len(stories), f"documents of fewer than {MIN_SENTENCES} sentences", where)
            if len(stories) < 2:
                raise UserError(
                    f"{where}: expected stories of {MIN_SENTENCES} sentences or more, found {len(stories)}."
                )
            tagged = self.tagger.tag([sentence for story in stories for sentence in story])
            pairs = (tuple(zip(sentence.words, sentence.tags or (), strict=True)) for sentence in tagged)
            self._stories[split] = [tuple(next(pairs) for _ in story) for story in stories]
        return self._stories[split]

    def pairs(self, split: Split, *, epoch: int | None = None) -> StoryPairs:
        """A split with corrupted versions: those of an epoch of training, or fixed ones, the same for every scorer."""
        if self._lexicon is None:
            self._lexicon = ContentWords(sentence for story in self.stories("train") for sentence in story)
        source = f"held out/{split}" if epoch is None else f"{self.seed}/{epoch}"
        return StoryPairs(self.stories(split), self._lexicon, source)

    def target_counts(self) -> Int[np.ndarray, " stories"]:
        """Words of each training story."""
        return np.array([len(words_of(story)) for story in self.stories("train")])

    def train_dataloader(self, epoch: int | None = None) -> ResumableLoader:
        """Batches of an epoch, with its own corrupted versions; by default the trainer's current one, or the first."""
        epoch = drawn_epoch(self.trainer, epoch)
        return self._loader(self.pairs("train", epoch=epoch), epoch)

    def val_dataloader(self) -> ResumableLoader:
        """Batches of the validation split, sorted by length."""
        return self._loader(self.pairs("valid"))

    def test_dataloader(self) -> ResumableLoader:
        """Batches of the test split, sorted by length."""
        return self._loader(self.pairs("test"))

    def _loader(self, pairs: StoryPairs, epoch: int | None = None) -> ResumableLoader:
        lengths = np.array([len(words_of(story)) + 2 for story in pairs.stories])  # with the encoder's two marks
        batches = TokenBudgetBatches(
            lengths, tokens_per_batch=self.tokens_per_batch, seed=self.seed, epoch=epoch or 0, shuffle=epoch is not None
        )
        return ResumableLoader(pairs, batch_sampler=batches, collate_fn=lambda batch: batch)


# -- network and training ---------------------------------------------------------------------------------------------


class TokenHead(nn.Module):
    """Logits over the vocabulary, tied to the encoder's embedding: BERT's own head of masked words."""

    def __init__(self, width: int, embedding: Float[Tensor, "vocab embedding"]) -> None:
        super().__init__()
        self.transform = nn.Linear(width, embedding.size(1))
        self.norm = nn.LayerNorm(embedding.size(1))
        self.bias = nn.Parameter(torch.zeros(embedding.size(0)))

    def forward(
        self, states: Float[Tensor, "*places width"], embedding: Float[Tensor, "vocab embedding"]
    ) -> Float[Tensor, "*places vocab"]:
        """Logits of the word that should be at each place."""
        logits: Tensor = self.norm(F.gelu(self.transform(states))) @ embedding.T + self.bias
        return logits


class UNION(L.LightningModule):
    """An encoder that tells human stories from corrupted ones, by its last hidden state at the first position.

    Args:
        encoder: any encoder of transformers: its folder, or its name on the hub.
        max_length: longer texts are cut, the encoder's marks included.
        learning_rate: the peak of AdamW's rate, which rises over a tenth of the training and then falls to 0 in a line.
        reconstruction: weight of the loss of predicting each human word from the corrupted story; 0.1 in the paper,
            0 by default in the authors' code.
        download: whether the encoder may be downloaded if it is not on this machine.
        architecture: the encoder's configuration as JSON, and `tokenizer` its tokenizer. A checkpoint carries both, so
            that it loads where the encoder is not.
    """

    phases = (Phase("training", monitor="val/auc_shortfall"),)

    def __init__(
        self,
        encoder: str = "bert-base-uncased",
        *,
        max_length: int = 200,
        learning_rate: float = 5e-5,
        reconstruction: float = 0.1,
        download: bool = False,
        architecture: str | None = None,
        tokenizer: str | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["vocabulary_size"])  # the command line links it to every system
        self.max_length, self.learning_rate, self.reconstruction = max_length, learning_rate, reconstruction
        self.encoder: Any
        if architecture is None or tokenizer is None:
            self.encoder, architecture, tokenizer = _pretrained(encoder, max_length, download=download)
            self.hparams.update(architecture=architecture, tokenizer=tokenizer)
        else:
            from transformers import AutoConfig, AutoModel

            self.encoder = AutoModel.from_config(AutoConfig.for_model(**json.loads(architecture)))
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_str(tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length)
        width = int(self.encoder.config.hidden_size)
        self.classifier = nn.Sequential(
            nn.Dropout(DROPOUT), nn.Linear(width, width), nn.Tanh(), nn.Dropout(DROPOUT), nn.Linear(width, 2)
        )
        self.token_head = TokenHead(width, self.embedding)
        self.auc = BinaryAUROC()
        self.train()  # a pretrained encoder comes in evaluation mode

    @property
    def embedding(self) -> Float[Tensor, "vocab embedding"]:
        """The encoder's embedding matrix."""
        weight: Tensor = self.encoder.get_input_embeddings().weight
        return weight

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with the encoder's marks, cut at `max_length`."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]

    def states(
        self, tokens: Int[Tensor, "batch length"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        """The encoder's last hidden states; padding, where `is_word` is False, changes nothing."""
        states: Tensor = self.encoder(input_ids=tokens, attention_mask=is_word.long()).last_hidden_state
        return states

    def forward(
        self, tokens: Int[Tensor, "batch length"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch 2"]:
        """Logits of corrupted (0) and human (1)."""
        logits: Tensor = self.classifier(self.states(tokens, is_word)[:, 0])
        return logits

    def _padded(self, batch: StoryBatch) -> tuple[Tensor, Tensor, Int[Tensor, " texts"]]:
        """Tokens, where they are, and the classes of human stories and then their corrupted versions."""
        tokens, is_word = pad_right(self.encode([*batch.human, *batch.corrupted]))
        classes = (torch.arange(len(tokens)) < len(batch.human)).long()
        return tokens.to(self.device), is_word.to(self.device), classes.to(self.device)

    def training_step(self, batch: StoryBatch, batch_idx: int) -> Tensor:
        """The loss of telling apart, and of reconstruction with its weight."""
        tokens, is_word, classes = self._padded(batch)
        states = self.states(tokens, is_word)
        loss = F.cross_entropy(self.classifier(states[:, 0]).float(), classes)
        if self.reconstruction:
            first = torch.tensor([len(ids) - 1 for ids in self.encode(batch.first)], device=self.device)
            targets = reconstruction_targets(tokens, is_word, first.repeat(2))
            loss = loss + self.reconstruction * self._reconstruction_loss(states, targets)
        self.log("train/loss", loss, prog_bar=True, batch_size=len(tokens))
        return loss

    def _reconstruction_loss(self, states: Tensor, targets: Int[Tensor, "texts length"]) -> Tensor:
        """Mean over texts of the mean nats of the human words after the first sentence, each at its own place."""
        scored = targets != IGNORED
        logits = self.token_head(states[scored], self.embedding).float()
        nll = F.cross_entropy(logits, targets[scored], reduction="none")
        share = scored / scored.sum(1, keepdim=True).clamp(min=1)
        return (nll * share[scored]).sum() / len(targets)

    def validation_step(self, batch: StoryBatch, batch_idx: int) -> None:
        """Nats, and what the area under the ROC curve is made of."""
        self._judge(batch, "val")

    def test_step(self, batch: StoryBatch, batch_idx: int) -> None:
        """The same on the test split."""
        self._judge(batch, "test")

    def _judge(self, batch: StoryBatch, stage: str) -> None:
        tokens, is_word, classes = self._padded(batch)
        logits = self(tokens, is_word).float()
        self.log(f"{stage}/loss", F.cross_entropy(logits, classes), batch_size=len(logits))
        self.auc.update(logits.softmax(-1)[:, 1], classes)

    def on_validation_epoch_end(self) -> None:
        """Log the area, and what it lacks to 1, by which the best weights are known."""
        self.log("val/auc_shortfall", 1 - self._log_area("val"))

    def on_test_epoch_end(self) -> None:
        """Log the area."""
        self._log_area("test")

    def _log_area(self, stage: str) -> Tensor:
        area: Tensor = self.auc.compute()
        self.auc.reset()
        self.log(f"{stage}/auc", area, prog_bar=True)
        return area

    def configure_optimizers(self) -> Any:  # noqa: ANN401  (Lightning's dictionary)
        """AdamW, with a rate that rises over the first share of the training and falls to 0 in a line."""
        decayed = [weight for weight in self.parameters() if weight.ndim > 1]
        others = [weight for weight in self.parameters() if weight.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate)
        total = max(1, int(self.trainer.estimated_stepping_batches))
        rising = int(WARMUP * total)

        def factor(step: int) -> float:
            falling = max(0.0, (total - step) / max(1, total - rising))
            return warmup_factor(step, rising) if step < rising else falling

        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}

    def configure_callbacks(self) -> list[L.Callback]:
        """The best weights, and a seed for each step."""
        return [Phases(Path(self.trainer.default_root_dir) / "checkpoints"), StepSeed()]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the constructor's arguments as plain values, so that the file loads without running code."""
        name = self.CHECKPOINT_HYPER_PARAMS_KEY
        checkpoint[name] = plain_settings(type(self), checkpoint[name])

    @torch.inference_mode()
    def score(self, texts: Sequence[str], *, batch_size: int = 64) -> Float[np.ndarray, " texts"]:
        """The probability, times 100, that each text is a human's; texts are lower-cased, long ones cut.

        It depends neither on the batch nor on padding.
        """
        encoded = self.encode([" ".join(text.lower().split()) for text in texts])
        full = sum(len(ids) >= self.max_length for ids in encoded)
        if full:
            logger.warning("UNION reads no more than %d tokens: %d texts may be cut.", self.max_length, full)
        scores = np.zeros(len(encoded))
        for batch, tokens, is_word in padded_batches(encoded, batch_size=batch_size, device=str(self.device)):
            scores[batch] = 100.0 * precise(self(tokens, is_word)).softmax(-1)[:, 1].cpu().numpy()
        return scores


def _pretrained(encoder: str, max_length: int, *, download: bool) -> tuple[Any, str, str]:
    """The encoder with its own weights, its configuration and its tokenizer as JSON."""
    pretrained = load_pretrained(encoder, "encoder", download=download)
    config = pretrained.model.config
    positions = int(getattr(config, "max_position_embeddings", max_length))
    if positions < max_length:
        raise UserError(f"{encoder} reads {positions} tokens, but stories of {max_length} are to be read.")
    return pretrained.model, json.dumps(config.to_dict()), pretrained.tokenizer.backend_tokenizer.to_str()


def reconstruction_targets(
    tokens: Int[Tensor, "texts length"], is_word: Bool[Tensor, "texts length"], first: Int[Tensor, " texts"]
) -> Int[Tensor, "texts length"]:
    """The human story's token at each place of each text after the first sentence, -100 where there is none.

    Args:
        tokens: human stories, then their corrupted versions.
        is_word: True at tokens.
        first: tokens of the first sentence of each, the mark in front included.
    """
    half = len(tokens) // 2
    human, there = tokens[:half].repeat(2, 1), is_word[:half].repeat(2, 1)
    later = torch.arange(tokens.size(1), device=tokens.device) >= first[:, None]
    return human.masked_fill(~(there & is_word & later), IGNORED)


# -- scores of texts --------------------------------------------------------------------------------------------------


def scorer_of(size: str) -> str:
    """The runs of UNION that judge the texts of tables of a size."""
    return f"{ROCSTORIES}/{size}"


def union_score(
    texts: Sequence[str],
    prompts: Sequence[str] | None = None,
    *,
    scorer: str,
    device: str = "cpu",
) -> TextScore:
    """The mean UNION score of texts, with every text's own; each is read after its prompt, where there are prompts.

    An empty text scores zero: its prompt alone is a human's.

    Args:
        texts: one string an item.
        prompts: the context of each; None: texts are whole stories.
        scorer: a run of UNION: its folder, or an experiment, whose newest run is taken.
        device: where to compute.
    """
    try:
        run = find_run(scorer)
    except NoRunError:
        raise NotComputedError(
            f"no run {scorer!r} of UNION; train one by `depgen fit --config experiments/union_rocstories.yaml`"
        ) from None
    checkpoint = best_checkpoint(run)
    content = load_checkpoint(checkpoint, mmap=True)
    if content["hyper_parameters"].get("_class_path") != f"{UNION.__module__}.{UNION.__name__}":
        raise UserError(f"{checkpoint}: expected UNION, found another system.")
    union = UNION.load_from_checkpoint(checkpoint, map_location=device, weights_only=True).eval()
    stories = texts if prompts is None else [f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)]
    scores = union.score(stories)
    scores[[not text.strip() for text in texts]] = 0.0
    corpus = (read_record(run).get("data") or {}).get("corpus", "unknown stories")
    encoder, area = Path(union.hparams["encoder"]).name, 1 - (best_value(content) or 0.0)
    read = "texts as whole stories" if prompts is None else "texts after their prompts"
    return mean_score(
        scores,
        f"a scorer of our own, not the published one: {experiment_name(run)}, encoder {encoder}, trained on {corpus}, "
        f"valid AUC {area:.3f}; {read}",
    )
