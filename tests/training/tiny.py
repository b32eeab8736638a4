"""A system of two phases and its data, trained in a second: dropout on, batches of varying number."""

from pathlib import Path
from unittest.mock import patch

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from torchmetrics import MeanMetric

from depgen.data import sampler
from depgen.data.sampler import ResumableLoader, TokenBudgetBatches
from depgen.errors import UserError
from depgen.training.phases import Phase, Phases, after
from depgen.training.randomness import StepSeed


class Batch(dict):
    """Tensors by name, and the items' numbers."""

    @property
    def items(self):
        return self["items"]

    def to(self, *args, **kwargs):
        return Batch(
            {name: value.to(*args, **kwargs) if torch.is_tensor(value) else value for name, value in self.items_()}
        )

    def items_(self):
        return super().items()


class Sequences(Dataset):
    def __init__(self, count: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.lengths = generator.integers(2, 12, count)
        self.rows = [generator.standard_normal((n, 4)).astype(np.float32) for n in self.lengths]

    def __getitems__(self, share):
        return share, [self.rows[i] for i in share.indices]

    def __len__(self) -> int:
        return len(self.rows)


def collate(shared) -> Batch:
    share, rows = shared
    width = max(map(len, rows))
    x, mask = torch.zeros(len(rows), width, 4), torch.zeros(len(rows), width)
    for k, row in enumerate(rows):
        x[k, : len(row)], mask[k, : len(row)] = torch.from_numpy(row), 1
    return Batch(x=x, mask=mask, items=torch.from_numpy(share.indices), tokens=share.global_tokens)


class TinyData(L.LightningDataModule):
    """Random sequences.

    Args:
        items: number of training items.
        seed: seed of their order.
        workers: processes that collate.
    """

    batches_per_pool = 2
    """So few that epochs differ in length."""

    vocabulary_size = 3

    def __init__(self, items: int = 60, seed: int = 0, workers: int = 0) -> None:
        super().__init__()
        self.sets = {"train": Sequences(items, 1), "valid": Sequences(12, 2), "test": Sequences(12, 3)}
        self.seed, self.workers = seed, workers

    def save_into(self, run) -> None:
        (run / "vocabulary.json").write_text(str(self.vocabulary_size))

    def use_vocabulary(self, file) -> None:
        if not file.is_file():
            raise UserError(f"No vocabulary at {file}.")
        self.vocabulary_size = int(file.read_text())

    def _loader(self, split: str, *, epoch: int | None = None) -> ResumableLoader:
        world, rank = (self.trainer.world_size, self.trainer.global_rank) if self.trainer else (1, 0)
        options = {"seed": self.seed, "epoch": epoch or 0, "shuffle": epoch is not None, "world": world, "rank": rank}
        data = self.sets[split]
        with patch.object(sampler, "BATCHES_PER_POOL", self.batches_per_pool):
            batches = TokenBudgetBatches(data.lengths, tokens_per_batch=50, **options)
        return ResumableLoader(data, batch_sampler=batches, collate_fn=collate, num_workers=self.workers)

    def train_dataloader(self):
        return self._loader("train", epoch=self.trainer.current_epoch)

    def val_dataloader(self):
        return self._loader("valid")

    def test_dataloader(self):
        return self._loader("test")


class TinyModel(L.LightningModule):
    """Two phases over one small network.

    Args:
        vocabulary_size: width of the output.
        first_share: the first phase's part of the epochs; 0 for a model of one phase.
        width: of the hidden layer.
        dropout: between the layers.
        broken_at: step whose loss is no finite number, though its gradient is; -1 for none.
        broken: that loss.
        flat: log a constant validation loss, so that nothing improves.
        mean_of_means: normalise by the rank's own tokens: wrong with several ranks.
    """

    def __init__(
        self, vocabulary_size: int, first_share: float = 0.5, width: int = 8, dropout: float = 0.3,
        broken_at: int = -1, broken: str = "nan", flat: bool = False, mean_of_means: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.save_hyperparameters()
        self.phases = after(Phase("first", first_share, "val/first"), Phase("second"))
        self.phase = 0
        torch.manual_seed(7)
        self.net = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, vocabulary_size))
        self.means = nn.ModuleDict({name: MeanMetric() for name in ("val_first", "val_loss", "test_loss")})
        self.setups = []

    def enter_phase(self, index: int) -> None:
        self.phase = index

    def configure_callbacks(self):
        if any(isinstance(each, Phases) for each in self.trainer.callbacks):
            return []
        return [Phases(Path(self.trainer.default_root_dir) / "checkpoints"), StepSeed()]

    def configure_optimizers(self):
        self.setups.append(self.phase)
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02 if self.phase == 0 else 0.01)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97), "interval": "step"},
        }

    def _sums(self, batch):
        target = batch["x"][..., :1].sin() if self.phase == 0 and len(self.phases) > 1 else batch["x"][..., 1:2].cos()
        return ((self.net(batch["x"]) - target).square().mean(-1) * batch["mask"]).sum()

    def training_step(self, batch, batch_idx):
        tokens = int(batch["mask"].sum()) if self.hparams.mean_of_means else batch["tokens"] / self.trainer.world_size
        loss = self._sums(batch) / tokens
        if self.trainer.global_step == self.hparams.broken_at:
            loss = loss + float(self.hparams.broken)
        self.log("train/loss", loss, batch_size=1)
        return loss

    def _evaluate(self, batch, name: str) -> None:
        tokens = batch["mask"].sum()
        mean = self.means[name.replace("/", "_")]
        mean.update(torch.tensor(1.0) if self.hparams.flat else self._sums(batch) / tokens, tokens)
        self.log(name, mean, on_epoch=True, batch_size=1)

    def validation_step(self, batch, batch_idx):
        self._evaluate(batch, "val/first" if self.phase == 0 and len(self.phases) > 1 else "val/loss")

    def test_step(self, batch, batch_idx):
        self._evaluate(batch, "test/loss")
