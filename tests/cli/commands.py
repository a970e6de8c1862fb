"""Runs the command line in this process, and reads what a run leaves behind."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acrl.cli import main

ROOT = Path(__file__).parents[2]
SHIPPED = ("dapo", "grpo", "lite_ppo", "ppo")


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def run_dir(self) -> Path:
        """The run directory: the last line of stdout."""
        return Path(self.out.splitlines()[-1])


def acrl(*argv: object) -> Result:
    """Run `acrl` with these words."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(word) for word in argv])
        except SystemExit as leaving:  # --help and --print_config
            code = int(leaving.code or 0)
    return Result(code, out.getvalue(), err.getvalue())


def refused(result: Result, *words: str) -> None:
    """Check that a command stopped with one message that holds the words, and no traceback."""
    assert result.code == 2, result
    assert result.err.startswith("acrl: error: ") and result.err.count("error:") == 1, result.err
    assert "Traceback" not in result.err and "usage:" not in result.err
    assert len(result.err.splitlines()) <= 12, result.err
    for word in words:
        assert word in result.err, f"{word!r} is not in:\n{result.err}"


def rows(run_dir: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in (run_dir / name).read_bytes().splitlines()]


def lasting(run_dir: Path, *without: str) -> str:
    """metrics.jsonl without what a second run need not repeat: time and memory, and keys that start with `without`."""
    dropped = ("time/", "memory/", *without)
    kept = [{key: value for key, value in row.items() if not key.startswith(dropped)} for row in rows(run_dir)]
    return "\n".join(json.dumps(row) for row in kept if row)


def record(run_dir: Path) -> dict[str, Any]:
    """run.json."""
    return json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
