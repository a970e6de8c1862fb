"""Who needs several answers to a prompt, and who learns from one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparing import identical, parameters

from acrl.algorithms import DAPO, GRPO, PPO, RLOO, DrGRPO, LitePPO, ReinforcePP, ReinforcePPBaseline
from acrl.errors import ConfigError
from acrl.spec import BatchPlan, Credit, Sampling

ALONE = BatchPlan(completions_per_iteration=8, group_size=1)


@pytest.mark.parametrize(
    "kind, reasons",
    [
        (GRPO, ["credit.baseline", "credit.scale"]),
        (DAPO, ["credit.baseline", "credit.scale", "sampling.groups"]),
        (RLOO, ["credit.baseline"]),
        (DrGRPO, ["credit.baseline"]),
        (LitePPO, ["credit.baseline"]),
        (ReinforcePPBaseline, ["credit.baseline"]),
    ],
)
def test_a_group_of_one_is_refused_before_a_model_loads(kind, reasons, build):
    with pytest.raises(ConfigError) as error:
        build(kind, batch=ALONE, policy=None)
    message = str(error.value)
    assert "batch.group_size is 1" in message and "2 or more" in message and kind.__name__ in message
    named = [key for key in ("credit.baseline", "credit.scale", "sampling.groups") if f"{key} " in message]
    assert named == reasons


@pytest.mark.parametrize("kind", [PPO, ReinforcePP])
def test_a_group_of_one_trains(kind, build, iterate):
    module = build(kind, batch=ALONE)
    module.configure_model()
    start = parameters(module, "policy")
    iterate(module)
    assert module.collected.batch.advantages.abs().max() > 0.1
    assert not identical(start, parameters(module, "policy"))


@pytest.mark.parametrize("baseline, scale", [("batch_mean", "batch_std"), ("none", "none")])
def test_baselines_over_the_batch_need_no_group(baseline, scale, build):
    assert build(GRPO, batch=ALONE, credit=Credit(baseline, scale)).plan.group_size == 1


@pytest.mark.parametrize(
    "credit", [Credit("batch_mean", "none"), Credit("none", "batch_std"), Credit("none", "whiten")]
)
def test_baselines_over_the_batch_need_two_answers_in_it(credit, build):
    with pytest.raises(ConfigError, match=r"batch\.completions_per_iteration is 1.*give 2 or more"):
        build(ReinforcePP, batch=BatchPlan(completions_per_iteration=1, group_size=1, minibatches=1), credit=credit)


@pytest.mark.parametrize("kind", [GRPO, DAPO, RLOO, LitePPO])
def test_two_are_enough(kind, build):
    assert build(kind, batch=replace(ALONE, group_size=2)).plan.prompts == 4


def test_mixed_groups_need_two_answers_beside_a_critic_too(build):
    with pytest.raises(ConfigError, match=r"sampling\.groups"):
        build(PPO, batch=ALONE, sampling=Sampling(groups="mixed"))
