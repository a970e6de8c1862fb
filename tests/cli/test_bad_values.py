"""A value or a key that cannot work stops the command with one message that names it and a choice that can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import ROOT, acrl, record, refused

from acrl.errors import ConfigError
from acrl.parser import Parser, explain, keys
from acrl.spec import Budget
from acrl.trainer import REFUSED, check_settings

GRPO = str(ROOT / "configs/tiny/grpo.yaml")


def model(*argv: object) -> tuple[object, ...]:
    """The words with `--model.` before each key."""
    return tuple(f"--model.{word}" if i % 2 == 0 else word for i, word in enumerate(argv))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (model("batch.group_size", 1), ("model.batch.group_size is 1", "give 2 or more")),
        (("--model", "RLOO", *model("batch.group_size", 1)), ("group_size is 1", "credit.baseline", "RLOO")),
        (("--model", "DAPO", *model("batch.group_size", 1)), ("group_size is 1", "sampling.groups", "DAPO")),
        (
            ("--model", "ReinforcePP", *model("batch.group_size", 1, "credit.scale", "group_std")),
            ("group_size is 1", "credit.scale"),
        ),
        (model("sampling.temperature", 0), ("model.sampling.temperature is 0.0", "a number > 0")),
        (model("sampling.temperature", -1), ("model.sampling.temperature is -1.0", "a number > 0")),
        (model("batch.completions_per_iteration", 63), ("is 63", "a multiple of model.batch.group_size (8)")),
        (
            model("batch.prompts_per_iteration", 8),
            ("completions_per_iteration and model.batch.prompts_per_iteration", "(64, 8)", "exactly one of the two"),
        ),
        (model("batch.completions_per_iteration", "null"), ("(None, None)", "exactly one of the two")),
        (("--budget.completions", 0), ("budget.completions is 0", "a number > 0")),
        (("--budget.completions", "null"), ("budget", "at least one of completions, tokens, iterations, seconds")),
        (model("credit.baseline", "critic"), ("model.credit.baseline is 'critic'", "choose --model PPO")),
        (("--eval.temperature", -1), ("eval.temperature is -1.0", "a number ≥ 0")),
        (("--trainer.max_epochs", 3), ("trainer.max_epochs cannot be 3", "give budget.completions")),
        (("--trainer.accelerator", "abacus"), ("the trainer.* keys", "abacus", "cpu")),
    ],
)
def test_a_value_that_cannot_work(argv: tuple, words: tuple[str, ...], tmp_path: Path) -> None:
    refused(acrl("fit", "--config", GRPO, "--trainer.default_root_dir", tmp_path, *argv), *words)
    assert list(tmp_path.iterdir()) == []  # nothing was started


def test_group_size_1_is_legal_with_a_critic(config: Callable[..., Path]) -> None:
    result = acrl("fit", "--config", config("PPO"), *model("batch.group_size", 1), "--budget.iterations", 1)
    assert result.code == 0 and record(result.run_dir)["status"] == "finished"
    assert "16 prompts × 1 = 16 completions" in result.out


def test_null_on_the_command_line_is_null(parser: Parser) -> None:
    argv = model("batch.completions_per_iteration", "null", "batch.prompts_per_iteration", "2")
    given = parser.parse_args(["fit", "--config", GRPO, *map(str, argv)]).fit.model.init_args.batch
    assert (given.completions_per_iteration, given.prompts_per_iteration) == (None, 2)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (model("sampling.top_p", 0.9), ("model.sampling.top_p cannot be set", "ratio wrong", "sampling.temperature")),
        (model("sampling.top_k", 5), ("model.sampling.top_k cannot be set", "ratio wrong")),
        (model("sampling.min_p", 0.1), ("model.sampling.min_p cannot be set", "ratio wrong")),
        (model("optimizer.lrr", 1), ("no key model.optimizer.lrr for GRPO", "did you mean model.optimizer.lr?")),
        (model("optimzer.lr", 1), ("no key model.optimzer.lr for GRPO", "did you mean model.optimizer.lr?")),
        (model("critic.gamma", 1), ("no key model.critic.gamma for GRPO", "model takes credit, objective, kl")),
        (model("batch.rows", 8), ("no key model.batch.rows", "model.batch takes completions_per_iteration")),
        (("--eval.prompst", 1), ("no key eval.prompst", "did you mean eval.prompts?")),
        (("--budgt.completions", 1), ("no key budgt.completions", "did you mean budget.completions?")),
        (("--learning_rate", 1), ("no key learning_rate", "acrl takes", "model", "budget")),
        (("--seed", 1), ("no key seed", "seed_everything")),
        (model("kl.estimator", "k4"), ("model.kl.estimator is 'k4'", "one of 'k1', 'k2', 'k3'")),
        (model("credit.baseline", "mean"), ("model.credit.baseline is 'mean'", "'leave_one_out', 'batch_mean'")),
        (model("batch.group_size", "four"), ("model.batch.group_size is 'four'", "a whole number")),
        (model("objective.dual_clip", "x"), ("model.objective.dual_clip is 'x'", "a number or null")),
        (("--seed_everything", "true"), ("seed_everything is", "whole number")),
        (("--model", "GRPPO"), ("model is 'GRPPO'", "did you mean GRPO?", "one of PPO, GRPO, DAPO, LitePPO")),
        (("--model", "CriticFree"), ("model is 'CriticFree'", "choose one of PPO, GRPO")),
        (("--model", "torch.nn.Linear"), ("model is 'torch.nn.Linear'", "choose one of PPO")),
        (("--trainer.callbacks", "Nope"), ("trainer.callbacks is 'Nope'", "no class")),
        (("--budget.completions",), ("--budget.completions", "expected one argument")),
        (("stray",), ("'stray' follows no key", "--KEY VALUE")),
        (("--config", "nowhere.yaml"), ("config", "nowhere.yaml")),
    ],
)
def test_words_that_mean_nothing(argv: tuple, words: tuple[str, ...], parser: Parser) -> None:
    with pytest.raises(ConfigError) as error:
        parser.parse_args(["fit", "--config", GRPO, *map(str, argv)])
    message, tip = str(error.value).splitlines()
    assert all(word in message for word in words), message
    assert "acrl VERB --help" in tip


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("max_response_length: 12", "max_response_length: 12, top_p: 0.9", ("top_p cannot be set", "ratio wrong")),
        ("group_size: 4", "group_sise: 4", ("model.batch.group_sise", "did you mean model.batch.group_size?")),
        ("class_path: GRPO", "class_path: GRPOO", ("model is 'GRPOO'", "did you mean GRPO?")),
        ("eval: {prompts", "eval: {prompst", ("eval.prompst", "did you mean eval.prompts?")),
        ("budget:", "bugdet:", ("bugdet.iterations", "did you mean budget.iterations?")),
        ("data: {train:", "data: {trian:", ("data.trian", "did you mean data.train?")),
        ("model:", "model: [", ("config",)),
    ],
)
def test_a_config_that_means_nothing(before: str, after: str, words: tuple, config: Callable, parser: Parser) -> None:
    path = config()
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(ConfigError) as error:
        parser.parse_args(["fit", "--config", str(path)])
    assert all(word in str(error.value) for word in words), error.value


def test_an_unknown_key_as_a_user_sees_it(tmp_path: Path) -> None:
    result = acrl("fit", "--config", GRPO, *model("sampling.top_p", 0.9), "--trainer.default_root_dir", tmp_path)
    refused(result, "model.sampling.top_p")
    assert not result.out and len(result.err.splitlines()) == 2


def test_an_empty_group_of_keys(config: Callable[..., Path]) -> None:
    refused(acrl("fit", "--config", config(extra="    optimizer:\n")), "model.optimizer is null", "leave it out")


def test_nothing_but_the_verb() -> None:
    refused(acrl("fit"), "missing: data.train, data.val, model", "--config FILE")


ILLEGAL = {
    "max_epochs": 3,
    "min_epochs": 1,
    "max_steps": 10,
    "min_steps": 1,
    "max_time": "00:01:00:00",
    "limit_train_batches": 0.5,
    "overfit_batches": 1,
    "fast_dev_run": "true",
    "val_check_interval": 0.5,
    "check_val_every_n_epoch": 2,
    "accumulate_grad_batches": 4,
    "gradient_clip_val": 1.0,
    "gradient_clip_algorithm": "value",
    "reload_dataloaders_every_n_epochs": 0,
    "use_distributed_sampler": "true",
    "num_sanity_val_steps": 2,
    "devices": 2,
    "num_nodes": 2,
    "enable_checkpointing": "false",
    "barebones": "true",
    "precision": "16-mixed",
}


def test_trainer_flags_that_would_break_an_iteration(parser: Parser) -> None:
    assert ILLEGAL.keys() == REFUSED.keys()
    argv = [f"--trainer.{flag}={value}" for flag, value in ILLEGAL.items()]
    given = parser.parse_args(["fit", "--config", GRPO, *argv]).fit.trainer
    for flag, (_, instead) in REFUSED.items():
        with pytest.raises(ConfigError) as error:
            check_settings({flag: given[flag]})
        assert f"trainer.{flag} cannot be" in str(error.value) and instead in str(error.value)


def test_one_train_batch_is_not_all_of_them(parser: Parser) -> None:
    given = parser.parse_args(["fit", "--config", GRPO, "--trainer.limit_train_batches", "1"]).fit.trainer
    with pytest.raises(ConfigError, match="limit_train_batches cannot be 1"):
        check_settings(given)


@pytest.mark.parametrize("key", ["model.seed", "model.evaluation.prompts"])
def test_keys_that_others_set(key: str, config: Callable[..., Path]) -> None:
    refused(acrl("fit", "--config", config(), f"--{key}", 9), key, "has no effect here")
    name = key.removeprefix("model.").partition(".")[0]
    own = f"    {name}: " + ("9" if name == "seed" else "{prompts: 9}") + "\n"
    refused(acrl("fit", "--config", config("GRPO", own)), f"model.{name}", "has no effect here")


def test_a_seed_below_0(config: Callable[..., Path]) -> None:
    refused(acrl("fit", "--config", config(), "--seed_everything", -1), "seed_everything is -1", "from 0 to")


def test_answers_that_outgrow_the_model_s_positions(config: Callable[..., Path]) -> None:
    argv = ("fit", "--config", config(), "--model.sampling.max_response_length", 120)
    refused(acrl(*argv), "model.sampling.max_response_length is 120", "128 positions")


def test_trainer_flags_as_they_are_by_default_can_be_given(parser: Parser) -> None:
    argv = ("--trainer.devices", "1", "--trainer.max_epochs", "-1", "--trainer.precision", "bf16-mixed")
    given = parser.parse_args(["fit", "--config", GRPO, *argv]).fit.trainer
    check_settings(given)
    assert given.precision == "bf16-mixed"


@pytest.mark.slow
def test_loggers_of_the_user_s_own(config: Callable[..., Path]) -> None:
    for value, files in (("false", set()), ("CSVLogger", {"metrics.csv"})):
        own = ("--trainer.logger", value) + (("--trainer.logger.save_dir", config().parent) if files else ())
        result = acrl("fit", "--config", config(), "--budget.iterations", 1, *own)
        assert result.code == 0, result.err
        assert {path.name for path in config().parent.rglob("metrics.csv")} == files


def test_a_message_nobody_foresaw_is_passed_on() -> None:
    assert explain('Parser key "data.train": the moon is full') == "data.train: the moon is full"
    assert explain("the moon is full") == "the moon is full"


def test_keys_are_those_of_the_class() -> None:
    assert keys(Budget, "budget") == ["budget.completions", "budget.tokens", "budget.iterations", "budget.seconds"]
