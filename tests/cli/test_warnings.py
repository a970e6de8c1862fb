"""Runs that cannot learn say why, once; see tests/callbacks/test_health.py for the rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Result, acrl, rows


def warnings_of(result: Result) -> list[str]:
    """The warnings among what a command printed."""
    assert result.code == 0, result.err
    return [line for line in result.err.splitlines() if "warning" in line.lower()]


@pytest.mark.slow
def test_a_limit_that_cuts_answers_off(config: Callable[..., Path]) -> None:
    argv = ("--model.sampling.max_response_length", 1, "--reward.functions", "[{name: format, kwargs: {pattern: 'x'}}]")
    result = acrl("fit", "--config", config("LitePPO"), *argv, "--budget.iterations", 5)
    row = rows(result.run_dir)[-1]
    assert row["rollout/truncated_fraction"] > 0.5 and row["rollout/reward_mean"] == 0
    cut_off, constant = warnings_of(result)
    assert "model.sampling.max_response_length (1)" in cut_off and "no variance within a group" in constant


def test_a_reward_that_never_differs(config: Callable[..., Path]) -> None:
    argv = ("--reward.functions", "[{name: format, kwargs: {pattern: '.*'}}]", "--budget.iterations", 4)
    result = acrl("fit", "--config", config("LitePPO"), *argv)
    assert rows(result.run_dir)[-1]["rollout/reward_mean"] == 1
    assert ["no variance within a group" in line for line in warnings_of(result)] == [True]
    assert rows(result.run_dir)[-1]["policy/grad_norm"] == 0


@pytest.mark.slow
def test_a_loss_near_0_is_no_reason_to_warn(config: Callable[..., Path]) -> None:
    argv = ("--model.batch.minibatches", 1, "--budget.iterations", 4, "--model.optimizer.lr", 1e-6)
    result = acrl("fit", "--config", config("LitePPO"), *argv, "--model.objective.aggregation", "sequence_mean")
    trained = rows(result.run_dir)[1:]
    assert all(abs(row["policy/loss"]) < 1e-6 for row in trained)
    assert any(row["policy/grad_norm"] > 0 for row in trained) and warnings_of(result) == []
