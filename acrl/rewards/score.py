"""Reading what a reward function returned: numbers out, or a ValueError that says what is wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Score:
    """One function's verdict on one completion."""

    score: float
    """Unweighted."""

    accuracy: float
    """1.0 or 0.0: the function's own `acc`, or whether the score reaches the maximum."""

    extras: dict[str, float] = field(default_factory=dict)
    """Further numbers the function reported."""


def read_results(returned: object, count: int) -> Sequence[Any]:
    """The results as a sequence of `count` items. Raises: ValueError for anything else.

    Lists and tuples, and arrays and tensors through `tolist()`; a text or a dict has a length too, but is no list.
    """
    results = returned.tolist() if hasattr(returned, "tolist") else returned
    if not isinstance(results, list | tuple):
        raise ValueError(f"returned {type(returned).__name__} instead of a list")
    if len(results) != count:
        raise ValueError(f"returned {len(results)} results for {count} completions")
    return results


def read_score(result: object, maximum: float) -> Score | None:
    """The verdict in one result: a number, None (not applicable), or a dict with `score`. Raises: ValueError."""
    if result is None:
        return None
    if not isinstance(result, dict):
        score = _number(result, "the score")
        return Score(score, _reaches(score, maximum))
    if "score" not in result:
        raise ValueError("the dict has no 'score'")
    score = _number(result["score"], "'score'")
    accuracy = _number(result["acc"], "'acc'") if "acc" in result else _reaches(score, maximum)
    if accuracy not in (0.0, 1.0):
        raise ValueError("'acc' is neither 0 nor 1")
    extras = {str(key): _number(value, f"{key!r}") for key, value in result.items() if key not in ("score", "acc")}
    return Score(score, accuracy, extras)


def _reaches(score: float, maximum: float) -> float:
    return float(score >= maximum - TOLERANCE)


def _number(value: Any, what: str) -> float:
    """`value` as a finite float; also a bool, a numpy number or a tensor of one element."""
    if not isinstance(value, Real) and hasattr(value, "item"):
        try:
            value = value.item()
        except (RuntimeError, ValueError):  # a tensor or an array of several elements
            pass
    if not isinstance(value, Real):
        raise ValueError(f"{what} is {type(value).__name__}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{what} is not finite")
    return number
