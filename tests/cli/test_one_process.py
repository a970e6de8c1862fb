"""One process at a time in a run directory; seconds that a resumed run has spent already."""

from __future__ import annotations

from pathlib import Path

import pytest

from acrl.command_line import locked
from acrl.errors import ConfigError
from acrl.timing import Clock


def test_a_run_directory_is_held_by_one(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ConfigError, match="in use by another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_seconds_spent_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("acrl.timing.perf_counter", lambda: now[0])
    clock = Clock()
    now[0] += 50  # loading
    clock.spent = 7.0
    assert clock.spent == 7.0
    clock.restart()
    now[0] += 2
    clock.add("eval", 0.5)
    assert clock.spent == 7.0 + 2 - 0.5
    clock.lap()
    assert clock.spent == 7.0 + 2 - 0.5
