"""The chain task: `5+4-2+7=` is answered `5+4=9-2=7+7=14`, one small sum a step; the reward reads the last number.

A policy can work the answer out or take a shortcut, and the choice lies in its first token: small enough to learn in a
few thousand completions, rich enough that answers grow longer as it learns.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from random import Random

from acrl.files import write_jsonl

ALPHABET = "0123456789+-="  # every character of a prompt or an answer
LARGEST_TOTAL = 20  # running totals stay in 0 … 20
LEVELS = {"easy": (2, 3), "medium": (3, 5), "hard": (5, 8)}  # fewest and most terms
RESPONSE_CAP = 40  # tokens, one a character: the longest worked answer has 36 characters, then EOS
SPLITS = ("train", "val", "test")

_HOME = ("train", "val", "val", "test", "test")  # a prompt's checksum picks the one split that may hold it
_PROMPT = re.compile(r"\d([+-]\d)+=")
_TRIES = 200  # fruitless draws after which a length counts as used up


def make_chain(directory: str | Path, seed: int = 0, train: int = 8192, val: int = 2048, test: int = 2048) -> Path:
    """The directory, now holding `train.jsonl`, `val.jsonl` and `test.jsonl` with that many rows each.

    A row is `{"prompt": "5+4-2+7=", "answer": "14", "difficulty": "medium"}`. Rows go easy, medium, hard in turn, so
    any prefix is balanced. The same arguments give the same bytes. No prompt is in two splits, and none is twice in
    val or test. Only 2,676 easy prompts exist: two fifths of them may be in val, two fifths in test, one fifth in
    train. So above about 1,300 rows train uses easy prompts again, once new ones have become hard to find; val and test
    raise ValueError there, above about 3,000 rows.
    """
    directory = Path(directory)
    for split, rows in zip(SPLITS, (train, val, test), strict=True):
        write_jsonl(directory / f"{split}.jsonl", _rows(split, rows, seed))
    return directory


def worked_answer(prompt: str, slip: Callable[[int], int] | None = None) -> str:
    """The demonstration `5+4=9-2=7+7=14` for `5+4-2+7=`, without EOS; ValueError if it is no chain prompt.

    `slip` maps each running total to the total written down: a wrong one is carried on with.
    """
    first, *steps = _terms(prompt)
    total, answer = int(first), first
    for step in steps:
        total += int(step)
        if slip is not None:
            total = slip(total)
        answer += f"{step}={total}"
    return answer


def copied_answer(prompt: str) -> str:
    """The shortcut: the last operand as the answer, `7` for `5+4-2+7=`; ValueError if it is no chain prompt."""
    return _terms(prompt)[-1][-1]


def random_prompt(rng: Random, terms: int) -> str:
    """A prompt of that many one-digit terms; each step is drawn evenly from those that keep the total in 0 … 20."""
    total = rng.randrange(10)
    prompt = str(total)
    for _ in range(terms - 1):
        step = rng.randint(-min(9, total), min(9, LARGEST_TOTAL - total))
        sign = rng.choice("+-") if step == 0 else "+" if step > 0 else "-"
        total += step
        prompt += f"{sign}{abs(step)}"
    return prompt + "="


def _terms(prompt: str) -> list[str]:
    """`5+4-2=` as `["5", "+4", "-2"]`."""
    if not _PROMPT.fullmatch(prompt):
        raise ValueError(
            f"chain: {prompt!r} is no prompt of the chain task; write one-digit terms joined by + or - and a final =, "
            "such as 5+4-2+7="
        )
    return re.findall(r"[+-]?\d", prompt)


def _rows(split: str, rows: int, seed: int) -> Iterator[dict[str, str]]:
    """The split's rows, levels in turn. One set of used prompts for all levels, so a split repeats none."""
    if rows < 0:
        raise ValueError(f"chain: {split} must have 0 rows or more, got {rows}")
    used: set[str] = set()
    columns = []
    for index, level in enumerate(LEVELS):
        share = len(range(index, rows, len(LEVELS)))
        columns.append(
            [
                {"prompt": prompt, "answer": worked_answer(prompt).rpartition("=")[2], "difficulty": level}
                for prompt in _prompts(split, level, share, seed, used)
            ]
        )
    return (row for row in chain.from_iterable(zip_longest(*columns)) if row is not None)


def _prompts(split: str, level: str, count: int, seed: int, used: set[str]) -> Iterator[str]:
    """`count` prompts of one level, lengths evenly drawn as long as a length has unused prompts."""
    rng = Random(f"chain/{seed}/{split}/{level}")
    fewest, most = LEVELS[level]
    open_lengths = list(range(fewest, most + 1))
    fresh = 0
    while count > 0:
        terms = rng.choice(open_lengths)
        prompt = _unused_prompt(rng, terms, split, seed, used)
        if prompt is not None:
            used.add(prompt)
            fresh, count = fresh + 1, count - 1
            yield prompt
            continue
        open_lengths.remove(terms)
        if not open_lengths:  # a new pass over this level
            if split != "train" or fresh == 0:
                raise ValueError(
                    f"chain: {split} needs {count} more {level} prompts than its {fresh} distinct ones; "
                    f"ask for fewer {split} rows"
                )
            open_lengths = list(range(fewest, most + 1))
            used.difference_update([p for p in used if p.count("+") + p.count("-") + 1 <= most])


def _unused_prompt(rng: Random, terms: int, split: str, seed: int, used: set[str]) -> str | None:
    """A prompt that belongs to this split and is not used; None where many draws found none."""
    for _ in range(_TRIES):
        prompt = random_prompt(rng, terms)
        if prompt not in used and _HOME[zlib.crc32(f"{seed}/{prompt}".encode()) % len(_HOME)] == split:
            return prompt
    return None
