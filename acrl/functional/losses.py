"""Per-token losses, to be minimised. Shapes: N responses, T tokens; `token_weights` reduces them."""

import torch
from torch import Tensor

from acrl.functional.kl import bounded_log_ratio


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Tensor:
    """PPO's clipped policy loss per token [N, T].

    Formula: ℓ = −min(ρ·A, clip(ρ, 1 − ε_low, 1 + ε_high)·A), ρ = exp(log π − log π_old), log-ratio clamped to ±20.
    With `dual_clip` c, where A < 0 (there the clip leaves ρ unbounded above): ℓ = min(ℓ, −c·A).
    Source: PPO (1707.06347) Eq. 7; ε_high > ε_low is clip-higher, DAPO (2503.14476) Eq. 10; dual clip, Ye et al. 2020
    (1912.09729) Eq. 5.

    Shapes: logprobs, old_logprobs, advantages [N, T].
    Raises ValueError unless dual_clip > 1: a smaller one would clip a ratio of 1.
    """
    if dual_clip is not None and not dual_clip > 1:
        raise ValueError(f"dual_clip is {dual_clip!r}; it bounds the ratio where A < 0 and must be above 1, or None")
    ratio = bounded_log_ratio(logprobs, old_logprobs).exp()
    loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - clip_low, 1 + clip_high))
    if dual_clip is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -advantages * dual_clip), loss)


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, value_clip: float | None = None) -> Tensor:
    """Critic's loss per token [N, T]: half the squared error, the larger of two if clipped.

    Formula: ½·(V − R)², or with clip c: ½·max((V − R)², (V_old + clip(V − V_old, −c, c) − R)²).
    Source: PPO's value clipping as in Huang et al., "The 37 Implementation Details of PPO", no. 9.
    Shapes: values, old_values, returns [N, T].
    """
    error = (values - returns).square()
    if value_clip is not None:
        clipped = old_values + (values - old_values).clamp(-value_clip, value_clip)
        error = torch.maximum(error, (clipped - returns).square())
    return error / 2
