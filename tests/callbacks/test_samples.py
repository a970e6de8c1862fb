"""samples.jsonl: what was asked, said, earned and learned from."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from acrl.callbacks.samples import Samples
from acrl.rollout.collector import Texts
from acrl.run_dir import cut_back

AWKWARD = ['say "so"\\', "one\ntwo\r\n\ttab", "🦜 über\u2028line\x85\x00", ""]


def collected(completions: list[str], kept: list[bool]) -> Any:
    """Rollouts with these completions; row n earned n, and has the advantage 10·n where it trains."""
    n = len(completions)
    kept_rows = torch.tensor(kept)
    generated = SimpleNamespace(
        rewards=torch.arange(n).double(),
        penalty=torch.tensor([-0.5] * n),
        accuracy=torch.ones(n),
        truncated=torch.zeros(n, dtype=torch.bool),
        trains=torch.ones(n, dtype=torch.bool),
    )
    batch = SimpleNamespace(advantages=10.0 * torch.arange(n)[kept_rows][:, None])
    texts = Texts(["1+1="] * n, completions, {"numeric": [0.5, None, 0.5, None][:n]})

    class Sized(SimpleNamespace):
        def __len__(self) -> int:
            return n

    return SimpleNamespace(generated=Sized(**vars(generated)), batch=batch, texts=texts, kept=kept_rows)


def written(run_dir: Path, kept: list[bool], per_iteration: int = 4) -> list[dict[str, Any]]:
    module: Any = SimpleNamespace(collected=collected(AWKWARD, kept), counters=SimpleNamespace(iterations=7))
    Samples(run_dir, per_iteration).on_train_epoch_end(None, module)  # type: ignore[arg-type]
    return [json.loads(line) for line in (run_dir / "samples.jsonl").read_bytes().split(b"\n")[:-1]]


def test_every_answer_is_one_line_of_json(tmp_path: Path) -> None:
    lines = written(tmp_path, [True] * 4)
    assert [line["completion"] for line in lines] == AWKWARD
    assert "🦜".encode() in (tmp_path / "samples.jsonl").read_bytes()  # to be read by people


def test_a_line_says_what_was_earned_and_learned(tmp_path: Path) -> None:
    lines = written(tmp_path, [False, True, False, True])
    assert [line["advantage"] for line in lines] == [None, 10.0, None, 30.0]
    assert lines[1] == {
        "iteration": 7,
        "prompt": "1+1=",
        "completion": AWKWARD[1],
        "reward": 1.0,
        "parts": {"numeric": None},
        "overlong_penalty": -0.5,
        "correct": True,
        "truncated": False,
        "advantage": 10.0,
    }


def test_the_file_stays_small(tmp_path: Path) -> None:
    assert len(written(tmp_path, [True] * 4, per_iteration=2)) == 2


def test_cutting_back_keeps_awkward_answers_and_drops_a_torn_line(tmp_path: Path) -> None:
    before = written(tmp_path, [True] * 4)
    with (tmp_path / "samples.jsonl").open("ab") as stream:
        stream.write(json.dumps({"iteration": 8}).encode() + b"\n" + '{"iteration": 7, "prompt": "ü'.encode()[:-1])
    cut_back(tmp_path, 7)
    after = (tmp_path / "samples.jsonl").read_bytes().split(b"\n")[:-1]
    assert [json.loads(line) for line in after] == before
