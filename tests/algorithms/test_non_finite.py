"""A number that is not finite ends the run before it reaches a weight, and says which and when."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from comparing import identical, parameters
from pytorch_lightning import Callback

from acrl.algorithms import GRPO, PPO
from acrl.errors import Diverged
from acrl.spec import BatchPlan, Critic, Optimizer

PLAN = BatchPlan(completions_per_iteration=8, group_size=4, minibatches=2, micro_batch_size=2)


class BeforeEachStep(Callback):
    """The parameters before each optimizer step."""

    def __init__(self):
        self.parameters = []

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.parameters.append(parameters(module))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_broken_weight(poison, build, iterate):
    module = build(GRPO, batch=PLAN)
    module.configure_model()
    with torch.no_grad():
        module.policy.model.layers[1].mlp.up_proj.weight[0, 0] = poison
    start = parameters(module)
    with pytest.raises(Diverged, match=r"non-finite \w+ in iteration 1, optimizer step 1"):
        iterate(module)
    assert all(torch.equal(start[k].nan_to_num(), p.nan_to_num()) for k, p in parameters(module).items())


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["advantages", "returns"])
def test_a_broken_credit_is_named_with_its_iteration(name, poison, build, iterate):
    module = build(PPO, batch=PLAN)
    assign_credit = module.assign_credit

    def break_in_iteration_2(batch):
        batch = assign_credit(batch)
        if module.counters.iterations == 1:
            getattr(batch, name)[0, 0] = poison
        return batch

    module.assign_credit = break_in_iteration_2
    named = "advantages" if name == "advantages" else "value_loss"
    with pytest.raises(Diverged, match=f"non-finite {named} in iteration 2"):
        iterate(module, 2)
    assert module.counters.iterations == 1


@pytest.mark.parametrize("trunk", ["separate", "shared"])
def test_a_broken_gradient_of_the_second_step_is_named_and_not_applied(trunk, build, iterate):
    module = build(PPO, batch=replace(PLAN, micro_batch_size=8), critic=Critic(trunk))
    module.configure_model()
    calls = []

    def break_the_second(gradient):
        calls.append(gradient)
        return gradient * float("nan") if len(calls) == 2 else gradient

    module.policy.model.layers[1].mlp.up_proj.weight.register_hook(break_the_second)
    steps = BeforeEachStep()
    with pytest.raises(
        Diverged, match=r"gradient of policy\.model\.layers\.1\.mlp\.up_proj\.weight in iteration 1.*step 2"
    ):
        iterate(module, callbacks=[steps])
    assert not identical(*steps.parameters)
    assert identical(steps.parameters[1], parameters(module))


def test_a_broken_gradient_of_the_critic_is_named(build, iterate):
    module = build(PPO, batch=PLAN)
    module.configure_model()
    module.critic.head.linear.weight.register_hook(lambda gradient: gradient * float("inf"))
    start = parameters(module)
    with pytest.raises(Diverged, match=r"gradient of critic\.head\.linear\.weight in iteration 1"):
        iterate(module)
    assert identical(start, parameters(module))


def test_an_absurd_learning_rate_ends_as_diverged(build, iterate):
    module = build(GRPO, batch=replace(PLAN, epochs=3), optimizer=Optimizer(lr=1e30))
    with pytest.raises(Diverged, match=r"lower model\.optimizer\.lr"):
        iterate(module, 3)
