"""What an iteration logs. Every key is defined in docs/metrics.md; a key that does not apply is absent, never NaN."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MaxMetric, MeanMetric, Metric

from acrl.functional import (
    approx_kl,
    bounded_log_ratio,
    clip_fractions,
    explained_variance,
    kl_estimate,
    masked_mean,
    repetition_fraction,
    zero_variance_groups,
)
from acrl.rollout.batch import RolloutBatch
from acrl.rollout.collector import Collected
from acrl.rollout.microbatches import MicroBatch
from acrl.spec import Objective


class StepMetrics:
    """Means and maxima over an iteration's micro-batches and optimizer steps."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def mean(self, key: str, value: Tensor | float, weight: Tensor | float = 1.0) -> None:
        """Count `value` into the weighted mean of `key`."""
        self._get(key, MeanMetric).update(_on_cpu(value), _on_cpu(weight))

    def maximum(self, key: str, value: Tensor | float) -> None:
        """Count `value` into the maximum of `key`."""
        self._get(key, MaxMetric).update(_on_cpu(value))

    def policy(self, micro: MicroBatch, logprobs: Tensor, objective: Objective) -> None:
        """Count the ratios of one micro-batch."""
        rows, mask = micro.rows, micro.rows.loss_mask
        assert rows.old_logprobs is not None and rows.advantages is not None
        tokens = mask.sum() * (micro.policy_weights.sum() > 0)  # a filling micro-batch repeats rows counted already
        if not tokens:
            return
        logprobs = logprobs.detach()
        ratio = torch.where(mask, bounded_log_ratio(logprobs, rows.old_logprobs), 0.0).exp()
        low, high = clip_fractions(
            logprobs, rows.old_logprobs, rows.advantages, mask, objective.clip_low, objective.clip_high
        )
        self.mean("policy/approx_kl", approx_kl(logprobs, rows.old_logprobs, mask), tokens)
        self.mean("policy/clip_fraction_low", low, tokens)
        self.mean("policy/clip_fraction_high", high, tokens)
        self.maximum("policy/ratio_max", ratio.max())
        if micro.minibatch == 0:
            self.maximum("policy/first_ratio_error", (ratio - 1).abs().max())
        if rows.ref_logprobs is not None:
            self.mean("policy/ref_kl", masked_mean(kl_estimate(logprobs, rows.ref_logprobs, "k3"), mask), tokens)

    def compute(self) -> dict[str, float]:
        """Return the iteration's values and start anew."""
        values = {key: float(metric.compute()) for key, metric in self.metrics.items() if metric.update_called}
        for metric in self.metrics.values():
            metric.reset()
        return values

    def _get(self, key: str, kind: type[Metric]) -> Metric:
        if key not in self.metrics:
            self.metrics[key] = kind().set_dtype(torch.float64)
        return self.metrics[key]


def _on_cpu(value: Tensor | float) -> Tensor | float:
    return value.detach().cpu() if isinstance(value, Tensor) else value


def rollout_metrics(collected: Collected) -> dict[str, float]:
    """Return `rollout/*` and the group shares of everything generated, groups that the filter dropped included."""
    batch = collected.generated
    lengths = batch.lengths.double()
    ids, index = batch.group_ids.unique(return_inverse=True)
    right = torch.zeros(len(ids), dtype=batch.accuracy.dtype).index_add(0, index, batch.accuracy)
    size = torch.bincount(index)
    raw = batch.rewards - batch.penalty
    values: dict[str, Any] = {
        "rollout/reward_mean": raw.mean(),
        "rollout/reward_std": raw.std() if len(raw) > 1 else None,
        "rollout/accuracy": batch.accuracy.mean(),
        "rollout/overlong_penalty_mean": batch.penalty.mean(),
        "rollout/response_length_mean": lengths.mean(),
        "rollout/response_length_p99": lengths.quantile(0.99),
        "rollout/truncated_fraction": batch.truncated.double().mean(),
        "rollout/repetition_fraction": repetition_fraction(batch.response_ids, batch.response_mask),
        "rollout/rounds": collected.rounds,
        "rollout/kept_group_fraction": collected.kept.double().mean(),
        "rollout/groups_missing": collected.short_of_groups,
        "advantage/zero_variance_group_fraction": zero_variance_groups(batch.rewards, batch.group_ids).double().mean(),
        "advantage/all_correct_group_fraction": (right == size).double().mean(),
        "advantage/all_wrong_group_fraction": (right == 0).double().mean(),
    }
    for name, parts in collected.texts.parts.items():
        present = [part for part in parts if part is not None]
        values[f"rollout/reward/{name}"] = sum(present) / len(present) if present else None
    return {key: float(value) for key, value in values.items() if value is not None}


def credit_metrics(batch: RolloutBatch) -> dict[str, float]:
    """Return `advantage/*`, the scoring pass's `policy/*` and `critic/explained_variance` of the rows that train."""
    mask = batch.loss_mask
    assert batch.advantages is not None and batch.old_logprobs is not None and batch.entropy is not None
    advantages = batch.advantages[mask].double()
    values: dict[str, Any] = {
        "advantage/mean": advantages.mean(),
        "advantage/std": advantages.std() if len(advantages) > 1 else None,
        "advantage/abs_max": advantages.abs().max(),
        "policy/entropy": masked_mean(batch.entropy, mask),
        "policy/token_probability_mean": masked_mean(batch.old_logprobs.exp(), mask),
    }
    if batch.response_logprobs is not None:
        values["policy/sampling_error"] = (batch.response_logprobs - batch.old_logprobs).abs()[mask].max()
    if batch.values is not None and batch.returns is not None:
        returns, residual = batch.returns[mask].double(), (batch.returns - batch.values)[mask].double()
        if len(returns) > 1:
            values["critic/returns_variance"] = returns.var()
            values["critic/residual_variance"] = residual.var()
        explained = float(explained_variance(batch.values, batch.returns, mask))
        values["critic/explained_variance"] = explained if math.isfinite(explained) else None
    return {key: float(value) for key, value in values.items() if value is not None}
