"""The optimizer step: one AdamW with a group per owner, its schedule, clipping per owner, and the refusal of non-finite
numbers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from acrl.errors import Diverged
from acrl.spec import Optimizer


def build_optimizer(
    groups: dict[str, list[nn.Parameter]], rates: dict[str, float], spec: Optimizer
) -> torch.optim.Optimizer:
    """Return one AdamW with a group per owner, which remembers its full learning rate as `full_lr`."""
    return torch.optim.AdamW(
        [{"params": p, "lr": rates[name], "full_lr": rates[name], "name": name} for name, p in groups.items()],
        lr=spec.lr,
        betas=(spec.beta1, spec.beta2),
        eps=spec.eps,
        weight_decay=spec.weight_decay,
    )


def set_learning_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group's learning rate to `factor` times its full one."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group["full_lr"]


def schedule_factor(spec: Optimizer, steps: int, budget_share: float) -> float:
    """Return min(1, (steps + 1)/warmup_steps), times 1 − budget_share with linear decay."""
    warmup = min(1.0, (steps + 1) / spec.warmup_steps) if spec.warmup_steps else 1.0
    return warmup * (1.0 - budget_share if spec.decay == "linear" else 1.0)


def clip_by_owner(
    optimizer: torch.optim.Optimizer, limit: float | None, named: Iterable[tuple[str, nn.Parameter]], where: str
) -> dict[str, Tensor]:
    """Clip each group's gradient to norm `limit` on its own (None: not at all); return the norms before, by owner.

    Raises:
        Diverged: a norm is not finite; names the first parameter that made it so.
    """
    norms = {}
    for group in optimizer.param_groups:
        graded = [p for p in group["params"] if p.grad is not None]
        if not graded:
            continue
        norm = torch.nn.utils.get_total_norm([p.grad for p in graded if p.grad is not None])
        if not torch.isfinite(norm):
            raise Diverged(f"non-finite gradient of {_culprit(graded, named, group['name'])} in {where}")
        norms[group["name"]] = norm
        if limit is not None:
            torch.nn.utils.clip_grads_with_norm_(graded, limit, norm)
    return norms


def check_finite(where: str, **values: Tensor) -> None:
    """Raise Diverged on the first of `values` that is not finite; name it."""
    for name, value in values.items():
        if not torch.isfinite(value).all():
            raise Diverged(f"non-finite {name} in {where}")


def _culprit(graded: list[nn.Parameter], named: Iterable[tuple[str, nn.Parameter]], owner: str) -> str:
    members = {id(p) for p in graded}
    for name, parameter in named:
        if id(parameter) in members and not torch.isfinite(parameter.grad).all():  # type: ignore[arg-type]
            return name
    return f"the {owner} (its norm overflows)"
