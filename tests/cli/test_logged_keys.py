"""What a run logs: the same keys for every algorithm, all of them documented, in TensorBoard too."""

from __future__ import annotations

import math
import re

import pytest
from commands import ROOT, Result, rows
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

LISTED = {
    "rollout": "reward_mean reward_std response_length_mean response_length_p99 truncated_fraction repetition_fraction",
    "advantage": "zero_variance_group_fraction all_correct_group_fraction all_wrong_group_fraction mean std abs_max",
    "policy": "loss entropy token_probability_mean approx_kl first_ratio_error clip_fraction_low clip_fraction_high "
    "ratio_max grad_norm ref_kl",
    "critic": "value_loss explained_variance grad_norm",
    "eval": "accuracy accuracy_greedy sequence_entropy response_length_mean truncated_fraction "
    "easy/accuracy medium/accuracy hard/accuracy",
    "counter": "iterations optimizer_steps prompts completions tokens_generated tokens_trained",
    "time": "rollout reward score update eval total",
    "memory": "peak_bytes",
}


def keys(result: Result) -> set[str]:
    """Every key that a run logged."""
    return {key for row in rows(result.run_dir) for key in row}


def documented() -> list[str]:
    """The keys of docs/metrics.md: code spans in the first column of its tables."""
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    return [
        key for cell in re.findall(r"^\|([^|]+)\|", page, re.MULTILINE) for key in re.findall(r"`([^`]+/[^`]+)`", cell)
    ]


def matches(pattern: str, key: str) -> bool:
    """Whether a documented key, placeholders and all, is this logged one."""
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern)), key) is not None


def test_every_algorithm_logs_the_same_keys(shipped_runs: dict[str, Result]) -> None:
    found = {
        name: {k for k in keys(r) if not k.startswith("critic/")} - {"policy/ref_kl"}
        for name, r in shipped_runs.items()
    }
    assert all(own == found["ppo"] for own in found.values())
    assert {name for name, r in shipped_runs.items() if any(k.startswith("critic/") for k in keys(r))} == {"ppo"}
    assert {name for name, r in shipped_runs.items() if "policy/ref_kl" in keys(r)} == {"grpo"}


def test_every_listed_key_is_there(shipped_runs: dict[str, Result]) -> None:
    listed = {f"{group}/{name}" for group, names in LISTED.items() for name in names.split()}
    logged = set().union(*map(keys, shipped_runs.values()))
    assert listed - logged == set()


def test_logged_keys_are_documented_and_documented_keys_are_logged(shipped_runs: dict[str, Result]) -> None:
    patterns, logged = documented(), set().union(*(keys(shipped_runs[name]) for name in ("ppo", "grpo", "dapo")))
    assert len(patterns) == len(set(patterns)) > 30
    assert {key for key in logged if not any(matches(p, key) for p in patterns)} == set()
    assert {p for p in patterns if not any(matches(p, key) for key in logged)} == set()


@pytest.mark.parametrize("name", ["dapo", "ppo"])
def test_tensorboard_has_the_same_keys_and_points(name: str, shipped_runs: dict[str, Result]) -> None:
    result = shipped_runs[name]
    events = EventAccumulator(str(result.run_dir))
    events.Reload()
    assert set(events.Tags()["scalars"]) == keys(result)
    for row in rows(result.run_dir):
        for key, value in row.items():
            points = {event.step: event.value for event in events.Scalars(key)}
            assert points[row["counter/completions"]] == pytest.approx(value, rel=1e-6)


def test_every_number_is_finite(shipped_runs: dict[str, Result]) -> None:
    lines = [line for r in shipped_runs.values() for line in (r.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 4 * 3 and not [line for line in lines if "NaN" in line or "Infinity" in line]
    assert all(math.isfinite(value) for r in shipped_runs.values() for row in rows(r.run_dir) for value in row.values())


@pytest.mark.parametrize("name", ["grpo", "lite_ppo", "ppo"])
def test_counters_are_those_of_the_plan(name: str, shipped_runs: dict[str, Result]) -> None:
    found = rows(shipped_runs[name].run_dir)
    counted = [[row[f"counter/{key}"] for key in ("completions", "prompts", "optimizer_steps")] for row in found]
    assert counted == [[0, 0, 0], [16, 4, 2], [32, 8, 4]]
    assert all(row["counter/tokens_trained"] == row["counter/tokens_generated"] for row in found)
    lengths = [row["rollout/response_length_mean"] * 16 for row in found[1:]]
    assert found[-1]["counter/tokens_generated"] == pytest.approx(sum(lengths))


def test_discarded_groups_count(shipped_runs: dict[str, Result]) -> None:
    last = rows(shipped_runs["dapo"].run_dir)[-1]
    assert last["counter/completions"] == 4 * last["counter/prompts"] > 32
    assert last["counter/tokens_trained"] < last["counter/tokens_generated"]
