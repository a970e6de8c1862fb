"""The chain task: its answers, its splits, and files that are never half-written."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from acrl.data.chain import LEVELS, RESPONSE_CAP, SPLITS, copied_answer, make_chain, random_prompt, worked_answer
from acrl.files import write_jsonl, write_text


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    """The default data."""
    directory = make_chain(tmp_path_factory.mktemp("chain"))
    return {split: _read(directory / f"{split}.jsonl") for split in SPLITS}


def _read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_worked_answer_copies_an_operand_and_looks_one_sum_up_per_step() -> None:
    assert worked_answer("5+4-2+7=") == "5+4=9-2=7+7=14"  # 5+4 is 9, 9-2 is 7, 7+7 is 14
    assert worked_answer("0-0=") == "0-0=0"


def test_a_slip_is_carried_on_with() -> None:
    assert worked_answer("5+4-2=", slip=lambda total: total + 1) == "5+4=10-2=9"  # 9 becomes 10; 10-2 is 8, becomes 9


def test_copied_answer_is_the_last_operand() -> None:
    assert copied_answer("5+4-2+7=") == "7"


@pytest.mark.parametrize("prompt", ["", "5=", "5+4", "5+14=", "5*4=", "5+4=9", " 5+4=", "5+4=\n"])
@pytest.mark.parametrize("answer", [worked_answer, copied_answer])
def test_another_prompt_is_refused_by_name(prompt: str, answer) -> None:
    with pytest.raises(ValueError, match=r"no prompt of the chain task; write .* such as 5\+4-2\+7="):
        answer(prompt)


def test_rows_are_right(splits: dict[str, list[dict[str, str]]]) -> None:
    for rows in splits.values():
        for row in rows:
            assert list(row) == ["prompt", "answer", "difficulty"]
            terms = row["prompt"][:-1].replace("-", "+-").split("+")
            totals = [sum(map(int, terms[: n + 1])) for n in range(len(terms))]
            assert row["prompt"][-1] == "=" and int(row["answer"]) == totals[-1]
            assert 0 <= min(totals) and max(totals) <= 20
            fewest, most = LEVELS[row["difficulty"]]
            assert fewest <= len(terms) <= most


def test_splits_share_no_prompt_and_evaluation_repeats_none(splits: dict[str, list[dict[str, str]]]) -> None:
    prompts = {split: {row["prompt"] for row in rows} for split, rows in splits.items()}
    assert not prompts["train"] & prompts["val"]
    assert not prompts["train"] & prompts["test"]
    assert not prompts["val"] & prompts["test"]
    assert len(prompts["val"]) == len(splits["val"]) == 2048
    assert len(prompts["test"]) == len(splits["test"]) == 2048


def test_train_is_long_enough_and_repeats_easy_prompts_only(splits: dict[str, list[dict[str, str]]]) -> None:
    assert len(splits["train"]) >= 6400  # completions of a run with one per prompt
    counts = Counter(row["prompt"] for row in splits["train"] if row["difficulty"] == "easy")
    assert len(counts) > 450 and max(counts.values()) <= 8  # 2,731 rows in passes over about 530 prompts
    longer = [row["prompt"] for row in splits["train"] if row["difficulty"] != "easy"]
    assert len(set(longer)) == len(longer)


def test_a_short_train_repeats_nothing(tmp_path: Path) -> None:
    rows = _read(make_chain(tmp_path, train=900, val=3, test=3) / "train.jsonl")
    assert len({row["prompt"] for row in rows}) == 900


def test_any_prefix_is_balanced(splits: dict[str, list[dict[str, str]]]) -> None:
    for rows in splits.values():
        assert [row["difficulty"] for row in rows] == [list(LEVELS)[n % 3] for n in range(len(rows))]


def test_worked_answers_fit_the_cap(splits: dict[str, list[dict[str, str]]]) -> None:
    for rows in splits.values():
        fits = [len(worked_answer(row["prompt"])) + 1 <= RESPONSE_CAP for row in rows]  # EOS is one more
        assert sum(fits) / len(fits) >= 0.99


def test_the_shortcut_is_seldom_right(splits: dict[str, list[dict[str, str]]]) -> None:
    for rows in splits.values():
        right = [copied_answer(row["prompt"]) == row["answer"] for row in rows]
        assert 0.02 < sum(right) / len(right) < 0.12


def test_the_seed_decides_every_byte(tmp_path: Path) -> None:
    first, again, other = (
        make_chain(tmp_path / name, seed, train=60, val=30, test=30) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    for split in SPLITS:
        bytes_of = [(directory / f"{split}.jsonl").read_bytes() for directory in (first, again, other)]
        assert bytes_of[0] == bytes_of[1] != bytes_of[2]
    assert sorted(path.name for path in first.iterdir()) == ["test.jsonl", "train.jsonl", "val.jsonl"]


def test_every_seed_has_enough_easy_prompts_for_the_default_val(tmp_path: Path) -> None:
    for seed in range(8):
        make_chain(tmp_path, seed, train=0)


def test_too_large_an_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"val needs \d+ more easy prompts than its \d+ distinct ones; ask for fewer"):
        make_chain(tmp_path, train=3, val=6000, test=3)
    with pytest.raises(ValueError, match="test must have 0 rows or more, got -1"):
        make_chain(tmp_path, train=3, val=3, test=-1)


def test_random_prompts_have_the_asked_number_of_terms() -> None:
    rng = Random(0)
    assert all(len(random_prompt(rng, terms)) == 2 * terms for terms in range(2, 9))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise RuntimeError("no more rows")

    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"a": 0}])
    with pytest.raises(RuntimeError):
        write_jsonl(path, broken())
    with pytest.raises(UnicodeEncodeError):  # while the temporary file is open
        write_text(path, "a" * 100_000 + "\ud800")
    with pytest.raises(ValueError):
        write_jsonl(path, [{"a": float("nan")}])
    assert path.read_text() == '{"a": 0}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_written_as_given(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "file.txt", "ä\r\nb\n")
    assert (tmp_path / "new" / "file.txt").read_bytes() == "ä\r\nb\n".encode()
