"""Rewards: configured functions that turn completions into numbers. Plain Python, no torch."""

from acrl.rewards.contract import Reward, RewardResult
from acrl.rewards.golds import check_golds
from acrl.rewards.spec import RewardFunction, RewardScale, RewardSpec

__all__ = ["Reward", "RewardFunction", "RewardResult", "RewardScale", "RewardSpec", "check_golds"]
