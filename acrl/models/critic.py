"""The value head on its trunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from acrl.models.policy import load_trunk, model_inputs
from acrl.rollout.batch import RolloutBatch


class ValueHead(nn.Module):
    """V(s) = wᵀh(s) + b in float32, zero at the start: the first advantages are the rewards themselves."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the values of hidden states, [...] from [..., D]."""
        with torch.autocast(hidden.device.type, enabled=False):
            return self.linear(hidden.to(self.linear.weight.dtype)).squeeze(-1)


class CriticModel(nn.Module):
    """A value head, and a trunk of its own where the policy's is not shared."""

    def __init__(self, path: str, hidden_size: int, separate: bool) -> None:
        super().__init__()
        self.trunk = load_trunk(path) if separate else None
        self.head = ValueHead(hidden_size)

    def forward(self, batch: RolloutBatch, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return (values [N, T] of the state before each response token, bootstrap [N] after the last); pads are 0.

        Args:
            batch: the responses.
            hidden: [N, T+1, D] of the policy's trunk; None where the critic has its own.
        """
        if self.trunk is not None:
            width = batch.response_ids.shape[1]
            hidden = self.trunk(**model_inputs(batch), use_cache=False).last_hidden_state[:, -width - 1 :]
        assert hidden is not None
        values = self.head(hidden)
        bootstrap = values.gather(1, batch.lengths[:, None]).squeeze(1)
        return torch.where(batch.response_mask, values[:, :-1], 0.0), bootstrap
