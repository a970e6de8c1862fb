"""`acrl fit | validate | test`: LightningCLI with our trainer settings, run directory and callbacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import LambdaCallback
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.plugins.environments import SLURMEnvironment
from pytorch_lightning.utilities.exceptions import MisconfigurationException

import acrl.algorithms  # noqa: F401 (the classes that --model can name)
from acrl.algorithms.base import RLModule
from acrl.callbacks.budget import BudgetStop
from acrl.callbacks.checkpoint import BoundaryCheckpoint
from acrl.callbacks.evaluation import EvaluateAlong
from acrl.callbacks.health import Health
from acrl.callbacks.progress import RunProgress
from acrl.callbacks.record import Events, RunRecord
from acrl.callbacks.samples import Samples
from acrl.callbacks.signals import StopOnSignal
from acrl.command_line import command_line, locked, refuse_linked, take_resume
from acrl.data.prompts import PromptData
from acrl.errors import ConfigError
from acrl.files import write_text
from acrl.parser import VERBS, Parser, cause_of, in_full
from acrl.plan import describe
from acrl.quiet import silence_lightning
from acrl.rewards import RewardSpec
from acrl.run_dir import environment, last_checkpoint, make_run_dir, now, write_record
from acrl.spec import Budget, Evaluation
from acrl.trainer import SETTINGS, check_settings


class AcrlCLI(LightningCLI):
    """Adds `reward`, `eval` and `budget` to LightningCLI's `model`, `data` and `trainer`; runs one verb."""

    def __init__(self, verb: str, resume: Path | None) -> None:
        self.verb, self.resume = verb, resume
        super().__init__(
            RLModule,
            PromptData,
            subclass_mode_model=True,
            save_config_callback=None,
            trainer_defaults=dict(SETTINGS),
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
            parser_class=Parser,
            parser_kwargs={"prog": "acrl", "allow_abbrev": False, verb: VERBS[verb]},
        )

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Return the verb alone (a parser takes 0.1 s to build), and the arguments that are ours to give."""
        ours = {"model", "train_dataloaders", "val_dataloaders", "dataloaders", "datamodule", "weights_only", "verbose"}
        return {self.verb: ours | ({"ckpt_path"} if self.verb == "fit" else set())}

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the seed: a number, so that a run can be repeated."""
        parser.add_argument("--seed_everything", type=int, default=0, help="The seed of everything but evaluation.")

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the keys that every algorithm shares."""
        parser.add_argument("--reward", type=RewardSpec, default=RewardSpec(), help="Reward functions and scale.")
        parser.add_argument("--eval", type=Evaluation, default=Evaluation(), help="Held-out accuracy along the run.")
        parser.add_argument("--budget", type=Budget, default=Budget(completions=6400), help="When a run ends.")
        parser.link_arguments("reward", "data.reward", apply_on="instantiate")
        parser.link_arguments("eval", "model.init_args.evaluation")
        parser.link_arguments("seed_everything", "model.init_args.seed")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse, and refuse a seed that numpy would not take."""
        super().parse_arguments(parser, args)
        seed = self.config[self.config.subcommand].seed_everything
        if not 0 <= seed < 2**32:
            raise ConfigError(f"seed_everything is {seed}; give a whole number from 0 to {2**32 - 1}.")

    def before_instantiate_classes(self) -> None:
        """Refuse trainer flags that would break an iteration, and groups of keys that are empty."""
        check_settings(self._get(self.config, "trainer"))
        for name, value in vars(self._get(self.config, "model").init_args).items():
            if value is None:
                raise ConfigError(f"model.{name} is null; give its keys, or leave it out.")

    def instantiate_classes(self) -> None:
        """Build everything; jsonargparse wraps what our own checks raise."""
        try:
            super().instantiate_classes()
        except ValueError as error:
            if cause := cause_of(error):
                raise in_full(cause) from error
            raise

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Return the trainer, in a run directory of its own for `fit`."""
        evaluating = {"logger": False, "enable_checkpointing": False}
        own = self._training() if self.verb == "fit" else evaluating
        try:
            return super().instantiate_trainer(**own, **kwargs)
        except (MisconfigurationException, TypeError, ValueError) as error:
            if self.verb == "fit" and self.resume is None:
                self.run_dir.rmdir()
            raise ConfigError(f"the trainer.* keys do not go together: {error}") from error

    def _training(self) -> dict[str, Any]:
        """The trainer's settings for a run with a directory of its own."""
        budget, evaluation = self._get(self.config_init, "budget"), self._get(self.config_init, "eval")
        self.plan = describe(self.model, budget, evaluation)
        parent = self._get(self.config, "trainer").default_root_dir or "runs"
        self.run_dir = self.resume or make_run_dir(parent, type(self.model).__name__.lower(), self.model.seed)
        self.signals = StopOnSignal()
        callbacks: list[Callback] = [
            BudgetStop(budget),
            self.signals,
            EvaluateAlong(evaluation),
            RunProgress(),
            RunRecord(self.run_dir, resumed=self.resume is not None),
            Samples(self.run_dir),
            Health(),
            BoundaryCheckpoint(self.run_dir),
        ]
        if self.resume is not None:  # once its checkpoint is loaded: a refused resume leaves the run as it was
            callbacks.append(LambdaCallback(on_train_start=self._write_down))
        given = self._get(self.config_init, "trainer")
        return {
            "default_root_dir": self.run_dir,
            "callbacks": [*_listed(given.get("callbacks")), *callbacks],
            "logger": [Events(self.run_dir), *_listed(given.get("logger"))],
            "plugins": [*_listed(given.get("plugins")), *_no_requeue()],
        }

    def before_fit(self) -> None:
        """Say what will be done, and write it down."""
        print("\n".join(self.plan))
        if self.resume is None:
            self._write_down(started=now(), **environment())

    def _write_down(self, *_: Any, **facts: Any) -> None:
        """Write `config.yaml` and `run.json`."""
        config = self._parser("fit").dump(self.config["fit"], skip_none=False)
        write_text(self.run_dir / "config.yaml", config)
        facts |= {"algorithm": type(self.model).__name__, "seed": self.model.seed, "plan": self.plan}
        write_record(self.run_dir, status="running", reason=None, ended=None, **facts)

    def fit(self, **kwargs: Any) -> None:
        """Train, from the newest checkpoint where the run is resumed, and print the run directory last."""
        checkpoint = None if self.resume is None else last_checkpoint(self.resume)
        try:
            with locked(self.run_dir), self._weights_that_fit(checkpoint):
                self.trainer.fit(ckpt_path=checkpoint, weights_only=True, **kwargs)
        except SystemExit:  # how Lightning ends a run that a signal stopped within an iteration
            if self.model.interrupted is None:
                raise
        finally:
            print(self.run_dir)

    def validate(self, **kwargs: Any) -> None:
        """Print the accuracy on the validation prompts."""
        self._evaluate("val", self.trainer.validate, **kwargs)

    def test(self, **kwargs: Any) -> None:
        """Print the accuracy on the test prompts."""
        self._evaluate("test", self.trainer.test, **kwargs)

    def _evaluate(self, split: str, run: Callable[..., Any], ckpt_path: str | None = None, **kwargs: Any) -> None:
        if ckpt_path is not None and not Path(ckpt_path).is_file():
            raise ConfigError(f"--ckpt_path {ckpt_path!r}: there is no such file; give a RUN/checkpoints/last.ckpt.")
        weights = ckpt_path or self.model.policy_spec.path
        print(f"{weights} answers every prompt of {self.datamodule.paths[split]} …", file=sys.stderr)
        with self._weights_that_fit(ckpt_path):
            (metrics,) = run(ckpt_path=ckpt_path, verbose=False, **kwargs)
        for key, value in sorted(metrics.items()):
            print(f"{key:<28} {value:.4f}")

    @contextmanager
    def _weights_that_fit(self, checkpoint: str | Path | None) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if "loading state_dict" not in str(error):
                raise
            raise ConfigError(
                f"{checkpoint} holds other weights than those of {type(self.model).__name__} from model.policy.path "
                f"{self.model.policy_spec.path!r}; give the config of the run it comes from."
            ) from error


def _no_requeue() -> list[Any]:
    """SLURM's own environment without its requeueing: it would save within an iteration, and load what lies there."""
    return [SLURMEnvironment(auto_requeue=False)] if SLURMEnvironment.detect() else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value and value is not True else []


def run(argv: list[str]) -> int:
    """Run a verb's command line and return the exit code."""
    silence_lightning()
    refuse_linked(argv)
    argv, resume = take_resume(argv)
    with command_line(argv):  # LightningCLI reads sys.argv, and warns where it is given arguments beside it
        cli = AcrlCLI(argv[0], resume)
    if cli.verb != "fit" or cli.model.interrupted is None:
        return 0
    saved = (cli.run_dir / "checkpoints" / "last.ckpt").is_file()
    further = f"go on with: acrl fit --resume {cli.run_dir}" if saved else "nothing was saved yet"
    print(f"acrl: {cli.model.interrupted}; {further}", file=sys.stderr)
    return 128 + (cli.signals.received or 0)
