"""Lite PPO."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import Credit, Objective


class LitePPO(CriticFree):
    """Lite PPO: group mean, batch std, token mean (Tricks or Traps, arXiv 2508.08221, §5).

    J = E[ 1/Σ|o_i| · Σ_i Σ_t min(ρ A_i, clip(ρ, 1−ε, 1+ε) A_i) ],  A_i = (r_i − mean_group(r)) / std_batch(r)

    The paper writes no formula for the mixed normalisation; std_batch of the raw rewards is ROLL's code.
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="group_mean", scale="batch_std"),  # §4.1.2, takeaway 3
        objective: Objective = Objective(clip_low=0.2, clip_high=0.2, aggregation="token_mean"),  # §4.2 baseline; §4.3
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, **kwargs)
