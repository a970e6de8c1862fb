"""How far apart two trained modules are."""

from __future__ import annotations

import torch
from torch import Tensor

from acrl.algorithms import RLModule

Parameters = dict[str, Tensor]


def parameters(module: RLModule, owner: str = "") -> Parameters:
    """Copies of the parameters whose names start with `owner`: policy, critic, or all of them."""
    return {name: p.detach().clone() for name, p in module.named_parameters() if name.startswith(owner)}


def per_tensor(one: Parameters, other: Parameters) -> float:
    """The largest ‖Δ‖/‖θ‖ of a tensor."""
    assert one.keys() == other.keys()
    return max(float((one[k] - other[k]).norm() / one[k].norm().clamp_min(1e-300)) for k in one)


def overall(one: Parameters, other: Parameters) -> float:
    """‖Δ‖/‖θ‖ over the whole vector."""
    assert one.keys() == other.keys()
    flat, flat_other = (torch.cat([p.flatten().double() for p in ps.values()]) for ps in (one, other))
    return float((flat - flat_other).norm() / flat.norm())


def identical(one: Parameters, other: Parameters) -> bool:
    """Whether they are the same to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def unsettled(module: RLModule) -> RLModule:
    """The module with its policy off the reference and its value head off zero, so that every term acts at once."""
    module.configure_model()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in module.policy.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.01)
        if getattr(module, "critic", None) is not None:
            head = module.critic.head.linear
            head.weight.copy_(torch.randn(head.weight.shape, generator=generator) * 0.3)
            head.bias.fill_(0.1)
    return module
