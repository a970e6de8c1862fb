"""A run's directory: made once, written atomically, cut back to a checkpoint when the run is resumed."""

from __future__ import annotations

import json
import platform
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acrl import __version__
from acrl.errors import ConfigError
from acrl.files import write_jsonl, write_text

PACKAGES = ("torch", "pytorch-lightning", "transformers", "torchmetrics")


def make_run_dir(parent: str | Path, name: str, seed: int) -> Path:
    """Return a new directory `<parent>/<date>-<name>-seed<seed>-<4 hex>`; the same command twice gives two."""
    while True:
        run_dir = Path(parent) / f"{datetime.now():%Y%m%d-%H%M%S}-{name}-seed{seed}-{secrets.token_hex(2)}"
        try:
            run_dir.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(
                f"trainer.default_root_dir {str(parent)!r} can hold no runs: {error.strerror}."
            ) from error
        return run_dir


def last_checkpoint(run_dir: Path) -> Path:
    """Return the newest checkpoint of a run.

    Raises:
        ConfigError: no run there, or none of its checkpoints survived.
    """
    if not (run_dir / "config.yaml").is_file():
        raise ConfigError(f"--resume {str(run_dir)!r} is not a run directory: it has no config.yaml.")
    checkpoint = run_dir / "checkpoints" / "last.ckpt"
    if not checkpoint.is_file():
        raise ConfigError(f"--resume {str(run_dir)!r} has no checkpoints/last.ckpt; start the run anew.")
    return checkpoint


def write_record(run_dir: Path, **facts: Any) -> None:
    """Update `run.json` with `facts`, atomically."""
    path = run_dir / "run.json"
    known = json.loads(path.read_text()) if path.is_file() else {}
    write_text(path, json.dumps(known | facts, indent=2, ensure_ascii=False) + "\n")


def environment() -> dict[str, Any]:
    """Return what a run's numbers depend on beside its config: versions, commit, command."""
    from importlib.metadata import version

    return {
        "command": " ".join(["acrl", *sys.argv[1:]]),
        "versions": {"acrl": __version__, "python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "commit": _commit(),
    }


def now() -> str:
    """Return the time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _commit() -> str | None:
    here = Path(__file__).parent
    try:
        git = ["git", "-C", str(here)]
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # installed without git, or not from a checkout
        return None
    return commit + ("-dirty" if changed.strip() else "")


def read_rows(path: Path, until: int) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file up to iteration `until`, a torn last line left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().splitlines():  # a text would also be split at U+2028, which answers may hold
        try:
            row = json.loads(line)
        except ValueError:
            break
        if row["counter/iterations" if "counter/iterations" in row else "iteration"] <= until:
            rows.append(row)
    return rows


def cut_back(run_dir: Path, iterations: int) -> list[dict[str, Any]]:
    """Cut metrics and samples back to a checkpoint's iteration, and return the metrics."""
    metrics = read_rows(run_dir / "metrics.jsonl", iterations)
    write_jsonl(run_dir / "metrics.jsonl", metrics)
    write_jsonl(run_dir / "samples.jsonl", read_rows(run_dir / "samples.jsonl", iterations))
    return metrics
