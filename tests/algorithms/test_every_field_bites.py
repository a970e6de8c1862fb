"""Every field of every spec changes what it names within one iteration, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import pytest
import torch
from comparing import parameters, per_tensor, unsettled

from acrl.algorithms import GRPO, PPO, LitePPO, RLModule
from acrl.algorithms.presets import preset_of
from acrl.spec import KL, BatchPlan, Credit, Critic, Objective, Optimizer, Sampling

SPECS = {
    "credit": Credit,
    "objective": Objective,
    "kl": KL,
    "sampling": Sampling,
    "critic": Critic,
    "batch": BatchPlan,
    "optimizer": Optimizer,
}

# Two optimizer steps, the first large enough that some ratios leave the clip range before the second.
BASE = {
    "sampling": Sampling(max_response_length=8),
    "batch": BatchPlan(completions_per_iteration=8, group_size=2, minibatches=2),
    "optimizer": Optimizer(lr=1e-2),
}

ANSWERS, REWARDS, ADVANTAGES, RETURNS, POLICY, CRITIC = (
    "answers",
    "rewards",
    "advantages",
    "returns",
    "policy",
    "critic",
)
ALL = {ANSWERS, REWARDS, ADVANTAGES, RETURNS, POLICY, CRITIC}
CREDIT = {ADVANTAGES, RETURNS, POLICY, CRITIC}
BOTH = {POLICY, CRITIC}


@dataclass(frozen=True)
class Bite:
    value: object
    changes: set[str]
    kind: type[RLModule] = PPO
    beside: dict[str, dict[str, object]] = field(default_factory=dict)  # what else must be set for the field to act


MIXED = {"sampling": {"groups": "mixed"}}
PENALTY = {"sampling": {"overlong": "penalty"}}
WITH_KL = {"kl": {"coef": 0.1}}
BY_PROMPTS = {"batch": {"completions_per_iteration": None, "prompts_per_iteration": 4}}

BITES = {
    "credit.baseline": Bite("batch_mean", {ADVANTAGES, POLICY}, LitePPO),
    "credit.scale": Bite("group_std", {ADVANTAGES, POLICY}, LitePPO),
    "objective.clip_low": Bite(0.01, {POLICY}),
    "objective.clip_high": Bite(2.0, {POLICY}),
    "objective.aggregation": Bite("sequence_mean", {POLICY}),
    "objective.dual_clip": Bite(1.05, {POLICY}),
    "kl.coef": Bite(0.1, {POLICY}),
    "kl.estimator": Bite("k2", {POLICY}, GRPO),
    "kl.where": Bite("reward", CREDIT, beside=WITH_KL),
    "sampling.temperature": Bite(0.6, ALL),
    "sampling.max_response_length": Bite(5, ALL),
    "sampling.groups": Bite("mixed", {ANSWERS, REWARDS, ADVANTAGES, POLICY}, LitePPO),
    "sampling.refill_rounds": Bite(1, {ANSWERS, REWARDS, ADVANTAGES, POLICY}, LitePPO, MIXED),
    "sampling.overlong": Bite("penalty", ALL - {ANSWERS}),
    "sampling.overlong_buffer": Bite(0.9, {REWARDS, ADVANTAGES, POLICY}, LitePPO, PENALTY),
    "sampling.overlong_weight": Bite(0.9, {REWARDS, ADVANTAGES, POLICY}, LitePPO, PENALTY),
    "critic.trunk": Bite("shared", {ADVANTAGES, POLICY, CRITIC}),  # returns have no values in them at λ = 1
    "critic.lr_ratio": Bite(3.0, {CRITIC}),
    "critic.loss_coef": Bite(0.01, {CRITIC}),
    "critic.warmup_completions": Bite(1, {POLICY}),
    "critic.gamma": Bite(0.9, CREDIT),
    "critic.lam_policy": Bite(0.9, {ADVANTAGES, POLICY}),
    "critic.lam_critic": Bite(0.9, {RETURNS, CRITIC}),
    "critic.length_adaptive_alpha": Bite(0.5, {ADVANTAGES, POLICY}),
    "critic.value_clip": Bite(1e-3, {CRITIC}),
    "critic.bootstrap_truncated": Bite(True, CREDIT),
    "batch.completions_per_iteration": Bite(12, ALL),
    "batch.prompts_per_iteration": Bite(6, ALL, beside=BY_PROMPTS),
    "batch.group_size": Bite(4, ALL),
    "batch.minibatches": Bite(4, BOTH),
    "batch.epochs": Bite(2, BOTH),
    "batch.micro_batch_size": Bite(3, set()),
    "batch.rollout_micro_batch_size": Bite(3, set()),
    "optimizer.lr": Bite(2e-2, BOTH),
    "optimizer.beta1": Bite(0.5, BOTH),
    "optimizer.beta2": Bite(0.5, BOTH),
    "optimizer.eps": Bite(1e-4, BOTH),
    "optimizer.weight_decay": Bite(0.1, BOTH),
    "optimizer.max_grad_norm": Bite(0.1, BOTH),
    "optimizer.warmup_steps": Bite(4, BOTH),
    "optimizer.decay": Bite("linear", BOTH),
}


def test_every_field_has_an_entry():
    assert set(BITES) == {f"{name}.{field.name}" for name, spec in SPECS.items() for field in fields(spec)}


@pytest.fixture(scope="module")
def known():
    return {}


@pytest.fixture
def outcome(build, iterate, known):
    """What an iteration comes to, half of the budget used, with some fields changed; known ones are not run again."""

    def run(kind, changes):
        specs = {name: replace(spec, **changes.get(name, {})) for name, spec in (preset_of(kind) | BASE).items()}
        key = repr((kind, specs))
        if key not in known:
            module = unsettled(build(kind, **specs))
            module.budget_share = 0.5
            iterate(module, reward="graded", precision="64-true")
            batch = module.collected.batch
            known[key] = {
                ANSWERS: batch.response_ids,
                REWARDS: batch.rewards,
                ADVANTAGES: batch.advantages,
                RETURNS: batch.returns,
                POLICY: parameters(module, "policy."),
                CRITIC: parameters(module, "critic.head."),
            }
        return known[key]

    return run


def differ(one, other):
    if isinstance(one, dict):
        return one != {} and per_tensor(one, other) > 1e-10
    return one is not None and not (one.shape == other.shape and torch.allclose(one, other, rtol=1e-10, atol=1e-10))


@pytest.mark.parametrize("name", BITES)
def test_every_field_bites(name, outcome):
    entry = BITES[name]
    spec, key = name.split(".")
    before = outcome(entry.kind, entry.beside)
    after = outcome(entry.kind, entry.beside | {spec: entry.beside.get(spec, {}) | {key: entry.value}})
    assert {part for part in before if differ(before[part], after[part])} == entry.changes
