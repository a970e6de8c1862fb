"""The plan in words, and the knobs that cannot act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acrl.algorithms import DAPO, GRPO, PPO, LitePPO, RLModule
from acrl.plan import describe, notes
from acrl.spec import KL, BatchPlan, Budget, Credit, Critic, Evaluation


def plan_of(module: RLModule, budget: Budget | None = None, evaluation: Evaluation | None = None) -> list[str]:
    return describe(module, budget or Budget(completions=6400), evaluation or Evaluation())


def test_a_plan(build: Callable[..., Any], model_dir: Any) -> None:
    batch = BatchPlan(completions_per_iteration=64, group_size=8, micro_batch_size=20)
    assert plan_of(build(LitePPO, batch=batch)) == [
        f"LitePPO from {model_dir}.",
        "Each iteration: 8 prompts × 8 = 64 completions; 2 optimizer steps (2 minibatches × 1 pass) of 32 completions, "
        "each in 2 micro-batches.",
        "Budget: 6,400 completions, which is at most 100 iterations.",
        "Evaluation: 256 held-out prompts at every 32nd of the budget, greedy answers beside the sampled ones every 4 "
        "times; 4 sampled answers a prompt at the start.",
        "Seed 3 fixes prompt order, sampling noise and minibatch membership; evaluation has its own (eval.seed 0), the "
        "same for every run.",
        "Note: two optimizer steps per rollout: the first has ratio 1, so clipping acts in the second alone.",
    ]


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (
            BatchPlan(prompts_per_iteration=1, group_size=7, minibatches=2, epochs=3, micro_batch_size=2),
            "1 prompt × 7 = 7 completions; 6 optimizer steps (2 minibatches × 3 passes) of up to 4 completions, each "
            "in 2 micro-batches.",
        ),
        (
            BatchPlan(completions_per_iteration=1, group_size=1, minibatches=1),
            "1 prompt × 1 = 1 completion; 1 optimizer step (1 minibatch × 1 pass) of 1 completion, each in "
            "1 micro-batch.",
        ),
    ],
)
def test_sizes_in_words(batch: BatchPlan, words: str, build: Callable[..., Any]) -> None:
    assert plan_of(build(PPO, batch=batch))[1] == f"Each iteration: {words}"


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(completions=6400), "6,400 completions, which is at most 400 iterations"),
        (Budget(completions=6401), "6,401 completions, which is at most 401 iterations"),
        (Budget(completions=16), "16 completions, which is at most 1 iteration"),
        (Budget(iterations=3), "3 iterations"),
        (Budget(seconds=90), "90 seconds"),
        (Budget(seconds=1.5), "1.5 seconds"),
        (Budget(tokens=2_000_000), "2,000,000 tokens"),
        (
            Budget(completions=6400, iterations=3, seconds=90),
            "the first of 6,400 completions, 3 iterations and 90 seconds, which is at most 3 iterations",
        ),
    ],
)
def test_budget_in_words(budget: Budget, words: str, build: Callable[..., Any]) -> None:
    assert plan_of(build(GRPO), budget)[2] == f"Budget: {words}."


def test_evaluation_in_words(build: Callable[..., Any]) -> None:
    line = plan_of(build(GRPO), evaluation=Evaluation(every_completions=640, prompts=1, greedy_every=1, seed=5))[3]
    assert line.startswith(
        "Evaluation: 1 held-out prompt every 640 completions, greedy answers beside the sampled ones every time;"
    )


def test_refill_in_words(build: Callable[..., Any]) -> None:
    (line,) = (line for line in plan_of(build(DAPO)) if line.startswith("Groups"))
    assert (
        "replaced by fresh prompts, in at most 10 rounds an iteration" in line and "counts towards the budget" in line
    )
    assert not [line for line in plan_of(build(GRPO)) if line.startswith("Groups")]


def test_departures_in_words(build: Callable[..., Any]) -> None:
    changed = build(GRPO, kl=KL(), credit=Credit("group_mean", "none"))
    (line,) = (line for line in plan_of(changed) if line.startswith("Departs"))
    cells = line.removeprefix("Departs from the preset of GRPO: ").removesuffix(".").split(", ")
    assert sorted(cells) == ["credit.scale none (preset group_std)", "kl.coef 0.0 (preset 0.04)"]


ONE_STEP = {"batch": BatchPlan(completions_per_iteration=16, group_size=4, minibatches=1)}
FOUR_STEPS = {"batch": BatchPlan(completions_per_iteration=16, group_size=4, minibatches=4)}
ONE_GROUP = {"batch": BatchPlan(completions_per_iteration=4, group_size=4, minibatches=4)}


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (GRPO, FOUR_STEPS, []),
        (GRPO, ONE_STEP, ["clip_low, clip_high and dual_clip cannot act"]),
        (
            GRPO,
            FOUR_STEPS | {"kl": KL(coef=0.1, estimator="k1")},
            ["kl.estimator k1 in the loss has expected gradient 0"],
        ),
        (LitePPO, ONE_GROUP, ["credit.scale batch_std is the group's own std"]),
        (PPO, FOUR_STEPS | {"critic": Critic(length_adaptive_alpha=0.05)}, ["critic.lam_policy cannot act"]),
        (
            PPO,
            ONE_STEP | {"critic": Critic(value_clip=0.2)},
            ["clip_low, clip_high and dual_clip cannot act", "critic.value_clip cannot act"],
        ),
    ],
)
def test_knobs_that_cannot_act(
    kind: type[RLModule], changes: dict[str, Any], words: list[str], build: Callable[..., Any]
) -> None:
    found = notes(build(kind, **changes))
    assert len(found) == len(words) and all(word in note for word, note in zip(words, found, strict=True)), found
