"""Same seed, same numbers; evaluation changes nothing in training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Result, lasting, record, rows

Runs = dict[str, Result]


def samples(run_dir: Path) -> bytes:
    return (run_dir / "samples.jsonl").read_bytes()


def without_time(row: dict[str, float]) -> dict[str, float]:
    return {key: value for key, value in row.items() if not key.startswith("time/")}


@pytest.mark.parametrize("name", ["grpo", pytest.param("ppo", marks=pytest.mark.slow)])
def test_the_same_command_twice(name: str, shipped: Callable[..., Result], shipped_runs: Runs) -> None:
    one, other = shipped_runs[name].run_dir, shipped(name).run_dir
    assert one != other and one.parent == other.parent
    assert record(one)["status"] == record(other)["status"] == "finished"
    assert lasting(one) == lasting(other) and samples(one) == samples(other)
    assert len(rows(one)) == 3 and len(rows(one, "samples.jsonl")) == 2 * 4


def test_another_seed(shipped: Callable[..., Result], shipped_runs: Runs) -> None:
    one, other = shipped_runs["grpo"].run_dir, shipped("grpo", "--seed_everything", 4).run_dir
    assert without_time(rows(one)[0]) == without_time(rows(other)[0])  # evaluation has a seed of its own
    assert lasting(one, "eval/", "counter/") != lasting(other, "eval/", "counter/")
    prompts = [[sample["prompt"] for sample in rows(run, "samples.jsonl")] for run in (one, other)]
    assert prompts[0] != prompts[1]


def test_evaluation_does_not_disturb_training(shipped: Callable[..., Result], shipped_runs: Runs) -> None:
    often, once = shipped_runs["grpo"].run_dir, shipped("grpo", "--eval.every_completions", 999).run_dir
    assert [("eval/accuracy" in row) for row in rows(often)] == [True, True, True]
    assert [("eval/accuracy" in row) for row in rows(once)] == [True, False, True]
    assert lasting(often, "eval/") == lasting(once, "eval/")
    assert samples(often) == samples(once)


def test_every_algorithm_starts_from_the_same_accuracy(shipped_runs: Runs) -> None:
    first, *others = [without_time(rows(result.run_dir)[0]) for result in shipped_runs.values()]
    assert "eval/accuracy" in first and "eval/accuracy_greedy" in first
    assert len(others) == 3 and all(start == first for start in others)
