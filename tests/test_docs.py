"""Docs that say what the code does: preset tables, logged keys, cited files and config keys, control commands."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from acrl import spec
from acrl.algorithms import NAMED, PPO, RLModule
from acrl.algorithms.presets import preset_of
from acrl.callbacks.budget import BudgetStop
from acrl.callbacks.evaluation import EvaluateAlong
from acrl.callbacks.record import RunRecord
from acrl.rewards import RewardFunction, RewardSpec

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SPECS = {
    "batch": spec.BatchPlan,
    "budget": spec.Budget,
    "credit": spec.Credit,
    "critic": spec.Critic,
    "eval": spec.Evaluation,
    "kl": spec.KL,
    "objective": spec.Objective,
    "optimizer": spec.Optimizer,
    "policy": spec.Policy,
    "sampling": spec.Sampling,
}
FOLDERS = ("acrl", "configs", "docs", "scripts", "tests")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


# The family as a table: row label → (cell of a preset, the fields it shows).


def _kl(preset: dict[str, Any]) -> str:
    kl = preset["kl"]
    return f"{kl.coef:g}, `{kl.estimator}` in {kl.where}" if kl.coef else "0"


def _overlong(preset: dict[str, Any]) -> str:
    sampling = preset["sampling"]
    if sampling.overlong != "penalty":
        return f"`{sampling.overlong}`"
    share = f"{100 * sampling.overlong_buffer:g}"
    return f"`penalty`, {sampling.overlong_weight:g} of the range, last {share} %"


def _learned(preset: dict[str, Any]) -> str:
    critic = preset.get("critic")
    if critic is None:
        return "–"
    return f"value head, `{critic.trunk}` trunk, γ = {critic.gamma:g}, λ = {critic.lam_policy:g}"


ROWS = {
    "`credit.baseline`": (lambda p: f"`{p['credit'].baseline}`", ["credit.baseline"]),
    "`credit.scale`": (lambda p: f"`{p['credit'].scale}`", ["credit.scale"]),
    "`objective.clip_low` / `clip_high`": (
        lambda p: f"{p['objective'].clip_low:g} / {p['objective'].clip_high:g}",
        ["objective.clip_low", "objective.clip_high"],
    ),
    "`objective.aggregation`": (lambda p: f"`{p['objective'].aggregation}`", ["objective.aggregation"]),
    "`kl`": (_kl, ["kl.coef", "kl.estimator", "kl.where"]),
    "`sampling.groups`": (lambda p: f"`{p['sampling'].groups}`", ["sampling.groups"]),
    "`sampling.overlong`": (_overlong, ["sampling.overlong", "sampling.overlong_buffer", "sampling.overlong_weight"]),
    "learned baseline": (_learned, []),
}


def expected_table() -> str:
    """The family table of README.md and docs/algorithms.md, read from the presets."""
    presets = {kind.__name__: preset_of(kind) for kind in NAMED}
    lines = [["", *presets], ["---"] * (len(presets) + 1)]
    lines += [[label, *(cell(preset) for preset in presets.values())] for label, (cell, _) in ROWS.items()]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines).replace("| --- ", "|---")


def table_of(text: str) -> dict[tuple[str, str], str] | None:
    """The cells of the table whose first heading is PPO, by row label and column heading; None without one."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(r"\|\s*\|\s*PPO\s*\|", line)), None)
    if start is None:
        return None
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    ]
    heads = rows[0][1:]
    return {(row[0], head): cell for row in rows[2:] for head, cell in zip(heads, row[1:], strict=False)}


@pytest.mark.parametrize("page", ["README.md", "docs/algorithms.md"])
def test_family_table_is_the_presets(page: str) -> None:
    found, expected = table_of((ROOT / page).read_text(encoding="utf-8")), table_of(expected_table())
    paste = f"\nThe table of {page} should be:\n\n{expected_table()}\n"
    assert found is not None, f"{page} has no table headed `| | PPO | GRPO | …`.{paste}"
    assert expected is not None
    wrong = [
        f"{row} of {column}: {found.get((row, column))!r}, the preset says {expected.get((row, column))!r}"
        for row, column in dict.fromkeys([*expected, *found])
        if found.get((row, column)) != expected.get((row, column))
    ]
    assert not wrong, "\n".join([f"{page}:", *wrong, paste])


def test_fields_outside_the_table_are_alike_in_every_preset() -> None:
    shown = {field for _, names in ROWS.values() for field in names}
    for name in ("credit", "objective", "kl", "sampling"):
        for field in fields(SPECS[name]):
            if f"{name}.{field.name}" not in shown:
                values = {kind.__name__: getattr(preset_of(kind)[name], field.name) for kind in NAMED}
                assert len(set(values.values())) == 1, f"{name}.{field.name} needs a row in the family table: {values}"


# What a run logs.


def documented_keys() -> list[str]:
    """The first column of every table in docs/metrics.md, placeholders filled in."""
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    keys: list[str] = []
    for key in re.findall(r"^\| `([\w/{}]+)` \|", text, flags=re.MULTILINE):
        levels = ("easy", "medium", "hard") if "{difficulty}" in key else ("",)
        keys += [key.replace("{difficulty}", level).replace("{function}", "format") for level in levels]
    return keys


def test_documented_keys_are_the_logged_keys(build: Callable, prompt_data: Callable, train: Callable, tmp_path: Path):
    """PPO with a KL term logs every key there is; what it logs is what the page defines, each once."""
    reward = RewardSpec([RewardFunction("format", kwargs={"pattern": ".{0,5}"})])
    evaluation = spec.Evaluation(prompts=6, every_completions=1, greedy_every=1)
    module: RLModule = build(PPO, kl=spec.KL(coef=0.1, estimator="k1", where="reward"), evaluation=evaluation)
    record = RunRecord(tmp_path, resumed=False)
    callbacks = [BudgetStop(spec.Budget(iterations=2)), EvaluateAlong(evaluation), record]
    train(module, prompt_data(reward), 2, callbacks=callbacks)
    first, *rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    documented = documented_keys()
    assert len(set(documented)) == len(documented)
    assert {key for row in rows for key in row} == set(documented)
    assert {key.partition("/")[0] for key in first} == {"eval", "counter", "time"}


# What a page cites.


def code_spans(page: Path) -> Iterator[str]:
    """The inline code of a page, code blocks left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return (match[1] for match in re.finditer(r"`([^`\n]+)`", text))


def command_lines(page: Path) -> Iterator[str]:
    """The lines of a page's code blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return (line for block in blocks for line in block.splitlines())


@every_page
def test_cited_files_exist(page: Path) -> None:
    words = [word for text in (*code_spans(page), *command_lines(page)) for word in text.split()]
    cited = [word.strip("(),.:;'\"").partition(":")[0] for word in words]
    tree = re.compile(rf"({'|'.join(FOLDERS)})/[\w./-]*|[\w-]+\.(md|toml|txt|yaml)|LICENSE")
    missing = {name for name in cited if tree.fullmatch(name) and not _exists(page, name)}
    assert not missing, f"{page.name} cites files that are not there: {', '.join(sorted(missing))}"


def _exists(page: Path, name: str) -> bool:
    return (ROOT / name).exists() or (page.parent / name).exists() or name in ("config.yaml",)  # of a run


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        if "://" in target:
            continue
        path = (page.parent / file).resolve() if file else page
        assert path.is_relative_to(ROOT.resolve()), f"{page.name}: {target} lies outside the repository"
        assert path.exists(), f"{page.name}: {target} is not there"
        if heading:
            titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, f"{page.name}: {target} names no heading"


@every_page
def test_cited_config_keys_exist(page: Path) -> None:
    pattern = re.compile(rf"(?:--)?(?:model\.)?({'|'.join(SPECS)})\.(\w+)\b")
    for span in code_spans(page):
        match = pattern.match(span)
        if match is not None:
            known = {field.name for field in fields(SPECS[match[1]])}
            assert match[2] in known, f"{page.name}: `{span}`; {match[1]} has {', '.join(sorted(known))}"


@every_page
def test_no_machine_paths(page: Path) -> None:
    found = re.findall(r"(?<![\w.])/(?:home|root|tmp|work|Users|mnt)/\S*", page.read_text(encoding="utf-8"))
    assert not found, f"{page.name} names paths of one machine: {found}"


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 100


# The controls are equal but for the critic.


def controls() -> list[list[list[str]]]:
    """Blocks of command lines in docs/algorithms.md's section on controls; a block's first line has the critic."""
    section = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8").partition("\n## Controls\n")[2]
    blocks = re.findall(r"^```bash\n(.*?)^```", section.partition("\n## ")[0], flags=re.DOTALL | re.MULTILINE)
    return [[line.split() for line in block.splitlines()] for block in blocks]


def resolved_model(command: list[str]) -> dict[str, Any]:
    """What `--print_config` says about the model of an `acrl fit` command line."""
    from acrl.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*command[1:], "--print_config"])
    return yaml.safe_load(printed.getvalue())["model"]["init_args"]


@pytest.mark.parametrize("block", range(2))
def test_controls_differ_in_the_critic_alone(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with_critic, *without = [resolved_model(command) for command in controls()[block]]
    assert with_critic.pop("critic") and with_critic["credit"].pop("baseline") == "critic"
    assert without
    for arm in without:
        assert arm["credit"].pop("baseline") != "critic"
        for model in (with_critic, arm):
            if model["kl"]["coef"] == 0:
                model["kl"] = {"coef": 0}
        assert arm == with_critic
