"""When a run ends."""

from __future__ import annotations

from pytorch_lightning import Callback, Trainer

from acrl.algorithms.base import RLModule
from acrl.spec import Budget


class BudgetStop(Callback):
    """Ends training at the first iteration that reaches the budget, and tells the module the share used."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def on_train_start(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Take stock of a resumed run: it may have no budget left."""
        if module.counters.iterations > 0:
            self._take_stock(trainer, module)

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Take stock at the iteration's end."""
        self._take_stock(trainer, module)

    def _take_stock(self, trainer: Trainer, module: RLModule) -> None:
        counters = module.counters
        used = {
            "completions": counters.completions,
            "tokens": counters.tokens_generated,
            "iterations": counters.iterations,
            "seconds": module.clock.spent,
        }
        module.budget_share = self.budget.share(used)
        if module.budget_share >= 1:
            trainer.should_stop = True
