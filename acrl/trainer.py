"""The trainer settings that make one Lightning epoch one iteration, and the flags that would break it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytorch_lightning import Trainer

from acrl.errors import ConfigError

SETTINGS: dict[str, Any] = {
    "max_epochs": -1,
    "reload_dataloaders_every_n_epochs": 1,
    "use_distributed_sampler": False,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 1,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "devices": 1,
}

BUDGET = "give budget.completions, tokens, iterations or seconds"
WHOLE = "an iteration always trains on its whole rollout"

REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "max_epochs": ((-1,), BUDGET),
    "min_epochs": ((None,), BUDGET),
    "max_steps": ((-1,), BUDGET),
    "min_steps": ((None,), BUDGET),
    "max_time": ((None,), BUDGET),
    "limit_train_batches": ((None, 1.0), WHOLE),
    "overfit_batches": ((0, 0.0), WHOLE),
    "fast_dev_run": ((False,), "give --budget.iterations 2"),
    "val_check_interval": ((None, 1.0), "give eval.every_completions"),
    "check_val_every_n_epoch": ((1,), "give eval.every_completions"),
    "accumulate_grad_batches": ((1,), "give model.batch.micro_batch_size"),
    "gradient_clip_val": ((None,), "give model.optimizer.max_grad_norm"),
    "gradient_clip_algorithm": ((None,), "model.optimizer.max_grad_norm clips by norm"),
    "reload_dataloaders_every_n_epochs": ((1,), "every epoch is a fresh rollout"),
    "use_distributed_sampler": ((False,), "rollouts are split over ranks already"),
    "num_sanity_val_steps": ((0,), "the start policy is evaluated anyway"),
    "devices": ((1, "1"), "this version trains on one device"),
    "num_nodes": ((1,), "this version trains on one device"),
    "enable_checkpointing": ((None, True), "a run could not be resumed"),
    "barebones": ((False,), "it would log nothing"),
    "precision": (
        (None, 32, 64, "32", "64", "32-true", "64-true", "bf16", "bf16-mixed"),
        "weights in half precision lose small steps, and fp16's scaler overflows on purpose; give bf16-mixed",
    ),
}


def check_settings(trainer: Mapping[str, Any]) -> None:
    """Raise a ConfigError on the first trainer flag that would break an iteration or a run; it names what to give."""
    for flag, (legal, instead) in REFUSED.items():
        value = trainer.get(flag, legal[0])
        if not any(value == ok and type(value) is type(ok) for ok in legal):  # 1 is one batch, 1.0 is all of them
            raise ConfigError(f"trainer.{flag} cannot be {value!r}: {instead}.")


def iteration_trainer(iterations: int, **settings: Any) -> Trainer:
    """Return a Lightning trainer for a number of iterations from Python: no files, no bar; `settings` override."""
    quiet = {"logger": False, "enable_checkpointing": False, "accelerator": "cpu"}
    return Trainer(**SETTINGS | quiet | {"max_epochs": iterations} | settings)
