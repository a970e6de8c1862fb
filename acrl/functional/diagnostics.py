"""Scalars that say how an update, a critic or a batch of answers is doing; nothing here is optimised.

Shapes: N responses, T tokens.
"""

import torch
from torch import Tensor

from acrl.functional.kl import bounded_log_ratio, kl_estimate
from acrl.functional.masks import is_constant, masked_centre, masked_mean


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """Share of the returns' variance that the critic predicts, over kept tokens: 1 is perfect, 0 is a constant.

    Formula: 1 − Var(R − V) / Var(R). Source: Stable-Baselines3, `explained_variance`.
    NaN where Var(R) is 0 to rounding (max − min ≤ 1e-6 · max(1, max|R|), or fewer than two tokens): the share is then
    undefined, and the caller leaves the point out.
    Shapes: values, returns, mask [N, T].
    """
    kept = returns[mask != 0]
    if kept.numel() < 2 or is_constant(kept.min(), kept.max()):
        return returns.new_full((), torch.nan)
    residual = masked_centre(returns - values, mask).square().sum()
    return 1 - residual / masked_centre(returns, mask).square().sum()


def clip_fractions(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """Shares of kept tokens whose policy gradient the clip removes: below (A < 0), above (A > 0).

    Formula: mean[A < 0 ∧ ρ < 1 − ε_low], mean[A > 0 ∧ ρ > 1 + ε_high], ρ = exp(log π − log π_old).
    Signs matter: a ratio outside the range on the other side is not clipped. Source: PPO (1707.06347) Fig. 1.
    Shapes: logprobs, old_logprobs, advantages, mask [N, T].
    """
    ratio = bounded_log_ratio(logprobs, old_logprobs).exp()
    low = (advantages < 0) & (ratio < 1 - clip_low)
    high = (advantages > 0) & (ratio > 1 + clip_high)
    return masked_mean(low.to(ratio.dtype), mask), masked_mean(high.to(ratio.dtype), mask)


def approx_kl(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """How far the update has moved the policy: estimate of KL(π_old ‖ π) over kept tokens, ≥ 0.

    Formula: mean[ρ − 1 − log ρ] with ρ = π/π_old; it is k3, whatever the loss uses. Source: Schulman 2020.
    Shapes: logprobs, old_logprobs, mask [N, T].
    """
    return masked_mean(kl_estimate(old_logprobs, logprobs, "k3"), mask)


def repetition_fraction(response_ids: Tensor, response_mask: Tensor) -> Tensor:
    """Mean share of a response's 4-grams that repeat an earlier 4-gram of it; near 1 for answers stuck in a loop.

    Formula: mean over non-empty responses of 1 − |distinct 4-grams| / |4-grams|; 0 for a response under four tokens.
    It grows with a loop of any period, whether or not the answer then ends.
    Source: seq-rep-4 of Welleck et al. 2020 (1908.04319) §6.
    Shapes: response_ids [N, T] integers, response_mask [N, T] (kept tokens first).
    """
    mask = response_mask != 0
    # Numbering what occurs keeps the keys small: vocabulary⁴ does not fit an integer, (N·T)² does.
    tokens, kinds = _number(torch.where(mask, response_ids, 0))
    pairs, kinds = _number(tokens[:, :-1] * kinds + tokens[:, 1:])
    quads = pairs[:, :-2] * kinds + pairs[:, 2:]
    kept = mask[:, : quads.shape[1]] & mask[:, mask.shape[1] - quads.shape[1] :]
    ordered = torch.where(kept, quads, -1).sort(dim=1).values
    repeats = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).sum(dim=1)
    return masked_mean(repeats / kept.sum(dim=1).clamp(min=1), mask.any(dim=1))


def _number(x: Tensor) -> tuple[Tensor, int]:
    """Each element's place among the distinct ones, and how many those are."""
    distinct, places = torch.unique(x, return_inverse=True)
    return places, len(distinct)
