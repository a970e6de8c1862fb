"""Warnings for runs that cannot learn: once each, and not for runs that can."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from acrl.callbacks.health import Health, is_constant, is_cut_off

CUT_OFF = {"rollout/truncated_fraction": 0.6, "rollout/reward_mean": 0.0}
DEAD = {"advantage/zero_variance_group_fraction": 1.0, "policy/loss": 0.0, "policy/grad_norm": 0.0}
HEALTHY = {
    "rollout/groups_missing": 0.0,
    "rollout/truncated_fraction": 0.5,
    "rollout/reward_mean": 0.1,
    "advantage/zero_variance_group_fraction": 0.9,
    "policy/loss": 1e-9,
    "policy/grad_norm": 0.3,
}


def warnings_of(rows: list[dict[str, float]], capsys: pytest.CaptureFixture, low: float = 0.0) -> list[str]:
    """What is printed over iterations with these rows (a healthy one's values where they say nothing)."""
    trainer: Any = SimpleNamespace(datamodule=SimpleNamespace(scorer=SimpleNamespace(range=(low, 1.0))))
    health = Health()
    for row in rows:
        module: Any = SimpleNamespace(
            row=HEALTHY | row,
            plan=SimpleNamespace(prompts=4),
            sampling=SimpleNamespace(max_response_length=12, refill_rounds=10),
            counters=SimpleNamespace(iterations=7),
        )
        health.on_train_epoch_end(trainer, module)
    return capsys.readouterr().err.splitlines()


def test_answers_that_are_cut_off(capsys: pytest.CaptureFixture) -> None:
    (line,) = warnings_of([CUT_OFF] * 9, capsys)
    assert line.startswith("acrl: warning: ") and "model.sampling.max_response_length (12)" in line
    assert not warnings_of([CUT_OFF, CUT_OFF, {}, CUT_OFF, CUT_OFF], capsys)  # not three in a row


def test_groups_without_variance(capsys: pytest.CaptureFixture) -> None:
    (line,) = warnings_of([DEAD] * 9, capsys)
    assert line.startswith("acrl: warning: ") and "the reward has no variance within a group" in line
    assert not warnings_of([DEAD, DEAD, {}, DEAD, DEAD], capsys)


def test_an_iteration_that_is_short_of_groups(capsys: pytest.CaptureFixture) -> None:
    (line,) = warnings_of([{"rollout/groups_missing": 3.0}, {"rollout/groups_missing": 1.0}], capsys)
    assert line.startswith("acrl: warning: iteration 7 trains on 1 of 4 groups: after 10 rounds")


def test_each_of_two_troubles_is_named_once(capsys: pytest.CaptureFixture) -> None:
    assert len(warnings_of([CUT_OFF | DEAD] * 9, capsys)) == 2
    assert len(warnings_of([CUT_OFF] * 3 + [{}] * 3 + [CUT_OFF] * 3, capsys)) == 1


def test_a_loss_near_0_is_no_trouble(capsys: pytest.CaptureFixture) -> None:
    assert not warnings_of([{}] * 9, capsys)
    assert not warnings_of([DEAD | {"policy/grad_norm": 0.02}] * 9, capsys)  # a KL term or a critic still pulls


def test_the_lowest_reward_is_that_of_the_scale(capsys: pytest.CaptureFixture) -> None:
    lost = {"rollout/truncated_fraction": 1.0, "rollout/reward_mean": -1.0}
    assert warnings_of([lost] * 3, capsys, low=-1.0) and not warnings_of([CUT_OFF] * 3, capsys, low=-1.0)


def test_signs() -> None:
    assert is_cut_off(CUT_OFF, 0.0) and not is_cut_off(CUT_OFF | {"rollout/reward_mean": 0.01}, 0.0)
    assert is_constant({"advantage/zero_variance_group_fraction": 1.0})  # the filter left nothing: no loss at all
    warming_up = {"advantage/zero_variance_group_fraction": 1.0, "policy/loss": 0.2}  # a frozen policy has no gradient
    assert not is_constant(warming_up)
