"""What happens to the words of a command before LightningCLI parses them, and to a run directory while one uses it."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from acrl.errors import ConfigError
from acrl.parser import LINKED
from acrl.run_dir import last_checkpoint


def take_resume(argv: list[str]) -> tuple[list[str], Path | None]:
    """Return the command line with `--resume RUN` turned into that run's config, and RUN."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    own.add_argument("--resume", type=Path, metavar="RUN_DIR")
    try:
        known, rest = own.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ConfigError(f"--resume takes a run directory: acrl fit --resume runs/RUN ({error.message}).") from error
    if known.resume is None:
        return argv, None
    if argv[0] != "fit":
        raise ConfigError(f"--resume goes with fit, not with {argv[0]}.")
    last_checkpoint(known.resume)
    for word in rest[1:]:
        if word.startswith("-") and not word.startswith(("--budget", "--help", "-h", "--print_config")):
            raise ConfigError(
                f"--resume takes its values from {known.resume / 'config.yaml'}; only --budget.* may be given "
                f"anew, not {word.partition('=')[0]}: the checkpoint belongs to the old value."
            )
    return [rest[0], f"--config={known.resume / 'config.yaml'}", *rest[1:]], known.resume


def refuse_linked(argv: list[str]) -> None:
    """Refuse the module's arguments that the command line sets from keys of its own: they would have no effect."""
    given = [word.removeprefix("--").partition("=")[0] for word in argv if word.startswith("--model.")]
    for flag, value in zip(argv, [*argv[1:], ""], strict=True):
        name, _, path = flag.partition("=")
        if name == "--config" and Path(path or value).is_file():
            given += _model_keys(Path(path or value))
    for key in given:
        for linked, instead in LINKED.items():
            if f"{key}.".replace(".init_args.", ".").startswith(f"{linked}."):
                raise ConfigError(f"{key} has no effect here; give {instead}.")


def _model_keys(path: Path) -> list[str]:
    try:
        model = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("model") or {}
    except (yaml.YAMLError, AttributeError, UnicodeDecodeError):
        return []  # the parser says what is wrong with the file
    own = model.get("init_args") or model if isinstance(model, dict) else {}
    return [f"model.{key}" for key in own]


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Hold the run directory: two processes in it would write into each other's record."""
    lock = os.open(run_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f"{run_dir} is in use by another process; wait for it, or start a new run.") from error
        yield
    finally:
        os.close(lock)


@contextmanager
def command_line(argv: list[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["acrl", *argv]
    try:
        yield
    finally:
        sys.argv = before
