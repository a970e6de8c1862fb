"""Ctrl-C and SIGTERM end a run at the iteration's end; a second Ctrl-C ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from acrl.algorithms.base import RLModule

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal(Callback):
    """Sets a flag on a signal; the iteration goes on to its end, is checkpointed, and the run stops there."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._flag) for number in CAUGHT}

    def _flag(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt(f"{signal.Signals(number).name} again: stopped within an iteration")
        self.received = signal.Signals(number)

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Stop here if a signal came."""
        if self.received is not None and module.budget_share < 1:
            module.interrupted = f"{self.received.name} after iteration {module.counters.iterations}"
            trainer.should_stop = True

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
