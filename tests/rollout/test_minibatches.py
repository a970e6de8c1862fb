"""Minibatches and micro-batches: rows stay whole, weights are those of the whole minibatch."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from acrl.rollout.batch import RolloutBatch, concatenate
from acrl.rollout.microbatches import plan_update
from acrl.spec import BatchPlan

LIMIT = 10


def rows_of(lengths, trains=None, prompt_width=3):
    """Row n has `lengths[n]` tokens; its ids, reward and advantages all are that length."""
    n, width = len(lengths), max(lengths)
    length = torch.tensor(lengths)
    mask = torch.arange(width) < length[:, None]
    zeros = torch.zeros(n, dtype=torch.float64)
    return RolloutBatch(
        prompt_ids=length[:, None].expand(n, prompt_width),
        prompt_mask=(torch.arange(prompt_width).flip(0) < length[:, None]),
        response_ids=torch.where(mask, length[:, None], 0),
        response_mask=mask,
        truncated=torch.zeros(n, dtype=torch.bool),
        group_ids=length,
        rewards=length.double(),
        accuracy=zeros,
        penalty=zeros,
        trains=torch.ones(n, dtype=torch.bool) if trains is None else torch.tensor(trains),
        advantages=torch.where(mask, length[:, None], 0).double(),
    )


def plan_of(batch, aggregation="token_mean", seed=0, iteration=0, **plan):
    settings = BatchPlan(completions_per_iteration=len(batch) or 4, group_size=1, **plan)
    return plan_update(batch, settings, aggregation, LIMIT, seed, iteration)


def lengths_by_step(plan):
    """The lengths of the rows of each optimizer step, fillers left out."""
    steps = {}
    for micro in plan.micro_batches:
        if micro.policy_weights.any():
            steps.setdefault(micro.minibatch, []).extend(micro.rows.lengths.tolist())
    return list(steps.values())


LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("micro", [1, 2, 3, 64])
def test_every_token_keeps_the_advantage_of_its_own_answer(micro):
    for part in plan_of(rows_of(LENGTHS), minibatches=3, epochs=2, micro_batch_size=micro).micro_batches:
        rows = part.rows
        assert torch.equal(rows.advantages, torch.where(rows.response_mask, rows.lengths[:, None], 0).double())
        assert torch.equal(rows.response_ids, rows.advantages.long())
        assert torch.equal(rows.rewards, rows.lengths.double()) and torch.equal(rows.group_ids, rows.lengths)
        assert torch.equal(rows.prompt_ids[:, -1], rows.lengths)


def test_every_answer_trains_once_an_epoch_in_minibatches_of_4_3_and_3():
    steps = lengths_by_step(plan_of(rows_of(LENGTHS), minibatches=3, epochs=2, micro_batch_size=3))
    assert [len(step) for step in steps] == [4, 3, 3, 4, 3, 3]
    assert sorted(chain(*steps[:3])) == sorted(chain(*steps[3:])) == LENGTHS
    assert steps[:3] != steps[3:]


@pytest.mark.parametrize("micro, accumulate", [(1, 4), (2, 2), (3, 2), (4, 1), (64, 1)])
def test_every_minibatch_has_as_many_micro_batches(micro, accumulate):
    plan = plan_of(rows_of(LENGTHS), minibatches=3, micro_batch_size=micro)
    assert plan.accumulate == accumulate
    assert [part.minibatch for part in plan.micro_batches] == [step for step in range(3) for _ in range(accumulate)]


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant"])
def test_fillers_weigh_nothing(aggregation):
    plan = plan_of(rows_of(LENGTHS), aggregation, minibatches=3, micro_batch_size=1)
    fillers = [part for part in plan.micro_batches if not part.policy_weights.any()]
    assert len(fillers) == 2
    assert not any(part.value_weights.any() for part in fillers)


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("aggregation, expected", [("token_mean", 0.2), ("sequence_mean", 0.5), ("constant", 0.1)])
def test_weights_are_those_of_the_minibatch_whatever_the_micro_batch(aggregation, expected, micro):
    plan = plan_of(rows_of([2, 8]), aggregation, minibatches=1, micro_batch_size=micro)
    loss_1_on_the_short = [
        (part.policy_weights * (part.rows.lengths[:, None] == 2)).sum() for part in plan.micro_batches
    ]
    assert float(sum(loss_1_on_the_short)) == pytest.approx(expected)
    value = [(part.value_weights * (part.rows.lengths[:, None] == 2)).sum() for part in plan.micro_batches]
    assert float(sum(value)) == pytest.approx(0.2)


@pytest.mark.parametrize(
    "aggregation, expected", [("token_mean", 1 / 10), ("sequence_mean", 1 / (2 * 2)), ("constant", 1 / (2 * LIMIT))]
)
def test_filtered_answers_are_in_no_denominator(aggregation, expected):
    plan = plan_of(rows_of([2, 8, 10], trains=[True, True, False]), aggregation, minibatches=1)
    weights = {
        int(n): w for n, w in zip(plan.micro_batches[0].rows.lengths, plan.micro_batches[0].policy_weights, strict=True)
    }
    assert not weights[10].any()
    assert weights[2][:2].tolist() == pytest.approx([expected] * 2)


def test_membership_belongs_to_seed_iteration_and_epoch():
    batch = rows_of(LENGTHS)
    same = [lengths_by_step(plan_of(batch, minibatches=2, seed=1, iteration=2)) for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != lengths_by_step(plan_of(batch, minibatches=2, seed=1, iteration=3))
    assert same[0] != lengths_by_step(plan_of(batch, minibatches=2, seed=2, iteration=2))


def test_fewer_rows_than_minibatches_make_fewer_steps():
    batch = rows_of([3, 4])
    plan = plan_update(batch, BatchPlan(completions_per_iteration=8, minibatches=4), "token_mean", LIMIT, 0, 0)
    assert [len(step) for step in lengths_by_step(plan)] == [1, 1]


def test_no_rows_make_no_steps():
    batch = rows_of([3, 4]).rows(torch.tensor([], dtype=torch.long))
    assert plan_of(batch, minibatches=2).micro_batches == []


def test_trimming_takes_away_padding_alone():
    batch = rows_of([2, 5], prompt_width=8).rows(torch.tensor([0]))
    trimmed = batch.trimmed()
    assert trimmed.prompt_ids.shape == (1, 2) and trimmed.prompt_mask.all()
    assert trimmed.response_ids.tolist() == [[2, 2]] and trimmed.response_mask.all()
    assert trimmed.advantages.tolist() == [[2.0, 2.0]] and trimmed.rewards.tolist() == [2.0]


def test_prompts_are_padded_on_the_left_and_answers_on_the_right():
    one, other = rows_of([2], prompt_width=2), rows_of([3], prompt_width=4)
    one.advantages = other.advantages = None
    both = concatenate([one, other])
    assert both.prompt_ids.tolist() == [[0, 0, 2, 2], [3, 3, 3, 3]]
    assert both.prompt_mask.tolist() == [[False, False, True, True], [False, True, True, True]]
    assert both.response_ids.tolist() == [[2, 2, 0], [3, 3, 3]]
    assert both.response_mask.tolist() == [[True, True, False], [True] * 3]
    assert both.rewards.tolist() == [2, 3]
