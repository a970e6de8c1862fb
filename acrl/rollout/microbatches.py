"""How one iteration's rows become minibatches (optimizer steps) and micro-batches (forward and backward)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from acrl.functional import token_weights
from acrl.rollout.batch import RolloutBatch
from acrl.rollout.noise import permutation
from acrl.spec import Aggregation, BatchPlan


@dataclass
class MicroBatch:
    """Rows of one minibatch with the weights they have in the whole of it."""

    rows: RolloutBatch
    policy_weights: Tensor  # [n, T] of the objective's aggregation
    value_weights: Tensor  # [n, T] token mean
    minibatch: int  # index among the iteration's optimizer steps

    def to(self, device: torch.device) -> MicroBatch:
        """Return the micro-batch on `device`."""
        weights = self.policy_weights.to(device), self.value_weights.to(device)
        return MicroBatch(self.rows.to(device), *weights, minibatch=self.minibatch)


class NoUpdate:
    """Stands in for an iteration's micro-batches where nothing trains; Lightning must be given something."""


@dataclass
class UpdatePlan:
    """An iteration's micro-batches in order; every `accumulate` of them make an optimizer step."""

    micro_batches: list[MicroBatch]
    accumulate: int


def plan_update(
    batch: RolloutBatch, plan: BatchPlan, aggregation: Aggregation, max_response_length: int, seed: int, iteration: int
) -> UpdatePlan:
    """Return the iteration's minibatches, membership drawn anew for each pass, cut into micro-batches.

    Weights are computed once on the whole minibatch, so that the sum over micro-batches is the aggregation whatever
    their size. Minibatches with fewer rows than others are filled up with zero-weight micro-batches; one
    without any token that trains is left out: it is no optimizer step.
    """
    minibatches = [
        rows
        for epoch in range(plan.epochs)
        for rows in permutation(len(batch), seed, "minibatch", iteration, epoch).tensor_split(plan.minibatches)
        if batch.loss_mask[rows].any()
    ]
    if not minibatches:
        return UpdatePlan([], 1)
    accumulate = max(-(-len(rows) // plan.micro_batch_size) for rows in minibatches)
    micro_batches: list[MicroBatch] = []
    for index, rows in enumerate(minibatches):
        minibatch = batch.rows(rows)
        mask = minibatch.loss_mask.double()
        policy, value = token_weights(mask, aggregation, max_response_length), token_weights(mask, "token_mean")
        chunks = torch.arange(len(rows)).split(plan.micro_batch_size)
        for k in range(accumulate):
            chunk, share = (chunks[k], 1.0) if k < len(chunks) else (chunks[0], 0.0)
            micro = minibatch.rows(chunk).trimmed()
            width = micro.response_mask.shape[1]
            weights = (share * policy[chunk, :width], share * value[chunk, :width])
            micro_batches.append(MicroBatch(micro, *weights, minibatch=index))
    return UpdatePlan(micro_batches, accumulate)


def score_in_pieces(
    batch: RolloutBatch, score_rows: Callable[[RolloutBatch], dict[str, Tensor]], size: int, device: torch.device
) -> RolloutBatch:
    """Return the batch with what `score_rows` finds for `size` rows at a time on `device`, by the fields' names."""
    found = [score_rows(batch.rows(index).to(device)) for index in torch.arange(len(batch)).split(size)]
    return replace(batch, **{name: torch.cat([piece[name].cpu() for piece in found]) for name in found[0]})
