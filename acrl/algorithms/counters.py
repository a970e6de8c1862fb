"""How far a run is."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from acrl.rollout.collector import Collected


@dataclass
class Counters:
    """What has been done so far; discarded completions count."""

    iterations: int = 0
    optimizer_steps: int = 0
    prompts: int = 0
    completions: int = 0
    tokens_generated: int = 0
    tokens_trained: int = 0
    dead_iterations: int = 0

    def generated(self, collected: Collected, group_size: int) -> None:
        """Count an iteration's rollouts."""
        self.prompts += collected.prompts_used
        self.completions += collected.prompts_used * group_size
        self.tokens_generated += int(collected.generated.lengths.sum())
        self.tokens_trained += int(collected.batch.loss_mask.sum())
        self.dead_iterations += not collected.batch.loss_mask.any()

    def state(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)

    def metrics(self) -> dict[str, float]:
        """Return `counter/*`."""
        return {f"counter/{name}": float(value) for name, value in asdict(self).items()}

    @staticmethod
    def at_start() -> dict[str, float]:
        """Return `counter/*` of a run that has done nothing yet."""
        return Counters().metrics()
