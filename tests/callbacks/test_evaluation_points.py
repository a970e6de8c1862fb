"""When an evaluation is due and when a run ends; Lightning takes the first rollout before it calls on_train_start."""

from __future__ import annotations

import pytest

from acrl.algorithms import DAPO, GRPO
from acrl.callbacks.budget import BudgetStop
from acrl.callbacks.evaluation import START_SAMPLES, EvaluateAlong
from acrl.spec import Budget, Evaluation, Sampling


class Rows(EvaluateAlong):
    """Remembers the completions at which it evaluated, with the keys it found."""

    def on_train_epoch_end(self, trainer, module):
        super().on_train_epoch_end(trainer, module)
        if module.evaluated:
            self.found.append((module.counters.completions, "eval/accuracy_greedy" in module.row))


@pytest.fixture
def evaluated(build, prompt_data, train):
    def run(budget: Budget, plan: Evaluation, kind=GRPO, **specs):
        rows = Rows(plan)
        rows.found = []
        module = train(build(kind, **specs), prompt_data(), 50, callbacks=[BudgetStop(budget), rows])
        return module, rows.found

    return run


def test_every_multiple_of_the_completions_is_a_point_the_first_rollouts_too(evaluated):
    plan = Evaluation(every_completions=16, prompts=4, greedy_every=2)
    _, points = evaluated(Budget(completions=64), plan)  # 16 completions an iteration
    assert points == [(16, False), (32, True), (48, False), (64, True)]


def test_a_32nd_of_the_budget_is_the_default_and_the_last_is_greedy(evaluated):
    _, points = evaluated(Budget(completions=16 * 40), Evaluation(prompts=4))
    assert len(points) == 32
    assert points[-1] == (640, True)


def test_a_budget_within_the_first_rollout_still_trains_once(evaluated):
    module, points = evaluated(Budget(completions=8), Evaluation(prompts=4))
    assert module.counters.iterations == 1
    assert module.counters.optimizer_steps == 2
    assert points == [(16, True)]


def test_the_start_is_measured_with_more_answers_to_the_same_prompts(build, prompt_data, train):
    module = build(GRPO)
    train(module, prompt_data(), 1, callbacks=[BudgetStop(Budget(iterations=1)), EvaluateAlong(Evaluation(prompts=6))])
    batches = module._data.eval_batches("val", 6, 4, START_SAMPLES)
    assert [(batch.rows, batch.sample) for batch in batches[:3]] == [(range(4), 0), (range(4, 6), 0), (range(4), 1)]
    assert sum(len(batch.rows) for batch in batches) == 6 * START_SAMPLES
    assert "eval/accuracy_greedy" in module.start_row
    assert module.start_row["time/eval"] > 0


def test_a_short_iteration_says_so_once(build, prompt_data, train, capsys):
    from acrl.callbacks.health import Health

    sampling = Sampling(max_response_length=12, groups="mixed", refill_rounds=1)
    train(build(DAPO, sampling=sampling), prompt_data(), 3, callbacks=[Health()])
    lines = [line for line in capsys.readouterr().err.splitlines() if "rollout/groups_missing" in line]
    assert len(lines) == 1
    assert "of 4 groups: after 1 rounds" in lines[0]
