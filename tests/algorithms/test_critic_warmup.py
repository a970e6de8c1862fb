"""During `critic.warmup_completions` only the critic learns; the policy stays as it is to the last bit."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from comparing import identical, parameters
from pytorch_lightning import Callback

from acrl.algorithms import PPO
from acrl.spec import BatchPlan, Critic, Optimizer

PLAN = BatchPlan(completions_per_iteration=8, group_size=4)
DECAYING = Optimizer(lr=1e-3, weight_decay=0.1)


class Snapshots(Callback):
    """The parameters before training and after each iteration."""

    def __init__(self):
        self.policy, self.critic = [], []

    def on_train_start(self, trainer, module):
        self.policy.append(parameters(module, "policy."))
        self.critic.append(parameters(module, "critic."))

    on_train_epoch_end = on_train_start


def moved(snapshots):
    return [not identical(one, other) for one, other in pairwise(snapshots)]


@pytest.mark.parametrize("trunk", ["separate", "shared", "shared_detached"])
def test_policy_is_frozen_until_the_warmup_is_generated(trunk, build, iterate):
    module = build(PPO, batch=PLAN, optimizer=DECAYING, critic=Critic(trunk=trunk, warmup_completions=9))
    seen = Snapshots()
    iterate(module, 3, callbacks=[seen])
    assert moved(seen.policy) == [False, False, True]
    assert moved(seen.critic) == [True, True, True]


def test_warmup_of_one_iteration_ends_with_it(build, iterate):
    module = build(PPO, batch=PLAN, critic=Critic(warmup_completions=8))
    seen = Snapshots()
    iterate(module, 2, callbacks=[seen])
    assert moved(seen.policy) == [False, True]


def test_warmup_is_counted_and_logs_no_policy_gradient(build, iterate):
    module = iterate(build(PPO, batch=PLAN, critic=Critic(warmup_completions=8)))
    assert module.counters.optimizer_steps == 2
    assert module.counters.completions == 8
    assert "policy/grad_norm" not in module.row and module.row["critic/grad_norm"] > 0


def test_without_warmup_policy_and_critic_learn_at_once(build, iterate):
    module = build(PPO, batch=PLAN)
    seen = Snapshots()
    iterate(module, callbacks=[seen])
    assert moved(seen.policy) == moved(seen.critic) == [True]


def test_value_loss_falls_on_a_constant_reward_and_no_metric_is_undefined(build, iterate):
    batch = BatchPlan(completions_per_iteration=8, group_size=4, epochs=4)
    module = build(PPO, batch=batch, optimizer=Optimizer(lr=1e-3), critic=Critic(warmup_completions=1000))
    rows = []

    class Rows(Callback):
        def on_train_epoch_end(self, trainer, module):
            rows.append(module.row)

    iterate(module, 3, reward="constant", callbacks=[Rows()])
    assert rows[2]["critic/value_loss"] < 0.2 * rows[0]["critic/value_loss"]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert not any("critic/explained_variance" in row for row in rows)


def test_explained_variance_is_there_where_returns_vary(build, iterate):
    assert iterate(build(PPO, batch=PLAN)).row["critic/explained_variance"] == pytest.approx(0.0)  # V = 0 explains none
