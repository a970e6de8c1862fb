"""A progress bar over the budget; plain lines at evaluations where the output is no terminal."""

from __future__ import annotations

import sys
from time import monotonic

from pytorch_lightning import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from acrl.algorithms.base import RLModule


class RunProgress(Callback):
    """Shows iteration, completions, reward, evaluation accuracy and time left."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self.accuracy = float("nan")
        self.started = monotonic()

    def on_train_start(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Open the bar."""
        self.started, self.share_at_start = monotonic(), module.budget_share
        self.accuracy = module.start_row.get("eval/accuracy", self.accuracy)
        if self.console.is_terminal:
            self.bar = Progress(
                TextColumn("iteration {task.fields[iteration]}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("reward {task.fields[reward]}  accuracy {task.fields[accuracy]:.3f} "),
                TimeRemainingColumn(),
                TextColumn("left"),
                console=self.console,
            )
            self.task = self.bar.add_task("", total=1.0, iteration=0, reward="–", accuracy=self.accuracy)
            self.bar.start()
        elif module.start_row:
            greedy = module.start_row["eval/accuracy_greedy"]
            print(f"start: accuracy {self.accuracy:.3f}, greedy {greedy:.3f}", file=sys.stderr)

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Move the bar."""
        row, share = module.row, min(1.0, module.budget_share)
        self.accuracy = row.get("eval/accuracy", self.accuracy)
        reward = row["rollout/reward_mean"]
        if self.bar is not None:
            self.bar.update(
                self.task,
                completed=share,
                iteration=module.counters.iterations,
                reward=f"{reward:.2f}",
                accuracy=self.accuracy,
            )
        elif module.evaluated:
            done = max(share - self.share_at_start, 1e-9)
            left = (monotonic() - self.started) * (1 - share) / done
            print(
                f"iteration {module.counters.iterations}: {module.counters.completions} completions, "
                f"reward {reward:.2f}, accuracy {self.accuracy:.3f}, {left:.0f} s left",
                file=sys.stderr,
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Close the bar."""
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Close the bar: Lightning calls no teardown after an exception."""
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
