"""The reward of a batch: calls the functions, checks what they return, sums it up.

Nothing is swallowed: whatever a function does wrong becomes a RewardError that names function, row and completion.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acrl.errors import RewardError, excerpt
from acrl.rewards.load import LoadedFunction, load_functions
from acrl.rewards.score import Score, read_results, read_score
from acrl.rewards.spec import RewardSpec

ADVICE = "Return one finite number, None (not applicable) or dict with a 'score' per completion, in their order."
SEARCH_SECONDS = 10.0


@dataclass(frozen=True)
class RewardResult:
    """Rewards of a batch, row by row. What is logged are these very numbers; nothing is computed twice."""

    total: list[float]
    """Σ weight·score, mapped to the scale."""

    accuracy: list[float]
    """1.0 where the first function finds the completion right, else 0.0 (also where it returns None)."""

    parts: dict[str, list[float | None]]
    """Unweighted score of each function; None where it does not apply: leave those rows out of a mean."""

    extras: dict[str, list[float | None]]
    """Further numbers the functions reported, as `function/key`; None where absent."""


class Reward:
    """A configured reward: `reward(prompts, completions, columns) -> RewardResult`.

        total = Σ weight·score     (a function that returns None adds nothing; see RewardSpec.rescale for the scale)

    Raises: ConfigError when a function cannot be loaded.
    """

    def __init__(self, spec: RewardSpec) -> None:
        self.spec = spec
        self._functions = load_functions(spec.functions)

    @property
    def range(self) -> tuple[float, float]:
        """(low, high) of the total for scores between 0 and each function's maximum."""
        return self.spec.range

    @property
    def parts(self) -> list[str]:
        """The keys of `RewardResult.parts`, in order."""
        return [function.part for function in self._functions]

    @property
    def required_columns(self) -> list[str]:
        """The data columns some function cannot do without: check the rows for them before a model is loaded."""
        return sorted({column for function in self._functions for column in function.required_columns})

    def __call__(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        columns: Sequence[dict[str, Any]],
        ids: Sequence[str] = (),
    ) -> RewardResult:
        """Rewards of `completions`; `columns[i]` holds the other columns of the data row behind completion i, and
        `ids[i]`, where given, names that row in errors.

        Raises: RewardError when a function raises, returns the wrong number of results or something that is not a
        finite number, or when no function applies to a row. ValueError when the three arguments differ in length.
        """
        batch = _Batch.of(prompts, completions, columns, ids)
        scores = [_score(function, batch) for function in self._functions]
        return RewardResult(
            total=[self._total(batch, row, [of_function[row] for of_function in scores]) for row in range(len(batch))],
            accuracy=[score.accuracy if score else 0.0 for score in scores[0]],
            parts={
                function.part: [score.score if score else None for score in of_function]
                for function, of_function in zip(self._functions, scores, strict=True)
            },
            extras=_extras(self.parts, scores),
        )

    def _total(self, batch: "_Batch", row: int, scores: list[Score | None]) -> float:
        given = [(f.spec.weight, score.score) for f, score in zip(self._functions, scores, strict=True) if score]
        total = self.spec.rescale(sum(weight * score for weight, score in given))
        if given and math.isfinite(total):
            return total
        who = "reward functions " + ", ".join(repr(function.spec.name) for function in self._functions)
        if not given:
            advice = "At least one function must apply to every completion; return 0 where there is nothing to reward."
            raise batch.error(who, row, "every function returned None", None, advice)
        raise batch.error(who, row, "the weighted sum is not finite", total, "Keep scores and weights smaller.")


@dataclass(frozen=True)
class _Batch:
    """The keyword arguments of a reward function."""

    prompts: list[str]
    completions: list[str]
    columns: dict[str, list[Any]]
    ids: list[str]

    @classmethod
    def of(
        cls, prompts: Sequence[str], completions: Sequence[str], rows: Sequence[dict[str, Any]], ids: Sequence[str]
    ) -> "_Batch":
        if not len(prompts) == len(completions) == len(rows):
            raise ValueError(f"{len(prompts)} prompts, {len(completions)} completions, {len(rows)} rows of columns")
        keys = dict.fromkeys(key for row in rows for key in row)
        columns = {key: [row.get(key) for row in rows] for key in keys}
        return cls(list(prompts), list(completions), columns, list(ids))

    def __len__(self) -> int:
        return len(self.prompts)

    def row(self, row: int) -> "_Batch":
        columns = {key: [values[row]] for key, values in self.columns.items()}
        return _Batch([self.prompts[row]], [self.completions[row]], columns, self.ids[row : row + 1])

    def call(self, function: LoadedFunction) -> object:
        """What the function returns. It gets lists of its own; where a column and one of its kwargs share a name, the
        configuration wins."""
        columns = {key: list(values) for key, values in self.columns.items() if key not in function.spec.kwargs}
        return function.call(prompts=list(self.prompts), completions=list(self.completions), **columns)

    def error(self, who: str, row: int | None, problem: str, value: object, advice: str) -> RewardError:
        """The error for one row, or for all of them together (None), where the first stands for the rest."""
        together = row is None and len(self) > 1
        where = f"rows 0 to {len(self) - 1}" if together else f"row {row or 0} of {len(self)}"
        if self.ids and not together:
            where += f" ({self.ids[row or 0]})"
        return RewardError(
            f"{who}, {where} in the batch: {problem}\n"
            f"  value: {excerpt(value)}\n"
            f"  prompt: {excerpt(self.prompts[row or 0])}\n"
            f"  completion: {excerpt(self.completions[row or 0])}\n"
            f"  {advice}"
        )


def _score(function: LoadedFunction, batch: _Batch) -> list[Score | None]:
    """One function's verdicts, row by row. Raises: RewardError."""
    if not len(batch):  # functions of users need not know about empty batches
        return []
    who = f"reward function {function.spec.name!r}"
    returned = _call(function, batch, who)
    try:
        results = read_results(returned, len(batch))
    except ValueError as error:
        raise batch.error(who, None, str(error), returned, ADVICE) from error
    scores = []
    for row, result in enumerate(results):
        try:
            scores.append(read_score(result, function.spec.maximum))
        except ValueError as error:
            raise batch.error(who, row, str(error), result, ADVICE) from error
    return scores


def _call(function: LoadedFunction, batch: _Batch, who: str) -> object:
    """What the function returns for the batch. Raises: RewardError, caused by what the function raised."""
    missing = [column for column in function.required_columns if column not in batch.columns]
    if missing:
        problem = f"it needs the column {missing[0]!r}, which no data row has"
        columns = {key: values[0] for key, values in batch.columns.items()}
        raise batch.error(who, None, problem, columns, "Add it to the data, or give it in the function's kwargs.")
    try:
        return batch.call(function)
    except (Exception, SystemExit) as error:
        row = _failing_row(function, batch)
        problem = f"raised {type(error).__name__}: {excerpt(str(error))[1:-1]}"
        advice = "Correct the function: a completion may be any text, so it should give 0 or None instead of raising."
        if row is None:
            problem += " (no row was found that fails alone)"
        raise batch.error(who, row, problem, error, advice) from error


def _failing_row(function: LoadedFunction, batch: _Batch) -> int | None:
    """The first row that makes the function raise on its own, or None; a slow function is not searched to the end."""
    deadline = time.monotonic() + SEARCH_SECONDS
    for row in range(len(batch)):
        try:
            batch.row(row).call(function)
        except (Exception, SystemExit):
            return row
        if time.monotonic() > deadline:
            break
    return None


def _extras(parts: list[str], scores: list[list[Score | None]]) -> dict[str, list[float | None]]:
    extras: dict[str, list[float | None]] = {}
    for part, of_function in zip(parts, scores, strict=True):
        for key in dict.fromkeys(key for score in of_function if score for key in score.extras):
            extras[f"{part}/{key}"] = [score.extras.get(key) if score else None for score in of_function]
    return extras
