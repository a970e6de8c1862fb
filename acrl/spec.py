"""What a run is made of, as frozen, validated values. No tensors, no defaults hidden elsewhere.

A named algorithm is a preset of `Credit`, `Objective`, `KL` and `Sampling` (and `Critic`); everything else describes
sizes, optimisation and budget. The defaults of sizes, lengths and learning rate are those of the tiny testbed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from acrl.errors import ConfigError

Baseline = Literal["critic", "group_mean", "leave_one_out", "batch_mean", "none"]
Scale = Literal["whiten", "group_std", "batch_std", "batch_std_centred", "none"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]

GROUP_BASELINES = ("group_mean", "leave_one_out")


def _require(ok: bool, key: str, value: Any, choice: str) -> None:
    if not ok:
        raise ConfigError(f"{key} is {value!r}; give {choice}.")


def _finite(value: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class Credit:
    """How rewards become advantages: A = (reward − baseline) / scale.

    Attributes:
        baseline: critic (GAE), group_mean, leave_one_out, batch_mean or none.
        scale: whiten (over the batch's tokens), group_std, batch_std (raw rewards), batch_std_centred or none.
    """

    baseline: Baseline
    scale: Scale


@dataclass(frozen=True)
class Objective:
    """The clipped surrogate and how its tokens are summed.

    Attributes:
        clip_low: ε_low; ratios below 1 − ε_low gain nothing more where the advantage is negative.
        clip_high: ε_high; ratios above 1 + ε_high gain nothing more where the advantage is positive.
        aggregation: token_mean, sequence_mean, or constant (tokens divided by sequences · max_response_length).
        dual_clip: c > 1 bounds the loss at c·|A| where the advantage is negative; none leaves it unbounded.
    """

    clip_low: float
    clip_high: float
    aggregation: Aggregation
    dual_clip: float | None = None

    def __post_init__(self) -> None:
        _require(_finite(self.clip_low) and 0 < self.clip_low <= 1, "objective.clip_low", self.clip_low, "0 < ε ≤ 1")
        _require(_finite(self.clip_high) and self.clip_high > 0, "objective.clip_high", self.clip_high, "ε > 0")
        if self.dual_clip is not None:
            _require(self.dual_clip > 1, "objective.dual_clip", self.dual_clip, "a number above 1, or null for none")


@dataclass(frozen=True)
class KL:
    """The pull towards the start policy.

    Attributes:
        coef: β; 0 means no reference model is loaded.
        estimator: k1, k2 or k3 of Schulman (2020).
        where: loss (differentiated) or reward (a per-token penalty, before credit is assigned).
    """

    coef: float = 0.0
    estimator: Literal["k1", "k2", "k3"] = "k3"
    where: Literal["loss", "reward"] = "loss"

    def __post_init__(self) -> None:
        _require(_finite(self.coef) and self.coef >= 0, "kl.coef", self.coef, "a number ≥ 0")


@dataclass(frozen=True)
class Sampling:
    """How answers are sampled and which of them train.

    Attributes:
        temperature: τ > 0; log-probs divide logits by it too.
        max_response_length: tokens an answer may have, its EOS included.
        groups: all, or mixed (only groups with both right and wrong answers; refilled with fresh prompts).
        refill_rounds: generation rounds per iteration at most, where groups is mixed.
        overlong: none, penalty (soft, DAPO Eq. 13) or filter (truncated answers carry no loss).
        overlong_buffer: share of max_response_length over which the penalty rises from 0 to its weight.
        overlong_weight: the penalty's weight as a share of the reward's range (½ of {−1, 1} is the paper's 1).
    """

    temperature: float = 1.0
    max_response_length: int = 40
    groups: Literal["all", "mixed"] = "all"
    refill_rounds: int = 10
    overlong: Literal["none", "penalty", "filter"] = "none"
    overlong_buffer: float = 0.2
    overlong_weight: float = 0.5

    def __post_init__(self) -> None:
        _require(
            _finite(self.temperature) and self.temperature > 0,
            "sampling.temperature",
            self.temperature,
            "a number > 0 (greedy answers are for evaluation: eval.temperature 0)",
        )
        _require(self.max_response_length >= 1, "sampling.max_response_length", self.max_response_length, "1 or more")
        _require(self.refill_rounds >= 1, "sampling.refill_rounds", self.refill_rounds, "1 or more")
        _require(0 < self.overlong_buffer <= 1, "sampling.overlong_buffer", self.overlong_buffer, "a share in (0, 1]")
        _require(
            _finite(self.overlong_weight) and self.overlong_weight > 0,
            "sampling.overlong_weight",
            self.overlong_weight,
            "a share > 0 (sampling.overlong none switches the penalty off)",
        )

    @property
    def overlong_buffer_tokens(self) -> int:
        return max(1, round(self.overlong_buffer * self.max_response_length))


@dataclass(frozen=True)
class Critic:
    """The value head, its trunk, and GAE.

    Attributes:
        trunk: separate (a copy of the start policy's), shared, or shared_detached (its gradient stops at the head).
        lr_ratio: the critic's learning rate over the policy's.
        loss_coef: weight of the value loss.
        warmup_completions: generated completions during which only the critic learns.
        gamma: γ of GAE.
        lam_policy: λ of the advantages.
        lam_critic: λ of the value targets.
        length_adaptive_alpha: λ of the advantages becomes 1 − 1/(α·length), clamped to [0, 1] (VAPO); none keeps
            lam_policy.
        value_clip: values may move this far from the old ones before their loss stops falling; none is no clip.
        bootstrap_truncated: a truncated answer bootstraps from the value of its last state instead of 0.
    """

    trunk: Literal["separate", "shared", "shared_detached"] = "separate"
    lr_ratio: float = 2.0
    loss_coef: float = 1.0
    warmup_completions: int = 0
    gamma: float = 1.0
    lam_policy: float = 1.0
    lam_critic: float = 1.0
    length_adaptive_alpha: float | None = None
    value_clip: float | None = None
    bootstrap_truncated: bool = False

    def __post_init__(self) -> None:
        _require(_finite(self.lr_ratio) and self.lr_ratio > 0, "critic.lr_ratio", self.lr_ratio, "a number > 0")
        _require(_finite(self.loss_coef) and self.loss_coef >= 0, "critic.loss_coef", self.loss_coef, "a number ≥ 0")
        _require(self.warmup_completions >= 0, "critic.warmup_completions", self.warmup_completions, "0 or more")
        for name in ("gamma", "lam_policy", "lam_critic"):
            _require(0 <= getattr(self, name) <= 1, f"critic.{name}", getattr(self, name), "a number in [0, 1]")
        for name in ("length_adaptive_alpha", "value_clip"):
            value = getattr(self, name)
            _require(value is None or value > 0, f"critic.{name}", value, "a number > 0, or null for none")


@dataclass(frozen=True)
class BatchPlan:
    """How many completions one iteration has and how they are spent. Give completions or prompts, not both.

    Attributes:
        completions_per_iteration: N.
        prompts_per_iteration: B; N = B·group_size.
        group_size: G, completions per prompt.
        minibatches: optimizer steps per pass over the iteration's completions.
        epochs: passes over the iteration's completions.
        micro_batch_size: completions per forward and backward; memory only, the update does not depend on it.
        rollout_micro_batch_size: completions generated at once; memory only.
    """

    completions_per_iteration: int | None = None
    prompts_per_iteration: int | None = None
    group_size: int = 8
    minibatches: int = 2
    epochs: int = 1
    micro_batch_size: int = 64
    rollout_micro_batch_size: int = 512

    def __post_init__(self) -> None:
        for name in ("group_size", "minibatches", "epochs", "micro_batch_size", "rollout_micro_batch_size"):
            _require(getattr(self, name) >= 1, f"batch.{name}", getattr(self, name), "1 or more")
        completions, prompts = self.completions_per_iteration, self.prompts_per_iteration
        _require(
            (completions is None) != (prompts is None),
            "batch.completions_per_iteration and batch.prompts_per_iteration",
            (completions, prompts),
            "exactly one of the two; group_size fixes the other",
        )
        if completions is not None:
            _require(
                completions >= 1 and completions % self.group_size == 0,
                "batch.completions_per_iteration",
                completions,
                f"a multiple of batch.group_size ({self.group_size})",
            )
        else:
            assert prompts is not None
            _require(prompts >= 1, "batch.prompts_per_iteration", prompts, "1 or more")
        _require(
            self.minibatches <= self.completions,
            "batch.minibatches",
            self.minibatches,
            f"at most the {self.completions} completions of an iteration",
        )

    @property
    def prompts(self) -> int:
        """B."""
        return self.prompts_per_iteration or self.completions // self.group_size

    @property
    def completions(self) -> int:
        """N."""
        return self.completions_per_iteration or (self.prompts_per_iteration or 0) * self.group_size

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps per iteration."""
        return self.minibatches * self.epochs


def check_sizes(algorithm: str, credit: Credit, sampling: Sampling, batch: BatchPlan) -> None:
    """Raise a ConfigError where something compares answers within a group, or within a batch, that has one."""
    choices = (
        ("credit.baseline", credit.baseline, GROUP_BASELINES),
        ("credit.scale", credit.scale, ("group_std",)),
        ("sampling.groups", sampling.groups, ("mixed",)),
    )
    needs = [f"{key} {value}" for key, value, grouped in choices if value in grouped]
    if needs and batch.group_size < 2:
        raise ConfigError(
            f"batch.group_size is {batch.group_size}, but {' and '.join(needs)} of {algorithm} compare answers "
            "within a group; give 2 or more, or choose an algorithm or cells that need no group."
        )
    within_batch = credit.baseline == "batch_mean" or credit.scale in ("batch_std", "batch_std_centred")
    if (within_batch or (credit.scale == "whiten" and credit.baseline != "critic")) and batch.completions < 2:
        raise ConfigError(
            f"batch.completions_per_iteration is {batch.completions}, but credit.baseline {credit.baseline} with scale "
            f"{credit.scale} of {algorithm} compares answers within a batch; give 2 or more."
        )


@dataclass(frozen=True)
class Optimizer:
    """One AdamW for policy and critic.

    Attributes:
        lr: the policy's learning rate.
        beta1: AdamW β₁.
        beta2: AdamW β₂.
        eps: AdamW ε.
        weight_decay: decoupled weight decay.
        max_grad_norm: policy and critic gradients are clipped to this norm, each on its own; none is no clip.
        warmup_steps: optimizer steps over which the learning rates rise from 0.
        decay: none, or linear (to 0 over the share of the budget used).
    """

    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float | None = 1.0
    warmup_steps: int = 0
    decay: Literal["none", "linear"] = "none"

    def __post_init__(self) -> None:
        _require(_finite(self.lr) and self.lr >= 0, "optimizer.lr", self.lr, "a number ≥ 0")
        for name in ("beta1", "beta2"):
            _require(0 <= getattr(self, name) < 1, f"optimizer.{name}", getattr(self, name), "a number in [0, 1)")
        _require(_finite(self.eps) and self.eps > 0, "optimizer.eps", self.eps, "a number > 0")
        _require(self.weight_decay >= 0, "optimizer.weight_decay", self.weight_decay, "a number ≥ 0")
        norm = self.max_grad_norm
        _require(norm is None or norm > 0, "optimizer.max_grad_norm", norm, "a number > 0, or null for none")
        _require(self.warmup_steps >= 0, "optimizer.warmup_steps", self.warmup_steps, "0 or more")


@dataclass(frozen=True)
class Policy:
    """The start policy.

    Attributes:
        path: a Hugging Face causal LM directory.
    """

    path: str = "models/tiny-base"


@dataclass(frozen=True)
class Budget:
    """When a run ends: at the first of the limits given. Discarded completions count.

    Attributes:
        completions: completions generated for training.
        tokens: tokens generated for training.
        iterations: iterations.
        seconds: seconds of iterations; evaluation is not counted.
    """

    completions: int | None = None
    tokens: int | None = None
    iterations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        _require(bool(self.limits), "budget", None, "at least one of completions, tokens, iterations, seconds")
        for name, value in self.limits.items():
            _require(_finite(value) and value > 0, f"budget.{name}", value, "a number > 0")

    @property
    def limits(self) -> dict[str, float]:
        """The limits given, by their unit."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def share(self, used: dict[str, float]) -> float:
        """Return the largest share of a limit that is used; the run ends at 1."""
        return max(used[unit] / limit for unit, limit in self.limits.items())


@dataclass(frozen=True)
class Evaluation:
    """Held-out accuracy along the run.

    Attributes:
        every_completions: an evaluation is due when generated completions cross a multiple of this; none is whenever
            another 32nd of the budget is used.
        prompts: held-out prompts per evaluation, one answer each; four each at the first.
        temperature: of the sampled answers; none is the training temperature, 0 is greedy.
        greedy_every: greedy answers beside the sampled ones at every such evaluation, the first and the last.
        micro_batch_size: answers generated at once; memory only.
        seed: of the sampled answers; the same for every run, so that runs differ by training alone.
    """

    every_completions: int | None = None
    prompts: int = 256
    temperature: float | None = None
    greedy_every: int = 4
    micro_batch_size: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.every_completions is not None:
            _require(self.every_completions >= 1, "eval.every_completions", self.every_completions, "1 or more")
        for name in ("prompts", "greedy_every", "micro_batch_size"):
            _require(getattr(self, name) >= 1, f"eval.{name}", getattr(self, name), "1 or more")
        t = self.temperature
        _require(t is None or (_finite(t) and t >= 0), "eval.temperature", t, "a number ≥ 0, or null for training's")
