"""What Lightning says about settings that are ours on purpose, and is not the user's concern."""

from __future__ import annotations

import logging
import warnings

MESSAGES = (
    ".*does not have many workers.*",
    ".*`training_step` returned `None`.*",
    ".*train_dataloader yielded None.*",
    ".*Experiment logs directory.*",
    ".*Checkpoint directory.*",
    ".*callbacks used to create the checkpoint need to be provided.*",
    ".*smaller than the logging interval.*",
    ".*in eval mode at the start.*",
    ".*treespec, LeafSpec.*",
    ".*Total length of `list` across ranks is zero.*",
)
LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.fabric")


def silence_lightning() -> None:
    """Drop these warnings, and everything below a warning."""
    for message in MESSAGES:
        warnings.filterwarnings("ignore", message)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
