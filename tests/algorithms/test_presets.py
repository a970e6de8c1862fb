"""A named algorithm is its preset: the family's table, and what sets neighbours apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparing import identical, parameters

from acrl.algorithms import (
    DAPO,
    GRPO,
    NAMED,
    PPO,
    RLOO,
    ActorCritic,
    CriticFree,
    DrGRPO,
    LitePPO,
    ReinforcePP,
    ReinforcePPBaseline,
    RLModule,
)
from acrl.algorithms.presets import departures, preset_of
from acrl.errors import ConfigError
from acrl.spec import KL, BatchPlan, Credit, Critic, Objective, Sampling

CELLS = ("baseline", "scale", "clip_low", "clip_high", "dual_clip", "aggregation", "kl", "groups", "overlong", "critic")

CLIP = (0.2, 0.2, None)
NO_KL, K1, K2, K3 = (0.0, None, None), ("k1", "reward"), ("k2", "loss"), ("k3", "loss")
TABLE = {
    PPO: ("critic", "whiten", *CLIP, "token_mean", NO_KL, "all", "none", True),
    GRPO: ("group_mean", "group_std", *CLIP, "sequence_mean", (0.04, *K3), "all", "none", False),
    DAPO: ("group_mean", "group_std", 0.2, 0.28, None, "token_mean", NO_KL, "mixed", "penalty", False),
    LitePPO: ("group_mean", "batch_std", *CLIP, "token_mean", NO_KL, "all", "none", False),
    RLOO: ("leave_one_out", "none", *CLIP, "constant", (0.03, *K1), "all", "none", False),
    DrGRPO: ("group_mean", "none", *CLIP, "constant", NO_KL, "all", "none", False),
    ReinforcePP: ("none", "whiten", *CLIP, "token_mean", (0.01, *K1), "all", "none", False),
    ReinforcePPBaseline: ("group_mean", "batch_std_centred", *CLIP, "sequence_mean", (0.01, *K2), "all", "none", False),
}

NEIGHBOURS = [
    (PPO, LitePPO, {"baseline", "scale", "critic"}),
    (PPO, ReinforcePP, {"baseline", "kl", "critic"}),
    (GRPO, DAPO, {"clip_high", "aggregation", "kl", "groups", "overlong"}),
    (GRPO, LitePPO, {"scale", "aggregation", "kl"}),
    (GRPO, DrGRPO, {"scale", "aggregation", "kl"}),
    (GRPO, ReinforcePPBaseline, {"scale", "kl"}),
    (DAPO, LitePPO, {"scale", "clip_high", "groups", "overlong"}),
    (DrGRPO, RLOO, {"baseline", "kl"}),
]


def cells(specs):
    credit, objective, kl, sampling = (specs[name] for name in ("credit", "objective", "kl", "sampling"))
    return (
        *(credit.baseline, credit.scale),
        *(objective.clip_low, objective.clip_high, objective.dual_clip, objective.aggregation),
        (kl.coef, kl.estimator, kl.where) if kl.coef else NO_KL,
        *(sampling.groups, sampling.overlong),
        "critic" in specs,
    )


def test_the_table_names_every_algorithm():
    assert set(TABLE) == set(NAMED)


@pytest.mark.parametrize("kind", NAMED)
def test_preset_is_its_row_of_the_table(kind):
    assert cells(preset_of(kind)) == TABLE[kind]


@pytest.mark.parametrize("kind", NAMED)
def test_an_instance_has_its_preset(kind, build):
    module = build(kind, sampling=preset_of(kind)["sampling"])
    assert module.specs == preset_of(kind)
    assert departures(kind, module.specs) == []


@pytest.mark.parametrize("one, other, expected", NEIGHBOURS)
def test_neighbours_differ_in_these_cells_alone(one, other, expected):
    found = zip(CELLS, cells(preset_of(one)), cells(preset_of(other)), strict=True)
    assert {name for name, a, b in found if a != b} == expected


def test_dapo_penalises_the_last_fifth_by_half_the_range_of_the_reward():
    sampling = preset_of(DAPO)["sampling"]
    assert (sampling.overlong_buffer, sampling.overlong_weight) == (0.2, 0.5)


def test_the_critic_discounts_nothing():
    critic = preset_of(PPO)["critic"]
    assert (critic.trunk, critic.lr_ratio, critic.loss_coef) == ("separate", 2.0, 1.0)
    assert (critic.gamma, critic.lam_policy, critic.lam_critic) == (1.0, 1.0, 1.0)
    assert (critic.length_adaptive_alpha, critic.value_clip, critic.bootstrap_truncated) == (None, None, False)


@pytest.mark.parametrize("kind, specs", [(RLModule, {}), (CriticFree, {}), (ActorCritic, {"critic": Critic()})])
def test_what_prescribes_nothing_is_abstract(kind, specs):
    credit, objective = Credit("group_mean", "none"), Objective(0.2, 0.2, "token_mean")
    with pytest.raises(TypeError, match="abstract"):
        kind(credit=credit, objective=objective, **specs)


def test_departures_name_key_value_and_preset(build):
    module = build(
        DAPO,
        objective=Objective(0.2, 0.3, "token_mean"),
        kl=KL(0.04, "k3", "loss"),
        sampling=replace(preset_of(DAPO)["sampling"], overlong="filter", temperature=0.7, max_response_length=9),
    )
    assert set(departures(DAPO, module.specs)) == {
        "objective.clip_high 0.3 (preset 0.28)",
        "kl.coef 0.04 (preset 0.0)",
        "sampling.overlong filter (preset penalty)",
    }


def test_departures_of_a_critic(build):
    assert departures(PPO, build(PPO, critic=Critic(lam_policy=0.95)).specs) == ["critic.lam_policy 0.95 (preset 1.0)"]


def test_a_class_is_nothing_but_its_values(build, iterate):
    batch = BatchPlan(completions_per_iteration=8, group_size=4)
    values = preset_of(LitePPO)
    disguised = iterate(build(GRPO, batch=batch, **values | {"sampling": Sampling(max_response_length=12)}))
    lite = iterate(build(LitePPO, batch=batch))
    assert identical(parameters(lite), parameters(disguised))
    assert not identical(parameters(lite), parameters(iterate(build(GRPO, batch=batch))))


@pytest.mark.parametrize("scale", ["group_std", "batch_std_centred"])
def test_a_critic_refuses_scales_over_groups(scale, build):
    with pytest.raises(ConfigError, match=r"credit\.scale.*whiten, batch_std, none"):
        build(PPO, credit=Credit("critic", scale))


def test_a_critic_refuses_another_baseline_and_the_others_refuse_a_critic(build):
    with pytest.raises(ConfigError, match=r"credit\.baseline is 'group_mean'.*learns its baseline"):
        build(PPO, credit=Credit("group_mean", "whiten"))
    with pytest.raises(ConfigError, match=r"credit\.baseline is 'critic'.*learns none"):
        build(GRPO, credit=Credit("critic", "whiten"))


def test_only_actor_critics_build_a_critic(build):
    for kind in NAMED:
        module = build(kind)
        module.configure_model()
        assert (list(module.parameter_groups()) == ["policy", "critic"]) == issubclass(kind, ActorCritic)
        assert any(name.startswith("critic.") for name, _ in module.named_parameters()) == issubclass(kind, ActorCritic)


def test_a_knob_that_cannot_act_is_named(build):
    once = BatchPlan(completions_per_iteration=16, group_size=4, minibatches=1)
    module = build(PPO, batch=once, critic=Critic(length_adaptive_alpha=0.05, value_clip=0.2))
    assert [name for name in ("lam_policy", "value_clip") if any(name in line for line in module.idle_knobs())] == [
        "lam_policy",
        "value_clip",
    ]
    assert build(PPO, critic=Critic(value_clip=0.2)).idle_knobs() == []
