"""UNION (Guan & Huang, 2020): the probability that a story is a human's, by a classifier that was trained here.

A pretrained encoder learns to tell human stories from corrupted versions (`depgen.evaluation.corruption`), which are
drawn again in every epoch. The loss is the cross-entropy of the two classes and, with a weight, that of the human
story's words, predicted from each version at their own places. The weights of the epoch with the largest area under the
ROC curve on the validation split are taken.

Deviation:
    D1. Places that the human or the corrupted version lacks are not reconstructed. The authors' code scores padding
        too, where the corrupted version is the shorter one.
"""

import json
import logging
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from torchmetrics.classification import BinaryAUROC

from depgen.annotation.annotator import files_digest
from depgen.annotation.spacy import SpacyTagger
from depgen.annotation.tagger import Tagger
from depgen.data.corpus import SPLITS, Corpus, Split, log_left_out
from depgen.data.sampler import RankBatch, ResumableLoader, TokenBudgetBatches, drawn_epoch
from depgen.errors import UserError, check_at_least
from depgen.evaluation.corruption import (
    MIN_SENTENCES,
    RULES,
    ContentWords,
    Corrupted,
    Story,
    corrupt,
    own_lists,
    words_of,
)
from depgen.evaluation.pretrained import ModelWithTokenizer, load_pretrained
from depgen.evaluation.text.gpt2_perplexity import pad_right, padded_batches
from depgen.evaluation.text.outcome import MeasuredItems, NotComputed
from depgen.hub import WeightsError, load_weights, model_folder, quiet_transformers
from depgen.locations import (
    cache_root,
    folder_written_whole,
    json_object,
    lines_sha256,
    made_once,
    write_atomically,
)
from depgen.metrics.roc import auc
from depgen.nn.precise import precise
from depgen.seeds import checked_seed
from depgen.training.callbacks import LossGuard
from depgen.training.checkpoints import CheckpointWriter, load_checkpoint
from depgen.training.logs import CurveLogger, quiet_libraries
from depgen.training.phases import Phase, Phases
from depgen.training.randomness import StepSeed
from depgen.training.resume import Resume
from depgen.training.runs import BEST, RESUME
from depgen.training.schedules import warmup_factor

DESCRIPTION, ENCODER, HEAD = "union.json", "encoder", "head.safetensors"
"""What a scorer's folder holds: what it is and how well it tells stories apart; its encoder; its classifier."""
ROCSTORIES = "rocstories"
"""The scorer that `experiments/union_rocstories.yaml` trains."""
HELD_OUT: tuple[Split, ...] = ("valid", "test")
IGNORED = -100
DROPOUT, WARMUP, WEIGHT_DECAY, GRADIENT_CLIP = 0.1, 0.1, 0.01, 1.0

logger = logging.getLogger(__name__)


class UnionNetwork(nn.Module):
    """Logits of corrupted (0) and human (1) from an encoder's last hidden state at the first position.

    Args:
        encoder: a network of transformers' `AutoModel` kind.
    """

    def __init__(self, encoder: Any) -> None:  # noqa: ANN401
        super().__init__()
        width = int(encoder.config.hidden_size)
        self.encoder = encoder
        self.head = nn.Sequential(
            nn.Dropout(DROPOUT), nn.Linear(width, width), nn.Tanh(), nn.Dropout(DROPOUT), nn.Linear(width, 2)
        )

    def states(
        self, tokens: Int[Tensor, "batch length"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        """The encoder's last hidden states."""
        states: Tensor = self.encoder(input_ids=tokens, attention_mask=is_word.long()).last_hidden_state
        return states

    def classify(self, states: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch 2"]:
        """Logits of corrupted and human."""
        logits: Tensor = self.head(states[:, 0])
        return logits

    def forward(
        self, tokens: Int[Tensor, "batch length"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch 2"]:
        """Logits of corrupted and human; padding, where `is_word` is False, changes nothing."""
        return self.classify(self.states(tokens, is_word))

    def save(self, folder: Path) -> None:
        """Write the encoder as transformers does, and the classifier next to it."""
        from safetensors.torch import save_file

        with quiet_transformers():
            self.encoder.save_pretrained(folder / ENCODER)
        head = {name: value.detach().cpu().contiguous() for name, value in self.head.state_dict().items()}
        save_file(head, folder / HEAD)

    @classmethod
    def load(cls, folder: Path) -> "UnionNetwork":
        """The network of a folder that `save` wrote, in evaluation mode.

        Raises:
            UserError: files are missing or damaged.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from transformers import AutoModel

        try:
            encoder = load_weights(AutoModel, folder / ENCODER, local_files_only=True, dtype=torch.float32)
            network = cls(encoder)
            network.head.load_state_dict(load_file(folder / HEAD))
        except (OSError, RuntimeError, SafetensorError, WeightsError) as error:
            raise UserError(f"{folder}: expected a UNION scorer, found: {error}. Train it again.") from error
        return network.eval()


class TokenHead(nn.Module):
    """Logits over the vocabulary, tied to the encoder's embedding: BERT's own head of masked words."""

    def __init__(self, encoder: Any) -> None:  # noqa: ANN401
        super().__init__()
        width = int(encoder.config.hidden_size)
        embedding = encoder.get_input_embeddings().weight
        self.transform = nn.Linear(width, embedding.size(1))
        self.norm = nn.LayerNorm(embedding.size(1))
        self.bias = nn.Parameter(torch.zeros(embedding.size(0)))

    def forward(
        self, states: Float[Tensor, "*places width"], embedding: Float[Tensor, "vocab embedding"]
    ) -> Float[Tensor, "*places vocab"]:
        """Logits of the word that should be at each place."""
        logits: Tensor = self.norm(F.gelu(self.transform(states))) @ embedding.T + self.bias
        return logits


@dataclass(frozen=True)
class StoryBatch:
    """Human stories, then their corrupted versions in the same order.

    Attributes:
        tokens: token ids, padded at the right.
        is_word: True at tokens.
        human: True for the first half.
        untouched: tokens of each story's first sentence, the encoder's mark in front included.
        items: which stories of the split these are.
    """

    tokens: Int[Tensor, "texts length"]
    is_word: Bool[Tensor, "texts length"]
    human: Bool[Tensor, " texts"]
    untouched: Int[Tensor, " texts"]
    items: Int[Tensor, " stories"]

    def to(self, device: torch.device | str) -> "StoryBatch":
        """The same on a device."""
        return StoryBatch(**{name: value.to(device) for name, value in vars(self).items()})


def text_of(story: Story) -> str:
    """The words with a space between, in lower case."""
    return " ".join(words_of(story))


def encode(tokenizer: Any, texts: Sequence[str], *, max_length: int) -> list[list[int]]:  # noqa: ANN401
    """Token ids with the encoder's marks, cut at `max_length`."""
    ids: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    return ids


class StoryPairs(Dataset[StoryBatch]):
    """Batches of stories of a split and of one corrupted version of each, which depends on (seed, epoch, story).

    Args:
        stories: of the split, tagged.
        lexicon: words to put in.
        tokenizer: of the encoder.
        max_length: longer texts are cut, the encoder's marks included.
        source: seed and epoch, or what else the negative samples depend on.
    """

    def __init__(
        self,
        stories: Sequence[Story],
        lexicon: ContentWords,
        tokenizer: Any,  # noqa: ANN401  (transformers' tokeniser)
        *,
        max_length: int,
        source: str,
    ) -> None:
        self.stories, self.lexicon, self.tokenizer = stories, lexicon, tokenizer
        self.max_length, self.source = max_length, source

    def __len__(self) -> int:
        return len(self.stories)

    def corrupted(self, index: int) -> Corrupted:
        """The negative sample of a story."""
        return corrupt(self.stories, index, self.lexicon, random.Random(f"{self.source}/{index}"))

    def __getitems__(self, share: RankBatch) -> StoryBatch:
        """The stories of a batch and their negative samples (called by torch's fetcher)."""
        indices = [int(index) for index in share.indices]
        texts = [text_of(self.stories[index]) for index in indices]
        texts += [text_of(self.corrupted(index).story) for index in indices]
        firsts = [text_of(self.stories[index][:1]) for index in indices]
        tokens, is_word = pad_right(encode(self.tokenizer, texts, max_length=self.max_length))
        untouched = torch.tensor([len(ids) - 1 for ids in encode(self.tokenizer, firsts, max_length=self.max_length)])
        human = torch.arange(len(texts)) < len(indices)
        return StoryBatch(tokens, is_word, human, untouched.repeat(2), torch.tensor(indices))


class UnionData(L.LightningDataModule):
    """The stories of a corpus as a UNION scorer is trained and tested on them.

    Args:
        corpus: of stories of three sentences or more; shorter documents are left out and counted.
        tagger: gives words their parts of speech.
        tokens_per_batch: of human stories, padding included; as many again of corrupted ones come to them.
        max_length: longer texts are cut.
    """

    def __init__(
        self, corpus: Corpus, tagger: Tagger | None = None, *, tokens_per_batch: int = 2048, max_length: int = 200
    ) -> None:
        super().__init__()
        self.corpus, self.tagger = corpus, tagger or SpacyTagger()
        self.tokens_per_batch, self.max_length = tokens_per_batch, max_length
        self.tokenizer: Any = None
        self.seed = 0
        self._stories: dict[Split, list[Story]] = {}
        self._lexicon: ContentWords | None = None

    def fingerprint(self) -> str:
        """A digest of the corpus, the tagger, the rules of corruption, all lists of words and all options.

        Raises:
            UserError: a corpus or a tagger can't be read.
        """
        parts = [
            RULES,
            *(self.corpus.fingerprint(split) for split in SPLITS),
            self.tagger.fingerprint(),
            *(lines_sha256([words]) for words in own_lists()),
            json.dumps([self.tokens_per_batch, self.max_length]),
        ]
        return lines_sha256(parts)

    def stories(self, split: Split) -> list[Story]:
        """The tagged stories of a split.

        Raises:
            UserError: fewer than two stories have enough sentences.
        """
        if split not in self._stories:
            documents = list(self.corpus.documents(split))
            stories = [document.sentences for document in documents if len(document.sentences) >= MIN_SENTENCES]
            where = f"{self.corpus.name}, {split}"
            short = len(documents) - len(stories)
            log_left_out(short, f"documents of fewer than {MIN_SENTENCES} sentences", where)
            if len(stories) < 2:
                raise UserError(
                    f"{where}: expected stories of {MIN_SENTENCES} sentences or more, found {len(stories)}."
                )
            tagged = iter(self.tagger.tag([sentence for story in stories for sentence in story]))
            self._stories[split] = [tuple(next(tagged) for _ in story) for story in stories]
        return self._stories[split]

    @property
    def lexicon(self) -> ContentWords:
        """The words of the training split, which negative samples put in."""
        if self._lexicon is None:
            self._lexicon = ContentWords.of(sentence for story in self.stories("train") for sentence in story)
        return self._lexicon

    def pairs(self, split: Split, *, epoch: int | None = None) -> StoryPairs:
        """A split with negative samples: those of an epoch of training, or fixed ones, the same for every scorer."""
        assert self.tokenizer is not None, "the encoder's tokeniser is set before stories are read"
        source = f"held out/{split}" if epoch is None else f"{self.seed}/{epoch}"
        return StoryPairs(self.stories(split), self.lexicon, self.tokenizer, max_length=self.max_length, source=source)

    def train_dataloader(self, epoch: int | None = None) -> ResumableLoader:
        """Batches of an epoch, with its own negative samples; by default the trainer's current one, or the first."""
        epoch = drawn_epoch(self.trainer, epoch)
        return self._loader(self.pairs("train", epoch=epoch), epoch=epoch, shuffle=True)

    def val_dataloader(self) -> ResumableLoader:
        """Batches of the validation split, sorted by length."""
        return self._loader(self.pairs("valid"), epoch=0, shuffle=False)

    def _loader(self, pairs: StoryPairs, *, epoch: int, shuffle: bool) -> ResumableLoader:
        lengths = np.array([sum(map(len, story)) + 2 for story in pairs.stories])
        batches = TokenBudgetBatches(
            np.minimum(lengths, self.max_length), tokens_per_batch=self.tokens_per_batch, seed=self.seed, epoch=epoch,
            shuffle=shuffle,
        )  # fmt: skip
        return ResumableLoader(pairs, batch_sampler=batches, collate_fn=_as_it_is)  # type: ignore[arg-type]


def _as_it_is(batch: StoryBatch) -> StoryBatch:
    return batch


@dataclass(frozen=True)
class UnionTraining:
    """How a scorer is trained, on one device; the defaults are the published values.

    Attributes:
        epochs: each with new negative samples. Published are at most 40,000 steps of 10 texts and one negative sample
            a story: 2.5 epochs of the official training split.
        learning_rate: the peak of AdamW's rate, which rises over a tenth of the training and then falls to 0 in a line.
        reconstruction: weight of the loss of predicting each human word from the corrupted story; 0.1 in the paper,
            0 by default in the authors' code.
        precision: of the trainer, such as `32-true` or `bf16-mixed`.
        accelerator: where it trains.

    Raises:
        UserError: no epoch.
    """

    epochs: int = 3
    learning_rate: float = 5e-5
    reconstruction: float = 0.1
    precision: Any = "32-true"
    accelerator: str = "auto"

    def __post_init__(self) -> None:
        check_at_least(1, epochs=self.epochs)

    def options(self) -> dict[str, Any]:
        """What the scorer depends on: everything but where it is trained."""
        return {name: value for name, value in asdict(self).items() if name != "accelerator"}


class UnionModule(L.LightningModule):
    """Trains an encoder to tell human stories from corrupted ones.

    Args:
        encoder: what is trained.
        training: how.
    """

    phases = (Phase("training", monitor="val/auc_shortfall"),)

    def __init__(self, encoder: Any, training: UnionTraining) -> None:  # noqa: ANN401
        super().__init__()
        self.network, self.token_head = UnionNetwork(encoder), TokenHead(encoder)
        self.training_options = training
        self.auc = BinaryAUROC()

    def training_step(self, batch: StoryBatch, batch_idx: int) -> Tensor:
        """The loss of telling apart, and of reconstruction with its weight."""
        states = self.network.states(batch.tokens, batch.is_word)
        loss = F.cross_entropy(self.network.classify(states).float(), batch.human.long())
        if weight := self.training_options.reconstruction:
            loss = loss + weight * self._reconstruction_loss(states, batch)
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch.tokens))
        return loss

    def validation_step(self, batch: StoryBatch, batch_idx: int) -> None:
        """Nats, and the area under the ROC curve."""
        logits = self.network(batch.tokens, batch.is_word).float()
        self.log("val/loss", F.cross_entropy(logits, batch.human.long()), batch_size=len(logits))
        self.auc.update(logits.softmax(-1)[:, 1], batch.human.long())

    def on_validation_epoch_end(self) -> None:
        """Log the area, and what it lacks to 1, by which the best weights are known."""
        area = self.auc.compute()
        self.auc.reset()
        self.log("val/auc", area, prog_bar=True)
        self.log("val/auc_shortfall", 1 - area)
        logger.info("Epoch %d: validation AUC %.4f", self.current_epoch, float(area))

    def _reconstruction_loss(self, states: Tensor, batch: StoryBatch) -> Tensor:
        """Mean over texts of the mean nats of the human words after the first sentence, each at its own place."""
        targets = reconstruction_targets(batch.tokens, batch.is_word, batch.untouched)
        scored = targets != IGNORED
        embedding = self.network.encoder.get_input_embeddings().weight
        nll = F.cross_entropy(self.token_head(states[scored], embedding).float(), targets[scored], reduction="none")
        share = scored / scored.sum(1, keepdim=True).clamp(min=1)
        return (nll * share[scored]).sum() / len(targets)

    def configure_optimizers(self) -> Any:  # noqa: ANN401  (Lightning's dictionary)
        """AdamW, with a rate that rises over the first share of the training and falls to 0 in a line."""
        decayed = [weight for weight in self.parameters() if weight.ndim > 1]
        others = [weight for weight in self.parameters() if weight.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.training_options.learning_rate)
        total = max(1, int(self.trainer.estimated_stepping_batches))
        rising = int(WARMUP * total)

        def factor(step: int) -> float:
            falling = max(0.0, (total - step) / max(1, total - rising))
            return warmup_factor(step, rising) if step < rising else falling

        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}


def reconstruction_targets(
    tokens: Int[Tensor, "texts length"], is_word: Bool[Tensor, "texts length"], untouched: Int[Tensor, " texts"]
) -> Int[Tensor, "texts length"]:
    """The human story's token at each place of each text after the first sentence, -100 where there is none.

    Args:
        tokens: human stories, then their corrupted versions.
        is_word: True at tokens.
        untouched: tokens of the first sentence of each, the mark in front included.
    """
    half = len(tokens) // 2
    human, there = tokens[:half].repeat(2, 1), is_word[:half].repeat(2, 1)
    later = torch.arange(tokens.size(1), device=tokens.device) >= untouched[:, None]
    return human.masked_fill(~(there & is_word & later), IGNORED)


def fit(module: UnionModule, data: UnionData, folder: Path, *, seed: int, progress: bool = True) -> float:
    """Train, or continue what is in `folder`, and leave the module with its best weights.

    Returns:
        the wall time that it took, in seconds, over all its sessions.

    Raises:
        KeyboardInterrupt: stopped by Ctrl-C; the state is kept.
    """
    quiet_libraries()
    options, resume = module.training_options, folder / "checkpoints" / RESUME
    data.seed = seed
    curve = CurveLogger(folder)
    callbacks = [LossGuard(), Resume(resume.parent, every_n_steps=200), Phases(resume.parent), StepSeed()]
    trainer = L.Trainer(
        max_epochs=options.epochs, accelerator=options.accelerator, devices=1, precision=options.precision,
        gradient_clip_val=GRADIENT_CLIP, logger=curve, callbacks=callbacks, plugins=[CheckpointWriter()],
        default_root_dir=folder, reload_dataloaders_every_n_epochs=1, use_distributed_sampler=False,
        num_sanity_val_steps=0, enable_model_summary=False, enable_progress_bar=progress, log_every_n_steps=20,
        enable_checkpointing=True,
    )  # fmt: skip
    if resume.is_file():
        logger.info("Continuing from %s.", resume)
    module.train()  # a pretrained encoder comes in evaluation mode, and Lightning leaves modes as they are
    try:
        trainer.fit(module, data, ckpt_path=resume if resume.is_file() else None)
    except SystemExit as stop:  # Lightning's way after Ctrl-C
        logger.warning("Stopped; the same command continues from %s.", resume)
        raise KeyboardInterrupt from stop
    seconds = curve.seconds
    module.load_state_dict(load_checkpoint(resume.parent / BEST)["state_dict"])
    module.eval()
    return seconds


def train_union(
    data: UnionData,
    training: UnionTraining,
    name: str,
    encoder: str = "bert-base-uncased",
    download: bool = False,
    seed: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> str:
    """Train a UNION scorer into `$DEPGEN_CACHE/union/<name>`, unless it lies there; what it can do, ready to print.

    The same command continues a training that was stopped.

    Args:
        data: the stories, and how they are corrupted.
        training: how.
        name: of the folder; `evaluate text --union` and tables name the scorer by it.
        encoder: what is trained: any encoder of transformers, by its folder or its name on the hub.
        download: whether its files may be downloaded if they are not on this machine.
        seed: of weights, batches and the training's negative samples.
        overwrite: replace a scorer of that name that was trained otherwise.
        progress: whether a bar shows on a terminal how far an epoch has come.

    Raises:
        UserError: no corpus, tagger or encoder; another scorer has that name; a seed out of range.
        KeyboardInterrupt: stopped by Ctrl-C; the state is kept.
    """
    folder = scorer_folder(name)
    pretrained = _pretrained(encoder, data.max_length, download=download)
    weights = model_folder(encoder)
    assert weights is not None, "what was fetched lies in the hub cache"
    options = [pretrained.name, files_digest(weights), training.options(), checked_seed(seed)]
    fingerprint = lines_sha256([data.fingerprint(), json.dumps(options, sort_keys=True)])

    def train() -> None:
        work = folder.with_name(f".{folder.name}.{fingerprint[:12]}")
        L.seed_everything(seed, verbose=False)
        data.tokenizer = pretrained.tokenizer
        module = UnionModule(pretrained.model, training)
        description = {
            "encoder": pretrained.name, "corpus": data.corpus.name, "train_stories": len(data.stories("train")),
            "tagger": data.tagger.method, "max_length": data.max_length, "seed": seed, "training": training.options(),
            "fingerprint": fingerprint,
        }  # fmt: skip
        seconds = fit(module, data, work, seed=seed, progress=progress and sys.stderr.isatty())
        description["training_seconds"] = round(seconds, 1)
        with folder_written_whole(folder) as part:
            module.network.save(part)
            pretrained.tokenizer.save_pretrained(part / ENCODER)
            scorer = UnionScorer(module.network, pretrained.tokenizer, data.max_length, str(module.device))
            description["auc"] = {split: areas(scorer, data.pairs(split)) for split in HELD_OUT}
            write_atomically(part / DESCRIPTION, json.dumps(description, indent=2) + "\n")
        shutil.rmtree(work)

    def is_made() -> bool:
        if overwrite or not (folder / DESCRIPTION).is_file():
            return False
        if read_scorer(folder).get("fingerprint") != fingerprint:
            raise UserError(
                f"{folder} holds a scorer that was trained otherwise (other stories, encoder, options or seed). "
                "Choose another --name, or replace it by --overwrite."
            )
        return True

    made = made_once(folder, train, is_made=is_made)
    return report(folder) if made else f"{folder} is up to date.\n{report(folder)}"


def _pretrained(name: str, max_length: int, *, download: bool) -> ModelWithTokenizer:
    """The encoder with its own weights and tokeniser.

    Raises:
        UserError: it can't be had, or reads fewer tokens.
    """
    pretrained = load_pretrained(name, "encoder", download=download)
    if isinstance(pretrained, NotComputed):
        raise UserError(f"UNION wants a pretrained encoder: {pretrained.reason}.")
    positions = int(getattr(pretrained.model.config, "max_position_embeddings", max_length))
    if positions < max_length:
        raise UserError(f"{name} reads {positions} tokens, but stories of {max_length} are to be read.")
    return pretrained


def report(folder: Path) -> str:
    """What is known of a scorer: encoder, data, and the areas under the curve by what was done to a story."""
    description = read_scorer(folder)
    areas_of = description["auc"]
    kinds = dict.fromkeys(kind for split in areas_of.values() for kind in split)
    width = max(map(len, kinds))
    lines = [
        f"{description['encoder']}, {description['corpus']} ({description['train_stories']:,} stories): {folder}",
        f"{'AUC, human against':<{width}}{''.join(f'{split:>8}' for split in areas_of)}",
    ]
    for kind in kinds:
        cells = "".join(f"{split[kind]:>8.4f}" if kind in split else f"{'none':>8}" for split in areas_of.values())
        lines.append(f"{kind:<{width}}{cells}")
    lines.append(f"trained in {description['training_seconds']:,.0f} s")
    return "\n".join(lines)


@dataclass(frozen=True)
class UnionScorer:
    """A trained scorer.

    Attributes:
        network: in evaluation mode.
        tokenizer: its encoder's.
        max_length: tokens that are read of a text, the encoder's marks included.
        device: where it computes.
    """

    network: UnionNetwork
    tokenizer: Any
    max_length: int
    device: str = "cpu"

    @torch.inference_mode()
    def score(self, texts: Sequence[str], *, batch_size: int = 64) -> Float[np.ndarray, " texts"]:
        """The probability, times 100, that each text is a human's; texts are lower-cased, long ones cut.

        It depends neither on the batch nor on padding.
        """
        encoded = encode(self.tokenizer, [" ".join(text.lower().split()) for text in texts], max_length=self.max_length)
        full = sum(len(ids) >= self.max_length for ids in encoded)
        if full:
            logger.warning("UNION reads no more than %d tokens: %d texts may be cut.", self.max_length, full)
        scores = np.zeros(len(encoded))
        for batch, tokens, is_word in padded_batches(encoded, batch_size=batch_size, device=self.device):
            probabilities = precise(self.network(tokens, is_word)).softmax(-1)[:, 1]
            scores[batch] = 100.0 * probabilities.cpu().numpy()
        return scores


def scorer_folder(name: str) -> Path:
    """The folder of a trained scorer: `$DEPGEN_CACHE/union/<name>`."""
    return cache_root() / "union" / name


def find_scorer(name: str) -> Path | None:
    """The folder of a scorer: a path, or the name of one that was trained here."""
    own = Path(name).expanduser()
    for folder in (own,) if own.is_absolute() or name.startswith((".", "~")) else (scorer_folder(name), own):
        if (folder / DESCRIPTION).is_file():
            return folder
    return None


def read_scorer(folder: Path) -> dict[str, Any]:
    """What `union.json` says.

    Raises:
        UserError: there is none, or it is damaged.
    """
    return json_object(folder / DESCRIPTION, remedy="Train the UNION scorer again.")


def load_scorer(folder: Path, *, device: str = "cpu") -> UnionScorer:
    """The scorer of a folder; nothing but the folder is needed.

    Raises:
        UserError: files are missing or damaged.
    """
    from transformers import AutoTokenizer

    max_length = int(read_scorer(folder)["max_length"])
    network = UnionNetwork.load(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder / ENCODER, local_files_only=True)
    return UnionScorer(network.to(device), tokenizer, max_length, device)


def union_score(
    texts: Sequence[str],
    prompts: Sequence[str] | None = None,
    *,
    scorer: str,
    device: str = "cpu",
) -> MeasuredItems | NotComputed:
    """The mean UNION score of texts, with every text's own; each is read after its prompt, where there are prompts.

    An empty text scores zero: its prompt alone is a human's.

    Args:
        texts: one string an item.
        prompts: the context of each; None: texts are whole stories.
        scorer: the name of a trained scorer, or its folder.
        device: where to compute.

    Raises:
        UserError: unequal numbers, or a damaged scorer.
    """
    if prompts is not None and len(prompts) != len(texts):
        raise UserError(f"UNION wants one prompt a text: {len(texts)} texts, {len(prompts)} prompts.")
    folder = find_scorer(scorer)
    if folder is None:
        return NotComputed(
            f"no UNION scorer {scorer!r} in $DEPGEN_CACHE/union (by default ~/.cache/depgen/union); train one by "
            "`depgen train-union --config experiments/union_rocstories.yaml`"
        )
    stories = texts if prompts is None else [f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)]
    scores = load_scorer(folder, device=device).score(stories)
    scores[[not text.strip() for text in texts]] = 0.0
    return MeasuredItems(scores, describe(folder, prompted=prompts is not None))


def describe(folder: Path, *, prompted: bool) -> str:
    """What a UNION score depends on: that the scorer is ours, its encoder, data, areas under the curve, and digest."""
    found = read_scorer(folder)
    areas = ", ".join(f"{split} AUC {found['auc'][split]['all']:.3f}" for split in HELD_OUT)
    read = "texts after their prompts" if prompted else "texts as whole stories"
    return (
        f"a scorer of our own, not the published one: {found['encoder']}, trained on {found['corpus']} "
        f"({found['train_stories']:,} stories), {areas}; {read}; {found['fingerprint'][:12]}"
    )


def areas(scorer: UnionScorer, pairs: StoryPairs) -> dict[str, float]:
    """The area under the ROC curve of human stories against their negative samples.

    `all`; those with one operation alone, by its form; and those with 2, 3 and 4.
    """
    corrupted = [pairs.corrupted(index) for index in range(len(pairs))]
    human = scorer.score([text_of(story) for story in pairs.stories])
    negative = scorer.score([text_of(sample.story) for sample in corrupted])
    kinds = [each.forms[0] if len(each.forms) == 1 else f"{len(each.forms)} operations" for each in corrupted]
    areas_of = {"all": auc(human, negative)}
    for kind in sorted(set(kinds)):
        areas_of[kind] = auc(human, negative[[other == kind for other in kinds]])
    return areas_of
