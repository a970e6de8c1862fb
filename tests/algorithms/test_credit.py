"""What algorithms make of rewards: literals and reductions on handmade batches, no model."""

from __future__ import annotations

import pytest
import torch

from acrl.algorithms import GRPO, PPO, RLOO, DrGRPO, LitePPO, ReinforcePP, ReinforcePPBaseline
from acrl.rollout.batch import RolloutBatch
from acrl.spec import KL, Credit, Critic


def handmade(rewards, lengths, groups=None, **fields):
    n, width = len(rewards), max(lengths)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    zeros = torch.zeros(n, dtype=torch.float64)
    settings = {
        "prompt_ids": torch.ones(n, 2, dtype=torch.long),
        "prompt_mask": torch.ones(n, 2, dtype=torch.bool),
        "response_ids": torch.ones(n, width, dtype=torch.long),
        "response_mask": mask,
        "truncated": torch.zeros(n, dtype=torch.bool),
        "group_ids": torch.tensor(groups or [0] * n),
        "rewards": torch.tensor(rewards, dtype=torch.float64),
        "accuracy": zeros,
        "penalty": zeros,
        "trains": torch.ones(n, dtype=torch.bool),
        "old_logprobs": torch.zeros(n, width, dtype=torch.float64),
        "values": torch.zeros(n, width, dtype=torch.float64),
        "bootstrap": zeros,
    }
    return RolloutBatch(**settings | fields)


def float64(rows):
    return torch.tensor(rows, dtype=torch.float64)


def advantages(module, batch):
    return module.assign_credit(batch).advantages


def per_answer(module, batch):
    """Each answer's advantage, the same for all of its tokens."""
    found = advantages(module, batch)
    assert torch.equal(found, torch.where(batch.response_mask, found[:, :1], 0.0))
    return found[:, 0].tolist()


def test_interleaved_answers_are_grouped_by_their_prompt(build):
    batch = handmade([1, 5, 0, 3], [2, 1, 3, 2], groups=[7, 4, 7, 4])
    assert per_answer(build(GRPO), batch) == pytest.approx([0.7071, 0.7071, -0.7071, -0.7071], abs=1e-4)


@pytest.mark.parametrize(
    "kind, expected",
    [
        (GRPO, [1.5, -0.5, -0.5, -0.5, 0.5, 0.5, 0.5, -1.5]),
        (LitePPO, [1.403122, -0.467707, -0.467707, -0.467707, 0.467707, 0.467707, 0.467707, -1.403122]),
        (DrGRPO, [0.75, -0.25, -0.25, -0.25, 0.25, 0.25, 0.25, -0.75]),
        (RLOO, [1, -1 / 3, -1 / 3, -1 / 3, 1 / 3, 1 / 3, 1 / 3, -1]),
        (ReinforcePPBaseline, [1.620185, -0.540062, -0.540062, -0.540062, 0.540062, 0.540062, 0.540062, -1.620185]),
    ],
)
def test_one_normalisation_and_no_second(kind, expected, build):
    batch = handmade([1, 0, 0, 0, 1, 1, 1, 0], [3, 1, 2, 5, 2, 4, 1, 2], groups=[0] * 4 + [1] * 4)
    assert per_answer(build(kind, kl=KL()), batch) == pytest.approx(expected, abs=5e-6)


def test_group_of_equal_rewards_has_advantage_exactly_0(build):
    batch = handmade([1, 1, 1, 0, 1], [2] * 5, groups=[0, 0, 0, 1, 1])
    assert per_answer(build(GRPO), batch)[:3] == [0, 0, 0]


def test_one_group_makes_batch_std_and_group_std_the_same(build):
    batch = handmade([1, 0, 0.25, 0], [3, 1, 2, 5])
    assert per_answer(build(LitePPO), batch) == per_answer(build(GRPO), batch)


def test_without_kl_and_scale_reinforce_learns_from_raw_rewards(build):
    module = build(ReinforcePP, credit=Credit("none", "none"), kl=KL())
    assert per_answer(module, handmade([1, 0, -2, 0.5], [3, 1, 2, 5], groups=[0, 1, 2, 3])) == [1, 0, -2, 0.5]


def test_a_critic_that_knows_nothing_is_reinforce(build):
    batch = handmade([1, 0, 0, 2], [3, 1, 2, 5])
    torch.testing.assert_close(advantages(build(PPO), batch), advantages(build(ReinforcePP, kl=KL()), batch))


def test_beside_a_critic_batch_std_divides_raw_rewards_and_shifts_nothing(build):
    batch = handmade([1, 0, 0, 0], [3, 1, 2, 5])
    found = per_answer(build(PPO, credit=Credit("critic", "batch_std")), batch)
    assert found == pytest.approx([1 / (0.5 + 1e-6), 0, 0, 0])


def test_lite_ppo_and_a_critic_at_batch_std_differ_in_the_baseline_alone(build):
    batch = handmade([1, 0, 0, 0, 1, 1, 0, 0], [3, 1, 2, 5, 1, 1, 4, 2], groups=[0] * 4 + [1] * 4)
    means = float64([0.25] * 4 + [0.5] * 4)[:, None].expand(8, 5)
    critic = build(PPO, credit=Credit("critic", "batch_std"))
    with_group_means_as_values = handmade(batch.rewards.tolist(), batch.lengths.tolist(), values=means)
    expected = advantages(build(LitePPO), batch)
    torch.testing.assert_close(advantages(critic, with_group_means_as_values), expected)


def test_beside_a_critic_batch_std_is_that_of_rewards_less_their_kl(build):
    batch = handmade([1, 0, 0], [2, 1, 2], groups=[0, 1, 2], ref_logprobs=float64([[-1, -1], [0, 0], [-3, 0]]))
    kl = KL(0.1, "k1", "reward")
    free = per_answer(build(LitePPO, credit=Credit("none", "batch_std"), kl=kl), batch)
    assert free == pytest.approx([0.8 / 0.568624, 0, -0.3 / 0.568624], rel=1e-5)  # the std of 0.8, 0 and −0.3
    critic = advantages(build(PPO, credit=Credit("critic", "batch_std"), kl=kl), batch)
    assert critic[:, 0].tolist() == pytest.approx(free)


RAW = Credit("critic", "none")


@pytest.mark.parametrize(
    "spec, expected", [(Critic(), [0.5, 0.4, 0.3]), (Critic(lam_policy=0.95, lam_critic=0.5), [0.46575, 0.385, 0.3])]
)
def test_values_come_before_their_tokens(spec, expected, build):
    batch = handmade([1], [3], values=float64([[0.5, 0.6, 0.7]]))
    assert advantages(build(PPO, credit=RAW, critic=spec), batch)[0].tolist() == pytest.approx(expected)


def test_returns_follow_lam_critic(build):
    batch = handmade([1], [3], values=float64([[0.5, 0.6, 0.7]]))
    module = build(PPO, credit=RAW, critic=Critic(lam_policy=0.5, lam_critic=1.0))
    assert module.assign_credit(batch).returns[0].tolist() == pytest.approx([1, 1, 1])
    module = build(PPO, credit=RAW, critic=Critic(lam_policy=0.5, lam_critic=0.0))
    assert module.assign_credit(batch).returns[0].tolist() == pytest.approx([0.6, 0.7, 1])


@pytest.mark.parametrize(
    "bootstrap, truncated, expected",
    [
        (True, True, [0.3, 0.2, 0.1]),
        (False, True, [-0.5, -0.6, -0.7]),
        (True, False, [-0.5, -0.6, -0.7]),
    ],
)
def test_only_truncated_answers_bootstrap_and_only_where_asked_for(bootstrap, truncated, expected, build):
    batch = handmade(
        [0],
        [3],
        values=float64([[0.5, 0.6, 0.7]]),
        bootstrap=float64([0.8]),
        truncated=torch.tensor([truncated]),
    )
    module = build(PPO, credit=RAW, critic=Critic(bootstrap_truncated=bootstrap))
    assert advantages(module, batch)[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("kind", [PPO, GRPO, ReinforcePP, LitePPO, RLOO])
def test_padding_is_never_read_and_gets_0(kind, build):
    rewards, lengths = [1, 0, 0.5, 0], [3, 1, 5, 2]
    clean = handmade(rewards, lengths, ref_logprobs=torch.zeros(4, 5, dtype=torch.float64))
    garbage = torch.where(clean.response_mask, 0.0, torch.nan).double()
    dirty = handmade(rewards, lengths, old_logprobs=garbage, values=garbage, ref_logprobs=-garbage)
    module = build(kind)
    found = module.assign_credit(dirty)
    assert torch.equal(found.advantages, advantages(module, clean))
    assert torch.count_nonzero(found.advantages[~clean.response_mask]) == 0
    assert found.returns is None or torch.count_nonzero(found.returns[~clean.response_mask]) == 0


def test_reward_arrives_at_the_last_kept_token(build):
    batch = handmade([1, 1], [3, 5])
    module = build(PPO, credit=RAW, critic=Critic(lam_policy=0.0, lam_critic=0.0))
    assert advantages(module, batch).tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]


def test_whitening_counts_kept_tokens_only(build):
    batch = handmade([1, 2, 3], [1, 1, 1], groups=[0, 1, 2])
    padded = handmade([1, 2, 3, 9], [1, 1, 1, 6], groups=[0, 1, 2, 3], trains=torch.tensor([True, True, True, False]))
    for kind in (PPO, ReinforcePP):
        module = build(kind, kl=KL())
        assert advantages(module, batch).flatten().tolist() == pytest.approx([-1, 0, 1], abs=1e-6)
        assert advantages(module, padded)[:3, 0].tolist() == pytest.approx([-1, 0, 1], abs=1e-6)


def test_filtered_answers_count_in_their_groups_statistics(build):
    batch = handmade([1, 0, 0, 0], [2, 2, 2, 2], trains=torch.tensor([True, True, True, False]))
    assert per_answer(build(GRPO), batch)[:3] == pytest.approx([1.5, -0.5, -0.5], abs=1e-5)


def test_first_token_of_a_long_answer_gets_the_whole_reward(build):
    batch = handmade([1, 0], [1000, 3])
    assert advantages(build(PPO, credit=RAW), batch)[0, 0] == pytest.approx(1.0)
    short_sighted = build(PPO, credit=RAW, critic=Critic(lam_policy=0.95))
    assert advantages(short_sighted, batch)[0, 0] < 1e-20


def test_length_adaptive_lambda_is_each_answers_own(build):
    module = build(PPO, credit=RAW, critic=Critic(length_adaptive_alpha=0.5))
    found = advantages(module, handmade([1, 1], [4, 2]))
    assert found[0].tolist() == pytest.approx([0.125, 0.25, 0.5, 1])  # λ = 1 − 1/(½·4) = ½
    assert found[1].tolist() == pytest.approx([0, 1, 0, 0])  # λ = 1 − 1/(½·2) = 0


def test_kl_in_the_reward_reaches_group_baselines_as_a_sum_and_reinforce_token_by_token(build):
    batch = handmade([1, 0], [3, 1], ref_logprobs=float64([[-1, 0, -2], [0, 0, 0]]))
    kl = KL(0.1, "k1", "reward")
    assert per_answer(build(RLOO, kl=kl), batch) == pytest.approx([0.7, -0.7])
    module = build(ReinforcePP, kl=kl, credit=Credit("none", "none"))
    assert advantages(module, batch)[0].tolist() == pytest.approx([0.7, 0.8, 0.8])
