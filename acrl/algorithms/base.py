"""What every algorithm shares: models, rollouts, scoring, the clipped surrogate, the optimizer step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from time import perf_counter
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from acrl.algorithms.counters import Counters
from acrl.algorithms.metrics import StepMetrics, credit_metrics, rollout_metrics
from acrl.algorithms.optimization import (
    build_optimizer,
    check_finite,
    clip_by_owner,
    schedule_factor,
    set_learning_rates,
)
from acrl.data.prompts import EvalBatch, PromptData
from acrl.errors import ConfigError
from acrl.evaluation import Evaluator
from acrl.functional import clipped_surrogate, kl_estimate
from acrl.models.policy import TokenScores, load_policy, load_tokenizer, score_tokens
from acrl.rollout.batch import RolloutBatch
from acrl.rollout.collector import Collected, Collector
from acrl.rollout.microbatches import MicroBatch, NoUpdate, UpdatePlan, plan_update, score_in_pieces
from acrl.rollout.sampler import Sampler
from acrl.spec import (
    KL,
    BatchPlan,
    Credit,
    Evaluation,
    Objective,
    Optimizer,
    Policy,
    Sampling,
    check_sizes,
)
from acrl.timing import Clock


class RLModule(pl.LightningModule, ABC):
    """One policy, trained on its own rollouts; one Lightning epoch is one iteration.

    A subclass says how credit is assigned and, where it learns a baseline, adds its models and its loss.
    """

    def __init__(
        self,
        credit: Credit,
        objective: Objective,
        kl: KL = KL(),
        sampling: Sampling = Sampling(),
        batch: BatchPlan = BatchPlan(completions_per_iteration=64),
        optimizer: Optimizer = Optimizer(),
        policy: Policy = Policy(),
        seed: int = 0,
        evaluation: Evaluation = Evaluation(),
    ) -> None:
        super().__init__()
        self.credit, self.objective, self.kl, self.sampling = credit, objective, kl, sampling
        self.plan, self.optimizer_spec, self.policy_spec = batch, optimizer, policy
        self.seed, self.evaluation = seed, evaluation
        self.policy: nn.Module | None = None
        self._reference: list[nn.Module] = []  # in a list, so that it is neither trained nor checkpointed
        self.counters = Counters()
        self.budget_share = 0.0
        self.clock = Clock()
        self.step_metrics = StepMetrics()
        self.start_row: dict[str, float] = {}  # of the start policy
        self.row: dict[str, float] = {}  # of the iteration
        self.evaluated = False
        self.interrupted: str | None = None
        self.collected: Collected | None = None
        self.update: UpdatePlan | None = None
        check_sizes(type(self).__name__, credit, sampling, batch)

    @property
    def specs(self) -> dict[str, Any]:
        """The values that make the algorithm, by the constructor's names."""
        return {"credit": self.credit, "objective": self.objective, "kl": self.kl, "sampling": self.sampling}

    def idle_knobs(self) -> list[str]:
        """Return sentences on settings that cannot act beside the others."""
        return []

    # Models

    @cached_property
    def tokenizer(self) -> Any:
        """The policy's tokenizer."""
        return load_tokenizer(self.policy_spec.path)

    def configure_model(self) -> None:
        """Load the policy, and the reference where there is a KL term."""
        if self.policy is None:
            self.policy = load_policy(self.policy_spec.path)
            self.policy.train()
            self._check_positions()
            if self.kl.coef > 0:
                self._reference = [load_policy(self.policy_spec.path).requires_grad_(False)]

    def _check_positions(self) -> None:
        config: Any = self._model.config
        limit = getattr(config.get_text_config(), "max_position_embeddings", None)
        sets = {} if self._trainer is None else self._data.sets
        longest = max((len(ids) for found in sets.values() for ids in found.ids), default=0)
        if limit is not None and longest + self.sampling.max_response_length > limit:
            raise ConfigError(
                f"the longest prompt has {longest} tokens and model.sampling.max_response_length is "
                f"{self.sampling.max_response_length}, more than the {limit} positions of {self.policy_spec.path}; "
                "lower the limit or drop long prompts."
            )

    @property
    def reference(self) -> nn.Module | None:
        """The frozen start policy, on the policy's device and in its dtype."""
        if not self._reference:
            return None
        like = next(self._model.parameters())
        return self._reference[0].to(like.device, like.dtype)

    @property
    def _model(self) -> nn.Module:
        assert self.policy is not None, "configure_model comes first"
        return self.policy

    def _precision(self) -> AbstractContextManager:
        trainer = self._trainer
        return nullcontext() if trainer is None else trainer.precision_plugin.forward_context()

    # Rollouts

    @cached_property
    def sampler(self) -> Sampler:
        """Answers from the current policy."""
        return Sampler(self._model, self.tokenizer, self.sampling.max_response_length, self._precision)

    @cached_property
    def collector(self) -> Collector:
        """Rewarded groups from the current policy."""
        data = self._data
        return Collector(
            data.sets["train"],
            data.scorer,
            self.sampler.decode,
            lambda ids, mask, noise: self.sampler(ids, mask, noise, self.sampling.temperature),
            self.sampling,
            self.plan,
            self.seed,
            self.clock,
        )

    @cached_property
    def evaluator(self) -> Evaluator:
        """Held-out accuracy of the current policy."""
        return Evaluator(self.sampler, self._data.scorer, self.evaluation, self.sampling.temperature)

    @property
    def _data(self) -> PromptData:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, PromptData)
        return data

    def next_update(self) -> list[MicroBatch] | list[NoUpdate]:
        """Return the micro-batches of the iteration that Lightning's epoch stands for, from a fresh rollout.

        A resumed trainer first asks for the finished epoch's data once more; that call samples nothing.
        """
        if self.trainer.current_epoch < self.counters.iterations:
            return [NoUpdate()]
        if self.collected is None:
            self.clock.restart()
        self.collected = self.collector.collect(self.counters.iterations, self.counters.prompts)
        self.counters.generated(self.collected, self.plan.group_size)
        batch = self.collected.batch
        if batch.loss_mask.any():
            with self.clock.phase("score"), torch.no_grad(), self._precision():
                batch = self.score(batch)
            found = {name: getattr(batch, name) for name in ("old_logprobs", "ref_logprobs", "values", "bootstrap")}
            check_finite(self._where, **{name: value for name, value in found.items() if value is not None})
            batch = self.assign_credit(batch)
            self.row = rollout_metrics(self.collected) | credit_metrics(batch)
        else:
            self.row = rollout_metrics(self.collected)
        self.collected.batch = batch
        self.update = plan_update(
            batch,
            self.plan,
            self.objective.aggregation,
            self.sampling.max_response_length,
            self.seed,
            self.counters.iterations,
        )
        self.trainer.accumulate_grad_batches = self.update.accumulate
        return self.update.micro_batches or [NoUpdate()]

    def score(self, batch: RolloutBatch) -> RolloutBatch:
        """Return the batch with old log-probs, entropies, and reference log-probs where there is a KL term."""
        return score_in_pieces(
            batch, self.score_rows, self.plan.micro_batch_size, next(self._model.parameters()).device
        )

    def score_rows(self, rows: RolloutBatch) -> dict[str, Tensor]:
        """Return one micro-batch's scores by their name in `RolloutBatch`."""
        scores = score_tokens(self._model, rows, self.sampling.temperature, entropy=True, hidden=self.needs_hidden)
        assert scores.entropy is not None
        found = {"old_logprobs": scores.logprobs, "entropy": scores.entropy, **self.score_baseline(rows, scores)}
        if (reference := self.reference) is not None:
            found["ref_logprobs"] = score_tokens(reference, rows, self.sampling.temperature).logprobs
        return found

    def score_baseline(self, rows: RolloutBatch, scores: TokenScores) -> dict[str, Tensor]:
        """Return a learned baseline's scores by their name in `RolloutBatch`; none where nothing is learned."""
        return {}

    @abstractmethod
    def assign_credit(self, batch: RolloutBatch) -> RolloutBatch:
        """Return the scored batch with `advantages` [N, T] (and `returns` [N, T] for a critic)."""

    def kl_penalty(self, batch: RolloutBatch) -> Tensor:
        """Return the per-token reward −β·k̂_t of a KL term in the reward, [N, T]; zeros without one."""
        assert batch.old_logprobs is not None
        if self.kl.coef == 0 or self.kl.where == "loss" or batch.ref_logprobs is None:
            return torch.zeros(batch.response_mask.shape, dtype=torch.float64)
        estimate = kl_estimate(batch.old_logprobs, batch.ref_logprobs, self.kl.estimator)
        return -self.kl.coef * torch.where(batch.response_mask, estimate, 0.0).double()

    # Updates

    needs_hidden = False

    def training_step(self, micro: MicroBatch | NoUpdate, _: int) -> Tensor | None:
        """Return the micro-batch's share of Σ w·(clipped surrogate + β·KL) + the learned baseline's loss.

        Scaled by the number of micro-batches, to undo Lightning's averaging over them.
        """
        if isinstance(micro, NoUpdate):  # without a gradient AdamW leaves parameters and moments as they are
            return None
        rows = micro.rows
        assert rows.old_logprobs is not None and rows.advantages is not None
        scores = score_tokens(self._model, rows, self.sampling.temperature, hidden=self.needs_hidden)
        losses = clipped_surrogate(
            scores.logprobs,
            rows.old_logprobs,
            rows.advantages,
            self.objective.clip_low,
            self.objective.clip_high,
            self.objective.dual_clip,
        )
        if self.kl.coef > 0 and self.kl.where == "loss":
            assert rows.ref_logprobs is not None
            losses = losses + self.kl.coef * kl_estimate(scores.logprobs, rows.ref_logprobs, self.kl.estimator)
        loss = weighted_sum(losses, micro.policy_weights)
        baseline_loss = self.baseline_loss(micro, scores)
        check_finite(self._where, advantages=rows.advantages, logprobs=scores.logprobs, policy_loss=loss)
        accumulate = self.trainer.accumulate_grad_batches
        self.step_metrics.mean("policy/loss", loss.detach() * accumulate)
        self.step_metrics.policy(micro, scores.logprobs, self.objective)
        if baseline_loss is not None:
            check_finite(self._where, value_loss=baseline_loss)
            self.step_metrics.mean("critic/value_loss", baseline_loss.detach() * accumulate)
            loss = (0.0 * loss if self.policy_frozen else loss) + self.baseline_coef * baseline_loss
        return loss * accumulate

    def baseline_loss(self, micro: MicroBatch, scores: TokenScores) -> Tensor | None:
        """Return the loss of a learned baseline, aggregated over the minibatch; None where nothing is learned."""
        return None

    baseline_coef = 0.0
    policy_frozen = False

    @property
    def _where(self) -> str:
        return (
            f"iteration {self.counters.iterations + 1}, optimizer step {self.counters.optimizer_steps + 1}; "
            f"lower model.optimizer.lr ({self.optimizer_spec.lr:g}) or check the reward's range."
        )

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the trained parameters by who they belong to."""
        return {"policy": [p for p in self._model.parameters() if p.requires_grad]}

    def learning_rates(self) -> dict[str, float]:
        """Return each group's learning rate before warm-up and decay."""
        return {"policy": self.optimizer_spec.lr}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer; its schedule is a function of the counters and the budget alone."""
        return build_optimizer(self.parameter_groups(), self.learning_rates(), self.optimizer_spec)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Set the step's learning rates."""
        steps = self.counters.optimizer_steps
        set_learning_rates(optimizer, schedule_factor(self.optimizer_spec, steps, self.budget_share))

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        """Clip policy and critic each on its own and log the norms before; a frozen policy keeps no gradient."""
        if self.policy_frozen:
            for parameter in self.parameter_groups()["policy"]:
                parameter.grad = None
        norms = clip_by_owner(optimizer, self.optimizer_spec.max_grad_norm, self.named_parameters(), self._where)
        for group in optimizer.param_groups:
            if group["name"] in norms:
                self.step_metrics.mean(f"{group['name']}/grad_norm", norms[group["name"]])
                self.step_metrics.mean(f"{group['name']}/lr", group["lr"])
        self.counters.optimizer_steps += bool(norms)

    # Lightning's hooks

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Start the update's clock."""
        self._batch_started = perf_counter()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Stop the update's clock; after the last micro-batch the row lacks only evaluation, times and memory."""
        self.clock.add("update", perf_counter() - self._batch_started)
        if self.trainer.is_last_batch:
            self._check_whole(batch_idx + 1)
            self.counters.iterations += 1
            self.row |= self.step_metrics.compute() | self.counters.metrics()

    def _check_whole(self, trained: int) -> None:
        update = self.update
        if update is None or not update.micro_batches:
            return
        planned = len(update.micro_batches), update.accumulate
        if (trained, self.trainer.accumulate_grad_batches) != planned:
            raise ConfigError(
                f"iteration {self.counters.iterations + 1} trained on {trained} micro-batches, "
                f"{self.trainer.accumulate_grad_batches} to an optimizer step, but {planned[0]} and {planned[1]} were "
                "planned; a trainer flag or callback cuts iterations short: remove it."
            )

    def evaluate(self, batches: list[EvalBatch], greedy: bool) -> dict[str, float]:
        """Return `eval/*` over the batches."""
        for batch in batches:
            self.evaluator.update(batch, greedy)
        return self.evaluator.compute()

    def validation_step(self, batch: EvalBatch, _: int) -> None:
        """Answer the batch's prompts, sampled and greedy."""
        self.evaluator.update(batch, greedy=True)

    def on_validation_epoch_end(self) -> None:
        """Log `eval/*`."""
        self.log_dict(self.evaluator.compute())

    test_step = validation_step
    on_test_epoch_end = on_validation_epoch_end

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the counters: with the seed they fix every later random number and the data position."""
        checkpoint["acrl"] = {"counters": self.counters.state(), "seconds": self.clock.spent}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the counters back."""
        self.counters = Counters(**checkpoint["acrl"]["counters"])
        self.clock.spent = checkpoint["acrl"]["seconds"]


def weighted_sum(losses: Tensor, weights: Tensor) -> Tensor:
    """Return Σ w·ℓ; a weight of 0 keeps its loss out, whatever it is."""
    return torch.where(weights > 0, losses * weights.to(losses.dtype), 0.0).sum()
