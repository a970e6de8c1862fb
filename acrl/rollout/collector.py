"""From prompts to rewarded groups: sampling, rewards, overlong rules, group filter and refill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from acrl.data.prompts import PromptSet
from acrl.functional import soft_overlong_penalty
from acrl.rewards import Reward, RewardResult
from acrl.rollout.batch import RolloutBatch, concatenate
from acrl.rollout.engine import Generation
from acrl.rollout.noise import row_uniforms
from acrl.spec import BatchPlan, Sampling
from acrl.timing import Clock

Generate = Callable[[Tensor, Tensor, Tensor], Generation]


@dataclass
class Texts:
    """What was sampled, in words; parallel to the rows it came with."""

    prompts: list[str] = field(default_factory=list)
    completions: list[str] = field(default_factory=list)
    parts: dict[str, list[float | None]] = field(default_factory=dict)

    def add_parts(self, parts: dict[str, list[float | None]]) -> None:
        """Append the newest rows' scores by name; a name that only some rounds know is None in the others."""
        added = len(next(iter(parts.values())))
        before = len(self.completions) - added
        for name in self.parts | parts:
            self.parts.setdefault(name, [None] * before).extend(parts.get(name, [None] * added))


@dataclass
class Collected:
    """An iteration's rollouts: `generated` is everything sampled, `batch` the rows of it that train."""

    generated: RolloutBatch
    batch: RolloutBatch
    kept: Tensor  # [rows of generated] bool
    texts: Texts  # of generated
    prompts_used: int
    rounds: int
    short_of_groups: int  # groups missing after the last round


class Collector:
    """Collects B groups of G answers per iteration for one module."""

    def __init__(
        self,
        prompts: PromptSet,
        reward: Reward,
        decode: Callable[[list[int]], str],
        generate: Generate,
        sampling: Sampling,
        plan: BatchPlan,
        seed: int,
        clock: Clock,
    ) -> None:
        self.prompts = prompts
        self.reward = reward
        self.decode = decode
        self.generate = generate
        self.sampling = sampling
        self.plan = plan
        self.seed = seed
        self.clock = clock

    def collect(self, iteration: int, position: int) -> Collected:
        """Return the iteration's rollouts, prompts taken from `position` of the training order on.

        With `groups: mixed` fresh prompts replace the groups that are all right or all wrong, one for one, until B
        groups are there or the rounds are spent; then whatever there is trains.
        """
        rounds: list[RolloutBatch] = []
        texts = Texts()
        used, missing = 0, self.plan.prompts
        limit = self.sampling.refill_rounds if self.sampling.groups == "mixed" else 1
        while missing and len(rounds) < limit:
            rounds.append(self._round(iteration, len(rounds), position + used, missing, texts))
            used += missing
            missing -= int(self._kept(rounds[-1]).sum()) // self.plan.group_size
        generated = concatenate(rounds)
        kept = self._kept(generated)
        batch = generated.rows(kept.nonzero().squeeze(1))
        return Collected(generated, batch, kept, texts, used, len(rounds), missing)

    def _kept(self, batch: RolloutBatch) -> Tensor:
        if self.sampling.groups == "all":
            return torch.ones(len(batch), dtype=torch.bool)
        _, index = batch.group_ids.unique(return_inverse=True)
        right = torch.zeros(int(index.max()) + 1, dtype=batch.accuracy.dtype).index_add(0, index, batch.accuracy)
        return ((right > 0) & (right < self.plan.group_size))[index]

    def _round(self, iteration: int, index: int, position: int, count: int, texts: Texts) -> RolloutBatch:
        group = self.plan.group_size
        drawn = self.prompts.draw(position, count, self.seed)
        indices = [i for i in drawn for _ in range(group)]
        n = len(indices)
        with self.clock.phase("rollout"):
            uniforms = row_uniforms(self.seed, "rollout", iteration, index, range(n), self.sampling.max_response_length)
            step = self.plan.rollout_micro_batch_size
            pieces = []
            for start in range(0, n, step):
                rows = slice(start, min(start + step, n))
                prompt_ids, prompt_mask = self.prompts.padded(indices[rows])
                generation = self.generate(prompt_ids, prompt_mask, uniforms[rows])
                pieces.append(self._unrewarded(prompt_ids, prompt_mask, generation))
            batch = concatenate(pieces)
            batch.group_ids = torch.arange(position, position + count).repeat_interleave(group)
        with self.clock.phase("reward"):
            return self._rewarded(batch, indices, texts)

    def _unrewarded(self, prompt_ids: Tensor, prompt_mask: Tensor, generation: Generation) -> RolloutBatch:
        zeros = torch.zeros(len(prompt_ids), dtype=torch.float64)
        trains = ~generation.truncated if self.sampling.overlong == "filter" else torch.ones_like(generation.truncated)
        return RolloutBatch(
            prompt_ids=prompt_ids,
            prompt_mask=prompt_mask,
            response_ids=generation.response_ids,
            response_mask=generation.response_mask,
            truncated=generation.truncated,
            group_ids=zeros.long(),
            rewards=zeros,
            accuracy=zeros,
            penalty=zeros,
            trains=trains,
            response_logprobs=generation.logprobs,
        )

    def _rewarded(self, batch: RolloutBatch, indices: list[int], texts: Texts) -> RolloutBatch:
        prompts = [self.prompts.rows[i].prompt for i in indices]
        completions = completions_of(batch, self.decode)
        result = score(self.reward, self.prompts, indices, completions)
        texts.prompts += prompts
        texts.completions += completions
        texts.add_parts(result.parts | result.extras)
        penalty = torch.zeros(len(batch), dtype=torch.float64)
        if self.sampling.overlong == "penalty":
            low, high = self.reward.range
            penalty = soft_overlong_penalty(
                batch.lengths.double(),
                self.sampling.max_response_length,
                self.sampling.overlong_buffer_tokens,
                self.sampling.overlong_weight * (high - low),
            )
        total = torch.tensor(result.total, dtype=torch.float64)
        accuracy = torch.tensor(result.accuracy, dtype=torch.float64)
        return replace(batch, rewards=total + penalty, accuracy=accuracy, penalty=penalty)


def completions_of(answers: RolloutBatch | Generation, decode: Callable[[list[int]], str]) -> list[str]:
    """Return the answers' texts, special tokens left out."""
    lengths = answers.response_mask.sum(dim=1).tolist()
    return [decode(ids[:n]) for ids, n in zip(answers.response_ids.tolist(), lengths, strict=True)]


def score(reward: Reward, prompts: PromptSet, indices: list[int], completions: list[str]) -> RewardResult:
    """Return the rewards of completions of the prompts at `indices`."""
    rows = [prompts.rows[i] for i in indices]
    return reward([row.prompt for row in rows], completions, [row.columns for row in rows], [row.id for row in rows])
