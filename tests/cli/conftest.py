"""A small config on the random model, runs of the shipped configs, and the parser of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from commands import ROOT, SHIPPED, Result, acrl

from acrl.lightning_cli import AcrlCLI
from acrl.parser import Parser

CONFIG = """\
seed_everything: 3
model:
  class_path: {algorithm}
  init_args:
    policy: {{path: {model}}}
    batch: {{completions_per_iteration: 16, group_size: 4}}
    sampling: {{max_response_length: 12}}
data: {{train: {data}/train.jsonl, val: {data}/val.jsonl, test: {data}/test.jsonl}}
eval: {{prompts: 16, every_completions: 999}}
budget: {{iterations: 2}}
trainer: {{default_root_dir: {runs}, accelerator: cpu}}
"""


@pytest.fixture
def config(model_dir: Path, data_dir: Path, tmp_path: Path) -> Callable[..., Path]:
    """Write a config of two iterations of 16 completions; `extra` is more of the model's arguments."""

    def write(algorithm: str = "GRPO", extra: str = "", **paths: Any) -> Path:
        places = {"model": model_dir, "data": data_dir, "runs": tmp_path / "runs"} | paths
        before, after = CONFIG.format(algorithm=algorithm, **places).split("data:", 1)
        path = tmp_path / f"{algorithm}.yaml"
        path.write_text(f"{before}{extra}data:{after}", encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def small(model_dir: Path, data_dir: Path) -> list[object]:
    """Arguments that make a shipped config small, and point it at the random model."""
    data = [word for split in ("train", "val", "test") for word in (f"--data.{split}", data_dir / f"{split}.jsonl")]
    sizes = ["--model.batch.completions_per_iteration", 16, "--model.batch.group_size", 4]
    sampling = ["--model.sampling.max_response_length", 12, "--model.sampling.refill_rounds", 3]
    lengths = ["--eval.prompts", 16, "--budget.iterations", 2]
    return ["--model.policy.path", model_dir, *sizes, *sampling, *lengths, *data, "--trainer.accelerator", "cpu"]


@pytest.fixture(scope="session")
def shipped(small: list[object], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Result]:
    """Run two iterations of a shipped config, all in one parent directory."""
    parent = ["--trainer.default_root_dir", tmp_path_factory.mktemp("shipped")]

    def run(name: str, *argv: object) -> Result:
        return acrl("fit", "--config", ROOT / f"configs/tiny/{name}.yaml", *small, *parent, *argv)

    return run


@pytest.fixture(scope="session")
def shipped_runs(shipped: Callable[..., Result]) -> dict[str, Result]:
    """Every shipped config, run once."""
    return {name: shipped(name) for name in SHIPPED}


@pytest.fixture(scope="session")
def parser() -> Parser:
    """The command line's own parser, built once."""
    kept: list[Parser] = []

    class Built(Exception):
        pass

    def keep(self: AcrlCLI, parser: Parser, args: Any) -> None:
        kept.append(parser)
        raise Built

    with patch.object(AcrlCLI, "parse_arguments", keep), pytest.raises(Built):
        acrl("fit")
    return kept[0]
