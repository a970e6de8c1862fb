"""Ctrl-C and SIGTERM end a run at the iteration's end; a second Ctrl-C ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.exceptions import SIGTERMException

from acrl.algorithms.base import RLModule

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal(Callback):
    """Sets a flag on a signal; the iteration goes on to its end, is checkpointed, and the run stops there."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the signals over; Lightning gives them back when it ends."""
        if threading.current_thread() is threading.main_thread():
            for number in CAUGHT:
                signal.signal(number, self._flag)

    def _flag(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt(f"{signal.Signals(number).name} again: stopped within an iteration")
        self.received = signal.Signals(number)
        notice = f"\nacrl: {self.received.name}: stopping at this iteration's end; Ctrl-C stops at once.\n"
        os.write(2, notice.encode())  # print() may have been interrupted, and must not be entered again

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Stop here if a signal came."""
        if self.received is not None and module.budget_share < 1:
            module.interrupted = f"{self.received.name} after iteration {module.counters.iterations}"
            trainer.should_stop = True

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        """Say which signal stopped a run within an iteration."""
        if isinstance(module, RLModule) and isinstance(exception, KeyboardInterrupt | SIGTERMException):
            early = signal.SIGTERM if isinstance(exception, SIGTERMException) else signal.SIGINT
            self.received = self.received or early
            module.interrupted = f"{self.received.name} within iteration {module.counters.iterations + 1}"
