"""Draw the learning curves of runs: sampled and greedy accuracy over completions, every seed's line and the median.

python scripts/plot_curves.py runs/first_light docs/results/first_light.png
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Okabe and Ito's colours: told apart by colour-blind readers; an algorithm keeps its colour and marker everywhere.
STYLES = {"PPO": ("#0072B2", "o"), "GRPO": ("#D55E00", "s"), "DAPO": ("#009E73", "^"), "LitePPO": ("#CC79A7", "D")}
PANELS = {"eval/accuracy": "sampled accuracy", "eval/accuracy_greedy": "greedy accuracy"}

Curve = list[tuple[float, float]]


def curves(parent: Path, key: str) -> dict[str, list[Curve]]:
    """Return each algorithm's (completions, value) curves, one a run, below `parent`."""
    found: defaultdict[str, list[Curve]] = defaultdict(list)
    for record in sorted(parent.rglob("run.json")):
        facts = json.loads(record.read_text())
        if facts["status"] != "finished":
            print(f"left out, {facts['status']}: {record.parent}")
            continue
        algorithm = facts["algorithm"]
        rows = [json.loads(line) for line in (record.parent / "metrics.jsonl").read_text().splitlines()]
        found[algorithm].append([(row["counter/completions"], row[key]) for row in rows if key in row])
    return found


def main() -> None:
    """Draw both panels into one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("figure", type=Path)
    args = parser.parse_args()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, (key, label) in zip(axes, PANELS.items(), strict=True):
        for algorithm, runs in sorted(curves(args.runs, key).items(), key=lambda item: list(STYLES).index(item[0])):
            colour, marker = STYLES[algorithm]
            for run in runs:
                axis.plot(*zip(*run, strict=True), color=colour, alpha=0.3, linewidth=0.8)
            points = min(len(run) for run in runs)
            middle = [(median(run[i][0] for run in runs), median(run[i][1] for run in runs)) for i in range(points)]
            every = max(1, points // 8)
            axis.plot(
                *zip(*middle, strict=True), color=colour, marker=marker, markevery=every, markersize=5, label=algorithm
            )
        axis.set(xlabel="completions generated", title=label, ylim=(0, 1))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("held-out accuracy")
    axes[0].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(args.figure, dpi=130)


if __name__ == "__main__":
    main()
