"""A few of every iteration's answers, in words."""

from __future__ import annotations

import json
from pathlib import Path

from pytorch_lightning import Callback, Trainer

from acrl.algorithms.base import RLModule


class Samples(Callback):
    """Appends the first answers of an iteration to `samples.jsonl`: what was asked, said, earned and learned from."""

    def __init__(self, run_dir: Path, per_iteration: int = 4) -> None:
        self.run_dir = run_dir
        self.per_iteration = per_iteration

    def on_train_epoch_end(self, trainer: Trainer, module: RLModule) -> None:  # type: ignore[override]
        """Write the iteration's samples."""
        collected = module.collected
        if collected is None:
            return
        generated, batch, texts = collected.generated, collected.batch, collected.texts
        place = collected.kept.cumsum(0) - 1  # of a generated row among those that train
        lines = []
        step = max(1, len(generated) // self.per_iteration)  # from different groups
        for n in range(0, len(generated), step)[: self.per_iteration]:
            trains = bool(collected.kept[n]) and bool(generated.trains[n])
            advantage = float(batch.advantages[place[n], 0]) if trains and batch.advantages is not None else None
            sample = {
                "iteration": module.counters.iterations,
                "prompt": texts.prompts[n],
                "completion": texts.completions[n],
                "reward": float(generated.rewards[n]),
                "parts": {name: parts[n] for name, parts in texts.parts.items()},
                "overlong_penalty": float(generated.penalty[n]),
                "correct": bool(generated.accuracy[n]),
                "truncated": bool(generated.truncated[n]),
                "advantage": advantage,  # of the first token; null where the answer does not train
            }
            lines.append(json.dumps(sample, ensure_ascii=False) + "\n")
        with (self.run_dir / "samples.jsonl").open("a", encoding="utf-8") as stream:
            stream.writelines(lines)
