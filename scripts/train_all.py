"""Train algorithms on the tiny testbed, some at a time, and print one table of where they started and ended.

python scripts/train_all.py --out runs/quickstart                       # four algorithms, one seed
python scripts/train_all.py --out runs/first_light --seeds 1 2 3        # docs/results/first_light.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

CONFIGS = {"PPO": "ppo", "GRPO": "grpo", "DAPO": "dapo", "LitePPO": "lite_ppo"}


@dataclass(frozen=True)
class Run:
    """One finished or failed training run."""

    algorithm: str
    seed: int
    status: str
    rows: list[dict[str, Any]]

    def curve(self, key: str) -> list[float]:
        """Return the key's values where it was logged."""
        return [row[key] for row in self.rows if key in row]

    @property
    def gain(self) -> float:
        """Final accuracy over the start's."""
        accuracy = self.curve("eval/accuracy")
        return accuracy[-1] - accuracy[0]

    @property
    def seconds(self) -> float:
        """Seconds of iterations, evaluation included."""
        return sum(self.curve("time/total"))


def train(algorithm: str, seed: int, out: Path, extra: list[str]) -> Run:
    """Run `acrl fit` in a process of its own with one thread, and read back what it left."""
    parent = out / f"{algorithm}-{seed}"
    command = [sys.executable, "-m", "acrl.cli", "fit", "--config", f"configs/tiny/{CONFIGS[algorithm]}.yaml"]
    command += ["--seed_everything", str(seed), "--trainer.default_root_dir", str(parent), *extra]
    parent.mkdir(parents=True, exist_ok=True)
    before = set(parent.glob("*/run.json"))
    with (parent / "log").open("w") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"OMP_NUM_THREADS": "1"})
    new = set(parent.glob("*/run.json")) - before  # an earlier command's run does not count
    if len(new) != 1:
        return Run(algorithm, seed, "failed", [])
    record = new.pop()
    metrics = record.parent / "metrics.jsonl"
    lines = metrics.read_text().splitlines() if metrics.is_file() else []
    return Run(algorithm, seed, json.loads(record.read_text())["status"], [json.loads(line) for line in lines])


def table(runs: list[Run], single: bool) -> Table:
    """Return one line per run."""
    title = "One seed: no verdict." if single else None
    result = Table(title=title, title_justify="left")
    columns = ("algorithm", "seed", "status", "start", "final", "best", "greedy start", "greedy final", "completions")
    for name in (*columns, "tokens", "seconds"):
        result.add_column(name, justify="left" if name in ("algorithm", "status") else "right")
    for run in runs:
        accuracy, greedy = run.curve("eval/accuracy"), run.curve("eval/accuracy_greedy")
        if not accuracy or len(run.rows) < 2:
            result.add_row(run.algorithm, str(run.seed), run.status, *["–"] * 8)
            continue
        last = run.rows[-1]
        values = [f"{x:.3f}" for x in (accuracy[0], accuracy[-1], max(accuracy), greedy[0], greedy[-1])]
        counts = [f"{last['counter/completions']:,}", f"{last['counter/tokens_generated']:,}", f"{run.seconds:.0f}"]
        result.add_row(run.algorithm, str(run.seed), run.status, *values, *counts)
    return result


def medians(runs: list[Run]) -> list[str]:
    """Return a sentence per algorithm on the median over its seeds; a failed run counts as accuracy 0."""
    lines = []
    for algorithm in CONFIGS:
        own = [run for run in runs if run.algorithm == algorithm]
        final = median(run.curve("eval/accuracy")[-1] if run.status == "finished" else 0.0 for run in own)
        greedy = median(run.curve("eval/accuracy_greedy")[-1] if run.status == "finished" else 0.0 for run in own)
        lines.append(f"{algorithm}: median final accuracy {final:.3f}, greedy {greedy:.3f}, {len(own)} seeds")
    return lines


def main() -> int:
    """Train, print the table, and exit non-zero where a run failed or did not end above its start."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="parent of the run directories")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time, one thread each")
    args, extra = parser.parse_known_args()
    jobs = [(algorithm, seed) for seed in args.seeds for algorithm in CONFIGS]
    runs: list[Run] = []
    console = Console(width=None if sys.stdout.isatty() else 120)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar, ThreadPoolExecutor(args.workers) as pool:
        task = bar.add_task(f"0 of {len(jobs)} runs", total=len(jobs))
        futures = [pool.submit(train, algorithm, seed, args.out, extra) for algorithm, seed in jobs]
        for future in as_completed(futures):
            runs.append(future.result())
            bar.update(task, advance=1, description=f"{len(runs)} of {len(jobs)} runs")
    order = list(CONFIGS)
    runs.sort(key=lambda run: (order.index(run.algorithm), run.seed))
    console.print(table(runs, single=len(args.seeds) == 1))
    if len(args.seeds) > 1:
        console.print("\n".join(medians(runs)))
    broken = [run for run in runs if run.status != "finished"]
    flat = [run for run in runs if run not in broken and not run.gain > 0]
    for run in broken:
        log = args.out / f"{run.algorithm}-{run.seed}" / "log"
        print(f"{run.algorithm} seed {run.seed}: {run.status}, see {log}", file=sys.stderr)
    for run in flat:
        print(f"{run.algorithm} seed {run.seed}: the final accuracy is not above the start's", file=sys.stderr)
    return 1 if broken or flat else 0


if __name__ == "__main__":
    sys.exit(main())
