"""Neither memory settings, nor padding, nor the order of rows within a minibatch change the update."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from comparing import overall, parameters, per_tensor, unsettled

from acrl.algorithms import DAPO, GRPO, PPO, DrGRPO
from acrl.rollout import microbatches
from acrl.rollout.batch import RolloutBatch
from acrl.rollout.collector import Collector
from acrl.spec import KL, BatchPlan, Critic, Sampling

# 10 answers in minibatches of 4, 3 and 3: neither the minibatches nor micro-batches of 3 come out even.
PLAN = BatchPlan(completions_per_iteration=10, group_size=2, minibatches=3)
TWICE = replace(PLAN, epochs=2)
FILTER = Sampling(max_response_length=10, overlong="filter")

SETUPS = {
    "sequence_mean, KL in loss": (GRPO, {"batch": TWICE, "kl": KL(0.3, "k3", "loss")}),
    "token_mean, refill, penalty": (DAPO, {"batch": PLAN}),
    "constant, filter": (DrGRPO, {"batch": PLAN, "sampling": FILTER}),
    "critic, filter": (PPO, {"batch": PLAN, "critic": Critic(value_clip=0.05), "sampling": FILTER}),
    "shared critic, KL in reward": (PPO, {"batch": TWICE, "critic": Critic("shared"), "kl": KL(0.3, "k1", "reward")}),
}


def micro_batches_of_1(monkeypatch):
    return {"micro_batch_size": 1}


def rollouts_of_1(monkeypatch):
    return {"rollout_micro_batch_size": 1}


def rollouts_of_3(monkeypatch):
    return {"rollout_micro_batch_size": 3}


def wider_padding(monkeypatch):
    """Masked garbage: three more columns on the left, two on the right, and nothing trims them away."""
    collect = Collector.collect

    def padded(self, *args):
        collected = collect(self, *args)
        sides = {
            "prompt_ids": (3, 0, 5),
            "prompt_mask": (3, 0, 0),
            "response_ids": (0, 2, 7),
            "response_mask": (0, 2, 0),
            "response_logprobs": (0, 2, 0),
        }
        collected.batch = replace(
            collected.batch,
            **{
                name: torch.nn.functional.pad(getattr(collected.batch, name), (left, right), value=fill)
                for name, (left, right, fill) in sides.items()
            },
        )
        return collected

    monkeypatch.setattr(Collector, "collect", padded)
    monkeypatch.setattr(RolloutBatch, "trimmed", lambda self: self)
    return {}


def reversed_minibatches_of_3(monkeypatch):
    permutation = microbatches.permutation

    def reverse_within(size, *ids):
        return torch.cat([part.flip(0) for part in permutation(size, *ids).tensor_split(PLAN.minibatches)])

    monkeypatch.setattr(microbatches, "permutation", reverse_within)
    return {"micro_batch_size": 3}


def micro_batches_of_1_and_wider_padding(monkeypatch):
    return micro_batches_of_1(monkeypatch) | wider_padding(monkeypatch)


@pytest.fixture
def trained(build, iterate, monkeypatch):
    """Train a setup for an iteration, in one micro-batch a minibatch unless `change` says otherwise."""

    def run(name, precision, change=lambda _: {}):
        kind, specs = SETUPS[name]
        with monkeypatch.context() as patched:
            module = unsettled(build(kind, **specs | {"batch": replace(specs["batch"], **change(patched))}))
            start = parameters(module)
            iterate(module, reward="graded", precision=precision)
        assert 0 < module.counters.optimizer_steps <= specs["batch"].optimizer_steps  # a minibatch may be filtered out
        assert overall(start, parameters(module)) > 1e-5
        return module

    return run


@pytest.mark.parametrize("name", SETUPS)
def test_update_and_metrics_in_float64(name, trained):
    expected = trained(name, "64-true")
    for change in (micro_batches_of_1, reversed_minibatches_of_3, wider_padding):
        found = trained(name, "64-true", change)
        assert per_tensor(parameters(expected), parameters(found)) <= 1e-10, change.__name__
        assert found.row == pytest.approx(expected.row, rel=1e-9, abs=1e-9), change.__name__


@pytest.mark.parametrize("name", SETUPS)
def test_update_in_float32(name, trained):
    expected = trained(name, "32-true")
    for change in (micro_batches_of_1_and_wider_padding, reversed_minibatches_of_3):
        found = trained(name, "32-true", change)
        assert overall(parameters(expected), parameters(found)) <= 1e-6, change.__name__


@pytest.mark.parametrize("precision", ["64-true", "32-true"])
def test_update_with_smaller_rollouts(precision, trained):
    expected = trained("token_mean, refill, penalty", precision)
    for change in (rollouts_of_1, rollouts_of_3):
        found = trained("token_mean, refill, penalty", precision, change)
        assert overall(parameters(expected), parameters(found)) <= 1e-6, change.__name__
        if precision == "64-true":
            assert per_tensor(parameters(expected), parameters(found)) <= 1e-10, change.__name__


def test_another_minibatch_membership_is_another_update(trained):
    def other_members(patched):
        permutation = microbatches.permutation
        patched.setattr(microbatches, "permutation", lambda size, *ids: permutation(size, *ids).roll(1))
        return {}

    name = "constant, filter"
    expected, found = trained(name, "64-true"), trained(name, "64-true", other_members)
    assert per_tensor(parameters(expected), parameters(found)) > 1e-8
