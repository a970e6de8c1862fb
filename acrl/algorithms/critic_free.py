"""Algorithms whose baseline is computed from rewards."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import torch

from acrl.algorithms.base import RLModule
from acrl.errors import ConfigError
from acrl.functional import discounted_returns, group_advantages, masked_whiten
from acrl.rollout.batch import RolloutBatch
from acrl.spec import Credit, Objective


class CriticFree(RLModule):
    """A = (reward − baseline)/scale, the same for every token of a response.

    With KL in the reward a baseline or a std over responses sees r − β·Σ_t k̂_t. With neither (baseline none, scale
    whiten or none) a token's advantage is its own reward-to-go r − β·Σ_{i≥t} k̂_i, as in REINFORCE++.
    """

    @abstractmethod
    def __init__(self, credit: Credit, objective: Objective, **kwargs: Any) -> None:
        super().__init__(credit=credit, objective=objective, **kwargs)
        if credit.baseline == "critic":
            raise ConfigError(
                f"credit.baseline is 'critic', but {type(self).__name__} learns none; choose --model PPO, or a "
                "baseline of group_mean, leave_one_out, batch_mean or none."
            )

    def assign_credit(self, batch: RolloutBatch) -> RolloutBatch:
        """Return the batch with `advantages` [N, T]."""
        baseline, scale = self.credit.baseline, self.credit.scale
        penalty = self.kl_penalty(batch)
        if baseline == "none" and scale in ("whiten", "none"):
            advantages = batch.rewards[:, None] + discounted_returns(penalty, batch.response_mask, gamma=1.0)
        else:
            rewards = batch.rewards + penalty.sum(dim=1)
            within = "none" if scale == "whiten" else scale
            advantages = group_advantages(rewards, batch.group_ids, baseline, within)[:, None]
        advantages = torch.where(batch.response_mask, advantages, 0.0)
        if self.credit.scale == "whiten":
            advantages = masked_whiten(advantages, batch.loss_mask)
        assert batch.old_logprobs is not None
        return replace(batch, advantages=advantages.to(batch.old_logprobs.dtype))
