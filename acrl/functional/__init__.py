"""The formulas: pure functions of tensors, each with its source and shapes. Nothing here reduces over micro-batches."""

from acrl.functional.advantages import (
    BASELINES,
    SCALES,
    discounted_returns,
    gae,
    group_advantages,
    length_adaptive_lambda,
    scale_by_batch_std,
    zero_variance_groups,
)
from acrl.functional.diagnostics import approx_kl, clip_fractions, explained_variance, repetition_fraction
from acrl.functional.kl import KL_ESTIMATORS, bounded_log_ratio, kl_estimate
from acrl.functional.losses import clipped_surrogate, value_loss
from acrl.functional.masks import (
    AGGREGATIONS,
    is_constant,
    masked_centre,
    masked_mean,
    masked_whiten,
    token_weights,
    zero_masked,
)
from acrl.functional.overlong import soft_overlong_penalty

__all__ = [
    "AGGREGATIONS",
    "BASELINES",
    "KL_ESTIMATORS",
    "SCALES",
    "approx_kl",
    "bounded_log_ratio",
    "clip_fractions",
    "clipped_surrogate",
    "discounted_returns",
    "explained_variance",
    "gae",
    "group_advantages",
    "is_constant",
    "kl_estimate",
    "length_adaptive_lambda",
    "masked_centre",
    "masked_mean",
    "masked_whiten",
    "repetition_fraction",
    "scale_by_batch_std",
    "soft_overlong_penalty",
    "token_weights",
    "value_loss",
    "zero_masked",
    "zero_variance_groups",
]
