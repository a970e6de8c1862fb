"""Prompts as a LightningDataModule: rows from files for rollouts and evaluation, the module's experience as batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor
from torch.utils.data import DataLoader

from acrl.data.rows import Row, read_rows
from acrl.errors import DataError
from acrl.rewards import Reward, RewardSpec, check_golds
from acrl.rollout.microbatches import MicroBatch
from acrl.rollout.noise import permutation


@dataclass
class PromptSet:
    """Tokenised prompts of one file."""

    rows: list[Row]
    ids: list[list[int]]
    pad_id: int

    def __len__(self) -> int:
        return len(self.rows)

    def draw(self, position: int, count: int, seed: int) -> list[int]:
        """Return row indices at `position` … `position + count − 1` of an endless order, reshuffled after each pass."""
        size = len(self.rows)
        passes = range(position // size, (position + count - 1) // size + 1)
        order = torch.cat([permutation(size, seed, "prompts", p) for p in passes])
        start = position % size
        return order[start : start + count].tolist()

    def padded(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Return (ids [n, P], mask [n, P]) of prompts, left-padded to the longest of them."""
        width = max(len(self.ids[i]) for i in indices)
        ids = torch.full((len(indices), width), self.pad_id)
        mask = torch.zeros((len(indices), width), dtype=torch.bool)
        for n, i in enumerate(indices):
            ids[n, width - len(self.ids[i]) :] = torch.tensor(self.ids[i])
            mask[n, width - len(self.ids[i]) :] = True
        return ids, mask


@dataclass
class EvalBatch:
    """Indices of held-out prompts; an index is also the row's place in the noise of one sample of every prompt."""

    prompts: PromptSet
    rows: range
    sample: int = 0


class PromptData(pl.LightningDataModule):
    """JSONL rows `{prompt, answer, difficulty}` for training, validation and test.

    Attributes:
        train: file of prompts to roll out.
        val: file of held-out prompts for evaluation along the run and `acrl validate`.
        test: file for `acrl test`.
        max_prompt_length: tokens; a longer prompt is an error.
        reward: the reward functions.
    """

    def __init__(
        self,
        train: str,
        val: str,
        test: str | None = None,
        max_prompt_length: int = 32,
        reward: RewardSpec = RewardSpec(),
    ) -> None:
        super().__init__()
        self.paths = {"train": train, "val": val, "test": test}
        self.max_prompt_length = max_prompt_length
        self.reward = reward
        self.scorer: Reward
        self.sets: dict[str, PromptSet] = {}

    def setup(self, stage: str) -> None:
        """Check that the model is there, then read and check every file that `stage` needs, before it is loaded."""
        tokenizer = self._module().tokenizer
        self.scorer = Reward(self.reward)
        for split in {"fit": ("train", "val"), "validate": ("val",), "test": ("test",)}[stage]:
            if split not in self.sets:
                self.sets[split] = self._read(split, tokenizer)
        if stage == "fit":
            self._check_size()

    def _read(self, split: str, tokenizer: Any) -> PromptSet:
        path = self.paths[split]
        if path is None:
            raise DataError(f"data.{split} is not set; give a JSONL file, as in --data.{split}=FILE.")
        try:
            rows = read_rows(path, required=("prompt", *self.scorer.required_columns))
        except DataError as error:
            made = " (`acrl data make` writes the chain task's files)" if not Path(path).exists() else ""
            raise DataError(f"data.{split} {error}{made}") from error
        check_golds(self.reward, rows, path)
        ids = [tokenizer.encode(row.prompt) for row in rows]
        for row, tokens in zip(rows, ids, strict=True):
            if len(tokens) > self.max_prompt_length:
                raise DataError(
                    f"{path}, {row.id}: the prompt {row.prompt[:60]!r} has {len(tokens)} tokens, more than "
                    f"data.max_prompt_length {self.max_prompt_length}; raise the limit or drop the row."
                )
        return PromptSet(rows, ids, tokenizer.pad_token_id)

    def _check_size(self) -> None:
        have, need = len(self.sets["train"]), self._module().plan.prompts
        if have < need:
            raise DataError(
                f"data.train {self.paths['train']} has {have} rows, fewer than the {need} prompts of one iteration; "
                f"give more rows or a smaller model.batch.completions_per_iteration."
            )

    def _module(self) -> Any:
        assert self.trainer is not None
        return self.trainer.lightning_module

    def eval_batches(self, split: str, count: int | None, size: int, samples: int = 1) -> list[EvalBatch]:
        """Return the first `count` rows of a split (all where None) in batches of `size`, `samples` times over."""
        prompts = self.sets[split]
        total = len(prompts) if count is None else min(count, len(prompts))
        ranges = [range(i, min(i + size, total)) for i in range(0, total, size)]
        return [EvalBatch(prompts, rows, sample) for sample in range(samples) for rows in ranges]

    def train_dataloader(self) -> DataLoader:
        """Return the micro-batches of a fresh rollout: one Lightning epoch is one iteration."""
        return DataLoader(self._module().next_update(), batch_size=None)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Move a micro-batch; evaluation prompts are moved by the sampler."""
        return batch.to(device) if isinstance(batch, MicroBatch) else batch

    def val_dataloader(self) -> Any:
        """Return the held-out prompts for `acrl validate`; in `fit` evaluation follows completions, not epochs."""
        if self.trainer is not None and self.trainer.state.fn == TrainerFn.FITTING:
            return []
        return self._eval_dataloader("val")

    def test_dataloader(self) -> Any:
        """Return the test prompts."""
        return self._eval_dataloader("test")

    def _eval_dataloader(self, split: str) -> DataLoader:
        size = self._module().evaluation.micro_batch_size
        return DataLoader(self.eval_batches(split, None, size), batch_size=None)  # type: ignore[arg-type]
