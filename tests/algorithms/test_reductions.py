"""Algorithms that become one another where their difference cannot act, and runs that repeat."""

from __future__ import annotations

import pytest
import torch
from comparing import identical, overall, parameters, per_tensor

from acrl.algorithms import DAPO, GRPO, PPO, LitePPO, ReinforcePP
from acrl.spec import KL, BatchPlan, Credit, Critic, Objective, Sampling

PLAN = BatchPlan(completions_per_iteration=8, group_size=4)
ONE_GROUP = BatchPlan(completions_per_iteration=8, group_size=8)


@pytest.fixture
def policy_after(build, iterate):
    """The policy's parameters after iterations of two optimizer steps, in float64."""

    def run(kind, iterations=1, seed=3, **specs):
        module = build(kind, **{"batch": PLAN, "seed": seed} | specs)
        module.configure_model()
        start = parameters(module, "policy.")
        end = parameters(iterate(module, iterations, reward="graded", precision="64-true"), "policy.")
        assert overall(start, end) > 1e-6
        return end

    return run


def test_a_critic_that_learns_nothing_is_reinforce(policy_after):
    critic = policy_after(PPO, 2, critic=Critic(loss_coef=0.0))
    assert per_tensor(critic, policy_after(ReinforcePP, 2, kl=KL())) <= 1e-10
    assert per_tensor(critic, policy_after(PPO, 2)) > 1e-8


def test_a_critic_of_zeros_at_batch_std_is_rewards_over_their_std(policy_after):
    critic = policy_after(PPO, credit=Credit("critic", "batch_std"))
    assert per_tensor(critic, policy_after(ReinforcePP, credit=Credit("none", "batch_std"), kl=KL())) <= 1e-10


def test_one_group_makes_lite_ppo_and_grpo_the_same_but_for_kl_and_aggregation(policy_after):
    shared = {"batch": ONE_GROUP, "kl": KL(), "objective": Objective(0.2, 0.2, "token_mean")}
    assert per_tensor(policy_after(LitePPO, **shared), policy_after(GRPO, **shared)) <= 1e-10


def test_dapo_without_its_four_techniques_is_grpo_without_kl(policy_after):
    plain = {"objective": Objective(0.2, 0.2, "sequence_mean"), "sampling": Sampling(max_response_length=12)}
    assert identical(policy_after(DAPO, **plain), policy_after(GRPO, kl=KL(), **plain))


def test_answers_of_one_token_make_every_aggregation_the_same(policy_after):
    ends = [
        policy_after(LitePPO, objective=Objective(0.2, 0.2, aggregation), sampling=Sampling(max_response_length=1))
        for aggregation in ("token_mean", "sequence_mean", "constant")
    ]
    assert per_tensor(ends[0], ends[1]) <= 1e-10
    assert per_tensor(ends[0], ends[2]) <= 1e-10


def test_answers_of_several_lengths_keep_aggregations_apart(policy_after):
    ends = [
        policy_after(LitePPO, objective=Objective(0.2, 0.2, aggregation))
        for aggregation in ("token_mean", "sequence_mean", "constant")
    ]
    assert min(per_tensor(ends[i], ends[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-8


@pytest.mark.parametrize("kind", [PPO, DAPO])
def test_a_run_repeats_to_the_last_bit_whatever_the_global_generator(kind, build, iterate):
    ends, rows = [], []
    for state in (1, 2):
        torch.manual_seed(state)
        module = iterate(build(kind, batch=PLAN), 2)
        ends.append(parameters(module))
        rows.append(module.row)
    assert identical(*ends)
    assert rows[0] == rows[1]


def test_another_seed_is_another_run(policy_after):
    assert per_tensor(policy_after(GRPO, seed=3), policy_after(GRPO, seed=4)) > 1e-6
