"""Divergence from another policy, per token, from the log-probs of the sampled tokens alone."""

from torch import Tensor

KL_ESTIMATORS = ("k1", "k2", "k3")
LOG_RATIO_LIMIT = 20.0


def bounded_log_ratio(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """log π − log π′ clamped to ±20, so that its exponential and the gradient stay finite.

    e²⁰ ≈ 4.9e8; float32 overflows at e⁸⁸, and a clamp after the exponential would leave 0 · ∞ in the gradient.
    Past the limit the gradient is 0. Shapes: alike, any shape.
    """
    return (logprobs - other_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def kl_estimate(logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimate of KL(π ‖ π_ref) from tokens sampled from π, per token.

    With L = log π − log π_ref:
      k1  L               unbiased, may be negative. For the reward: as a loss its expected gradient is 0.
      k2  ½·L²            biased, small for close policies. As a loss its gradient is that of the reverse KL.
      k3  e⁻ᴸ − 1 + L     unbiased, ≥ 0. As a loss (GRPO) its gradient is that of the forward KL, π − π_ref in logits.
    In k3, L is clamped to ±20; nothing else is.
    Source: Schulman 2020, "Approximating KL divergence"; GRPO (2402.03300) Eq. 4 (k3); gradients: 2510.01555.

    Shapes: logprobs, ref_logprobs [N, T]. Raises ValueError for an unknown estimator.
    """
    if estimator == "k1":
        return logprobs - ref_logprobs
    if estimator == "k2":
        return (logprobs - ref_logprobs).square() / 2
    if estimator == "k3":
        log_ratio = bounded_log_ratio(logprobs, ref_logprobs)
        # expm1: in float32, exp(−L) − 1 loses every digit of k3 below |L| ≈ 1e-3 and can come out negative.
        return (-log_ratio).expm1() + log_ratio
    raise ValueError(f"estimator is {estimator!r}; choose one of {', '.join(KL_ESTIMATORS)}")
