"""Data rows: read and checked before a model is loaded, so that a bad row costs seconds and not a run."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acrl.errors import DataError, excerpt, list_problems

DIFFICULTIES = ("easy", "medium", "hard")
REQUIRED = ("prompt", "answer")

# Reward functions get the columns by keyword, beside these two.
_RESERVED = ("prompts", "completions")


@dataclass(frozen=True)
class Row:
    """One task: the prompt's text and everything else the row says."""

    prompt: str

    columns: dict[str, Any]
    """Every other key of the row, e.g. `answer` and `difficulty`; handed to the reward functions."""

    id: str
    """`file:line`, the same on every machine."""


def read_rows(path: str | Path, required: Sequence[str] = REQUIRED) -> list[Row]:
    """The rows of a data file, in its order; the suffix says the format. Raises: DataError."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise _directory_error(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: the format {path.suffix!r} is not supported; choose a file that ends in {_SUFFIXES}")
    return reader(path, required)


def read_jsonl(path: str | Path, required: Sequence[str] = REQUIRED) -> list[Row]:
    """The rows of a file with one JSON object per line, in its order. Blank lines are skipped, but counted.

    `required` keys must be there. `prompt` is a text; `answer` is a text or a number, which is kept as it is written;
    `difficulty`, where present, is easy, medium or hard.
    Raises: DataError for a file that cannot be read or has no rows, and one that lists the first five bad rows.
    """
    path = Path(path).expanduser()
    rows: list[Row] = []
    problems: list[str] = []
    for line, raw in _lines(path):
        try:
            rows.append(_row(raw, f"{path.name}:{line}", required))
        except _BadRow as problem:
            problems.append(f"line {line}: {problem}")
    if problems:
        of = len(rows) + len(problems)
        raise DataError(f"{path}: {len(problems)} of {of} rows cannot be used:{list_problems(problems)}")
    if not rows:
        raise DataError(f'{path}: the file has no rows; write one per line, like {{"prompt": "2+3=", "answer": "5"}}')
    return rows


READERS: dict[str, Callable[[str | Path, Sequence[str]], list[Row]]] = {".jsonl": read_jsonl}
_SUFFIXES = " or ".join(READERS)


class _BadRow(Exception):
    """Why a row cannot be used."""


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines that are not blank. Split as bytes: text mode also splits at a lone "\\r"."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if number == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")  # the mark some editors put before UTF-8
                if raw.strip():
                    yield number, raw
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file{_neighbours(path.parent)}") from error
    except IsADirectoryError as error:
        raise _directory_error(path) from error
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read: {error.strerror}") from error


def _directory_error(path: Path) -> DataError:
    return DataError(f"{path}: this is a directory, not a file{_neighbours(path)}")


def _neighbours(folder: Path) -> str:
    """The files that could have been meant."""
    names = sorted(file.name for suffix in READERS for file in folder.glob(f"*{suffix}")) if folder.is_dir() else []
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f"; {folder} has: {shown}" if names else f"; choose a file that ends in {_SUFFIXES}"


def _row(raw: bytes, name: str, required: Sequence[str]) -> Row:
    """The row in one line. Raises: _BadRow."""
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise _BadRow(f"{excerpt(raw)} is not UTF-8 at byte {error.start + 1}; save the file as UTF-8") from error
    columns = _parse(text)
    if not isinstance(columns, dict):
        raise _BadRow(f'{excerpt(text)} is not an object; write {{"prompt": …, "answer": …}}')
    for key in required:
        if key not in columns:
            raise _BadRow(f"{key!r} is missing; the row has {', '.join(map(excerpt, list(columns)[:10])) or 'no keys'}")
    for key, check in _CHECKS.items():
        if key in columns and (reason := check(columns[key])):
            raise _BadRow(f"{key!r} is {excerpt(columns[key])}; {reason}")
    for key, value in columns.items():
        if reason := _text_problem(key) or _text_problem(value):
            raise _BadRow(f"{excerpt(key)} is {excerpt(value)}; {reason}")
    if "answer" in columns and not isinstance(columns["answer"], str):
        # As it is written: 0.10 or an integer beyond 2**53 must not pass through a float.
        columns["answer"] = json.loads(text, parse_int=str, parse_float=str)["answer"]
    return Row(prompt=columns.pop("prompt", ""), columns=columns, id=name)


def _parse(text: str) -> object:
    """The JSON value. Raises: _BadRow."""
    if "\0" in text:
        raise _BadRow(f"{excerpt(text)} holds NUL characters; the file is damaged, write it again")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:  # NaN, an integer of thousands of digits, thousands of brackets
        problem = str(error)
    raise _BadRow(f"{excerpt(text)} is not valid JSON: {problem}; write one whole object per line")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _prompt_problem(value: object) -> str | None:
    return None if isinstance(value, str) and value.strip() else "write a text that is not empty"


def _answer_problem(value: object) -> str | None:
    return None if type(value) in (str, int, float) else "write a text or a number"


def _difficulty_problem(value: object) -> str | None:
    return None if value in DIFFICULTIES else f"choose {', '.join(DIFFICULTIES)}, or leave the key out"


def _reserved_problem(value: object) -> str | None:
    return "reward functions are handed the batch under this name; rename the key"


_CHECKS: dict[str, Callable[[object], str | None]] = {
    "prompt": _prompt_problem,
    "answer": _answer_problem,
    "difficulty": _difficulty_problem,
    **dict.fromkeys(_RESERVED, _reserved_problem),
}


def _text_problem(value: object) -> str | None:
    """Characters that JSON can escape but no tokenizer, log or file can take."""
    if not isinstance(value, str):
        return None
    if "\0" in value:
        return "it holds a NUL character; remove it"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair, which is not a character; remove it"
    return None
