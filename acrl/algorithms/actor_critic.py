"""Algorithms with a learned baseline: a value head, its trunk and GAE."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from acrl.algorithms.base import RLModule, weighted_sum
from acrl.errors import ConfigError
from acrl.functional import gae, length_adaptive_lambda, masked_whiten, scale_by_batch_std, value_loss
from acrl.models.critic import CriticModel
from acrl.models.policy import TokenScores
from acrl.rollout.batch import RolloutBatch
from acrl.rollout.microbatches import MicroBatch
from acrl.spec import Credit, Critic, Objective

SCALES = ("whiten", "batch_std", "none")


class ActorCritic(RLModule):
    """Â from GAE(γ, λ_policy) on the terminal reward (and KL in the reward); V fits the returns of GAE(γ, λ_critic)."""

    @abstractmethod
    def __init__(self, credit: Credit, objective: Objective, critic: Critic, **kwargs: Any) -> None:
        super().__init__(credit=credit, objective=objective, **kwargs)
        self.critic_spec = critic
        self.critic: CriticModel | None = None
        if credit.baseline != "critic":
            raise ConfigError(
                f"credit.baseline is {credit.baseline!r}, but {type(self).__name__} learns its baseline: give "
                "'critic', or choose a critic-free --model (GRPO, RLOO, ReinforcePP, …)."
            )
        if credit.scale not in SCALES:
            raise ConfigError(f"credit.scale is {credit.scale!r}; beside a critic give one of {', '.join(SCALES)}.")

    @property
    def specs(self) -> dict[str, Any]:
        """The values that make the algorithm, by the constructor's names."""
        return super().specs | {"critic": self.critic_spec}

    def idle_knobs(self) -> list[str]:
        """Return sentences on critic settings that cannot act beside the others."""
        spec = self.critic_spec
        found = []
        if spec.length_adaptive_alpha is not None:
            found.append("critic.length_adaptive_alpha sets λ of the advantages, so critic.lam_policy cannot act.")
        if spec.value_clip is not None and self.plan.optimizer_steps == 1:
            found.append("one optimizer step per rollout: values have not moved, so critic.value_clip cannot act.")
        return found

    def configure_model(self) -> None:
        """Load the policy and build the critic on its trunk."""
        super().configure_model()
        if self.critic is None:
            hidden_size = self._model.config.get_text_config().hidden_size  # type: ignore[union-attr,operator]
            self.critic = CriticModel(self.policy_spec.path, hidden_size, self.critic_spec.trunk == "separate")
            self.critic.train()

    @property
    def needs_hidden(self) -> bool:  # type: ignore[override]
        """Whether the critic reads the policy's hidden states."""
        return self.critic_spec.trunk != "separate"

    def _values(self, rows: RolloutBatch, scores: TokenScores) -> tuple[Tensor, Tensor]:
        assert self.critic is not None
        hidden = scores.hidden
        if hidden is not None and self.critic_spec.trunk == "shared_detached":
            hidden = hidden.detach()
        return self.critic(rows, hidden)

    def score_baseline(self, rows: RolloutBatch, scores: TokenScores) -> dict[str, Tensor]:
        """Return the values before the update, and after each response's last token."""
        values, bootstrap = self._values(rows, scores)
        return {"values": values, "bootstrap": bootstrap}

    def assign_credit(self, batch: RolloutBatch) -> RolloutBatch:
        """Return the batch with `advantages` and `returns` [N, T]."""
        assert batch.old_logprobs is not None and batch.values is not None and batch.bootstrap is not None
        spec, mask, values = self.critic_spec, batch.response_mask, batch.values.double()
        penalty = self.kl_penalty(batch)
        last = (batch.lengths - 1)[:, None]
        rewards = penalty.scatter_add(1, last, batch.rewards[:, None])
        after = batch.bootstrap.double() * batch.truncated if spec.bootstrap_truncated else None
        lam: float | Tensor = spec.lam_policy
        if spec.length_adaptive_alpha is not None:
            lam = length_adaptive_lambda(batch.lengths.double(), spec.length_adaptive_alpha)
        advantages, _ = gae(rewards, values, mask, spec.gamma, lam, after)
        _, returns = gae(rewards, values, mask, spec.gamma, spec.lam_critic, after)
        if self.credit.scale == "whiten":
            advantages = masked_whiten(advantages, batch.loss_mask)
        elif self.credit.scale == "batch_std":
            advantages = scale_by_batch_std(advantages, batch.rewards + penalty.sum(dim=1))
        return replace(
            batch, advantages=advantages.to(batch.old_logprobs.dtype), returns=returns.to(batch.values.dtype)
        )

    def baseline_loss(self, micro: MicroBatch, scores: TokenScores) -> Tensor:
        """Return Σ w·½·max of squared errors, w the token mean over the minibatch whatever the policy's aggregation."""
        rows = micro.rows
        assert rows.values is not None and rows.returns is not None
        values, _ = self._values(rows, scores)
        losses = value_loss(values, rows.values, rows.returns, self.critic_spec.value_clip)
        return weighted_sum(losses, micro.value_weights)

    @property
    def baseline_coef(self) -> float:  # type: ignore[override]
        """The value loss's weight."""
        return self.critic_spec.loss_coef

    @property
    def policy_frozen(self) -> bool:  # type: ignore[override]
        """Whether the completions generated before this iteration are fewer than the critic's warm-up."""
        now = 0 if self.collected is None else len(self.collected.generated)
        return self.counters.completions - now < self.critic_spec.warmup_completions

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the policy's parameters (a shared trunk among them) and the critic's."""
        assert self.critic is not None
        return super().parameter_groups() | {"critic": [p for p in self.critic.parameters() if p.requires_grad]}

    def learning_rates(self) -> dict[str, float]:
        """Return the policy's learning rate and `lr_ratio` times it for the critic."""
        return super().learning_rates() | {"critic": self.critic_spec.lr_ratio * self.optimizer_spec.lr}
