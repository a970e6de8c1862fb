"""The first optimizer step on fresh rollouts sees the policy that sampled them: ratio 1, KL 0, nothing clipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acrl.algorithms import GRPO, NAMED
from acrl.algorithms.presets import preset_of
from acrl.spec import BatchPlan, Sampling

ONE_STEP = BatchPlan(completions_per_iteration=16, group_size=4, minibatches=1, micro_batch_size=5)


def sampling_of(kind, temperature):
    return replace(preset_of(kind).get("sampling", Sampling()), max_response_length=12, temperature=temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("kind", NAMED)
def test_first_step_is_on_policy(kind, temperature, build, iterate):
    module = iterate(build(kind, batch=ONE_STEP, sampling=sampling_of(kind, temperature)))
    batch, row = module.collected.batch, module.row
    assert len(batch.prompt_mask.sum(dim=1).unique()) > 1 and len(batch.lengths.unique()) > 1
    assert row["policy/grad_norm"] > 1e-3 and module.counters.optimizer_steps == 1
    assert row["policy/first_ratio_error"] < 1e-4
    assert abs(row["policy/approx_kl"]) < 1e-6
    assert row["policy/clip_fraction_low"] == row["policy/clip_fraction_high"] == 0
    assert abs(row.get("policy/ref_kl", 0.0)) < 1e-6


@pytest.mark.parametrize("temperature", [0.6, 1.4])
def test_old_log_probs_at_another_temperature_show_in_the_first_ratio(temperature, build, iterate, monkeypatch):
    module = build(GRPO, batch=ONE_STEP)
    score_rows = module.score_rows

    def at_another_temperature(rows):
        own = module.sampling
        module.sampling = replace(own, temperature=temperature)
        try:
            return score_rows(rows)
        finally:
            module.sampling = own

    monkeypatch.setattr(module, "score_rows", at_another_temperature)
    iterate(module)
    assert module.row["policy/first_ratio_error"] > 1e-2
    assert module.row["policy/approx_kl"] > 1e-3


def test_later_steps_are_off_policy(build, iterate):
    module = build(GRPO, batch=replace(ONE_STEP, minibatches=2, epochs=2))
    iterate(module)
    assert module.row["policy/first_ratio_error"] < 1e-4
    assert module.row["policy/approx_kl"] > 1e-6
    assert module.counters.optimizer_steps == 4


def test_centred_advantages_make_a_loss_of_0_with_a_gradient(build, iterate):
    module = iterate(build(GRPO, batch=ONE_STEP))
    assert abs(module.row["policy/loss"]) < 1e-6
    assert module.row["policy/grad_norm"] > 1e-3
