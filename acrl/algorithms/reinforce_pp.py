"""REINFORCE++."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.critic_free import CriticFree
from acrl.spec import KL, Credit, Objective


class ReinforcePP(CriticFree):
    """REINFORCE++ without groups (Hu et al. 2025, arXiv 2501.03262).

    A_t = r − β·Σ_{i≥t} k1_i, whitened over the batch's tokens; one completion per prompt is legal

    Token mean is ours where the paper's objective averages responses: the whitening is over tokens too.
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="none", scale="whiten"),  # global batch normalisation
        objective: Objective = Objective(clip_low=0.2, clip_high=0.2, aggregation="token_mean"),  # ε: v1 of the paper
        kl: KL = KL(coef=0.01, estimator="k1", where="reward"),  # k1 in the reward: paper; β .01: OpenRLHF's default
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, kl=kl, **kwargs)
