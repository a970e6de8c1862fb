"""Held-out accuracy: one sampled answer per prompt with noise of its own, greedy answers beside it on request."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import MeanMetric

from acrl.data.prompts import EvalBatch
from acrl.rewards import Reward
from acrl.rollout.collector import completions_of, score
from acrl.rollout.engine import Generation
from acrl.rollout.noise import row_uniforms
from acrl.rollout.sampler import Sampler
from acrl.spec import Evaluation


class Evaluator:
    """Accumulates `eval/*` over batches of prompts; the same prompts, noise and metrics for every algorithm."""

    def __init__(self, sampler: Sampler, reward: Reward, plan: Evaluation, temperature: float) -> None:
        self.sampler = sampler
        self.reward = reward
        self.plan = plan
        self.temperature = temperature if plan.temperature is None else plan.temperature
        self.metrics: dict[str, MeanMetric] = {}

    def update(self, batch: EvalBatch, greedy: bool) -> None:
        """Answer the batch's prompts and count the answers."""
        indices = list(batch.rows)
        prompt_ids, prompt_mask = batch.prompts.padded(indices)
        noise = None
        if self.temperature > 0:
            noise = row_uniforms(self.plan.seed, "eval", batch.sample, 0, batch.rows, self.sampler.max_response_length)
        answers = self.sampler(prompt_ids, prompt_mask, noise, self.temperature, with_entropy=True)
        self._count("eval/accuracy", batch, indices, answers)
        assert answers.entropy is not None
        self._mean("eval/sequence_entropy", answers.entropy.sum(dim=1))
        self._mean("eval/response_length_mean", answers.response_mask.sum(dim=1))
        self._mean("eval/truncated_fraction", answers.truncated)
        if greedy and batch.sample == 0:
            answers = self.sampler(prompt_ids, prompt_mask, None, self.temperature)
            self._count("eval/accuracy_greedy", batch, indices, answers)

    def compute(self) -> dict[str, float]:
        """Return `eval/*` of all batches since the last call."""
        values = {key: float(metric.compute()) for key, metric in self.metrics.items() if metric.update_called}
        for metric in self.metrics.values():
            metric.reset()
        return values

    def _count(self, key: str, batch: EvalBatch, indices: list[int], answers: Generation) -> None:
        texts = completions_of(answers, self.sampler.decode)
        accuracy = torch.tensor(score(self.reward, batch.prompts, indices, texts).accuracy)
        self._mean(key, accuracy)
        levels = [batch.prompts.rows[i].columns.get("difficulty") for i in indices]
        for level in dict.fromkeys(level for level in levels if level is not None):
            chosen = torch.tensor([other == level for other in levels])
            self._mean(key.replace("eval/", f"eval/{level}/"), accuracy[chosen])

    def _mean(self, key: str, values: Tensor) -> None:
        if key not in self.metrics:
            self.metrics[key] = MeanMetric()
            self.metrics[key].set_dtype(torch.float64)
        self.metrics[key].update(values.double())
