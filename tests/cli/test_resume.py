"""Stopping and going on equals never having stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from commands import Result, acrl, lasting, record, refused, rows
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from acrl.algorithms.base import RLModule
from acrl.callbacks.samples import Samples

ARMS = {
    "GRPO with KL": ("GRPO", "    optimizer: {lr: 1.0e-3, decay: linear}\n"),
    "PPO with warm-ups": (
        "PPO",
        "    critic: {warmup_completions: 32}\n    optimizer: {lr: 1.0e-3, warmup_steps: 6}\n",
    ),
    "DAPO with refill": ("DAPO", "    optimizer: {lr: 1.0e-3}\n"),
}


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the last checkpoint: weights, and the optimizer's moments."""
    saved = torch.load(run_dir / "checkpoints/last.ckpt", weights_only=True)
    found = dict(saved["state_dict"])
    for index, state in saved["optimizer_states"][0]["state"].items():
        found |= {f"{index}/{name}": value for name, value in state.items()}
    return found


def events(run_dir: Path) -> dict[str, list[tuple[int, float]]]:
    """The points of every tag, in the order in which the files hold them."""
    found = defaultdict(list)
    for path in sorted(run_dir.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found[value.tag].append((event.step, value.tensor.float_val[0]))
    return dict(found)


def check_events(run_dir: Path) -> None:
    """Check that TensorBoard has each number of metrics.jsonl once, at steps that only grow."""
    found = events(run_dir)
    for tag, points in found.items():
        steps = [step for step, _ in points]
        assert steps == sorted(set(steps)), f"{tag}: {steps}"
    for row in rows(run_dir):
        for key, value in row.items():
            assert dict(found[key])[row["counter/completions"]] == pytest.approx(value, rel=1e-6)
    assert set(found) == {key for row in rows(run_dir) for key in row}


def check_equal(run_dir: Path, undisturbed: Path) -> None:
    """Check that two runs left the same numbers, answers, weights and events."""
    assert lasting(run_dir) == lasting(undisturbed)
    assert (run_dir / "samples.jsonl").read_bytes() == (undisturbed / "samples.jsonl").read_bytes()
    one, other = weights(run_dir), weights(undisturbed)
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    check_events(run_dir)
    assert record(run_dir)["status"] == "finished"


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Send this process a signal while an iteration's samples are written."""
    original = Samples.on_train_epoch_end

    def arm(number: int, iteration: int) -> None:
        def write(self: Samples, trainer: object, module: RLModule) -> None:
            original(self, trainer, module)
            if module.counters.iterations == iteration:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(Samples, "on_train_epoch_end", write)

    return arm


@pytest.mark.parametrize(
    ("arm", "number"),
    [
        ("GRPO with KL", signal.SIGTERM),
        pytest.param("GRPO with KL", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("PPO with warm-ups", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("DAPO with refill", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_stops_at_the_iteration_s_end(
    arm: str, number: signal.Signals, config: Callable[..., Path], signalled: Callable
) -> None:
    algorithm, extra = ARMS[arm]
    argv = ("fit", "--config", config(algorithm, extra), "--budget.iterations", 4, "--eval.every_completions", 48)
    undisturbed = acrl(*argv).run_dir
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    signalled(number, iteration=1)
    stopped = acrl(*argv)
    run_dir = stopped.run_dir
    assert stopped.code == 128 + number
    assert (record(run_dir)["status"], record(run_dir)["reason"]) == (
        "interrupted",
        f"{number.name} after iteration 2",
    )
    assert f"acrl fit --resume {run_dir}" in stopped.err
    assert [row["counter/iterations"] for row in rows(run_dir)] == [0, 1, 2]
    assert {s: signal.getsignal(s) for s in before} == before

    last = rows(run_dir)[-1]
    with (run_dir / "metrics.jsonl").open("a") as beyond:  # as if it had gone on and been killed before it saved
        beyond.write(json.dumps(last | {"counter/iterations": 3}) + "\n" + json.dumps(last)[:50])
    signalled(number, iteration=0)
    resumed = acrl("fit", "--resume", run_dir)
    assert resumed.code == 0 and resumed.run_dir == run_dir
    check_equal(run_dir, undisturbed)


@pytest.mark.slow
def test_a_signal_in_the_last_iteration_changes_nothing(config: Callable[..., Path], monkeypatch) -> None:
    original = RLModule.on_train_batch_end

    def send(self: RLModule, *args: object) -> None:
        original(self, *args)
        if self.counters.iterations == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(RLModule, "on_train_batch_end", send)
    result = acrl("fit", "--config", config())
    assert result.code == 0 and record(result.run_dir)["status"] == "finished"


@pytest.mark.slow
def test_a_second_interrupt_stops_within_an_iteration(config: Callable[..., Path], monkeypatch) -> None:
    original = RLModule.on_train_batch_end

    def interrupt(self: RLModule, *args: object) -> None:
        original(self, *args)
        if self.counters.iterations == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RLModule, "on_train_batch_end", interrupt)
    result = acrl("fit", "--config", config())
    assert result.code == 128 + signal.SIGINT
    assert record(result.run_dir)["status"] == "interrupted"
    assert record(result.run_dir)["reason"] == "SIGINT within iteration 2"


@pytest.mark.slow
def test_a_finished_run_goes_on_with_a_larger_budget(config: Callable[..., Path]) -> None:
    run_dir = acrl("fit", "--config", config(), "--eval.every_completions", 16).run_dir
    first = lasting(run_dir)
    again = acrl("fit", "--resume", run_dir)
    assert again.code == 0 and lasting(run_dir) == first  # nothing was left to do

    assert acrl("fit", "--resume", run_dir, "--budget.iterations", 4).code == 0
    assert lasting(run_dir).startswith(first)
    assert [row["counter/iterations"] for row in rows(run_dir)] == [0, 1, 2, 3, 4]
    check_events(run_dir)
    assert record(run_dir)["status"] == "finished"
    assert "iterations: 4" in (run_dir / "config.yaml").read_text()  # the next --resume has this budget too


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(2))
def test_kill_9_at_a_random_moment(attempt: int, config: Callable[..., Path], tmp_path: Path) -> None:
    argv = ["fit", "--config", str(config()), "--budget.iterations", "60", "--eval.every_completions", "64"]
    undisturbed = acrl(*argv).run_dir
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "acrl.cli", *argv, "--trainer.default_root_dir", str(killed)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # as here: sums depend on how they are split
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=one_thread)
    deadline = time.monotonic() + 120
    while not list(killed.glob("*/checkpoints/last.ckpt")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    time.sleep(0.5 * random.random())
    process.kill()
    process.wait()
    (run_dir,) = killed.iterdir()
    assert record(run_dir)["status"] == "running"
    with (run_dir / "samples.jsonl").open("ab") as torn:  # as if it had been killed while writing
        torn.write('{"iteration": 3, "prompt": "ü'.encode()[:-1])
    assert acrl("fit", "--resume", run_dir).code == 0
    check_equal(run_dir, undisturbed)


def test_the_checkpoint_holds_no_reference(shipped_runs: dict[str, Result]) -> None:
    run_dir = shipped_runs["grpo"].run_dir
    saved = torch.load(run_dir / "checkpoints/last.ckpt", weights_only=True)
    parameters = sum(tensor.numel() for tensor in saved["state_dict"].values())
    assert all(name.startswith("policy.") for name in saved["state_dict"])
    assert (run_dir / "checkpoints/last.ckpt").stat().st_size <= 3.2 * 4 * parameters + 40_000  # names and keys


@pytest.mark.parametrize("name", ["missing", "empty", "unsaved"])
def test_resume_of_what_cannot_be_resumed(name: str, config: Callable[..., Path], tmp_path: Path) -> None:
    run_dir = tmp_path / name
    if name != "missing":
        run_dir.mkdir()
    if name == "unsaved":
        (run_dir / "config.yaml").write_text(config().read_text())
    why = "has no checkpoints/last.ckpt" if name == "unsaved" else "is not a run directory"
    refused(acrl("fit", "--resume", run_dir), str(run_dir), why)


def test_resume_goes_with_fit(tmp_path: Path) -> None:
    refused(acrl("validate", "--resume", tmp_path), "--resume goes with fit, not with validate")


def test_resume_takes_a_directory() -> None:
    refused(acrl("fit", "--resume"), "--resume takes a run directory")


@pytest.mark.slow
def test_a_checkpoint_of_another_model(config: Callable[..., Path]) -> None:
    run_dir = acrl("fit", "--config", config("PPO"), "--budget.iterations", 1).run_dir
    checkpoint, kept = run_dir / "checkpoints/last.ckpt", (run_dir / "config.yaml").read_text()
    result = acrl("validate", "--config", config("GRPO"), "--ckpt_path", checkpoint)
    announced, _, message = result.err.partition("\n")
    assert announced.startswith(f"{checkpoint} answers every prompt of")
    refused(replace(result, err=message), str(checkpoint), "GRPO")

    refused(
        acrl("fit", "--resume", run_dir, "--model.critic.trunk", "shared"), "only --budget.*", "--model.critic.trunk"
    )
    assert (run_dir / "config.yaml").read_text() == kept
    assert acrl("fit", "--resume", run_dir, "--budget.iterations", 2).code == 0
