"""Credit: how good was a token (with a critic) or a response (among others), before any aggregation.

Shapes: N responses, T tokens, U units (groups, or the batch as one).
"""

import torch
from torch import Tensor

from acrl.functional.masks import is_constant, zero_masked

BASELINES = ("group_mean", "leave_one_out", "batch_mean", "none")
SCALES = ("group_std", "batch_std", "batch_std_centred", "none")
STD_EPS = 1e-6


def gae(
    token_rewards: Tensor,
    values: Tensor,
    response_mask: Tensor,
    gamma: float,
    lam: float | Tensor,
    bootstrap: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantages and the returns a critic learns, both raw, [N, T], 0 on padding.

    Formula: δₜ = rₜ + γ·Vₜ₊₁ − Vₜ ; Aₜ = δₜ + γλ·Aₜ₊₁ ; Rₜ = Aₜ + Vₜ.
    Vₜ is the value of the state before token t; past the last kept token it is `bootstrap` (None: 0, a terminal state).
    A masked token between kept ones is skipped, not discounted, as in verl.
    Source: Schulman et al. 2016 (1506.02438) Eq. 16; λ per response as in VAPO (2504.05118) §4.

    Shapes: token_rewards, values, response_mask [N, T]; lam a number or [N]; bootstrap [N].
    """
    keep = response_mask != 0
    rewards, values = zero_masked(token_rewards, response_mask), zero_masked(values, response_mask)
    next_value = values.new_zeros(values.shape[0]) if bootstrap is None else bootstrap
    next_advantage = torch.zeros_like(next_value)
    columns: list[Tensor] = []
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = torch.where(keep[:, t], delta + gamma * lam * next_advantage, next_advantage)
        next_value = torch.where(keep[:, t], values[:, t], next_value)
        columns.append(next_advantage)
    raw = torch.stack(columns[::-1], dim=1) if columns else values
    advantages = zero_masked(raw, response_mask)
    return advantages, advantages + values


def discounted_returns(token_rewards: Tensor, response_mask: Tensor, gamma: float) -> Tensor:
    """Reward-to-go [N, T], 0 on padding: REINFORCE's credit when rewards come per token (KL in the reward).

    Formula: Gₜ = rₜ + γ·Gₜ₊₁. Source: Williams 1992; REINFORCE++ (2501.03262) with γ = 1.
    Shapes: token_rewards, response_mask [N, T].
    """
    return gae(token_rewards, torch.zeros_like(token_rewards), response_mask, gamma, lam=1.0)[0]


def length_adaptive_lambda(lengths: Tensor, alpha: float) -> Tensor:
    """The policy's λ for each response [N]: longer responses get a λ closer to 1.

    Formula: λ = 1 − 1 / (α·l), clamped to [0, 1]: at α = .05 the paper's value is negative below 20 tokens.
    Source: VAPO (2504.05118) §4.
    Shapes: lengths [N], in tokens. Raises ValueError unless alpha > 0.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha!r}; the length-adaptive λ = 1 − 1/(alpha·length) needs alpha > 0")
    return (1 - 1 / (alpha * lengths)).clamp(0, 1)


def group_advantages(rewards: Tensor, group_ids: Tensor, baseline: str, scale: str) -> Tensor:
    """Advantage of each response [N]: (r − baseline) / (scale + 1e-6), found by group id, in any order and size.

    Baselines:
      group_mean         r − mean of the group                   GRPO (2402.03300) §4.1.2
      leave_one_out      r − mean of the others in the group     RLOO (2402.14740)
      batch_mean         r − mean of the batch                   REINFORCE++ (2501.03262)
      none               r                                       REINFORCE (Williams 1992)
    Scales, all unbiased (n − 1):
      group_std          std of the group's raw rewards          GRPO
      batch_std          std of all raw rewards                  Lite PPO (2508.08221) §4.1.2, as ROLL computes it
      batch_std_centred  std of all rewards after the baseline   REINFORCE++ with baseline (2501.03262)
      none               1, and no 1e-6                          Dr. GRPO (2503.20783)
    A unit (group or batch) with max − min ≤ 1e-6 · max(1, max|r|) is zero-variance, one with a single member too:
      `group_mean` and `leave_one_out` give exactly 0 in such a group, and a std of such a unit gives exactly 0
      whatever the baseline, instead of dividing rounding noise (or the whole reward) by 1e-6.
    A NaN or infinite reward is never turned into a 0: whatever is computed from it is not finite.

    Shapes: rewards [N], group_ids [N] integers.
    Raises ValueError for an unknown baseline or scale.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline is {baseline!r}; choose one of {', '.join(BASELINES)}")
    if scale not in SCALES:
        raise ValueError(f"scale is {scale!r}; choose one of {', '.join(SCALES)}")
    rewards = _as_float(rewards)
    centred = _subtract_baseline(rewards, group_ids, baseline)
    if scale == "none":
        return centred
    if scale == "group_std":
        _, std, dead = _per_group(rewards, group_ids)
    else:
        _, std, dead = _over_batch(rewards)
        if scale == "batch_std_centred":
            _, std, dead_centred = _over_batch(centred)
            dead = dead | dead_centred
    return torch.where(dead, 0.0, centred / (std + STD_EPS))


def scale_by_batch_std(advantages: Tensor, rewards: Tensor) -> Tensor:
    """Token advantages divided by the std of the batch's rewards [N, T]; exactly 0 in a zero-variance batch.

    Formula: Aₙₜ / (σ_batch(r) + 1e-6). It is `batch_std` of `group_advantages` beside a critic, so that a critic and
    Lite PPO (2508.08221) can differ in the baseline alone.
    Shapes: advantages [N, T], rewards [N].
    """
    _, std, dead = _over_batch(_as_float(rewards))
    return torch.where(dead[:, None], 0.0, advantages / (std[:, None] + STD_EPS))


def zero_variance_groups(rewards: Tensor, group_ids: Tensor) -> Tensor:
    """True for each group whose rewards are equal to rounding, bool [U], in the order of `torch.unique(group_ids)`.

    Formula: max − min ≤ 1e-6 · max(1, max|r|), so a group of one is zero-variance. The mean is the share of prompts
    without signal (for a reward that is right with probability p: pᴳ + (1 − p)ᴳ); DAPO (2503.14476) §3.2 drops them.
    Shapes: rewards [N], group_ids [N] integers.
    """
    groups, index = torch.unique(group_ids, return_inverse=True)
    return is_constant(*_extremes(_as_float(rewards), index, len(groups)))


def _subtract_baseline(rewards: Tensor, group_ids: Tensor, baseline: str) -> Tensor:
    if baseline == "none":
        return rewards
    if baseline == "batch_mean":
        return _over_batch(rewards)[0]
    deviations, _, dead = _per_group(rewards, group_ids)
    centred = torch.where(dead, 0.0, deviations)
    if baseline == "group_mean":
        return centred
    _, index, sizes = torch.unique(group_ids, return_inverse=True, return_counts=True)
    # r − (Σ − r)/(G − 1) = (r − Σ/G) · G/(G − 1); a group of one is 0 already, and must not become 0 · ∞.
    return centred * (sizes / (sizes - 1).clamp(min=1)).to(rewards.dtype)[index]


def _per_group(x: Tensor, group_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    groups, index = torch.unique(group_ids, return_inverse=True)
    return _moments(x, index, len(groups))


def _over_batch(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _moments(x, torch.zeros_like(x, dtype=torch.long), 1)


def _moments(x: Tensor, index: Tensor, units: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of each element's unit, each [N]: deviation from its mean, its unbiased std, whether it is zero-variance."""

    def total(y: Tensor) -> Tensor:
        return y.new_zeros(units).index_add(0, index, y)

    low, high = _extremes(x, index, units)
    sizes = total(torch.ones_like(x))
    # On the unit's own range, from 0 to 1: equal rewards deviate by exactly 0 in float32 too, and the squares of large
    # finite rewards do not overflow to a std of ∞, which would turn every advantage silently into 0.
    spread = torch.where(high == low, 1.0, high - low)
    relative = (x - low[index]) / spread[index]
    relative = relative - (total(relative) / sizes)[index]
    std = (total(relative.square()) / (sizes - 1).clamp(min=1)).sqrt()
    return relative * spread[index], (std * spread)[index], is_constant(low, high)[index]


def _extremes(x: Tensor, index: Tensor, units: int) -> tuple[Tensor, Tensor]:
    empty = x.new_zeros(units)
    low = empty.scatter_reduce(0, index, x, "amin", include_self=False)
    return low, empty.scatter_reduce(0, index, x, "amax", include_self=False)


def _as_float(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
