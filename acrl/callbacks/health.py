"""Says once what a run that cannot learn suffers from."""

from __future__ import annotations

import sys

from pytorch_lightning import Callback, Trainer

from acrl.algorithms.base import RLModule

PATIENCE = 3  # iterations in a row
SAMPLING_ERROR = 0.1  # nats; float32 stays below 1e-4, bfloat16 below 5e-2


class Health(Callback):
    """Warns once a run where answers end at the cap and earn nothing, where no group has any variance, where the group
    filter left an iteration short, and where sampling and scoring disagree."""

    def __init__(self) -> None:
        self.seen = {"truncated": 0, "constant": 0}
        self.short = False
        self.off_policy = False

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Look at the iteration's row."""
        missing = int(module.row["rollout/groups_missing"])
        if missing and not self.short:
            self.short = True
            _warn(
                f"iteration {module.counters.iterations} trains on {module.plan.prompts - missing} of "
                f"{module.plan.prompts} groups: after {module.sampling.refill_rounds} rounds the others were still all "
                "right or all wrong. rollout/groups_missing counts them from here on."
            )
        error = module.row.get("policy/sampling_error", 0.0)
        if error > SAMPLING_ERROR and not self.off_policy:
            self.off_policy = True
            _warn(
                f"the log-prob of a sampled token differs by {error:.2g} between sampling and scoring in iteration "
                f"{module.counters.iterations} (policy/sampling_error): the model decodes with its cache what it does "
                "not compute without it, so every ratio is off. Is every layer's cache an attention cache?"
            )
        lowest, _ = trainer.datamodule.scorer.range  # type: ignore[attr-defined]
        if self._lasts("truncated", is_cut_off(module.row, lowest)):
            _warn(
                f"more than half of the answers reached model.sampling.max_response_length "
                f"({module.sampling.max_response_length}) before they ended, and none earned a reward, in {PATIENCE} "
                "iterations in a row. Raise the limit: an answer that is cut off cannot be right."
            )
        if self._lasts("constant", is_constant(module.row)):
            _warn(
                f"in {PATIENCE} iterations in a row every answer earned as much as the others of its group: the reward "
                "has no variance within a group, so the gradient is 0 and nothing is learned. Check the reward "
                "function, give easier or harder prompts, or raise model.batch.group_size or "
                "model.sampling.temperature."
            )

    def _lasts(self, sign: str, present: bool) -> bool:
        """Count a sign; True when it has been there PATIENCE times in a row, once in a run."""
        if self.seen[sign] < PATIENCE:
            self.seen[sign] = self.seen[sign] + 1 if present else 0
            return self.seen[sign] == PATIENCE
        return False


def is_cut_off(row: dict[str, float], lowest: float) -> bool:
    """Return whether most answers were truncated while no reward was above the lowest."""
    return row["rollout/truncated_fraction"] > 0.5 and row["rollout/reward_mean"] <= lowest


def is_constant(row: dict[str, float]) -> bool:
    """Return whether no group's rewards differed and the policy's gradient was 0 or there was none to compute."""
    trained = "policy/loss" in row  # False where the group filter left nothing
    still = row.get("policy/grad_norm") == 0 if trained else True
    return row["advantage/zero_variance_group_fraction"] == 1 and still


def _warn(message: str) -> None:
    print(f"acrl: warning: {message}", file=sys.stderr)
