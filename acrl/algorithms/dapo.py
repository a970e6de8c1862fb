"""Decoupled clip and dynamic sampling policy optimisation."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import Credit, Objective, Sampling


class DAPO(CriticFree):
    """Decoupled clip and dynamic sampling policy optimisation (arXiv 2503.14476, Eq. 8).

    J = E[ 1/Σ|o_i| · Σ_i Σ_t min(ρ A_i, clip(ρ, 1−ε_low, 1+ε_high) A_i) ],  0 < #right in the group < G,
    A_i = (R_i − mean(R)) / std(R) over the group, R with the soft overlong penalty of Eq. 13
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="group_mean", scale="group_std"),  # Eq. 9
        objective: Objective = Objective(clip_low=0.2, clip_high=0.28, aggregation="token_mean"),  # §4.1; §3.3, Eq. 12
        sampling: Sampling = Sampling(
            groups="mixed",  # §3.2, Eq. 11
            overlong="penalty",  # §3.4, Eq. 13
            overlong_buffer=0.2,  # §4.1: 4,096 of 20,480
            overlong_weight=0.5,  # §3.4: 1 on a reward of ±1, half its range
        ),
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, sampling=sampling, **kwargs)
