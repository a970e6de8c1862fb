"""`acrl fit | validate | test`: LightningCLI with our trainer settings, run directory and callbacks."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.loggers import TensorBoardLogger

import acrl.algorithms  # noqa: F401 (the classes that --model can name)
from acrl.algorithms.base import RLModule
from acrl.callbacks.budget import BudgetStop
from acrl.callbacks.checkpoint import BoundaryCheckpoint
from acrl.callbacks.evaluation import EvaluateAlong
from acrl.callbacks.progress import RunProgress
from acrl.callbacks.record import RunRecord
from acrl.callbacks.samples import Samples
from acrl.callbacks.signals import StopOnSignal
from acrl.data.prompts import PromptData
from acrl.errors import ConfigError
from acrl.files import write_text
from acrl.plan import describe
from acrl.rewards import RewardSpec
from acrl.run_dir import environment, last_checkpoint, make_run_dir, now, write_record
from acrl.spec import Budget, Evaluation
from acrl.trainer import SETTINGS, check_settings


class AcrlCLI(LightningCLI):
    """Adds `reward`, `eval` and `budget` to LightningCLI's `model`, `data` and `trainer`."""

    resume: Path | None = None

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Return the verbs and the arguments that are ours to give."""
        ours = {"model", "train_dataloaders", "val_dataloaders", "dataloaders", "datamodule", "weights_only", "verbose"}
        return {"fit": ours | {"ckpt_path"}, "validate": ours, "test": ours}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the keys that every algorithm shares."""
        parser.add_argument("--reward", type=RewardSpec, default=RewardSpec(), help="Reward functions and scale.")
        parser.add_argument("--eval", type=Evaluation, default=Evaluation(), help="Held-out accuracy along the run.")
        parser.add_argument("--budget", type=Budget, default=Budget(completions=6400), help="When a run ends.")
        parser.link_arguments("reward", "data.reward", apply_on="instantiate")
        parser.link_arguments("eval", "model.init_args.evaluation")
        parser.link_arguments("seed_everything", "model.init_args.seed")

    def before_instantiate_classes(self) -> None:
        """Refuse trainer flags that would break an iteration."""
        check_settings(self._get(self.config, "trainer"))

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Return the trainer, in a run directory of its own for `fit`."""
        if self.subcommand != "fit":
            return super().instantiate_trainer(logger=False, enable_checkpointing=False, **kwargs)
        parent = self._get(self.config, "trainer").default_root_dir or "runs"
        seed = self._get(self.config, "seed_everything")
        self.run_dir = self.resume or make_run_dir(parent, type(self.model).__name__.lower(), seed)
        budget, evaluation = self._get(self.config_init, "budget"), self._get(self.config_init, "eval")
        self.plan = describe(self.model, budget, evaluation)
        self.signals = StopOnSignal()
        callbacks = [
            BudgetStop(budget),
            EvaluateAlong(evaluation),
            self.signals,
            RunProgress(),
            RunRecord(self.run_dir, resumed=self.resume is not None),
            Samples(self.run_dir),
            BoundaryCheckpoint(self.run_dir),
        ]
        own = self._get(self.config_init, "trainer")
        logger = TensorBoardLogger(self.run_dir, name="", version="", default_hp_metric=False, max_queue=1000)
        return super().instantiate_trainer(
            default_root_dir=self.run_dir,
            callbacks=[*_listed(own.get("callbacks")), *callbacks],
            logger=[logger, *_listed(own.get("logger"))],
            **kwargs,
        )

    def before_fit(self) -> None:
        """Say what will be done, and write it down."""
        print("\n".join(self.plan))
        if self.resume is not None:
            return
        parser, config = self._parser("fit"), self.config["fit"]
        write_text(self.run_dir / "config.yaml", parser.dump(config, skip_none=False))
        facts = {"algorithm": type(self.model).__name__, "seed": self.model.seed, "plan": self.plan, "started": now()}
        write_record(self.run_dir, status="running", reason=None, **environment(), **facts)

    def fit(self, **kwargs: Any) -> None:
        """Train, from the newest checkpoint where the run is resumed."""
        checkpoint = None if self.resume is None else last_checkpoint(self.resume)
        self.trainer.fit(ckpt_path=checkpoint, weights_only=True, **kwargs)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value in (None, True) else [value]


def run(argv: list[str]) -> int:
    """Run a verb's command line and return the exit code."""
    _quiet()
    argv, resume = _take_resume(argv)
    AcrlCLI.resume = resume
    with _command_line(argv):  # LightningCLI reads sys.argv, and warns where it is given arguments beside it
        cli = AcrlCLI(
            RLModule,
            PromptData,
            subclass_mode_model=True,
            save_config_callback=None,
            trainer_defaults=dict(SETTINGS),
            seed_everything_default=0,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
            parser_kwargs={"prog": "acrl"},
        )
    if cli.subcommand != "fit":
        return 0
    print(cli.run_dir)
    received = cli.signals.received
    if cli.model.interrupted and received is not None:
        print(f"acrl: {cli.model.interrupted}; go on with: acrl fit --resume {cli.run_dir}", file=sys.stderr)
        return 128 + received
    return 0


def _take_resume(argv: list[str]) -> tuple[list[str], Path | None]:
    """Return the command line with `--resume RUN` turned into that run's config, and RUN."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--resume", type=Path)
    known, rest = own.parse_known_args(argv)
    if known.resume is None:
        return argv, None
    if argv[0] != "fit":
        raise ConfigError(f"--resume goes with fit, not with {argv[0]}.")
    last_checkpoint(known.resume)
    return [rest[0], f"--config={known.resume / 'config.yaml'}", *rest[1:]], known.resume


@contextmanager
def _command_line(argv: list[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["acrl", *argv]
    try:
        yield
    finally:
        sys.argv = before


def _quiet() -> None:
    """Silence what Lightning says about settings that are ours on purpose."""
    for message in (
        ".*does not have many workers.*",
        ".*`training_step` returned `None`.*",
        ".*Experiment logs directory.*",
        ".*Checkpoint directory.*",
        ".*smaller than the logging interval.*",
        ".*in eval mode at the start.*",
        ".*treespec, LeafSpec.*",
        ".*Total length of `list` across ranks is zero.*",
    ):
        warnings.filterwarnings("ignore", message)
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
