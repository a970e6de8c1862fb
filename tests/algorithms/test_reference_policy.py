"""The reference of a KL term: the start policy, frozen, never saved, and only there where it is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from comparing import identical, unsettled

from acrl.algorithms import GRPO, NAMED, PPO, LitePPO
from acrl.algorithms import base as algorithms_base
from acrl.models.policy import load_policy
from acrl.spec import KL, BatchPlan, Optimizer

PLAN = BatchPlan(completions_per_iteration=8, group_size=4, minibatches=1)
IN_LOSS = KL(0.1, "k3", "loss")


def test_reference_stays_the_start_policy_while_the_policy_moves(build, iterate, model_dir):
    start = dict(load_policy(str(model_dir)).named_parameters())
    module = iterate(build(GRPO, batch=PLAN), 2)
    assert identical(dict(module.reference.named_parameters()), start)
    assert not any(p.requires_grad for p in module.reference.parameters())
    assert not identical(dict(module.policy.named_parameters()), start)


def test_reference_is_neither_a_parameter_nor_a_state_nor_in_a_checkpoint(build, iterate, tmp_path):
    module = iterate(build(GRPO, batch=PLAN))
    policy = {f"policy.{name}" for name in module.policy.state_dict()}
    assert set(module.state_dict()) == {name for name, _ in module.named_parameters()} == policy
    module.trainer.save_checkpoint(tmp_path / "last.ckpt")
    assert set(torch.load(tmp_path / "last.ckpt", weights_only=False)["state_dict"]) == policy
    weights = sum(p.numel() for p in module.policy.parameters()) * 4
    assert (tmp_path / "last.ckpt").stat().st_size <= 3.2 * weights + 100_000  # weights, two moments, names


@pytest.mark.parametrize("kind", NAMED)
def test_kl_is_0_at_the_first_scoring(kind, build, iterate):
    module = iterate(build(kind, batch=replace(PLAN, micro_batch_size=3), kl=IN_LOSS))
    batch = module.collected.batch
    assert len(batch.lengths.unique()) > 2
    assert (batch.old_logprobs - batch.ref_logprobs).abs().max() < 1e-6
    assert 0 <= module.row["policy/ref_kl"] < 1e-6


def test_kl_grows_with_training(build, iterate):
    module = iterate(build(GRPO, batch=PLAN, optimizer=Optimizer(lr=1e-3)), 2)
    assert module.row["policy/ref_kl"] > 1e-4


@pytest.mark.parametrize("coef, models", [(0.0, 1), (0.1, 2)])
def test_without_a_coefficient_no_reference_is_loaded(coef, models, build, iterate, monkeypatch):
    loaded = []
    monkeypatch.setattr(algorithms_base, "load_policy", lambda path: loaded.append(path) or load_policy(path))
    module = iterate(build(GRPO, batch=PLAN, kl=KL(coef, "k3", "loss")))
    assert len(loaded) == models
    assert (module.reference is None) == (coef == 0)
    assert (module.collected.batch.ref_logprobs is None) == (coef == 0)
    assert ("policy/ref_kl" in module.row) == (coef > 0)


def test_loss_shifts_by_coefficient_times_kl(build, iterate):
    still = Optimizer(lr=0.0)
    losses, kl = [], 0.0
    for coef in (0.0, 0.7):
        module = iterate(unsettled(build(LitePPO, batch=PLAN, optimizer=still, kl=KL(coef, "k3", "loss"))))
        losses.append(module.row["policy/loss"])
        kl = module.row.get("policy/ref_kl", 0.0)
    assert kl > 1e-4
    assert losses[1] - losses[0] == pytest.approx(0.7 * kl, rel=1e-3)


def test_penalty_lowers_returns_by_coefficient_times_kl_from_there_on(build, iterate):
    module = iterate(unsettled(build(PPO, batch=PLAN, kl=KL(0.7, "k1", "reward"))))
    batch = module.collected.batch
    k1 = (batch.old_logprobs - batch.ref_logprobs).double()
    expected = batch.rewards[:, None] - 0.7 * k1.flip(1).cumsum(1).flip(1)
    assert k1.abs().max() > 0.01
    torch.testing.assert_close(
        batch.returns.double()[batch.response_mask], expected[batch.response_mask], rtol=1e-5, atol=1e-5
    )


def test_reference_has_the_precision_of_the_policy(build, iterate):
    module = iterate(build(GRPO, batch=PLAN), precision="64-true")
    assert {p.dtype for p in module.reference.parameters()} == {torch.float64}
    assert (module.collected.batch.old_logprobs - module.collected.batch.ref_logprobs).abs().max() < 1e-12
