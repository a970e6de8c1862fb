"""GRPO done right."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import Credit, Objective


class DrGRPO(CriticFree):
    """GRPO done right: neither std nor response length divides (Liu et al. 2025, arXiv 2503.20783).

    J = E[ 1/(N·L_max) · Σ_i Σ_t min(ρ A_i, clip(ρ, 1−ε, 1+ε) A_i) ],  A_i = R_i − mean(R) over the group
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="group_mean", scale="none"),  # §3: the std biases by difficulty
        objective: Objective = Objective(
            clip_low=0.2, clip_high=0.2, aggregation="constant"
        ),  # §3: 1/|o| is a bias too
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, **kwargs)
