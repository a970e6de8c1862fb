"""Gold answers are checked against the verifier before a model is loaded: one it cannot read is never matched."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from acrl.errors import DataError, excerpt, list_problems
from acrl.rewards.numeric import check_gold
from acrl.rewards.spec import RewardSpec


class HasColumns(Protocol):
    """A data row, as far as rewards need one (`acrl.data.rows.Row`)."""

    @property
    def columns(self) -> dict[str, Any]: ...

    @property
    def id(self) -> str: ...


def check_golds(spec: RewardSpec, rows: Sequence[HasColumns], path: str | Path) -> None:
    """Raises: DataError that lists the first rows of `path` whose answer the built-in verifier `numeric` cannot read.

    Functions of users are not asked: what a gold answer means is theirs.
    """
    if not any(function.name == "numeric" for function in spec.functions):
        return
    problems = []
    for row in rows:
        answer = row.columns.get("answer")
        if reason := check_gold(answer):
            problems.append(f"{row.id}: 'answer' is {excerpt(answer)}; {reason}")
    if problems:
        raise DataError(
            f"{path}: the reward function 'numeric' cannot use {len(problems)} of {len(rows)} answers:"
            f"{list_problems(problems)}"
        )
