"""The family: one base, two ways to assign credit, and a preset per named algorithm."""

from acrl.algorithms.actor_critic import ActorCritic
from acrl.algorithms.base import RLModule
from acrl.algorithms.critic_free import CriticFree
from acrl.algorithms.dapo import DAPO
from acrl.algorithms.dr_grpo import DrGRPO
from acrl.algorithms.grpo import GRPO
from acrl.algorithms.lite_ppo import LitePPO
from acrl.algorithms.ppo import PPO
from acrl.algorithms.reinforce_pp import ReinforcePP
from acrl.algorithms.reinforce_pp_baseline import ReinforcePPBaseline
from acrl.algorithms.rloo import RLOO

NAMED = (PPO, GRPO, DAPO, LitePPO, RLOO, DrGRPO, ReinforcePP, ReinforcePPBaseline)

__all__ = [
    "DAPO",
    "GRPO",
    "NAMED",
    "PPO",
    "RLOO",
    "ActorCritic",
    "CriticFree",
    "DrGRPO",
    "LitePPO",
    "RLModule",
    "ReinforcePP",
    "ReinforcePPBaseline",
]
