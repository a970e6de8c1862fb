"""Proximal policy optimisation with a value-head critic."""

from __future__ import annotations

from typing import Any

from acrl.algorithms.actor_critic import ActorCritic
from acrl.spec import Credit, Critic, Objective


class PPO(ActorCritic):
    """Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) as Open-Reasoner-Zero runs it on LLMs.

    J = E[ 1/Σ|o| · Σ_i Σ_t min(ρ_t Â_t, clip(ρ_t, 1−ε, 1+ε) Â_t) ],  Â = whiten(GAE(γ=1, λ=1)) = whiten(R − V(s_t))

    The critic minimises ½(V(s_t) − R)². The token mean is PPO's Ê_t (§3); ORZ leaves it open.
    """

    def __init__(
        self,
        credit: Credit = Credit(baseline="critic", scale="whiten"),  # ORZ (arXiv 2503.24290): batch-level normalisation
        objective: Objective = Objective(clip_low=0.2, clip_high=0.2, aggregation="token_mean"),  # PPO, §3; ORZ
        critic: Critic = Critic(),  # ORZ: γ = λ = 1; a separate trunk
        **kwargs: Any,
    ) -> None:
        super().__init__(credit=credit, objective=objective, critic=critic, **kwargs)
