"""Errors meant for the user, and the one way values are quoted in them.

The command line prints an `AcrlError` as one message without a traceback; anything else is a bug and keeps its own.
"""


class AcrlError(Exception):
    """Base of every error the user can act on: the message says what, where and what to do."""


class ConfigError(AcrlError, ValueError):
    """A configuration that cannot work; raised before a model is loaded."""


class DataError(AcrlError, ValueError):
    """A data file or row that cannot be used; names file, row, key and value."""


class RewardError(AcrlError, RuntimeError):
    """A reward function failed or returned something unusable; names function, row, prompt and completion."""


class Diverged(AcrlError, RuntimeError):
    """Training reached a non-finite number; nothing after it can be trusted."""


def list_problems(problems: list[str], shown: int = 5) -> str:
    """The first `shown` problems, one a line, indented; says so when there are more."""
    more = [f"… and {len(problems) - shown} more"] if len(problems) > shown else []
    return "".join(f"\n  {line}" for line in problems[:shown] + more)


def excerpt(value: object, limit: int = 200) -> str:
    """`value` quoted on one line: at most `limit` characters of it, control characters escaped. Never raises.

    Error messages carry model output into terminals and logs, which must not execute an escape sequence in it.
    """
    if isinstance(value, str):
        more = f"… ({len(value):,} characters)" if len(value) > limit else ""
        return repr(value[:limit]) + more
    try:
        text = repr(value)
    except Exception:  # a repr of foreign objects may fail; so does that of an integer of more than 4300 digits
        return f"<{type(value).__name__}>"
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:limit])
    return printable + ("…" if len(text) > limit else "")
