"""What a reward is made of, as configured: functions, weights and the scale of their sum."""

import math
from dataclasses import dataclass, field
from typing import Any

from acrl.errors import ConfigError, excerpt

VALID_NAMES = "choose 'numeric', 'format' or 'path/to/file.py:function'"


@dataclass(frozen=True)
class RewardFunction:
    """One reward function and its share in the total.

    Raises: ConfigError for an empty name, a weight that is not finite, or a maximum that is not finite and above 0.
    """

    name: str
    """`numeric`, `format`, or `path/to/file.py:function` (relative to the current directory)."""

    weight: float = 1.0
    """Factor of the score in the total. 0 logs the score without using it; a negative weight makes it a penalty."""

    maximum: float = 1.0
    """Score of a fully right answer."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the function, e.g. `pattern` for `format`."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"reward function: name is {excerpt(self.name)}; {VALID_NAMES}")
        for key in ("weight", "maximum"):
            if not _is_finite(getattr(self, key)):
                value = excerpt(getattr(self, key))
                raise ConfigError(f"reward function {self.name!r}: {key} is {value}; give a finite number")
        if self.maximum <= 0:
            raise ConfigError(
                f"reward function {self.name!r}: maximum is {self.maximum}; it is the score of a fully right answer "
                "and must be above 0 (for a penalty, make the weight negative)"
            )
        if not isinstance(self.kwargs, dict) or not all(isinstance(key, str) for key in self.kwargs):
            raise ConfigError(
                f"reward function {self.name!r}: kwargs is {excerpt(self.kwargs)}; give names with values"
            )


@dataclass(frozen=True)
class RewardScale:
    """The interval the total is mapped to. Raises: ConfigError unless low < high, both finite."""

    low: float = 0.0
    """Total of a completion that earns nothing."""

    high: float = 1.0
    """Total of a fully right completion."""

    def __post_init__(self) -> None:
        if not (_is_finite(self.low) and _is_finite(self.high) and self.low < self.high):
            raise ConfigError(
                f"reward scale: low is {excerpt(self.low)} and high is {excerpt(self.high)}; "
                "both must be finite and low must be below high, e.g. low: -1, high: 1"
            )


@dataclass(frozen=True)
class RewardSpec:
    """The reward of a run: a weighted sum of functions, optionally mapped to a scale.

    Raises: ConfigError without functions, or when every weight is 0 (all completions would get the same reward).
    """

    functions: list[RewardFunction] = field(default_factory=lambda: [RewardFunction("numeric")])
    """The functions in order; the first is the verifier, whose verdict is the accuracy."""

    scale: RewardScale | None = None
    """Where the total is mapped to; None leaves the weighted sum as it is."""

    def __post_init__(self) -> None:
        if not self.functions:
            raise ConfigError(f"reward: functions is empty; {VALID_NAMES}")
        if all(function.weight == 0 for function in self.functions):
            raise ConfigError(
                "reward: every weight is 0, so nothing can be learned; give one function a weight above 0"
            )

    @property
    def raw_range(self) -> tuple[float, float]:
        """(Σ weight·maximum over negative weights, the same over positive weights): the span of the weighted sum."""
        tops = [function.weight * function.maximum for function in self.functions]
        return sum((top for top in tops if top < 0), 0.0), sum((top for top in tops if top > 0), 0.0)

    @property
    def range(self) -> tuple[float, float]:
        """(low, high) of the total for scores between 0 and each function's maximum. Nothing is clamped to it."""
        return self.raw_range if self.scale is None else (self.scale.low, self.scale.high)

    def rescale(self, raw: float) -> float:
        """The total for a weighted sum `raw`: low + (high − low)·(raw − raw_low)/(raw_high − raw_low), or `raw` itself.

        Without negative weights raw_low is 0 and this is low + (high − low)·Σ weight·score / Σ weight·maximum.
        """
        if self.scale is None:
            return raw
        raw_low, raw_high = self.raw_range
        return self.scale.low + (self.scale.high - self.scale.low) * (raw - raw_low) / (raw_high - raw_low)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
