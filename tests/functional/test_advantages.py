import math

import pytest
import torch

from acrl.functional import (
    BASELINES,
    SCALES,
    discounted_returns,
    gae,
    group_advantages,
    length_adaptive_lambda,
    scale_by_batch_std,
    zero_variance_groups,
)


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def assert_near(actual, expected, atol=1e-9):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=actual.dtype), atol=atol, rtol=0)


# --- GAE -------------------------------------------------------------------------------------------------------------


def test_gae_at_lambda_1():
    # Case 26. A = reward-to-go − V: 1 − .5, 1 − .6, 1 − .7.
    advantages, returns = gae(row(0, 0, 1), row(0.5, 0.6, 0.7), row(1, 1, 1), gamma=1, lam=1)
    assert_near(advantages, [[0.5, 0.4, 0.3]])
    assert_near(returns, [[1.0, 1.0, 1.0]])


def test_gae_below_lambda_1():
    # δ = .6 − .5, .7 − .6, 1 − .7 = .1, .1, .3; A₁ = .1 + .95·.3 = .385; A₀ = .1 + .95·.385 = .46575.
    advantages, returns = gae(row(0, 0, 1), row(0.5, 0.6, 0.7), row(1, 1, 1), gamma=1, lam=0.95)
    assert_near(advantages, [[0.46575, 0.385, 0.3]])
    assert_near(returns, [[0.96575, 0.985, 1.0]])


def test_gae_with_gamma():
    # δ₁ = 1 − .5 = .5; δ₀ = .9·.5 − .5 = −.05; A₀ = −.05 + .9·.5·.5 = .175. Returns A + V.
    advantages, returns = gae(row(0, 1), row(0.5, 0.5), row(1, 1), gamma=0.9, lam=0.5)
    assert_near(advantages, [[0.175, 0.5]])
    assert_near(returns, [[0.675, 1.0]])


@pytest.mark.parametrize(("lam", "first"), [(1.0, 0.6), (0.95, 0.58)])
def test_padding_does_not_leak_into_gae(lam, first):
    # peers.md §1.14: A₁ = 1 − .6 = .4; A₀ = (.6 − .4) + λ·.4. ROLL and SkyRL read the padding and get .6033, .4245.
    advantages, _ = gae(row(0, 1, 0, 0), row(0.4, 0.6, 0.3, 0.2), row(1, 1, 0, 0), gamma=1, lam=lam)
    assert_near(advantages, [[first, 0.4, 0, 0]])


def test_truncated_responses_can_bootstrap():
    # Case 27, padded: the value after the last kept token is .8, or 0 when the state is terminal.
    rewards, values, mask = row(0, 0, 0, 0), row(0.5, 0.6, 0.7, 9), row(1, 1, 1, 0)
    bootstrapped, returns = gae(rewards, values, mask, 1, 1, bootstrap=torch.tensor([0.8], dtype=torch.float64))
    assert_near(bootstrapped, [[0.3, 0.2, 0.1, 0]])
    assert_near(returns, [[0.8, 0.8, 0.8, 0]])
    assert_near(gae(rewards, values, mask, 1, 1)[0], [[-0.5, -0.6, -0.7, 0]])


def test_bootstrap_is_discounted_once():
    # One token: A = 0 + .9·.8 − .5 = .22.
    assert_near(gae(row(0), row(0.5), row(1), 0.9, 0.5, torch.tensor([0.8], dtype=torch.float64))[0], [[0.22]])


def test_long_answers_keep_their_credit_at_lambda_1_only():
    # Case 31: with V = 0, A₀ = λ⁹⁹⁹ · 1; .95⁹⁹⁹ = e^(999·ln .95) = e^−51.24 = 5.6e-23.
    rewards, zeros, mask = torch.zeros(1, 1000), torch.zeros(1, 1000), torch.ones(1, 1000)
    rewards[0, -1] = 1
    assert gae(rewards, zeros, mask, 1, 1)[0][0, 0] == 1
    assert gae(rewards, zeros, mask, 1, 0.95)[0][0, 0].item() == pytest.approx(5.6e-23, rel=0.02)


@pytest.mark.parametrize("garbage", [100.0, math.nan, math.inf])
def test_gae_never_reads_padding(garbage):
    # As test_gae_below_lambda_1; and a response without any token is all zeros, whatever its bootstrap.
    rewards = torch.cat([row(0, 0, 1, garbage), row(*[garbage] * 4)])
    values = torch.cat([row(0.5, 0.6, 0.7, garbage), row(*[garbage] * 4)])
    mask = torch.tensor([[True, True, True, False], [False] * 4])
    bootstrap = torch.tensor([0, garbage], dtype=torch.float64)
    advantages, returns = gae(rewards, values, mask, 1, 0.95, bootstrap)
    assert_near(advantages, [[0.46575, 0.385, 0.3, 0], [0, 0, 0, 0]])
    assert_near(returns, [[0.96575, 0.985, 1, 0], [0, 0, 0, 0]])


def test_a_masked_token_in_the_middle_is_skipped():
    # The state after token 0 is that before token 2: δ₀ = .9·.7 − .5 = .13; A₀ = .13 + .9·.5·.3 = .265.
    advantages, _ = gae(row(0, math.nan, 1), row(0.5, math.nan, 0.7), row(1, 0, 1), gamma=0.9, lam=0.5)
    assert_near(advantages, [[0.265, 0, 0.3]])


def test_lambda_per_response():
    rewards, values, mask = (x.repeat(2, 1) for x in (row(0, 0, 1), row(0.5, 0.6, 0.7), row(1, 1, 1)))
    advantages, _ = gae(rewards, values, mask, 1, torch.tensor([1, 0.95], dtype=torch.float64))
    assert_near(advantages, [[0.5, 0.4, 0.3], [0.46575, 0.385, 0.3]])


def test_length_adaptive_lambda():
    # 1 − 1/(.05·l): 40 → 1 − 1/2, 200 → 1 − 1/10, 20 → 0; 10 → −1 and 0 → −∞, clamped to 0.
    lengths = torch.tensor([40, 200, 20, 10, 0])
    assert_near(length_adaptive_lambda(lengths, alpha=0.05), [0.5, 0.9, 0, 0, 0], atol=1e-6)
    with pytest.raises(ValueError, match=r"alpha is 0.*alpha > 0"):
        length_adaptive_lambda(lengths, alpha=0)


def test_discounted_returns():
    # γ = 1: 1+2+3, 2+3, 3. γ = .5: 2 + .5·3 = 3.5, 1 + .5·3.5 = 2.75.
    rewards, mask = row(1, 2, 3, math.nan), row(1, 1, 1, 0)
    assert_near(discounted_returns(rewards, mask, gamma=1), [[6.0, 5, 3, 0]])
    assert_near(discounted_returns(rewards, mask, gamma=0.5), [[2.75, 3.5, 3, 0]])


# --- groups ----------------------------------------------------------------------------------------------------------

# peers.md §1.14, three groups of four: 8 ones and 4 zeros in all.
REWARDS = torch.tensor([1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1], dtype=torch.float64)
IDS = torch.tensor([0] * 4 + [1] * 4 + [2] * 4)
# Groups one and two: mean .25 (.75), Σ(r − μ)² = .75² + 3·.25² = .75, σ = √(.75/3) = .5; the third is dead.
# Batch, raw: mean 2/3, Σ = 8/9 + 16/9 = 24/9, σ = √(24/99) = .492366.
# Batch, centred by group mean: Σ = .75 + .75 + 0, σ = √(1.5/11) = .369274.
TABLE = {
    ("group_mean", "group_std"): (1.5, -0.5, 0.5, -1.5, 0),
    ("group_mean", "none"): (0.75, -0.25, 0.25, -0.75, 0),
    # 1 − 0 and 0 − 1/3; 1 − 2/3 and 0 − 1.
    ("leave_one_out", "none"): (1, -1 / 3, 1 / 3, -1, 0),
    ("leave_one_out", "group_std"): (2, -2 / 3, 2 / 3, -2, 0),
    # .75/.492366 = 1.523258, .25/.492366 = .507753: Lite PPO.
    ("group_mean", "batch_std"): (1.523258, -0.507753, 0.507753, -1.523258, 0),
    # .75/.369274 = 2.031010, .25/.369274 = .677003: REINFORCE++ with baseline.
    ("group_mean", "batch_std_centred"): (2.031010, -0.677003, 0.677003, -2.031010, 0),
    # (1 − 2/3)/.492366 = .677003, −(2/3)/.492366 = −1.354006.
    ("batch_mean", "batch_std"): (0.677003, -1.354006, 0.677003, -1.354006, 0.677003),
    ("batch_mean", "batch_std_centred"): (0.677003, -1.354006, 0.677003, -1.354006, 0.677003),
    ("batch_mean", "none"): (1 / 3, -2 / 3, 1 / 3, -2 / 3, 1 / 3),
    ("none", "none"): (1, 0, 1, 0, 1),
    ("none", "batch_std"): (2.031010, 0, 2.031010, 0, 2.031010),  # 1/.492366
    # r/.5; the dead group's std must not divide its ones by 1e-6.
    ("none", "group_std"): (2, 0, 2, 0, 0),
}


@pytest.mark.parametrize(("baseline", "scale"), TABLE)
@pytest.mark.parametrize("shuffled", [False, True])
def test_group_advantages_of_the_peers(baseline, scale, shuffled):
    odd_1, rest_1, rest_2, odd_2, dead = TABLE[baseline, scale]
    expected = torch.tensor([odd_1, *[rest_1] * 3, *[rest_2] * 3, odd_2, *[dead] * 4], dtype=torch.float64)
    order = torch.arange(12)
    if shuffled:
        order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    actual = group_advantages(REWARDS[order], IDS[order], baseline, scale)
    torch.testing.assert_close(actual, expected[order], atol=1e-5, rtol=0)  # the 1e-6 beside σ moves 2.03 by 6e-6


def test_interleaved_groups():
    # Case 5: a holds 1, 0 (σ = .7071), b holds 5, 3 (σ = 1.4142); contiguous groups would give −, +, −, +.
    actual = group_advantages(torch.tensor([1.0, 5, 0, 3]), torch.tensor([7, 2, 7, 2]), "group_mean", "group_std")
    assert_near(actual, [0.7071, 0.7071, -0.7071, -0.7071], atol=1e-4)


def test_groups_of_any_size():
    # b: 5, 3, 1, mean 3, σ = √((4 + 0 + 4)/2) = 2. c is alone.
    rewards, ids = torch.tensor([1.0, 5, 0, 3, 9, 1]), torch.tensor([4, -1, 4, -1, 8, -1])
    assert_near(group_advantages(rewards, ids, "group_mean", "group_std"), [0.7071, 1, -0.7071, 0, 0, -1], atol=1e-4)
    # b: 5 − 2, 3 − 3, 1 − 4.
    assert_near(group_advantages(rewards, ids, "leave_one_out", "none"), [1, 3, -1, 0, 0, -3], atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 0.7, 1000.1])
def test_a_dead_group_gets_exactly_zero(baseline, scale, value):
    # Case 1, in float32, beside a live group: three times .1 does not average to .1.
    rewards = torch.tensor([value, 1.0, value, 0.0, value])
    actual = group_advantages(rewards, torch.tensor([0, 1, 0, 1, 0]), baseline, scale)
    assert actual[[0, 2, 4]].eq(0).all()
    assert actual[1] > 0 > actual[3]


@pytest.mark.parametrize("scale", ["group_std", "batch_std", "batch_std_centred"])
@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("rewards", [[1.0, 1, 1, 1], [0.0] * 4, [0.3] * 4, [5.0, 5, 5, 5 * (1 + 9e-7)], [2.0]])
def test_a_dead_batch_gets_exactly_zero_from_any_std(baseline, scale, rewards):
    ids = torch.arange(len(rewards)) % 2
    actual = group_advantages(torch.tensor(rewards, dtype=torch.float64), ids, baseline, scale)
    assert actual.eq(0).all()


@pytest.mark.parametrize("size", [3, 7, 30, 125])
@pytest.mark.parametrize("value", [0.1, 0.7, 1000.1])
def test_equal_rewards_centre_to_exactly_zero(value, size):
    # In float32 a mean of equal values can be off by one rounding, of which Adam would make a full step.
    rewards = torch.full((size,), value)
    assert group_advantages(rewards, torch.arange(size), "batch_mean", "none").eq(0).all()


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("scale", SCALES)
def test_singletons_are_finite(baseline, scale):
    actual = group_advantages(torch.tensor([1.0, 0.0, 3.0]), torch.arange(3), baseline, scale)
    assert actual.isfinite().all()
    if baseline in ("group_mean", "leave_one_out") or scale == "group_std":
        assert actual.eq(0).all()


def test_the_zero_variance_tolerance():
    # max − min = 9e-7·1000 ≤ 1e-6·max|r|: rounding of a float32 reward. 2e-6 around 0 is a difference:
    # deviation 1e-6, σ = √2·1e-6, 1e-6/(√2·1e-6 + 1e-6) = 1/(√2 + 1) = .41421.
    rewards = torch.tensor([1000, 1000.0009, 0, 2e-6], dtype=torch.float64)
    ids = torch.tensor([0, 0, 1, 1])
    assert_near(group_advantages(rewards, ids, "group_mean", "group_std"), [0, 0, -0.414214, 0.414214], atol=1e-6)
    assert group_advantages(rewards, ids, "leave_one_out", "none")[:2].eq(0).all()
    assert zero_variance_groups(rewards, ids).tolist() == [True, False]


def test_dead_groups_are_found_in_the_order_of_their_ids():
    rewards, ids = torch.tensor([1.0, 0.0, 1.0, 1.0, 4.0]), torch.tensor([5, 2, 5, 2, 9])
    assert zero_variance_groups(rewards, ids).tolist() == [False, True, True]  # 2: {0, 1}; 5: {1, 1}; 9: {4}


@pytest.mark.parametrize(("size", "expected"), [(2, 0.702), (4, 0.449), (8, 0.201), (16, 0.040)])
def test_share_of_dead_groups_of_a_binary_reward(size, expected):
    # Case 88: p^G + (1 − p)^G at p = .1819, within three standard errors.
    groups = 20_000
    rewards = torch.bernoulli(torch.full((groups * size,), 0.1819), generator=torch.Generator().manual_seed(0))
    share = zero_variance_groups(rewards, torch.arange(groups * size) % groups).double().mean().item()
    assert abs(share - expected) < 3 * math.sqrt(expected * (1 - expected) / groups) + 5e-4


def test_binary_rewards_are_bounded():
    # papers.md §0.1: one right of eight is (1 − 1/8)/√(1/8) = 7/√8 = 2.4749 (unbiased), and nothing is larger.
    actual = group_advantages(torch.tensor([1.0] + [0] * 7), torch.zeros(8).long(), "group_mean", "group_std")
    assert_near(actual[:1], [2.4749], atol=1e-4)


def test_group_std_magnifies_a_tiny_length_bonus():
    # papers.md §0.2: ranks 0…7 times .001 deviate by up to 3.5 at σ = √6 = 2.449: ±1.43, a right/wrong contrast.
    rewards = 1 + torch.arange(8, dtype=torch.float64) / 1000
    assert_near(group_advantages(rewards, torch.zeros(8).long(), "group_mean", "group_std")[-1:], [1.4289], atol=1e-3)


def test_large_rewards_do_not_vanish():
    # In float32 the squares of 1e38 overflow; the z-scores of two are ±1/√2 at any size.
    rewards, ids = torch.tensor([1e38, -1e38]), torch.zeros(2).long()
    for scale in ("group_std", "batch_std", "batch_std_centred"):
        assert_near(group_advantages(rewards, ids, "group_mean", scale), [0.70711, -0.70711], atol=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("baseline", BASELINES)
def test_bad_rewards_are_never_hidden(baseline, scale, bad):
    actual = group_advantages(torch.tensor([bad, 1.0, 1.0, 0.0]), torch.tensor([0, 0, 1, 1]), baseline, scale)
    assert not actual[0].isfinite()


def test_scale_by_batch_std():
    # σ of 1, 0, 0, 0 is .5: advantages double (to 2e-6). In a dead batch they are dropped.
    advantages = torch.tensor([[0.3, 0.1], [-0.2, 0], [0.4, 0.4], [0, -1]])
    scaled = scale_by_batch_std(advantages, torch.tensor([1.0, 0, 0, 0]))
    assert_near(scaled, [[0.6, 0.2], [-0.4, 0], [0.8, 0.8], [0, -2]], atol=1e-5)
    assert scale_by_batch_std(advantages, torch.full((4,), 0.7)).eq(0).all()
    assert scale_by_batch_std(advantages[:1], torch.tensor([1.0])).eq(0).all()


def test_scale_by_batch_std_is_lite_ppos():
    centred = group_advantages(REWARDS, IDS, "group_mean", "none")[:, None].expand(12, 3)
    expected = group_advantages(REWARDS, IDS, "group_mean", "batch_std")[:, None].expand(12, 3)
    torch.testing.assert_close(scale_by_batch_std(centred, REWARDS), expected)


def test_unknown_names_are_named():
    rewards, ids = torch.ones(2), torch.zeros(2).long()
    with pytest.raises(ValueError, match=r"baseline is 'median'.*group_mean, leave_one_out, batch_mean, none"):
        group_advantages(rewards, ids, "median", "none")
    with pytest.raises(ValueError, match=r"scale is 'std'.*group_std, batch_std, batch_std_centred, none"):
        group_advantages(rewards, ids, "none", "std")
