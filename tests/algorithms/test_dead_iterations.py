"""Iterations in which nothing can be learned: no group survives, no reward varies, every answer is filtered."""

from __future__ import annotations

import math

import pytest
import torch
from comparing import identical, parameters
from pytorch_lightning import Callback

from acrl.algorithms import DAPO, GRPO, PPO
from acrl.spec import KL, BatchPlan, Optimizer, Sampling

PLAN = BatchPlan(completions_per_iteration=8, group_size=4)
ONE_ROUND = Sampling(max_response_length=12, groups="mixed", refill_rounds=1)
DECAYING = Optimizer(weight_decay=0.1)


class Record(Callback):
    """Parameters before training and after each iteration, and each iteration's row and counters."""

    def __init__(self):
        self.parameters, self.rows, self.counters = [], [], []

    def on_train_start(self, trainer, module):
        self.parameters.append(parameters(module))

    def on_train_epoch_end(self, trainer, module):
        self.parameters.append(parameters(module))
        self.rows.append(module.row)
        self.counters.append(module.counters.state())


@pytest.mark.parametrize("kind", [DAPO, PPO])
def test_no_surviving_group_changes_nothing_and_the_next_iteration_works(kind, build, iterate):
    record = Record()
    module = build(kind, batch=PLAN, sampling=ONE_ROUND, optimizer=DECAYING)
    iterate(module, 2, reward="dead_at_first", callbacks=[record])
    before, dead, after = record.parameters
    assert identical(before, dead)
    assert not identical(dead, after)
    first, second = record.counters
    assert (first["iterations"], first["optimizer_steps"], first["dead_iterations"]) == (1, 0, 1)
    assert (first["prompts"], first["completions"], first["tokens_trained"]) == (2, 8, 0)
    assert first["tokens_generated"] > 8
    assert (second["iterations"], second["optimizer_steps"], second["dead_iterations"]) == (2, 2, 1)
    assert (second["prompts"], second["completions"]) == (4, 16)
    assert 0 < second["tokens_trained"] <= second["tokens_generated"] - first["tokens_generated"]


def test_a_dead_iteration_logs_its_rollouts_and_no_update(build, iterate):
    record = Record()
    iterate(build(DAPO, batch=PLAN, sampling=ONE_ROUND), 2, reward="dead_at_first", callbacks=[record])
    dead, alive = record.rows
    assert (dead["rollout/groups_missing"], dead["rollout/kept_group_fraction"], dead["rollout/rounds"]) == (2, 0, 1)
    assert dead["advantage/all_wrong_group_fraction"] == dead["advantage/zero_variance_group_fraction"] == 1
    assert dead["counter/dead_iterations"] == 1
    assert "policy/loss" not in dead and "policy/grad_norm" not in dead
    assert alive["policy/grad_norm"] > 0
    assert all(math.isfinite(value) for value in dead.values())


def test_a_constant_reward_without_filter_has_gradient_0(build, iterate):
    module = build(GRPO, batch=PLAN, kl=KL())
    module.configure_model()
    start = parameters(module)
    iterate(module, reward="constant")
    assert module.row["policy/grad_norm"] == 0
    assert module.row["advantage/zero_variance_group_fraction"] == 1
    assert module.row["advantage/abs_max"] == 0
    assert identical(start, parameters(module))


@pytest.mark.parametrize("kind", [GRPO, PPO])
def test_answers_that_are_all_filtered_teach_nothing(kind, build, iterate):
    module = build(kind, batch=PLAN, optimizer=DECAYING, sampling=Sampling(max_response_length=12, overlong="filter"))
    module.configure_model()
    module.sampler.eos_ids = torch.tensor([], dtype=torch.long)  # no answer ends
    start = parameters(module)
    iterate(module)
    batch = module.collected.batch
    assert batch.truncated.all() and not batch.trains.any()
    counters = module.counters
    assert (counters.tokens_trained, counters.optimizer_steps, counters.dead_iterations) == (0, 0, 1)
    assert identical(start, parameters(module))
    assert all(math.isfinite(value) for value in module.row.values())


def test_too_few_mixed_groups_train_and_are_counted_as_missing(build, iterate):
    plan = BatchPlan(completions_per_iteration=16, group_size=2, minibatches=4)
    module = iterate(build(DAPO, batch=plan, sampling=ONE_ROUND))
    kept = int(module.collected.kept.sum()) // 2
    assert 0 < kept < 8
    assert module.row["rollout/groups_missing"] == 8 - kept
    assert len(module.collected.batch) == 2 * kept
    assert module.counters.completions == 16
