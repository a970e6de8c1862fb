"""What is shown while a run goes on."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from acrl.callbacks.progress import RunProgress


def module(iteration: int, share: float, evaluated: bool = True, **row: float) -> Any:
    counters = SimpleNamespace(iterations=iteration, completions=16 * iteration)
    start = {"eval/accuracy": 0.25, "eval/accuracy_greedy": 0.5} if iteration == 0 else {}
    row = {"rollout/reward_mean": 0.125} | row
    return SimpleNamespace(counters=counters, budget_share=share, row=row, evaluated=evaluated, start_row=start)


def show(progress: RunProgress, *modules: Any) -> None:
    progress.on_train_start(None, modules[0])  # type: ignore[arg-type]
    for each in modules[1:]:
        progress.on_train_epoch_end(None, each)  # type: ignore[arg-type]


def test_lines_at_evaluations_without_a_terminal(capsys: pytest.CaptureFixture) -> None:
    progress = RunProgress()
    measured = {"eval/accuracy": 0.375}
    show(progress, module(0, 0.0), module(1, 0.25, evaluated=False), module(2, 0.5, **measured), module(4, 1.0))
    start, half, end = capsys.readouterr().err.splitlines()
    assert start == "start: accuracy 0.250, greedy 0.500"
    assert half == "iteration 2: 32 completions, reward 0.12, accuracy 0.375, 0 s left"
    assert end.startswith("iteration 4: 64 completions") and end.endswith("0 s left")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = RunProgress()
    progress.console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    show(progress, module(0, 0.0), module(1, 0.25, evaluated=False), module(2, 1.5, **{"eval/accuracy": 0.375}))
    progress.teardown(None, None, "fit")  # type: ignore[arg-type]
    text = screen.getvalue()
    assert "reward –  accuracy 0.250" in text and "nan" not in text
    last = text[text.rindex("iteration 2") :]
    assert "100%" in last and "reward 0.12  accuracy 0.375" in last and "left" in last


def test_the_bar_is_closed_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    progress = RunProgress()
    progress.console = Console(file=screen, force_terminal=True, width=100)
    show(progress, module(0, 0.0))
    assert progress.bar is not None
    progress.on_exception(None, None, RuntimeError())  # type: ignore[arg-type]
    assert progress.bar is None and screen.getvalue().endswith("\x1b[?25h")  # the cursor is back
