"""Resume points: iteration boundaries, never within one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint

from acrl.algorithms.base import RLModule


class BoundaryCheckpoint(ModelCheckpoint):
    """Saves `checkpoints/last.ckpt` after each iteration with a greedy evaluation, and after the last."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(
            dirpath=run_dir / "checkpoints",
            filename="last",
            save_on_train_epoch_end=True,
            save_top_k=1,
            enable_version_counter=False,
        )

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save where a resume point is due."""
        assert isinstance(pl_module, RLModule)
        if "eval/accuracy_greedy" in pl_module.row or trainer.should_stop:
            super().on_train_epoch_end(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save nothing: the last iteration's end has been saved."""

    def on_exception(self, *_: Any) -> None:
        """Save nothing: a broken iteration is no resume point."""
