"""Rewards that a random model earns about half the time, so that groups are mixed, and runs on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acrl.algorithms import RLModule
from acrl.data.prompts import PromptData
from acrl.rewards import RewardFunction, RewardSpec

REWARDS = '''
calls = 0


def even_digits(completions, **columns):
    """1 where the answer holds an even number of digits."""
    right = [float(sum(c.isdigit() for c in text) % 2 == 0) for text in completions]
    return [{"score": r, "acc": r} for r in right]


def graded(completions, **columns):
    """As right as even_digits, but of four levels."""
    digits = [sum(c.isdigit() for c in text) for text in completions]
    return [{"score": d % 4 / 3, "acc": float(d % 2 == 0)} for d in digits]


def constant(completions, **columns):
    return [1.0] * len(completions)


def dead_at_first(completions, **columns):
    """0 for the first round of answers, then even_digits."""
    global calls
    calls += 1
    return [0.0] * len(completions) if calls == 1 else even_digits(completions)
'''


@pytest.fixture(scope="session")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RewardSpec]:
    """Build the reward of a function in the file above."""
    path = tmp_path_factory.mktemp("rewards") / "reward.py"
    path.write_text(REWARDS)
    return lambda name, **settings: RewardSpec(functions=[RewardFunction(name=f"{path}:{name}")], **settings)


@pytest.fixture(scope="session")
def prompts(data_dir: Path, rewards: Callable[..., RewardSpec]) -> Callable[[str], PromptData]:
    """The data with a reward by name; read and tokenised once for all runs."""
    files = {split: str(data_dir / f"{split}.jsonl") for split in ("train", "val")}
    return cache(lambda reward: PromptData(**files, reward=rewards(reward)))


@pytest.fixture
def iterate(train: Callable[..., RLModule], prompts: Callable[[str], PromptData]) -> Callable[..., RLModule]:
    """Train a module for some iterations on mixed groups, and return it."""

    def run(module: RLModule, iterations: int = 1, reward: str = "even_digits", **settings: Any) -> RLModule:
        return train(module, prompts(reward), iterations, **settings)

    return run
