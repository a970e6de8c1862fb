"""`optimizer.max_grad_norm` clips policy and critic each on its own, and logs the norms before."""

from __future__ import annotations

import pytest
import torch

from acrl.algorithms import PPO
from acrl.spec import BatchPlan, Critic, Optimizer


def norm(parameters):
    return float(torch.cat([p.grad.flatten() for p in parameters]).norm())


@pytest.fixture
def clipped(build):
    """Norms by group after clipping gradients of norm 3 (policy) and 0.5 (critic), and what was logged."""

    def run(limit, **specs):
        module = build(PPO, optimizer=Optimizer(max_grad_norm=limit), **specs)
        module.configure_model()
        optimizer = module.configure_optimizers()
        for group, size in zip(optimizer.param_groups, (3.0, 0.5), strict=True):
            entries = sum(p.numel() for p in group["params"])
            for p in group["params"]:
                p.grad = torch.full_like(p, size / entries**0.5)
        module.configure_gradient_clipping(optimizer)
        after = {group["name"]: norm(group["params"]) for group in optimizer.param_groups}
        return after, module.step_metrics.compute()

    return run


@pytest.mark.parametrize("trunk", ["separate", "shared"])
@pytest.mark.parametrize(
    "limit, policy, critic", [(1.0, 1.0, 0.5), (0.1, 0.1, 0.1), (2.9, 2.9, 0.5), (4.0, 3.0, 0.5), (None, 3.0, 0.5)]
)
def test_each_group_is_clipped_on_its_own(limit, policy, critic, trunk, clipped):
    after, logged = clipped(limit, critic=Critic(trunk=trunk))
    assert after == pytest.approx({"policy": policy, "critic": critic}, rel=1e-4)
    assert logged["policy/grad_norm"] == pytest.approx(3.0, rel=1e-4)
    assert logged["critic/grad_norm"] == pytest.approx(0.5, rel=1e-4)


def test_a_step_sees_clipped_gradients(build, iterate):
    module = build(
        PPO,
        batch=BatchPlan(completions_per_iteration=16, group_size=4, minibatches=2, micro_batch_size=3),
        optimizer=Optimizer(max_grad_norm=1e-3),
    )
    clip, seen = module.configure_gradient_clipping, []

    def clip_and_measure(optimizer, *args, **kwargs):
        clip(optimizer, *args, **kwargs)
        seen.append([norm(group["params"]) for group in optimizer.param_groups])

    module.configure_gradient_clipping = clip_and_measure
    iterate(module)
    assert seen == [pytest.approx([1e-3, 1e-3], rel=1e-3)] * 2
    assert module.row["policy/grad_norm"] > 1e-2 and module.row["critic/grad_norm"] > 1e-2
