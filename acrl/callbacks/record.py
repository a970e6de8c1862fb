"""What a run leaves behind: metrics, TensorBoard events and its status."""

from __future__ import annotations

import json
import math
import resource
import sys
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import TensorBoardLogger

from acrl.algorithms.base import RLModule
from acrl.errors import Diverged
from acrl.run_dir import cut_back, now, write_record

PHASES = ("rollout", "reward", "score", "update", "eval")


class RunRecord(Callback):
    """Appends an iteration's row to `metrics.jsonl` and the loggers, and keeps `run.json` true."""

    def __init__(self, run_dir: Path, resumed: bool) -> None:
        self.run_dir = run_dir
        self.resumed = resumed
        self.started = False
        self.old_events = list(run_dir.glob("events.out.tfevents.*"))

    def on_train_start(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Write the start policy's row, or take up a resumed run's record where its checkpoint left it."""
        self.started = True
        write_record(self.run_dir, status="running", reason=None)
        if self.resumed:
            for row in cut_back(self.run_dir, module.counters.iterations):
                self._log(trainer, row)
            for events in self.old_events:  # they cannot be cut; the new file has the metrics from the start
                events.unlink()
        elif module.start_row:
            self._write(trainer, module, module.start_row | module.counters.at_start())

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Write the iteration's row."""
        times = {f"time/{phase}": 0.0 for phase in PHASES} | module.clock.lap()
        self._write(trainer, module, module.row | times | {"memory/peak_bytes": peak_bytes(module.device)})

    def _write(self, trainer: Trainer, module: RLModule, row: dict[str, float]) -> None:
        row = {key: _plain(value) for key, value in sorted(row.items())}
        bad = [key for key, value in row.items() if not math.isfinite(value)]
        if bad:
            raise Diverged(f"non-finite {', '.join(bad)} in iteration {module.counters.iterations}.")
        with (self.run_dir / "metrics.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        self._log(trainer, row)

    def _log(self, trainer: Trainer, row: dict[str, Any]) -> None:
        for logger in trainer.loggers:
            logger.log_metrics(row, step=int(row["counter/completions"]))

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record how the run ended."""
        if isinstance(module, RLModule) and module.interrupted:
            write_record(self.run_dir, status="interrupted", reason=module.interrupted, ended=now())
        else:
            write_record(self.run_dir, status="finished", reason=None, ended=now())

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        """Record why the run broke off; a resume that was refused leaves the record as it was."""
        if self.resumed and not self.started:
            return
        status, reason = "failed", str(exception) or type(exception).__name__
        if isinstance(exception, Diverged):
            status = "diverged"
        elif isinstance(module, RLModule) and module.interrupted:
            status, reason = "interrupted", module.interrupted
        write_record(self.run_dir, status=status, reason=reason, ended=now())


class Events(TensorBoardLogger):
    """TensorBoard events in the run directory itself, without Lightning's empty `hparams.yaml`."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir, name="", version="", default_hp_metric=False, max_queue=1000)

    def save(self) -> None:
        """Write out what was logged."""
        self.experiment.flush()


def peak_bytes(device: torch.device) -> float:
    """Return the peak memory so far: allocated on a GPU, the process's resident set on a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _plain(value: float) -> float | int:
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
