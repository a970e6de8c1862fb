"""Group relative policy optimisation."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import KL, Credit, Objective


class GRPO(CriticFree):
    """Group relative policy optimisation (DeepSeekMath, arXiv 2402.03300, §4.1).

    J = E[ 1/G · Σ_i 1/|o_i| · Σ_t { min(ρ A_i, clip(ρ, 1−ε, 1+ε) A_i) − β·k3(π_θ ‖ π_ref) } ],
    A_i = (r_i − mean(r)) / std(r) over the group
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="group_mean", scale="group_std"),  # §4.1.2, outcome supervision
        objective: Objective = Objective(clip_low=0.2, clip_high=0.2, aggregation="sequence_mean"),  # Eq. 3; ε: PPO's
        kl: KL = KL(coef=0.04, estimator="k3", where="loss"),  # β: §4.2; estimator: Eq. 4
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, kl=kl, **kwargs)
