"""REINFORCE++ with a group baseline."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import KL, Credit, Objective


class ReinforcePPBaseline(CriticFree):
    """REINFORCE++ with a group baseline (Hu et al. 2025, arXiv 2501.03262).

    A' = R − mean_group(R);  A = A' / std_batch(A');  the KL is a separate k2 loss

    The batch mean of A' is 0 already where groups have one size.
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="group_mean", scale="batch_std_centred"),
        objective: Objective = Objective(clip_low=0.2, clip_high=0.2, aggregation="sequence_mean"),  # Eq. 1
        kl: KL = KL(coef=0.01, estimator="k2", where="loss"),  # k2 loss: paper; β .01: ours, as in ReinforcePP
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, kl=kl, **kwargs)
