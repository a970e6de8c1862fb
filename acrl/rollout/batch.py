"""One iteration's experience, and the glossary of its shapes.

B prompts per iteration · G group size · N = B·G responses · P prompt length (left-padded) · T response length
(right-padded) · V vocabulary.

`response_mask` is 1 for every sampled token including the EOS and 0 for padding. It is found by position and never
negated. `values[n, t]` is the value of the state before response token t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass
class RolloutBatch:
    """N responses as parallel rows; a row is shuffled, split and moved as a whole.

    Fields that a run does not need stay None: `ref_logprobs` without KL, `values`, `bootstrap`, `returns` without a
    critic.
    """

    prompt_ids: Tensor  # [N, P] left-padded
    prompt_mask: Tensor  # [N, P] bool
    response_ids: Tensor  # [N, T] right-padded
    response_mask: Tensor  # [N, T] bool
    truncated: Tensor  # [N] bool, no EOS at the cap
    group_ids: Tensor  # [N] one id per prompt drawn
    rewards: Tensor  # [N] what is optimised: task reward on its scale, overlong penalty included
    accuracy: Tensor  # [N] 1 right, 0 wrong, by the verifier; before penalty and scale
    penalty: Tensor  # [N] the overlong penalty within rewards, ≤ 0
    trains: Tensor  # [N] bool, False for a truncated answer under the overlong filter
    response_logprobs: Tensor | None = None  # [N, T] as the engine sampled them
    old_logprobs: Tensor | None = None  # [N, T] of the same policy and temperature τ, by the function that trains
    entropy: Tensor | None = None  # [N, T] of that policy's next-token distribution, nats
    ref_logprobs: Tensor | None = None  # [N, T]
    values: Tensor | None = None  # [N, T]
    bootstrap: Tensor | None = None  # [N] value after the last response token
    advantages: Tensor | None = None  # [N, T]
    returns: Tensor | None = None  # [N, T]

    def __len__(self) -> int:
        return self.response_ids.shape[0]

    @property
    def lengths(self) -> Tensor:
        """Response lengths in tokens, EOS included, [N]."""
        return self.response_mask.sum(dim=1)

    @property
    def loss_mask(self) -> Tensor:
        """`response_mask` of the responses that train, [N, T]."""
        return self.response_mask & self.trains[:, None]

    def rows(self, index: Tensor) -> RolloutBatch:
        """Return the rows at `index`, as wide as before."""
        return self._each(lambda x: x[index])

    def trimmed(self) -> RolloutBatch:
        """Return the batch without columns that are padding in every row."""
        left = int((~self.prompt_mask.any(dim=0)).sum())
        right = int(self.response_mask.any(dim=0).sum())
        width = self.response_mask.shape[1]
        cut = {"prompt_ids": self.prompt_ids[:, left:], "prompt_mask": self.prompt_mask[:, left:]}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name not in cut and value is not None and value.ndim == 2 and value.shape[1] == width:
                cut[f.name] = value[:, :right]
        return replace(self, **cut)

    def to(self, device: torch.device) -> RolloutBatch:
        """Return the batch with every tensor on `device`."""
        return self._each(lambda x: x.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> RolloutBatch:
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        changed: dict[str, Any] = {name: None if value is None else change(value) for name, value in values}
        return RolloutBatch(**changed)


def concatenate(batches: list[RolloutBatch]) -> RolloutBatch:
    """Return the rows of all batches in order, padded to the widest prompt (left) and response (right).

    Only for batches straight from the engine: fields from `old_logprobs` on must still be None.
    """
    width_p = max(b.prompt_ids.shape[1] for b in batches)
    width_t = max(b.response_ids.shape[1] for b in batches)

    def padded(x: Tensor, left: int, right: int) -> Tensor:
        return torch.nn.functional.pad(x, (left, right))

    def column(name: str) -> Tensor:
        parts = [getattr(b, name) for b in batches]
        if name.startswith("prompt_"):
            parts = [padded(x, width_p - x.shape[1], 0) for x in parts]
        elif name.startswith("response_"):
            parts = [padded(x, 0, width_t - x.shape[1]) for x in parts]
        return torch.cat(parts)

    names = [f.name for f in fields(RolloutBatch) if getattr(batches[0], f.name) is not None]
    return RolloutBatch(**{name: column(name) for name in names})
