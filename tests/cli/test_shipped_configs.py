"""Every config under configs/tiny parses, keeps the presets, and runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from commands import ROOT, SHIPPED, Result, acrl, record, rows

from acrl.algorithms import NAMED
from acrl.algorithms.presets import preset_of
from acrl.parser import Parser

every_shipped_config = pytest.mark.parametrize("name", SHIPPED)
mostly_slow = pytest.mark.parametrize(
    "name", ["grpo", *(pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED if name != "grpo")]
)


def test_the_shipped_configs_are_those_on_disk() -> None:
    assert {path.stem for path in (ROOT / "configs/tiny").glob("*.yaml")} == {*SHIPPED, "chain"}


@mostly_slow
def test_a_shipped_config_parses_alone(name: str) -> None:
    result = acrl("fit", "--config", ROOT / f"configs/tiny/{name}.yaml", "--print_config")
    assert result.code == 0 and not result.err
    assert "completions_per_iteration: 64" in result.out and "train: data/chain/train.jsonl" in result.out


@every_shipped_config
def test_a_shipped_config_names_its_own_algorithm(name: str, parser: Parser) -> None:
    chosen = parser.parse_args(["fit", "--config", str(ROOT / f"configs/tiny/{name}.yaml")]).fit.model.class_path
    assert chosen.rpartition(".")[2].lower() == name.replace("_", "")


@mostly_slow
@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.__name__)
def test_a_preset_survives_the_command_line(name: str, kind: type, parser: Parser) -> None:
    config = ROOT / f"configs/tiny/{name}.yaml"
    given = parser.parse_args(["fit", "--config", str(config), "--model", kind.__name__]).fit.model
    assert given.class_path.rpartition(".")[2] == kind.__name__
    preset = preset_of(kind)
    assert {name: vars(given.init_args[name]) for name in preset} == {name: asdict(preset[name]) for name in preset}
    assert ("critic" in given.init_args) == ("critic" in preset)


@every_shipped_config
def test_a_shipped_config_runs(name: str, shipped_runs: dict[str, Result]) -> None:
    result = shipped_runs[name]
    warned = [line for line in result.err.splitlines() if not line.startswith(("start: ", "iteration "))]
    assert result.code == 0
    if name == "dapo":  # groups with both right and wrong answers are rare for random weights
        assert all(" groups: after 3 rounds the others were still all right or all wrong" in line for line in warned)
    else:
        assert warned == []
    run_dir = result.run_dir
    assert sorted(path.name for path in run_dir.iterdir() if "tfevents" not in path.name) == [
        "checkpoints",
        "config.yaml",
        "metrics.jsonl",
        "run.json",
        "samples.jsonl",
    ]
    found = record(run_dir)
    assert (found["status"], found["reason"]) == ("finished", None)
    assert found["plan"] == result.out.splitlines()[:-1]
    assert found["started"] <= found["ended"] and found["versions"]["torch"]
    assert [row["counter/iterations"] for row in rows(run_dir)] == [0, 1, 2]


def test_values_of_a_file_that_depart_from_the_preset_are_printed(config: Callable[..., Path]) -> None:
    path = config("GRPO", extra="    objective: {clip_high: 0.3}\n")
    result = acrl("fit", "--config", path, "--model", "LitePPO", "--budget.iterations", 1)
    (line,) = (line for line in result.out.splitlines() if line.startswith("Departs"))
    assert line == "Departs from the preset of LitePPO: objective.clip_high 0.3 (preset 0.2)."


def test_what_departs_from_a_preset_is_what_was_changed(shipped_runs: dict[str, Result]) -> None:
    found = {name: [x for x in result.out.splitlines() if "Departs" in x] for name, result in shipped_runs.items()}
    assert all("sampling.refill_rounds 3 (preset 10)." in line for (line,) in found.values())
