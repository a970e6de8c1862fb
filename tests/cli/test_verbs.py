"""The verbs: what `acrl --help` shows works, and wrong usage says so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from commands import ROOT, acrl, refused, rows

from acrl import __version__, cli
from acrl.models import recipe, tiny


def test_help_names_every_verb_and_nothing_else() -> None:
    result = acrl("--help")
    assert result.code == 0 and result.out == acrl().out
    shown = set(re.findall(r"^  (fit|validate|test|\w+ make)\b", result.out, re.MULTILINE))
    assert shown == {"fit", "validate", "test", "data make", "model make"}
    assert acrl("--version").out == f"acrl {__version__}\n"


def test_commands_in_help_parse() -> None:
    for command in re.findall(r"acrl (fit|validate|test) --config (\S+)", acrl("--help").out):
        verb, path = command
        assert acrl(verb, "--config", ROOT / path, "--print_config").code == 0


def test_an_unknown_verb() -> None:
    refused(acrl("train"), "no verb 'train'", "fit, validate, test, data, model")


@pytest.mark.parametrize(("verb", "split"), [("validate", "val"), ("test", "test")])
def test_accuracy_per_level(
    verb: str, split: str, config: Callable[..., Path], data_dir: Path, model_dir: Path
) -> None:
    result = acrl(verb, "--config", config("PPO"))
    assert result.code == 0
    assert result.err == f"{model_dir} answers every prompt of {data_dir / split}.jsonl …\n"
    printed = dict(line.split() for line in result.out.splitlines())
    levels = {f"eval/{level}/accuracy" for level in ("easy", "medium", "hard")}
    assert levels | {"eval/accuracy", "eval/accuracy_greedy"} <= printed.keys()
    mean = sum(float(printed[level]) for level in levels) / 3  # the levels have a third of the rows each
    assert float(printed["eval/accuracy"]) == pytest.approx(mean, abs=2e-4)


@pytest.mark.slow
def test_validate_a_checkpoint(config: Callable[..., Path]) -> None:
    argv = ("--eval.prompts", 48, "--eval.greedy_every", 1, "--model.optimizer.lr", 3e-3)
    run_dir = acrl("fit", "--config", config(), *argv).run_dir
    result = acrl("validate", "--config", run_dir / "config.yaml", "--ckpt_path", run_dir / "checkpoints/last.ckpt")
    printed = {key: float(value) for key, value in (line.split() for line in result.out.splitlines())}
    last = {key: value for key, value in rows(run_dir)[-1].items() if key.startswith("eval/")}
    assert printed == pytest.approx(last, abs=5e-5)
    assert printed != pytest.approx({k: v for k, v in rows(run_dir)[0].items() if k.startswith("eval/")}, abs=5e-5)


def test_data_make(tmp_path: Path) -> None:
    result = acrl("data", "make", "--out", tmp_path / "chain")
    assert result.code == 0 and result.out == f"{tmp_path / 'chain'}\n"
    row = json.loads((tmp_path / "chain/train.jsonl").read_text().splitlines()[0])
    assert row.keys() == {"prompt", "answer", "difficulty"}


def test_data_make_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(acrl("data", "make", "--out", tmp_path / "file"), f"{tmp_path / 'file'}: File exists.")
    assert (tmp_path / "file").read_text() == ""


def test_model_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe.recipe_for("tiny-base", "xs")
    small = replace(made, stages=tuple(replace(stage, steps=2) for stage in made.stages))
    monkeypatch.setattr(tiny, "recipe_for", lambda name, size: small)
    result = acrl("model", "make", "tiny-base", "--out", tmp_path / "model", "--size", "xs")
    assert result.code == 0 and result.out == f"{tmp_path / 'model'}\n"
    assert f"tiny-base: {made.stages[0].name}, 2 steps" in result.err
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in (tmp_path / "model").iterdir()}
    again = acrl("model", "make", "tiny-base", "--out", tmp_path / "model", "--size", "xs")
    assert again.code == 0 and again.err == ""  # it is there already


def test_model_make_where_something_else_lies(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(acrl("model", "make", "tiny-base", "--out", tmp_path), str(tmp_path), "choose another directory")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("model", "make", "nonsense"), ("'nonsense'", "tiny-base", "tiny-aligned")),
        (("model", "make", "tiny-base", "--size", "huge"), ("'huge'", "xs", "small", "large")),
        (("model", "make"), ("name",)),
        (("model", "bake"), ("'bake'", "make")),
        (("data",), ("make",)),
        (("data", "make", "--seed", "x"), ("--seed", "'x'")),
    ],
)
def test_wrong_usage_of_make(argv: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(acrl(*argv), *words, "--help")


def test_ctrl_c_before_anything_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_data", interrupt)
    result = acrl("data", "make")
    assert result.code == 130 and len(result.err.splitlines()) == 1


def test_a_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACRL_TRACEBACK", "1")
    result = acrl("fit", "--resume", "nowhere")
    assert "Traceback" in result.err and result.err.splitlines()[-1].startswith("acrl: error: --resume 'nowhere'")


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["--help"], ["fit", "--help"]])
def test_help_answers_at_once(argv: list[str]) -> None:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "acrl.cli", *argv], capture_output=True, text=True, check=True)
    assert time.monotonic() - started < 12
    assert "usage: acrl" in done.stdout and done.stderr == ""


@pytest.mark.slow
def test_help_imports_no_torch() -> None:
    code = "import sys; from acrl.cli import main; main(['--help']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
