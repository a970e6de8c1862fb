"""REINFORCE leave-one-out."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import KL, Credit, Objective


class RLOO(CriticFree):
    """REINFORCE leave-one-out (Ahmadian et al. 2024, arXiv 2402.14740).

    ∇J = E[ 1/k · Σ_i (R_i − mean_{j≠i} R_j) · ∇ log π(o_i) ],  R_i = r_i − β·Σ_t k1_t

    The gradient sums a response's tokens, which is `constant` up to a factor; of that AdamW sees only its ε and the
    clipping of norms. The paper does not clip ratios; ε .2 is ours and acts from an iteration's second step on.
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="leave_one_out", scale="none"),  # Eq. for k samples
        objective: Objective = Objective(clip_low=0.2, clip_high=0.2, aggregation="constant"),  # ours: see above
        kl: KL = KL(coef=0.03, estimator="k1", where="reward"),  # β .03 on TL;DR
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, kl=kl, **kwargs)
