"""A run that breaks off says how, and leaves what it had."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commands import acrl, record, rows

from acrl.algorithms.base import RLModule
from acrl.callbacks.samples import Samples
from acrl.rewards.numeric import numeric


@pytest.fixture
def after_one_iteration(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[RLModule], None]], None]:
    """Do something to the module at the first iteration's end."""
    original = Samples.on_train_epoch_end

    def arrange(act: Callable[[RLModule], None]) -> None:
        def write(self: Samples, trainer: object, module: RLModule) -> None:
            original(self, trainer, module)
            if module.counters.iterations == 1:
                act(module)

        monkeypatch.setattr(Samples, "on_train_epoch_end", write)

    return arrange


def test_a_learning_rate_that_explodes(config: Callable[..., Path]) -> None:
    argv = ("--model.optimizer.lr", "1e30", "--model.optimizer.max_grad_norm", "null", "--budget.iterations", 5)
    result = acrl("fit", "--config", config("GRPO"), *argv)
    found = record(result.run_dir)
    assert (result.code, found["status"]) == (3, "diverged")
    assert result.err.splitlines()[-1] == f"acrl: error: {found['reason']}"
    assert "non-finite" in found["reason"] and "model.optimizer.lr (1e+30)" in found["reason"]
    assert "Traceback" not in result.err
    assert rows(result.run_dir)[0]["counter/iterations"] == 0


def test_a_poisoned_weight(config: Callable[..., Path], after_one_iteration: Callable) -> None:
    def poison(module: RLModule) -> None:
        next(module.parameters()).data[5] = math.nan

    after_one_iteration(poison)
    result = acrl("fit", "--config", config("GRPO"), "--budget.iterations", 5, "--eval.every_completions", 999)
    found = record(result.run_dir)
    assert (result.code, found["status"]) == (3, "diverged")
    assert re.match("non-finite old_logprobs in iteration 2, optimizer step 3", found["reason"])
    assert [row["counter/iterations"] for row in rows(result.run_dir)] == [0, 1]


def test_a_gradient_names_its_tensor(config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    original = RLModule.configure_gradient_clipping

    def spoil(self: RLModule, optimizer: torch.optim.Optimizer, *args: object, **kwargs: object) -> None:
        dict(self.named_parameters())["policy.model.norm.weight"].grad[0] = math.inf
        original(self, optimizer, *args, **kwargs)

    monkeypatch.setattr(RLModule, "configure_gradient_clipping", spoil)
    result = acrl("fit", "--config", config("GRPO"))
    assert (result.code, record(result.run_dir)["status"]) == (3, "diverged")
    assert "non-finite gradient of policy.model.norm.weight in iteration 1" in record(result.run_dir)["reason"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_is_saved(
    number: signal.Signals, config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RLModule.next_update

    def send(self: RLModule) -> list:
        os.kill(os.getpid(), number)
        return original(self)

    monkeypatch.setattr(RLModule, "next_update", send)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background starts without it
    try:
        result = acrl("fit", "--config", config("GRPO"))
    finally:
        signal.signal(signal.SIGINT, before)
    found = record(result.run_dir)
    assert (result.code, found["status"]) == (128 + number, "interrupted")
    assert found["reason"] == f"{number.name} within iteration 1"
    assert result.err.splitlines()[-1] == f"acrl: {found['reason']}; nothing was saved yet"


def test_any_other_exception_is_a_failed_run(config: Callable[..., Path], after_one_iteration: Callable) -> None:
    def fail(module: RLModule) -> None:
        raise LookupError("the disk of the north")

    after_one_iteration(fail)
    path = config("GRPO")
    with pytest.raises(LookupError, match="the disk of the north"):
        acrl("fit", "--config", path)
    (run_dir,) = (path.parent / "runs").iterdir()
    found = record(run_dir)
    assert (found["status"], found["reason"]) == ("failed", "the disk of the north") and found["ended"]


@pytest.mark.slow
def test_a_reward_function_that_breaks_later_is_a_failed_run(
    config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def breaks(prompts: list[str], completions: list[str], **columns: list) -> list[float]:
        calls.append(1)
        if len(calls) > 6:
            raise RuntimeError("out of luck")
        return numeric(prompts=prompts, completions=completions, **columns)

    monkeypatch.setattr("acrl.rewards.load.BUILTIN", {"numeric": breaks})
    result = acrl("fit", "--config", config("GRPO"), "--budget.iterations", 50)
    found = record(result.run_dir)
    assert (result.code, found["status"]) == (2, "failed")
    assert "raised RuntimeError: out of luck" in found["reason"] and "Traceback" not in result.err
