"""Data rows: every bad file and row is named before a model is loaded."""

import errno
import json
import time
from pathlib import Path

import pytest

from acrl.data.rows import Row, read_jsonl, read_rows
from acrl.errors import DataError

GOOD = '{"prompt": "2+3=", "answer": "5"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.jsonl"


def refused(path: Path, content: str | bytes | None = None) -> str:
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as raised:
        read_rows(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_rows_in_order_with_all_columns(path: Path) -> None:
    path.write_text(
        '{"prompt": "2+3=", "answer": "5", "difficulty": "easy"}\n'
        '{"answer": "x=7\\n#### 7", "prompt": "3+4=", "source": {"book": 1}, "level": 2, "id": "b"}\n'
    )
    assert read_rows(path) == [
        Row("2+3=", {"answer": "5", "difficulty": "easy"}, "train.jsonl:1"),
        Row("3+4=", {"answer": "x=7\n#### 7", "source": {"book": 1}, "level": 2, "id": "b"}, "train.jsonl:2"),
    ]


def test_blank_lines_are_skipped_but_counted(path: Path) -> None:
    path.write_text(f"\n{GOOD}\n   \n\t\r\n{GOOD}\n\n")
    assert [row.id for row in read_rows(path)] == ["train.jsonl:2", "train.jsonl:5"]


@pytest.mark.parametrize("content", [GOOD, GOOD + "\n", GOOD + "\r\n", "\ufeff" + GOOD])
def test_line_ends_and_byte_order_marks_do_not_matter(path: Path, content: str) -> None:
    path.write_bytes(content.encode())
    assert read_jsonl(str(path)) == [Row("2+3=", {"answer": "5"}, "train.jsonl:1")]


def test_only_newlines_end_a_row(path: Path) -> None:
    path.write_text(json.dumps({"prompt": "a\u2028b\u0085c", "answer": "5"}, ensure_ascii=False), encoding="utf-8")
    assert [row.prompt for row in read_rows(path)] == ["a\u2028b\u0085c"]


def test_duplicate_prompts_and_unicode_are_fine(path: Path) -> None:
    row = '{"prompt": "２ − 3 🙂 \\ud83d\\ude42", "answer": "−1"}\n'
    path.write_text(row * 2, encoding="utf-8")
    assert [(r.prompt, r.columns["answer"]) for r in read_rows(path)] == [("２ − 3 🙂 🙂", "−1")] * 2


@pytest.mark.parametrize("number", ["5", "-5", "0.10", "5.0", "1e3", "12345678901234567890.123456789", "1" * 4000])
def test_a_number_as_answer_is_kept_as_it_is_written(path: Path, number: str) -> None:
    path.write_text(f'{{"prompt": "p", "answer": {number}, "level": 2}}')
    assert read_rows(path)[0].columns == {"answer": number, "level": 2}


def test_which_keys_are_required_is_the_callers_choice(path: Path) -> None:
    path.write_text('{"prompt": "p"}')
    assert read_rows(path, required=("prompt",)) == [Row("p", {}, "train.jsonl:1")]
    with pytest.raises(DataError, match="'tests' is missing"):
        read_rows(path, required=("prompt", "tests"))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"prompt": "2+3=", "ans', '{"prompt": "2+3=", "ans\' is not valid JSON: Unterminated string'),
        ('{"prompt": "p", "answer": "5"} {"prompt": "q"}', "is not valid JSON: Extra data at column 32"),
        ("{'prompt': 'p'}", "is not valid JSON"),
        ('{"prompt": "p", "answer": NaN}', "is not valid JSON: NaN is not a JSON number"),
        ('{"prompt": "p", "answer": -Infinity}', "-Infinity is not a JSON number"),
        ('{"prompt": "p", "answer": %s}' % ("1" * 5000), "is not valid JSON: Exceeds the limit"),
        ("[" * 100_000, "is not valid JSON"),
        ("5", "'5' is not an object"),
        ('"text"', "is not an object"),
        ('["prompt", "answer"]', "is not an object"),
        ("null", "'null' is not an object"),
        ('{"answer": "5"}', "'prompt' is missing; the row has 'answer'"),
        ('{"prompt": "p", "gold": "5"}', "'answer' is missing; the row has 'prompt', 'gold'"),
        ("{}", "'prompt' is missing; the row has no keys"),
        ('{"prompt": "", "answer": "5"}', "'prompt' is ''; write a text that is not empty"),
        ('{"prompt": " \\n", "answer": "5"}', r"'prompt' is ' \n'; write a text that is not empty"),
        ('{"prompt": null, "answer": "5"}', "'prompt' is None"),
        ('{"prompt": 5, "answer": "5"}', "'prompt' is 5"),
        ('{"prompt": [{"role": "user"}], "answer": "5"}', "'prompt' is [{'role': 'user'}]"),
        ('{"prompt": "p", "answer": null}', "'answer' is None; write a text or a number"),
        ('{"prompt": "p", "answer": true}', "'answer' is True; write a text or a number"),
        ('{"prompt": "p", "answer": ["5"]}', "'answer' is ['5']"),
        ('{"prompt": "p", "answer": {"a": 5}}', "'answer' is {'a': 5}"),
        ('{"prompt": "p", "answer": "5", "difficulty": "Easy"}', "'difficulty' is 'Easy'; choose easy, medium, hard"),
        ('{"prompt": "p", "answer": "5", "difficulty": 3}', "'difficulty' is 3; choose easy, medium, hard"),
        ('{"prompt": "p", "answer": "5", "difficulty": null}', "'difficulty' is None; choose easy"),
        ('{"prompt": "p", "answer": "5", "difficulty": ["easy"]}', "'difficulty' is ['easy']; choose easy"),
        ('{"prompt": "p", "answer": "5", "completions": 1}', "'completions' is 1; reward functions"),
        ('{"prompt": "a\\u0000b", "answer": "5"}', r"'prompt' is 'a\x00b'; it holds a NUL character"),
        ('{"prompt": "p", "answer": "\\u0000"}', r"'answer' is '\x00'; it holds a NUL character"),
        ('{"prompt": "p", "answer": "5", "\\u0000": 1}', r"'\x00' is 1; it holds a NUL character"),
        ("\0" * 100, r"\x00\x00' holds NUL characters"),
        ('{"prompt": "a\\ud800", "answer": "5"}', r"'prompt' is 'a\ud800'; it holds half of a surrogate pair"),
    ],
    ids=lambda value: ascii(value[:40]),
)
def test_a_bad_row_is_named_with_line_key_and_value(path: Path, line: str, named: str) -> None:
    message = refused(path, f"{GOOD}\n\n{line}\n")
    assert "1 of 2 rows cannot be used" in message and "line 3: " in message and named in message
    assert len(message) < 1000


def test_invalid_utf_8_is_named(path: Path) -> None:
    message = refused(path, GOOD.encode() + b'\n{"prompt": "\xff", "answer": "5"}')
    assert "line 2: " in message and "is not UTF-8 at byte 13; save the file as UTF-8" in message
    assert "line 1: " in (message := refused(path, GOOD.encode("utf-16"))) and "is not UTF-8 at byte 1;" in message


def test_the_first_five_bad_rows_are_listed_with_the_total(path: Path) -> None:
    message = refused(path, "\n".join(GOOD if n == 2 else f'{{"prompt": "p", "bad": {n}}}' for n in range(1, 10)))
    assert "8 of 9 rows cannot be used" in message and "and 3 more" in message
    assert [n for n in range(1, 10) if f"line {n}: " in message] == [1, 3, 4, 5, 6]


@pytest.mark.parametrize("content", ["", "\n", "\n  \n\r\n", "\ufeff"])
def test_a_file_without_rows(path: Path, content: str) -> None:
    assert "the file has no rows" in refused(path, content)


def test_a_missing_file_names_its_neighbours(path: Path) -> None:
    assert "there is no such file; choose a file that ends in .jsonl" in refused(path)
    (path.parent / "val.jsonl").write_text(GOOD)
    assert f"there is no such file; {path.parent} has: val.jsonl" in refused(path)
    assert "there is no such file" in refused(path.parent / "no_folder" / "a.jsonl")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "val.jsonl").write_text(GOOD)
    assert f"this is a directory, not a file; {tmp_path} has: val.jsonl" in refused(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(DataError, match="this is a directory"):
        read_jsonl(tmp_path / "folder.jsonl")


def test_a_file_without_permission(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)  # root may read everything, so a real file would not do
    assert "cannot be read: Permission denied" in refused(path)


@pytest.mark.parametrize("name", ["train.parquet", "train.json", "train.csv", "train"])
def test_an_unsupported_format_names_the_supported_ones(tmp_path: Path, name: str) -> None:
    assert "is not supported; choose a file that ends in .jsonl" in refused(tmp_path / name)


def test_a_large_file_is_read_quickly(path: Path) -> None:
    path.write_text((GOOD + "\n") * 20_000 + json.dumps({"prompt": "x" * 1_000_000, "answer": 5}) + "\n")
    start = time.perf_counter()
    assert len(read_rows(path)) == 20_001
    assert time.perf_counter() - start < 5.0  # takes 0.2 s
