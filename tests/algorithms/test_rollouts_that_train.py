"""From the sampler to the optimizer: what was sampled is what trains, and what is logged is what is optimised."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from comparing import identical, parameters
from pytorch_lightning import Callback

from acrl.algorithms import DAPO, GRPO, PPO
from acrl.spec import BatchPlan, Policy

PLAN = BatchPlan(completions_per_iteration=8, group_size=4, minibatches=1, micro_batch_size=8)


def answers(batch):
    return sorted(ids[mask].tolist() for ids, mask in zip(batch.response_ids, batch.response_mask, strict=True))


def test_sampled_ids_train_as_sampled_though_their_text_encodes_to_others(build, iterate):
    module = build(PPO, batch=PLAN)
    module.configure_model()
    sample, sampled = module.sampler.__class__.__call__, []

    class Watched(type(module.sampler)):
        def __call__(self, *args, **settings):
            generation = sample(self, *args, **settings)
            sampled.extend(answers(generation))
            return generation

    module.sampler.__class__ = Watched
    iterate(module)
    again = [module.tokenizer.encode(module.tokenizer.decode(ids, skip_special_tokens=True)) for ids in sampled]
    assert again != sampled
    assert answers(module.update.micro_batches[0].rows) == sorted(sampled)


def test_iterations_go_on_through_the_prompts_where_the_last_one_stopped(build, iterate):
    module = iterate(build(GRPO, batch=PLAN), 3)
    assert module.collected.batch.group_ids.unique().tolist() == [4, 5]
    assert (module.counters.prompts, module.counters.completions) == (6, 24)


def test_refilled_prompts_are_used_up_too(build, iterate):
    module = iterate(build(DAPO, batch=replace(PLAN, group_size=2)), 2)
    total, drawn = module.counters.prompts, module.collected.prompts_used
    assert total > 8 and module.counters.completions == 2 * total
    assert module.collected.generated.group_ids.unique().tolist() == list(range(total - drawn, total))


def test_logged_loss_is_the_one_that_is_optimised(build, iterate):
    module = iterate(build(DAPO, batch=PLAN))
    micro = module.update.micro_batches[0]
    expected = -(micro.policy_weights * micro.rows.advantages).sum()  # ratio 1
    assert abs(float(expected)) > 1e-3
    assert module.row["policy/loss"] == pytest.approx(float(expected), rel=1e-4)


def test_logged_reward_is_the_mean_of_the_rewards_that_train(build, iterate):
    module = iterate(build(GRPO, batch=PLAN))
    assert module.row["rollout/reward_mean"] == pytest.approx(float(module.collected.batch.rewards.mean()))
    assert module.row["rollout/accuracy"] == pytest.approx(float(module.collected.batch.accuracy.mean()))
    assert 0 < module.row["rollout/accuracy"] < 1


def test_a_model_whose_pad_is_its_eos_trains_on_the_eos(build, train, prompt_data, rewards, model_dir, tmp_path):
    directory = shutil.copytree(model_dir, tmp_path / "no-pad")
    for file, key in (("tokenizer_config.json", "pad_token"), ("config.json", "pad_token_id")):
        settings = json.loads((directory / file).read_text())
        (directory / file).write_text(json.dumps(settings | {key: None}))
    module = train(build(PPO, batch=PLAN, policy=Policy(str(directory))), prompt_data(rewards("even_digits")), 1)
    batch = module.collected.batch
    ended = ~batch.truncated
    last = batch.response_ids.gather(1, (batch.lengths - 1)[:, None])[:, 0]
    assert module.tokenizer.pad_token_id == module.tokenizer.eos_token_id == 1
    assert ended.any() and (last[ended] == 1).all()
    assert (batch.response_ids[~batch.response_mask] == 1).all()
    assert torch.equal(batch.response_mask, torch.arange(batch.response_mask.shape[1]) < batch.lengths[:, None])
    assert int(torch.cat([batch.prompt_ids, batch.response_ids], dim=1).max()) < 16
    assert module.row["policy/first_ratio_error"] < 1e-4


def test_models_stay_in_training_mode_with_their_cache_for_rollouts_alone(build, iterate):
    module = build(PPO, batch=PLAN)
    module.configure_model()
    module.policy.activation_checkpointing_enable()
    iterate(module)
    assert module.policy.training and module.critic.trunk.training
    assert module.policy.is_activation_checkpointing
    assert module.row["policy/first_ratio_error"] < 1e-4


def test_evaluation_leaves_training_as_it_is_and_repeats(build, iterate):
    scores = []

    class Evaluate(Callback):
        def on_train_epoch_end(self, trainer, module):
            batches = trainer.datamodule.eval_batches("val", 12, 5)
            scores.append([module.evaluate(batches, greedy=True) for _ in range(2)])

    evaluated = iterate(build(PPO, batch=PLAN), 2, callbacks=[Evaluate()])
    assert all(first == second for first, second in scores)
    assert "eval/accuracy_greedy" in scores[0][0]
    assert identical(parameters(evaluated), parameters(iterate(build(PPO, batch=PLAN), 2)))
