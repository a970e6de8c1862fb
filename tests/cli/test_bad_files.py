"""A file that cannot be used stops the run before it trains, with one message that names file and row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import acrl, record, refused, rows

GOOD = '{"prompt": "1+2=", "answer": "3", "difficulty": "easy"}\n'


def fit(config: Path, *argv: object) -> str:
    """Run a command that must be refused before it trains, and return its message."""
    result = acrl("fit", "--config", config, *argv)
    refused(result)
    for run_dir in (config.parent / "runs").iterdir():
        assert record(run_dir)["status"] == "failed" and record(run_dir)["reason"] in result.err
        assert not (run_dir / "metrics.jsonl").exists()
    return result.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ("rows.jsonl", "no such file")),
        ("", ("rows.jsonl", "has no rows")),
        (GOOD + "not json\n", ("rows.jsonl", "line 2", "'not json'")),
        (GOOD + '{"prompt": "1+2="}\n', ("rows.jsonl", "line 2", "'answer' is missing", "prompt")),
        (GOOD + '{"prompt": "1+2=", "answer": "many"}\n', ("rows.jsonl", ":2", "'many'")),
        (
            GOOD + GOOD.replace("1+2", "+".join("1" * 20)),
            ("rows.jsonl:2", "40 tokens", "data.max_prompt_length 32", "raise the limit"),
        ),
        (GOOD * 3, ("rows.jsonl", "3 rows", "the 4 prompts of one iteration")),
    ],
    ids=["missing", "empty", "malformed", "no answer", "no number", "too long", "too few"],
)
def test_a_data_file(text: str | None, words: tuple[str, ...], config: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    if text is not None:
        path.write_text(text)
    message = fit(config(), "--data.train", path)
    assert all(word in message for word in words), message


def test_validate_checks_its_file_too(config: Callable[..., Path], tmp_path: Path) -> None:
    result = acrl("validate", "--config", config(), "--data.val", tmp_path / "rows.jsonl")
    assert result.code == 2 and "rows.jsonl: there is no such file" in result.err and "Traceback" not in result.err


def test_test_without_a_test_file(config: Callable[..., Path]) -> None:
    result = acrl("test", "--config", config(), "--data.test", "null")
    assert result.code == 2 and "data.test is not set" in result.err and "Traceback" not in result.err


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise OSError('gone')", ("raised OSError: gone", "row 0", "completion")),
        ("return [float('nan')] * len(completions)", ("nan", "row 0", "finite number")),
        ("return [1.0]", ("16", "1")),
    ],
    ids=["raises", "NaN", "wrong count"],
)
def test_a_reward_function(body: str, words: tuple[str, ...], config: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"def mine(prompts, completions, **columns):\n    {body}\n")
    message = fit(config(), "--reward.functions", f"[{{name: '{path}:mine'}}]")
    assert all(word in message for word in (f"{path}:mine", *words)), message


@pytest.mark.parametrize(
    ("name", "words"),
    [("missing.py:mine", ("there is no file",)), ("mine.py:other", ("'other' does not exist", "choose one of: mine"))],
)
def test_a_reward_file(name: str, words: tuple[str, ...], config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def mine(prompts, completions, **columns):\n    return [0.0] * len(completions)\n"
    )
    message = fit(config(), "--reward.functions", f"[{{name: '{tmp_path / name}'}}]")
    assert all(word in message for word in (name, *words)), message


def test_a_missing_model_is_found_before_anything_is_read(config: Callable[..., Path], tmp_path: Path) -> None:
    argv = ("--model.policy.path", tmp_path / "tiny-base", "--data.train", tmp_path / "missing too.jsonl")
    message = fit(config(), *argv)
    assert str(tmp_path / "tiny-base") in message and "model.policy.path" in message
    assert "acrl model make tiny-base" in message and "missing too" not in message


def test_data_are_checked_before_a_model_is_loaded(
    config: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(path: str) -> None:
        raise LookupError("a model is loaded")

    monkeypatch.setattr("acrl.algorithms.base.load_policy", load)
    fit(config(), "--data.train", tmp_path / "missing.jsonl")
    with pytest.raises(LookupError, match="a model is loaded"):
        acrl("fit", "--config", config())


def test_a_run_directory_that_cannot_be_made(config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(acrl("fit", "--config", config(runs=tmp_path / "file")), "trainer.default_root_dir", "Not a directory")


def test_a_checkpoint_that_is_not_there(config: Callable[..., Path]) -> None:
    refused(acrl("validate", "--config", config(), "--ckpt_path", "nowhere.ckpt"), "nowhere.ckpt", "no such file")


@pytest.mark.slow
def test_a_reward_of_weighted_parts_is_logged_as_it_is_optimised(config: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "parts.py"
    body = "(prompts, completions, **columns):\n    return [{}] * len(completions)\n"
    path.write_text(f"def one{body.format(1.0)}\n\ndef zero{body.format(0.0)}")
    functions = f"[{{name: '{path}:one', weight: 0.7}}, {{name: '{path}:zero', weight: 0.3}}]"
    run_dir = acrl("fit", "--config", config(), "--reward.functions", functions, "--budget.iterations", 1).run_dir
    row = rows(run_dir)[-1]
    assert row["rollout/reward_mean"] == pytest.approx(0.7)
    assert (row["rollout/reward/one"], row["rollout/reward/zero"]) == (1, 0)
    assert {sample["reward"] for sample in rows(run_dir, "samples.jsonl")} == {0.7}
