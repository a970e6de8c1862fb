"""What the value loss may reach: its own trunk, the policy's, or the head alone."""

from __future__ import annotations

import pytest
import torch
from comparing import identical, parameters, per_tensor, unsettled

from acrl.algorithms import PPO
from acrl.models.policy import score_tokens
from acrl.spec import BatchPlan, Critic

PLAN = BatchPlan(completions_per_iteration=8, group_size=4, minibatches=1)


def gradients_of_the_value_loss(module):
    """By owner of the parameter: the largest gradient entry of the value loss alone, None where there is none."""
    micro = module.update.micro_batches[0]
    module.zero_grad(set_to_none=True)
    scores = score_tokens(module.policy, micro.rows, 1.0, hidden=module.needs_hidden)
    module.baseline_loss(micro, scores).backward()

    def largest(owner):
        found = [p.grad.abs().max() for n, p in module.named_parameters() if n.startswith(owner) and p.grad is not None]
        return float(max(found)) if found else None

    return {owner: largest(owner) for owner in ("policy.", "critic.trunk.", "critic.head.")}


@pytest.mark.parametrize(
    "trunk, reached",
    [
        ("separate", {"critic.trunk.", "critic.head."}),
        ("shared", {"policy.", "critic.head."}),
        ("shared_detached", {"critic.head."}),
    ],
)
def test_gradient_of_the_value_loss(trunk, reached, build, iterate):
    module = iterate(unsettled(build(PPO, batch=PLAN, critic=Critic(trunk=trunk))))
    assert {owner for owner, largest in gradients_of_the_value_loss(module).items() if largest} == reached


def test_shared_trunk_belongs_to_the_policy_and_its_learning_rate(build):
    module = build(PPO, critic=Critic(trunk="shared", lr_ratio=3.0))
    module.configure_model()
    groups = module.parameter_groups()
    assert {id(p) for p in groups["policy"]} == {id(p) for p in module.policy.parameters()}
    assert [tuple(p.shape) for p in groups["critic"]] == [(1, 32), (1,)]
    rates = {group["name"]: group["lr"] for group in module.configure_optimizers().param_groups}
    assert rates == pytest.approx({"policy": 1e-4, "critic": 3e-4})


def test_separate_trunk_starts_as_a_copy_and_shares_nothing(build):
    module = build(PPO)
    module.configure_model()
    own, policy = dict(module.critic.trunk.named_parameters()), dict(module.policy.model.named_parameters())
    assert identical(own, policy)
    assert not {p.data_ptr() for p in own.values()} & {p.data_ptr() for p in policy.values()}


def test_without_value_loss_a_shared_trunk_learns_as_the_policy_alone(build, iterate):
    ends = {
        trunk: parameters(iterate(build(PPO, batch=PLAN, critic=Critic(trunk, loss_coef=0.0)), 2), "policy.")
        for trunk in ("separate", "shared")
    }
    with_loss = parameters(iterate(build(PPO, batch=PLAN, critic=Critic("shared")), 2), "policy.")
    assert per_tensor(ends["separate"], ends["shared"]) <= 1e-9
    assert per_tensor(ends["separate"], with_loss) > 1e-6


def test_detached_trunk_learns_as_beside_a_separate_critic_while_values_are_0(build, iterate):
    ends = [
        parameters(iterate(build(PPO, batch=PLAN, critic=Critic(trunk))), "policy.")
        for trunk in ("separate", "shared_detached")
    ]
    assert per_tensor(*ends) <= 1e-9


def test_every_trunk_gives_the_same_values_at_the_start(build, iterate):
    found = []
    for trunk in ("separate", "shared", "shared_detached"):
        module = build(PPO, batch=PLAN, critic=Critic(trunk))
        module.configure_model()
        with torch.no_grad():
            module.critic.head.linear.weight.fill_(0.1)
        found.append(iterate(module).collected.batch.values)
    assert found[0].abs().max() > 0.01
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_value_head_starts_at_0(build, iterate):
    batch = iterate(build(PPO, batch=PLAN)).collected.batch
    assert torch.count_nonzero(batch.values) == 0 and torch.count_nonzero(batch.bootstrap) == 0
