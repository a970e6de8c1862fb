"""The smallest thing that can be learned: every algorithm learns to begin its answer with an even digit."""

from __future__ import annotations

from pathlib import Path

import pytest

from acrl.algorithms import NAMED, RLModule
from acrl.rewards import RewardFunction, RewardSpec
from acrl.spec import BatchPlan, Optimizer

EVEN = """
def even(prompts, completions, **columns):
    return [float(text[:1] in tuple("02468")) for text in completions]
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.__name__)
def test_learns_a_trivial_task(kind: type[RLModule], build, prompt_data, train, tmp_path: Path) -> None:
    (tmp_path / "even.py").write_text(EVEN)
    reward = RewardSpec(functions=[RewardFunction(name=f"{tmp_path}/even.py:even")])
    module = build(kind, batch=BatchPlan(completions_per_iteration=64, group_size=8), optimizer=Optimizer(lr=1e-2))
    rewards = []
    module.on_train_start = lambda: rewards.append(module.row["rollout/accuracy"])
    train(module, prompt_data(reward), 20)
    assert rewards[0] < 0.6
    assert module.row["rollout/accuracy"] > 0.9
