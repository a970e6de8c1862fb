"""The `acrl` command. Torch is imported by the verbs that need it, so that help answers at once."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from acrl import __version__
from acrl.errors import AcrlError, ConfigError, Diverged

HELP = """\
usage: acrl VERB ...

Do I want a critic? PPO with a value head against GRPO, DAPO and Lite PPO, on equal terms.

  fit         train:       acrl fit --config configs/tiny/grpo.yaml
              resume:      acrl fit --resume runs/RUN
  validate    held-out accuracy of a policy:  acrl validate --config configs/tiny/grpo.yaml [--ckpt_path FILE]
  test        the same on data.test
  data make   write the chain task's JSONL files:     acrl data make
  model make  build a tiny start policy:              acrl model make tiny-base

`acrl VERB --help` lists a verb's options; `--print_config` prints a config with every default.
Set ACRL_TRACEBACK=1 to see where an error came from.
"""

FAILED, USAGE, DIVERGED = 1, 2, 3


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit code: 0, 1 failed, 2 wrong usage or input, 3 diverged, 128 + signal."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if argv[0] == "--version":
        print(f"acrl {__version__}")
        return 0
    verbs = {"fit": _lightning, "validate": _lightning, "test": _lightning, "data": _data, "model": _model}
    if argv[0] not in verbs:
        print(f"acrl: error: no verb {argv[0]!r}; choose one of {', '.join(verbs)}.", file=sys.stderr)
        return USAGE
    try:
        return verbs[argv[0]](argv)
    except KeyboardInterrupt:
        print("acrl: stopped before there was anything to save", file=sys.stderr)
        return 128 + signal.SIGINT
    except AcrlError as error:
        if os.environ.get("ACRL_TRACEBACK"):
            traceback.print_exc()
        print(f"acrl: error: {error}", file=sys.stderr)
        return DIVERGED if isinstance(error, Diverged) else USAGE


def _lightning(argv: list[str]) -> int:
    from acrl.lightning_cli import run

    return run(argv)


class _Parser(argparse.ArgumentParser):
    """Wrong usage is a ConfigError like any other."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog.removeprefix('acrl ')}: {message}.\n`{self.prog} --help` lists the options.")


def _data(argv: list[str]) -> int:
    from acrl.data.chain import make_chain

    parser = _Parser("acrl data")
    make = parser.add_subparsers(required=True, metavar="make").add_parser("make", help="write the chain task's files")
    make.add_argument("--out", type=Path, default=Path("data/chain"), help="directory (default: %(default)s)")
    make.add_argument("--seed", type=int, default=0, help="of the prompts (default: %(default)s)")
    args = parser.parse_args(argv[1:])
    with _user_error():
        print(make_chain(args.out, seed=args.seed))
    return 0


def _model(argv: list[str]) -> int:
    from acrl.models.recipe import NAMES, SIZES
    from acrl.models.tiny import make_tiny_model

    parser = _Parser("acrl model")
    make = parser.add_subparsers(required=True, metavar="make").add_parser("make", help="build a tiny start policy")
    make.add_argument("name", choices=NAMES, help="weak and undecided, or stronger and surer")
    make.add_argument("--out", type=Path, help="directory (default: models/NAME)")
    make.add_argument("--size", choices=SIZES, default="small", help="parameters (default: %(default)s)")
    make.add_argument("--seed", type=int, default=0, help="of weights and demonstrations (default: %(default)s)")
    args = parser.parse_args(argv[1:])
    with _user_error():
        print(make_tiny_model(args.name, args.out or Path("models") / args.name, size=args.size, seed=args.seed))
    return 0


@contextmanager
def _user_error() -> Iterator[None]:
    """A value or a path that does not work is for the user to change."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}." if error.filename else str(error)) from error
    except ValueError as error:
        raise ConfigError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
