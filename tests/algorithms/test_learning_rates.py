"""Warm-up and decay of the learning rate; policy and critic follow the same schedule at a fixed ratio."""

from __future__ import annotations

import pytest
from pytorch_lightning import Callback

from acrl.algorithms import DAPO, GRPO, PPO
from acrl.algorithms.optimization import schedule_factor
from acrl.callbacks.budget import BudgetStop
from acrl.spec import BatchPlan, Budget, Critic, Optimizer, Sampling

TWO_STEPS = BatchPlan(completions_per_iteration=8, group_size=4, minibatches=2)
ONE_STEP = BatchPlan(completions_per_iteration=8, group_size=4, minibatches=1)


class LearningRates(Callback):
    """Each optimizer step's learning rates by group."""

    def __init__(self):
        self.steps = []

    def on_train_start(self, trainer, module):
        trainer.optimizers[0].register_step_post_hook(self._record)

    def _record(self, optimizer, *_):
        if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
            self.steps.append({group["name"]: group["lr"] for group in optimizer.param_groups})

    def factors(self, group, lr):
        return [step[group] / lr for step in self.steps]


@pytest.fixture
def learning_rates(build, iterate):
    def run(kind, iterations, *callbacks, reward="even_digits", **specs):
        rates = LearningRates()
        iterate(build(kind, **specs), iterations, reward, callbacks=[rates, *callbacks])
        return rates

    return run


def test_warmup_rises_by_optimizer_steps_for_both_groups(learning_rates):
    optimizer = Optimizer(lr=1e-4, warmup_steps=4)
    rates = learning_rates(PPO, 3, batch=TWO_STEPS, optimizer=optimizer, critic=Critic(lr_ratio=5.0))
    assert rates.factors("policy", 1e-4) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    assert rates.factors("critic", 5e-4) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


def test_without_warmup_and_decay_the_rate_is_constant(learning_rates):
    assert learning_rates(GRPO, 2, batch=TWO_STEPS).factors("policy", 1e-4) == pytest.approx([1.0] * 4)


@pytest.mark.parametrize(
    "plan, factors",
    [(ONE_STEP, [1.0, 0.75, 0.5, 0.25]), (TWO_STEPS, [1.0, 1.0, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25])],
)
def test_linear_decay_follows_the_share_of_the_budget_used(plan, factors, learning_rates):
    optimizer = Optimizer(lr=1e-4, decay="linear")
    rates = learning_rates(PPO, 9, BudgetStop(Budget(iterations=4)), batch=plan, optimizer=optimizer)
    assert rates.factors("policy", 1e-4) == pytest.approx(factors)
    assert rates.factors("critic", 2e-4) == pytest.approx(factors)


def test_warmup_and_decay_multiply():
    spec = Optimizer(warmup_steps=10, decay="linear")
    assert schedule_factor(spec, steps=3, budget_share=0.5) == pytest.approx(0.4 * 0.5)


def test_an_iteration_without_an_optimizer_step_leaves_the_warmup_where_it_was(learning_rates):
    sampling = Sampling(max_response_length=12, groups="mixed", refill_rounds=1)
    optimizer = Optimizer(lr=1e-4, warmup_steps=4)
    rates = learning_rates(DAPO, 3, batch=ONE_STEP, sampling=sampling, optimizer=optimizer, reward="dead_at_first")
    assert rates.factors("policy", 1e-4) == pytest.approx([0.25, 0.5])


def test_small_rates_move_float32_weights(build, iterate):
    module = build(PPO, batch=BatchPlan(completions_per_iteration=16, epochs=5), optimizer=Optimizer(lr=1e-6))
    module.configure_model()
    start = {name: p.detach().clone() for name, p in module.named_parameters() if "embed_tokens" not in name}
    iterate(module)
    assert module.counters.optimizer_steps == 10
    same = sum(int((start[name] == p).sum()) for name, p in module.named_parameters() if name in start)
    assert same < 0.1 * sum(p.numel() for p in start.values())
