"""What a run will do, in words, before it does it."""

from __future__ import annotations

from acrl.algorithms.base import RLModule
from acrl.algorithms.presets import departures
from acrl.spec import Budget, Evaluation


def describe(module: RLModule, budget: Budget, evaluation: Evaluation) -> list[str]:
    """Return the batch plan, the budget, what the seed fixes, and every knob that cannot act, one sentence a line."""
    plan = module.plan
    rows = -(-plan.completions // plan.minibatches)
    micro = -(-rows // plan.micro_batch_size)
    lines = [
        f"{type(module).__name__} from {module.policy_spec.path}.",
        f"Each iteration: {plan.prompts} prompts × {plan.group_size} = {plan.completions} completions; "
        f"{plan.optimizer_steps} optimizer steps ({plan.minibatches} minibatches × {plan.epochs} passes) of {rows} "
        f"completions in {micro} micro-batches.",
        f"Budget: {_budget(budget, plan.completions)}.",
        f"Evaluation: {_evaluation(evaluation)}.",
        f"Seed {module.seed} fixes prompt order, sampling noise and minibatch membership; evaluation has its own "
        f"(eval.seed {evaluation.seed}), the same for every run.",
    ]
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
    return found + module.idle_knobs()


def _budget(budget: Budget, completions: int) -> str:
    words = ", or ".join(f"{value:,g} {unit}" for unit, value in budget.limits.items())
    iterations = budget.limits.get("iterations")
    if "completions" in budget.limits:
        needed = -(-budget.limits["completions"] // completions)
        iterations = needed if iterations is None else min(needed, iterations)
    if iterations is None:
        return words
    return f"{words}, at most {iterations:,g} iterations"


def _evaluation(evaluation: Evaluation) -> str:
    every = evaluation.every_completions
    when = "at every 32nd of the budget" if every is None else f"every {every} completions"
    return (
        f"{evaluation.prompts} held-out prompts {when}, greedy answers beside the sampled ones every "
        f"{evaluation.greedy_every}th time; 4 times the prompts, where there are, at the start"
    )
