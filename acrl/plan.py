"""What a run will do, in words, before it does it."""

from __future__ import annotations

import math

from acrl.algorithms.base import RLModule
from acrl.algorithms.presets import departures
from acrl.callbacks.evaluation import START_SAMPLES
from acrl.spec import KL, BatchPlan, Budget, Evaluation, Sampling


def describe(module: RLModule, budget: Budget, evaluation: Evaluation) -> list[str]:
    """Return the batch plan, the budget, what the seed fixes, and every knob that cannot act, one sentence a line."""
    plan = module.plan
    lines = [
        f"{type(module).__name__} from {module.policy_spec.path}.",
        f"Each iteration: {_count(plan.prompts, 'prompt')} × {plan.group_size} = "
        f"{_count(plan.completions, 'completion')}; {_steps(plan)}.",
        f"Budget: {_budget(budget, plan.completions)}.",
        f"Evaluation: {_evaluation(evaluation)}.",
        f"Seed {module.seed} fixes prompt order, sampling noise and minibatch membership; evaluation has its own "
        f"(eval.seed {evaluation.seed}), the same for every run.",
    ]
    if module.sampling.groups == "mixed":
        lines.append(
            "Groups that are all right or all wrong are replaced by fresh prompts, in at most "
            f"{_count(module.sampling.refill_rounds, 'round')} an iteration; what is dropped counts towards the budget."
        )
    changed = departures(type(module), module.specs)
    if changed:
        lines.append(f"Departs from the preset of {type(module).__name__}: {', '.join(changed)}.")
    return lines + [f"Note: {note}" for note in notes(module)]


def notes(module: RLModule) -> list[str]:
    """Return the knobs that cannot act in this run."""
    plan, found = module.plan, []
    if plan.optimizer_steps == 1:
        found.append(
            "one optimizer step per rollout: every ratio is 1, so clip_low, clip_high and dual_clip cannot act."
        )
    elif plan.optimizer_steps == 2:
        found.append("two optimizer steps per rollout: the first has ratio 1, so clipping acts in the second alone.")
    if module.kl.coef > 0 and module.kl.estimator == "k1" and module.kl.where == "loss":
        found.append("kl.estimator k1 in the loss has expected gradient 0 on-policy: it adds noise, and no pull.")
    if plan.prompts == 1 and module.credit.scale in ("batch_std", "batch_std_centred"):
        found.append(f"one group per iteration: credit.scale {module.credit.scale} is the group's own std.")
    if module.kl.coef == 0 and (module.kl.estimator, module.kl.where) != (KL().estimator, KL().where):
        found.append("kl.coef is 0, so kl.estimator and kl.where cannot act.")
    sampling, usual = module.sampling, Sampling()
    if sampling.groups == "all" and sampling.refill_rounds != usual.refill_rounds:
        found.append("sampling.groups is all, so sampling.refill_rounds cannot act.")
    penalty = (sampling.overlong_buffer, sampling.overlong_weight)
    if sampling.overlong != "penalty" and penalty != (usual.overlong_buffer, usual.overlong_weight):
        found.append("sampling.overlong is no penalty, so overlong_buffer and overlong_weight cannot act.")
    return found + module.idle_knobs()


def _steps(plan: BatchPlan) -> str:
    rows = -(-plan.completions // plan.minibatches)
    most = "up to " if plan.completions % plan.minibatches else ""
    return (
        f"{_count(plan.optimizer_steps, 'optimizer step')} ({_count(plan.minibatches, 'minibatch', 'minibatches')} × "
        f"{_count(plan.epochs, 'pass', 'passes')}) of {most}{_count(rows, 'completion')}, each in "
        f"{_count(-(-rows // plan.micro_batch_size), 'micro-batch', 'micro-batches')}"
    )


def _budget(budget: Budget, completions: int) -> str:
    limits = budget.limits
    words = [_count(value, unit.removesuffix("s")) for unit, value in limits.items()]
    first = words[0] if len(words) == 1 else f"the first of {', '.join(words[:-1])} and {words[-1]}"
    if "completions" not in limits:
        return first
    iterations = min(-(-limits["completions"] // completions), limits.get("iterations", math.inf))
    return f"{first}, which is at most {_count(iterations, 'iteration')}"


def _evaluation(evaluation: Evaluation) -> str:
    every = evaluation.every_completions
    when = "at every 32nd of the budget" if every is None else f"every {_count(every, 'completion')}"
    greedy = "every time" if evaluation.greedy_every == 1 else f"every {evaluation.greedy_every} times"
    return (
        f"{_count(evaluation.prompts, 'held-out prompt')} {when}, greedy answers beside the sampled ones {greedy}; "
        f"{START_SAMPLES} sampled answers a prompt at the start"
    )


def _count(number: float, one: str, many: str | None = None) -> str:
    return f"{number:,}".removesuffix(".0") + " " + (one if number == 1 else many or one + "s")
