"""Muon: momentum whose update is made nearly orthogonal. The tiny models learn their task with it in half the time.

Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024); update scale from
Liu et al., "Muon is Scalable for LLM Training" (2025), §2.2, so that AdamW's learning rates carry over. torch has its
own from 2.9 on, in bfloat16; this one is float32 and handles all matrices of one shape together.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan et al.: Newton-Schulz, quintic


class Muon(torch.optim.Optimizer):
    """Muon for matrices. `lr` is the size of an entry's change, times five; Nesterov momentum, no weight decay."""

    def __init__(self, matrices: Iterable[Tensor], lr: float, momentum: float = 0.95, iterations: int = 5) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "iterations": iterations})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Change every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append((matrix, self._direction(matrix, matrix.grad, group["momentum"])))
            for shape, pairs in by_shape.items():
                updates = orthogonal(torch.stack([direction for _, direction in pairs]), group["iterations"])
                for (matrix, _), update in zip(pairs, updates, strict=True):
                    matrix.add_(update, alpha=-0.2 * max(shape) ** 0.5 * group["lr"])

    def _direction(self, matrix: Tensor, gradient: Tensor, momentum: float) -> Tensor:
        average = self.state[matrix].setdefault("average", torch.zeros_like(matrix))
        average.lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum)


def orthogonal(matrices: Tensor, iterations: int = 5) -> Tensor:
    """[K, R, C] matrices with their singular values pushed to about 1 (0.7 … 1.2) by Newton-Schulz iterations."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(iterations):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x
