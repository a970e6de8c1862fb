"""What must hold between the functions: reductions to simpler ones, and indifference to padding, order and slicing."""

import math

import pytest
import torch

from acrl.functional import (
    BASELINES,
    SCALES,
    clipped_surrogate,
    discounted_returns,
    explained_variance,
    gae,
    group_advantages,
    kl_estimate,
    masked_whiten,
    repetition_fraction,
    token_weights,
    value_loss,
    zero_masked,
    zero_variance_groups,
)

N, T = 6, 5
LENGTHS = torch.tensor([5, 1, 3, 4, 2, 5])
MASK = torch.arange(T) < LENGTHS[:, None]
AGGREGATIONS = ["token_mean", "sequence_mean", "constant"]


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    names = ("logprobs", "old_logprobs", "ref_logprobs", "values", "old_values", "token_rewards")
    return {name: torch.randn(N, T, generator=generator, dtype=torch.float64).to(dtype) for name in names}


def filled(tensors, garbage):
    return {name: torch.where(MASK, x, garbage) for name, x in tensors.items()}


def objective(tensors, mask, aggregation="token_mean"):
    """Everything an update uses, chained as an algorithm chains it; one row of losses per response."""
    x = {name: zero_masked(value, mask) for name, value in tensors.items()}
    with torch.no_grad():
        advantages, returns = gae(tensors["token_rewards"], tensors["old_values"], mask, 0.99, 0.95)
        advantages = masked_whiten(advantages, mask)
    policy = clipped_surrogate(x["logprobs"], x["old_logprobs"], advantages, 0.2, 0.28, dual_clip=3.0)
    kl = kl_estimate(x["logprobs"], x["ref_logprobs"], "k3")
    critic = value_loss(x["values"], x["old_values"], returns, 0.2)
    weights = token_weights(mask, aggregation, 8).to(policy.dtype)
    return weights * (policy + 0.1 * kl) + token_weights(mask, "token_mean").to(policy.dtype) * critic


def loss_and_gradients(tensors, mask, aggregation="token_mean"):
    tensors = {name: x.clone().requires_grad_(name in ("logprobs", "values")) for name, x in tensors.items()}
    loss = objective(tensors, mask, aggregation).sum()
    loss.backward()
    return loss.detach(), tensors["logprobs"].grad, tensors["values"].grad


@pytest.mark.parametrize("garbage", [100.0, math.nan, -math.inf])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_masked_positions_change_nothing(garbage, aggregation):
    clean = loss_and_gradients(filled(batch(), 0.0), MASK, aggregation)
    dirty = loss_and_gradients(filled(batch(), garbage), MASK, aggregation)
    assert clean[1].any() and clean[2].any()
    for a, b in zip(clean, dirty, strict=True):
        assert torch.equal(a, b)
    assert dirty[1][~MASK].eq(0).all() and dirty[2][~MASK].eq(0).all()


def test_finite_padding_needs_no_masking_before_the_loss():
    # Real padding has finite log-probs and values: a weight of 0 is enough, also at a log-ratio of 200.
    logprobs = torch.where(MASK, 0.0, 100.0).requires_grad_()
    loss = clipped_surrogate(logprobs, -logprobs.detach(), torch.ones(N, T), 0.2, 0.2) + kl_estimate(
        logprobs, -logprobs.detach(), "k3"
    )
    (loss * token_weights(MASK, "token_mean")).sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad[~MASK].eq(0).all() and logprobs.grad[MASK].ne(0).all()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_width_changes_nothing(aggregation):
    wide_mask = torch.nn.functional.pad(MASK, (0, 3))
    wide = {name: torch.nn.functional.pad(x, (0, 3), value=9.0) for name, x in batch().items()}
    narrow_out, wide_out = (
        loss_and_gradients(batch(), MASK, aggregation),
        loss_and_gradients(wide, wide_mask, aggregation),
    )
    torch.testing.assert_close(wide_out[0], narrow_out[0])
    for a, b in zip(narrow_out[1:], wide_out[1:], strict=True):
        torch.testing.assert_close(b[:, :T], a)
        assert b[:, T:].eq(0).all()


def test_padding_width_does_not_change_diagnostics():
    x = batch()
    ids = torch.randint(3, (N, T), generator=torch.Generator().manual_seed(0))
    pad = torch.nn.functional.pad
    wide_mask = pad(MASK, (0, 4))
    narrow = explained_variance(x["values"], x["token_rewards"], MASK)
    wide = explained_variance(pad(x["values"], (0, 4)), pad(x["token_rewards"], (0, 4), value=5.0), wide_mask)
    torch.testing.assert_close(wide, narrow)
    assert repetition_fraction(pad(ids, (0, 4)), wide_mask) == repetition_fraction(ids, MASK)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_rows_may_come_in_any_order(aggregation):
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    straight = loss_and_gradients(batch(), MASK, aggregation)
    shuffled = loss_and_gradients({name: x[order] for name, x in batch().items()}, MASK[order], aggregation)
    torch.testing.assert_close(shuffled[0], straight[0])
    for a, b in zip(straight[1:], shuffled[1:], strict=True):
        torch.testing.assert_close(b, a[order])


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("scale", SCALES)
def test_group_advantages_follow_their_rows_and_not_the_names_of_groups(baseline, scale):
    generator = torch.Generator().manual_seed(1)
    rewards = torch.randn(11, generator=generator, dtype=torch.float64)
    ids = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3])
    order = torch.randperm(11, generator=generator)
    straight = group_advantages(rewards, ids, baseline, scale)
    renamed = torch.tensor([40, -2, 7, 0])[ids]
    torch.testing.assert_close(group_advantages(rewards[order], renamed[order], baseline, scale), straight[order])


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_micro_batches_add_up_to_the_whole(aggregation):
    # Weights are made once for the whole minibatch; slices of it then sum to the same loss, however they are cut.
    weights = token_weights(MASK, aggregation, 8).double()
    losses = batch()["values"]
    whole = (weights * losses).sum()
    for size in (1, 2, 4):
        parts = zip(weights.split(size), losses.split(size), strict=True)
        torch.testing.assert_close(sum((w * loss).sum() for w, loss in parts), whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes_are_kept(dtype):
    x = batch(dtype)
    mask = MASK.to(dtype)
    advantages, returns = gae(x["token_rewards"], x["values"], mask, 1.0, 0.95)
    outputs = [
        advantages,
        returns,
        masked_whiten(advantages, mask),
        token_weights(mask, "sequence_mean"),
        clipped_surrogate(x["logprobs"], x["old_logprobs"], advantages, 0.2, 0.2, 3.0),
        value_loss(x["values"], x["old_values"], returns, 0.2),
        kl_estimate(x["logprobs"], x["ref_logprobs"], "k3"),
        explained_variance(x["values"], returns, mask),
        group_advantages(x["token_rewards"][:, 0], torch.arange(N) // 2, "leave_one_out", "batch_std_centred"),
    ]
    assert {out.dtype for out in outputs} == {dtype}


# --- reductions (DESIGN.md §11) --------------------------------------------------------------------------------------


def test_gae_at_lambda_and_gamma_1_is_reward_to_go_minus_value():
    x = batch()
    rewards = zero_masked(x["token_rewards"], MASK)
    reward_to_go = rewards.flip(1).cumsum(1).flip(1)
    advantages, returns = gae(x["token_rewards"], x["values"], MASK, 1.0, 1.0)
    torch.testing.assert_close(advantages, zero_masked(reward_to_go - x["values"], MASK))
    torch.testing.assert_close(returns, zero_masked(reward_to_go, MASK))
    torch.testing.assert_close(discounted_returns(x["token_rewards"], MASK, 1.0), zero_masked(reward_to_go, MASK))


def test_gae_at_lambda_0_is_the_one_step_error():
    x = batch()
    next_values = torch.nn.functional.pad(zero_masked(x["values"], MASK)[:, 1:], (0, 1))
    expected = zero_masked(x["token_rewards"] + 0.9 * next_values - x["values"], MASK)
    torch.testing.assert_close(gae(x["token_rewards"], x["values"], MASK, 0.9, 0.0)[0], expected)


def test_equal_clips_are_ppos():
    # 1707.06347 Eq. 7, element by element in plain Python.
    x = batch()
    actual = clipped_surrogate(x["logprobs"], x["old_logprobs"], x["values"], 0.2, 0.2)
    for i in range(N):
        for t in range(T):
            ratio = math.exp(x["logprobs"][i, t].item() - x["old_logprobs"][i, t].item())
            advantage = x["values"][i, t].item()
            objective = min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
            assert actual[i, t].item() == pytest.approx(-objective)


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_the_on_policy_gradient_is_reinforces(dual_clip):
    x = batch()
    weights = token_weights(MASK, "token_mean").double()
    gradients = []
    for surrogate in (True, False):
        logits = x["logprobs"].clone().requires_grad_()
        logprobs = logits.log_softmax(1)
        if surrogate:
            loss = clipped_surrogate(logprobs, logprobs.detach(), x["values"], 0.2, 0.28, dual_clip)
        else:
            loss = -x["values"] * logprobs
        (weights * loss).sum().backward()
        gradients.append(logits.grad)
    torch.testing.assert_close(*gradients)


def test_leave_one_out_is_the_group_mean_stretched():
    rewards = torch.randn(12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for size in (2, 3, 4, 6):
        ids = torch.arange(12) // size
        expected = group_advantages(rewards, ids, "group_mean", "none") * size / (size - 1)
        torch.testing.assert_close(group_advantages(rewards, ids, "leave_one_out", "none"), expected)


@pytest.mark.parametrize(
    ("baseline", "scale"), [("batch_mean", "batch_std"), ("group_mean", "group_std"), ("group_mean", "batch_std")]
)
def test_the_reward_scale_does_not_matter_to_z_scores(baseline, scale):
    # papers.md §0.3: {0, 1} and {−1, 1} differ only through the 1e-6 beside σ; at most |A|·1e-6/σ.
    rewards = torch.bernoulli(torch.full((64,), 0.3), generator=torch.Generator().manual_seed(0)).double()
    ids = torch.arange(64) // 8
    small, large = (group_advantages(r, ids, baseline, scale) for r in (rewards, 2 * rewards - 1))
    assert small.any()
    torch.testing.assert_close(small, large, atol=1e-5, rtol=0)


def test_centring_alone_depends_on_the_reward_scale():
    rewards, ids = torch.tensor([1.0, 0, 0, 1, 1, 1]), torch.arange(6) // 3
    small, large = (group_advantages(r, ids, "group_mean", "none") for r in (rewards, 2 * rewards - 1))
    torch.testing.assert_close(large, 2 * small)


def test_with_one_group_the_batch_is_the_group():
    rewards, ids = torch.tensor([0.3, 1.0, 0.0, 0.9, 0.2], dtype=torch.float64), torch.full((5,), 3)
    expected = group_advantages(rewards, ids, "group_mean", "group_std")
    for baseline, scale in [
        ("group_mean", "batch_std"),
        ("group_mean", "batch_std_centred"),
        ("batch_mean", "batch_std"),
    ]:
        torch.testing.assert_close(group_advantages(rewards, ids, baseline, scale), expected)


def test_dead_groups_are_those_without_advantage():
    rewards = torch.bernoulli(torch.full((60,), 0.8), generator=torch.Generator().manual_seed(0))
    ids = torch.arange(60) % 20
    magnitude = torch.zeros(20).index_add(0, ids, group_advantages(rewards, ids, "group_mean", "group_std").abs())
    dead = zero_variance_groups(rewards, ids)
    assert dead.any() and not dead.all()
    assert torch.equal(dead, magnitude == 0)
