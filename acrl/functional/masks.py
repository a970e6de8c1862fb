"""Masked moments, and the weights that turn a sum over tokens into an aggregation.

Shapes: N responses, T tokens. A mask is 1 (or True) where a token counts. What lies elsewhere is never read: it may be
NaN, and its gradient is exactly 0.
"""

import torch
from torch import Tensor

AGGREGATIONS = ("token_mean", "sequence_mean", "constant")
WHITEN_EPS = 1e-8
CONSTANT_TOLERANCE = 1e-6


def zero_masked(x: Tensor, mask: Tensor) -> Tensor:
    """x where the mask keeps it, exactly 0 elsewhere, in value and in gradient.

    Apply it to what enters a per-token loss if masked positions may be non-finite: 0 · NaN is NaN, so a zero weight
    on the way out comes too late for the gradient.

    Shapes: x and mask alike, any shape. Integers and booleans come out as floats.
    """
    return torch.where(mask != 0, x, 0.0)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of x over kept positions, a scalar; 0 where nothing is kept.

    Formula: Σ mₙₜ·xₙₜ / Σ mₙₜ. Shapes: x and mask alike, any shape.
    """
    return zero_masked(x, mask).sum() / (mask != 0).sum().clamp(min=1)


def masked_centre(x: Tensor, mask: Tensor) -> Tensor:
    """x minus its mean over kept positions, 0 elsewhere; equal kept values give exactly 0.

    Shapes: x and mask alike, any shape.
    """
    # A mean of equal values can be off by one rounding, which whitening would multiply by 1e4 and Adam would then make
    # a full step of. Subtracting one of the kept values first makes that error exactly 0.
    shifted = zero_masked(x - x.detach()[mask != 0][:1].sum(), mask)
    return zero_masked(shifted - masked_mean(shifted, mask), mask)


def masked_whiten(x: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """x scaled to unit variance over kept positions, and to zero mean unless `shift_mean` is off; 0 elsewhere.

    Formula: (x − μ) / √(σ² + 1e-8), plus μ without `shift_mean`; σ² is unbiased (n − 1).
    With fewer than two kept values σ² is taken as 0: one value gives 0 (its own value without `shift_mean`).
    Source: verl's `masked_whiten`; advantage whitening in Huang et al., "The N Implementation Details of RLHF with
    PPO", and batch normalisation of advantages in Open-Reasoner-Zero (2503.24290).
    Shapes: x and mask alike, any shape.
    """
    centred = masked_centre(x, mask)
    degrees_of_freedom = ((mask != 0).sum() - 1).clamp(min=1)
    whitened = centred * torch.rsqrt(centred.square().sum() / degrees_of_freedom + WHITEN_EPS)
    return whitened if shift_mean else zero_masked(whitened + masked_mean(x, mask), mask)


def token_weights(response_mask: Tensor, aggregation: str, max_response_length: int | None = None) -> Tensor:
    """Weights [N, T] whose product with per-token losses sums to the aggregated loss; 0 on padding.

    With lₙ kept tokens in response n and M responses that have any (an empty one counts for nothing):
      token_mean     1 / Σₙ lₙ                      DAPO (2503.14476) Eq. 12, over the batch that is passed in
      sequence_mean  1 / (M · lₙ)                   GRPO (2402.03300) Eq. 3
      constant       1 / (M · max_response_length)  Dr. GRPO (2503.20783)
    Call it once on a whole global minibatch and slice the result, so that micro-batches cannot change a denominator.

    Shapes: response_mask [N, T].
    Raises ValueError for an unknown aggregation, or for `constant` without a positive max_response_length.
    """
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"aggregation is {aggregation!r}; choose one of {', '.join(AGGREGATIONS)}")
    keep = response_mask != 0
    lengths = keep.sum(dim=1, keepdim=True)
    responses = (lengths > 0).sum()
    if aggregation == "token_mean":
        denominators = lengths.sum()
    elif aggregation == "sequence_mean":
        denominators = responses * lengths
    else:
        if max_response_length is None or max_response_length < 1:
            raise ValueError(
                f"aggregation 'constant' divides by max_response_length, which is {max_response_length!r}; "
                f"give a positive one or choose token_mean or sequence_mean"
            )
        denominators = responses * max_response_length
    # Not the mask's own dtype: it may be bool or int, and bfloat16 cannot hold 1/n to three digits.
    return keep.to(torch.promote_types(response_mask.dtype, torch.float32)) / denominators.clamp(min=1)


def is_constant(low: Tensor, high: Tensor) -> Tensor:
    """True where values between `low` and `high` are equal to rounding, and a variance is better called 0.

    Formula: high − low ≤ 1e-6 · max(1, |low|, |high|), never for non-finite values. Shapes: low and high alike.
    """
    # As a quotient: with an infinite value the product form would read ∞ ≤ ∞ and hide it.
    return (high - low) / torch.maximum(low.abs(), high.abs()).clamp(min=1) <= CONSTANT_TOLERANCE
