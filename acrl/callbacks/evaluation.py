"""Held-out accuracy along the run, at the same completions for every algorithm and batch size."""

from __future__ import annotations

import math

from pytorch_lightning import Callback, Trainer

from acrl.algorithms.base import RLModule
from acrl.spec import Evaluation

POINTS = 32
START_SAMPLES = 4  # answers per prompt at the first evaluation: every gain is measured from it


class EvaluateAlong(Callback):
    """Evaluates before training, whenever another interval of completions or budget is used, and at the end."""

    def __init__(self, plan: Evaluation) -> None:
        self.plan = plan
        self.points = 0

    def on_train_start(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Evaluate the start policy, unless the run is resumed."""
        if module.counters.iterations > 0:
            self.points = self._crossed(module)
            return
        before = module.clock.elapsed  # Lightning has taken the first rollout by now; its policy is still the start's
        module.start_row = self._evaluate(trainer, module, samples=START_SAMPLES, greedy=True)
        module.start_row["time/eval"] = module.clock.elapsed - before
        module.clock.shift(module.start_row["time/eval"])

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Evaluate where one is due."""
        crossed, last = self._crossed(module), module.budget_share >= 1
        module.evaluated = last or crossed > self.points
        if module.evaluated:
            greedy = last or crossed // self.plan.greedy_every > self.points // self.plan.greedy_every
            with module.clock.phase("eval"):
                module.row |= self._evaluate(trainer, module, samples=1, greedy=greedy)
        self.points = crossed

    def _crossed(self, module: RLModule) -> int:
        if self.plan.every_completions is not None:
            return module.counters.completions // self.plan.every_completions
        return math.floor(module.budget_share * POINTS + 1e-9)

    def _evaluate(self, trainer: Trainer, module: RLModule, samples: int, greedy: bool) -> dict[str, float]:
        size = self.plan.micro_batch_size
        batches = trainer.datamodule.eval_batches("val", self.plan.prompts, size, samples)  # type: ignore[attr-defined]
        return module.evaluate(batches, greedy)
