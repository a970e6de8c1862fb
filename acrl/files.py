"""Write a file so that a reader sees the old content or the new, never a part of it."""

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_text(path: str | Path, text: str) -> None:
    """Put `text` (UTF-8, newlines as given) at `path` atomically: a temporary file beside it, fsync, rename.

    Missing parent directories are made. A failure removes the temporary file and leaves what was at `path`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put one JSON object a line at `path` atomically; NaN and infinity are a ValueError, since JSON has neither."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows))
