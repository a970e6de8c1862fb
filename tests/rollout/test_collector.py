"""From prompts to rewarded groups: the filter, the refill, and what is counted."""

from __future__ import annotations

import pytest
import torch

from acrl.algorithms.counters import Counters
from acrl.algorithms.metrics import rollout_metrics
from acrl.data.prompts import PromptSet
from acrl.data.rows import Row
from acrl.rewards import RewardResult
from acrl.rollout.collector import Collector
from acrl.rollout.engine import Generation
from acrl.rollout.noise import row_uniforms
from acrl.spec import BatchPlan, Sampling
from acrl.timing import Clock

GROUP, CAP = 4, 12


class Judge:
    """A reward that goes by the prompt: `mixed` groups alternate between right and wrong."""

    def __init__(self, low=0.0, high=1.0):
        self.range = (low, high)

    def __call__(self, prompts, completions, columns, ids):
        right = {"right": lambda n: 1.0, "wrong": lambda n: 0.0, "mixed": lambda n: float(n % 2)}
        accuracy = [right[prompt](n) for n, prompt in enumerate(prompts)]
        low, high = self.range
        return RewardResult([low + (high - low) * a for a in accuracy], accuracy, {"judge": accuracy}, {})


class Engine:
    """Answers of `lengths` in turn; those of the cap are truncated. Keeps what it was asked."""

    def __init__(self, lengths=(2, 3, 5, 7)):
        self.lengths = lengths
        self.asked = []
        self.noise = []

    def __call__(self, prompt_ids, prompt_mask, noise):
        n = len(prompt_ids)
        first = sum(self.asked)
        self.asked.append(n)
        self.noise.append(noise)
        lengths = torch.tensor([self.lengths[(first + i) % len(self.lengths)] for i in range(n)])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        return Generation(torch.where(mask, 5, 0), mask, truncated=lengths == CAP)


def in_order(kinds):
    """Prompts that are drawn in the order given; ids tell their place and have mixed lengths."""
    rows = [Row(id=f"line {i}", prompt=kind, columns={}) for i, kind in enumerate(kinds)]
    prompts = PromptSet(rows, [[i + 1] * (1 + i % 3) for i in range(len(kinds))], pad_id=0)
    prompts.draw = lambda position, count, seed: list(range(position, position + count))
    return prompts


def collect(kinds, engine=None, judge=None, position=0, iteration=0, prompts=4, micro=512, **sampling):
    engine = engine or Engine()
    plan = BatchPlan(prompts_per_iteration=prompts, group_size=GROUP, rollout_micro_batch_size=micro)
    settings = Sampling(max_response_length=CAP, **sampling)
    arguments = (in_order(kinds), judge or Judge(), lambda ids: "5" * len(ids), engine, settings, plan, 3, Clock())
    return Collector(*arguments).collect(iteration, position)


KINDS = ["right", "mixed", "wrong", "mixed", "right", "mixed", "wrong", "mixed", "mixed"]


def test_all_groups_train_where_nothing_filters():
    collected = collect(KINDS)
    assert collected.batch.group_ids.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert collected.kept.all() and collected.rounds == 1 and collected.short_of_groups == 0


def test_mixed_groups_are_refilled_one_for_one_until_all_are_there():
    engine = Engine()
    collected = collect(KINDS, engine, groups="mixed")
    assert engine.asked == [4 * GROUP, 2 * GROUP, GROUP, GROUP]  # 2 of 4 are mixed, then 1 of 2, 0 of 1, 1 of 1
    assert collected.batch.group_ids.unique().tolist() == [1, 3, 5, 7]
    assert len(collected.batch) == 4 * GROUP
    assert (collected.rounds, collected.prompts_used, collected.short_of_groups) == (4, 8, 0)
    assert collected.generated.group_ids.unique().tolist() == list(range(8))


def test_rounds_that_are_spent_leave_groups_missing_and_say_so():
    collected = collect(KINDS, groups="mixed", refill_rounds=2)
    assert collected.batch.group_ids.unique().tolist() == [1, 3, 5]
    assert (collected.rounds, collected.prompts_used, collected.short_of_groups) == (2, 6, 1)
    logged = rollout_metrics(collected)
    assert (logged["rollout/groups_missing"], logged["rollout/rounds"]) == (1, 2)
    assert logged["rollout/kept_group_fraction"] == 0.5


def test_no_mixed_group_leaves_no_row():
    collected = collect(["right", "wrong"] * 20, groups="mixed", refill_rounds=3)
    assert len(collected.batch) == 0 and len(collected.generated) == 3 * 4 * GROUP
    assert collected.short_of_groups == 4


def test_the_filter_goes_by_accuracy_and_not_by_penalised_rewards():
    engine = Engine(lengths=(2, 11, 12, 4))
    collected = collect(
        ["right", "mixed", "wrong", "mixed"], engine, groups="mixed", overlong="penalty", refill_rounds=1
    )
    right = collected.generated.rewards[:GROUP]
    assert right.max() > right.min()
    assert collected.batch.group_ids.unique().tolist() == [1, 3]


def test_a_mixed_group_stays_where_the_penalty_makes_its_rewards_equal():
    engine = Engine(lengths=(2, 12))  # the right ones are the long ones: 1 − 1 = 0
    collected = collect(["mixed"] * 4, engine, groups="mixed", overlong="penalty", overlong_weight=1.0)
    assert collected.batch.rewards.tolist() == [0.0] * 16
    assert collected.batch.accuracy.tolist() == [0.0, 1.0] * 8
    assert collected.kept.all()


def test_everything_generated_is_counted_and_only_what_trains_as_trained():
    collected = collect(KINDS, Engine(lengths=(2, 3, 12, 7)), groups="mixed", overlong="filter", refill_rounds=2)
    counters = Counters()
    counters.generated(collected, GROUP)
    assert (counters.prompts, counters.completions) == (6, 24)
    assert counters.tokens_generated == 6 * (2 + 3 + 12 + 7)
    assert counters.tokens_trained == 3 * (2 + 3 + 7)
    assert counters.dead_iterations == 0


def test_an_iteration_starts_where_the_last_one_ended():
    first = collect(KINDS, groups="mixed", refill_rounds=2)
    second = collect(KINDS, prompts=2, position=first.prompts_used)
    assert second.batch.group_ids.unique().tolist() == [6, 7]


def test_noise_belongs_to_iteration_round_and_row_and_not_to_the_micro_batch():
    whole, pieces, later = Engine(), Engine(), Engine()
    collect(KINDS, whole, groups="mixed", refill_rounds=2)
    collect(KINDS, pieces, groups="mixed", refill_rounds=2, micro=3)
    collect(KINDS, later, groups="mixed", refill_rounds=2, iteration=1)
    assert max(pieces.asked) == 3 and sum(pieces.asked) == 24
    assert torch.equal(torch.cat(whole.noise), torch.cat(pieces.noise))
    assert torch.equal(whole.noise[1], row_uniforms(3, "rollout", 0, 1, range(8), CAP))
    assert torch.cat([*whole.noise, *later.noise]).unique(dim=0).shape == (48, CAP)


def test_micro_batches_of_rollouts_give_the_same_rows():
    whole, pieces = collect(KINDS).batch, collect(KINDS, micro=3).batch
    for name in ("prompt_ids", "prompt_mask", "response_ids", "response_mask", "group_ids", "rewards", "truncated"):
        assert torch.equal(getattr(whole, name), getattr(pieces, name)), name


@pytest.mark.parametrize(
    "low, high, weight, expected",
    [
        (0.0, 1.0, 0.5, {9: 0.0, 10: 0.0, 11: -0.25, 12: -0.5}),
        (-1.0, 1.0, 0.5, {9: 0.0, 10: 0.0, 11: -0.5, 12: -1.0}),
        (0.0, 1.0, 1.0, {9: 0.0, 10: 0.0, 11: -0.5, 12: -1.0}),
        (0.0, 10.0, 0.1, {9: 0.0, 10: 0.0, 11: -0.5, 12: -1.0}),
    ],
)
def test_penalty_rises_over_the_last_fifth_of_the_cap_to_its_share_of_the_rewards_range(low, high, weight, expected):
    engine = Engine(lengths=(9, 10, 11, 12))
    batch = collect(["right"] * 4, engine, Judge(low, high), overlong="penalty", overlong_weight=weight).batch
    assert dict(zip(batch.lengths.tolist(), batch.penalty.tolist(), strict=True)) == pytest.approx(expected)
    torch.testing.assert_close(batch.rewards, high + batch.penalty)


def test_penalty_is_logged_apart_from_reward_and_accuracy():
    logged = rollout_metrics(collect(["right"] * 4, Engine(lengths=(9, 10, 11, 12)), overlong="penalty"))
    assert logged["rollout/reward_mean"] == logged["rollout/accuracy"] == logged["rollout/reward/judge"] == 1
    assert logged["rollout/overlong_penalty_mean"] == pytest.approx(-0.75 / 4)


@pytest.mark.parametrize("overlong", ["none", "filter"])
def test_there_is_no_penalty_unless_asked_for(overlong):
    assert collect(["mixed"] * 4, Engine(lengths=(12,)), overlong=overlong).batch.penalty.tolist() == [0.0] * 16


def test_a_buffer_is_at_least_a_token():
    assert Sampling(max_response_length=2, overlong_buffer=0.1).overlong_buffer_tokens == 1
    assert Sampling(max_response_length=20_480, overlong_buffer=0.2).overlong_buffer_tokens == 4096


@pytest.mark.parametrize("overlong, trains", [("filter", [True, False, True, False]), ("none", [True] * 4)])
def test_the_filter_takes_truncated_answers_out_of_the_loss_alone(overlong, trains):
    batch = collect(["mixed"] * 4, Engine(lengths=(2, 12, 3, 12)), overlong=overlong).batch
    assert batch.trains[:GROUP].tolist() == trains
    assert len(batch) == 16 and batch.rewards[:GROUP].tolist() == [0, 1, 0, 1]
    assert torch.equal(batch.loss_mask.any(dim=1), batch.trains)


def test_ids_train_as_sampled_where_their_text_encodes_to_others():
    ids = torch.tensor([[5, 6, 0, 1], [0, 2, 1, 0]])
    mask = torch.tensor([[True] * 4, [True, True, True, False]])

    def engine(prompt_ids, prompt_mask, noise):
        return Generation(ids.repeat(8, 1), mask.repeat(8, 1), torch.zeros(16, dtype=torch.bool))

    collected = collect(["mixed"] * 4, engine)
    assert torch.equal(collected.batch.response_ids, ids.repeat(8, 1))
    assert torch.equal(collected.batch.response_mask, mask.repeat(8, 1))
    assert collected.texts.completions[0] == "5" * 4
