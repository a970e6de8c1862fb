"""Reward configuration: what is refused, and the arithmetic of ranges and scales."""

import math

import pytest

from acrl.errors import AcrlError, ConfigError
from acrl.rewards import RewardFunction, RewardScale, RewardSpec


def test_the_default_is_the_numeric_verifier() -> None:
    assert RewardSpec() == RewardSpec([RewardFunction("numeric", weight=1.0, maximum=1.0, kwargs={})], scale=None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name is ''"),
        ({"name": None}, "name is None"),
        ({"name": "f", "weight": math.nan}, "'f': weight is nan"),
        ({"name": "f", "weight": math.inf}, "'f': weight is inf"),
        ({"name": "f", "weight": "1"}, "'f': weight is '1'"),
        ({"name": "f", "weight": True}, "'f': weight is True"),
        ({"name": "f", "maximum": 0.0}, "'f': maximum is 0.0"),
        ({"name": "f", "maximum": -1}, "'f': maximum is -1"),
        ({"name": "f", "maximum": math.inf}, "'f': maximum is inf"),
        ({"name": "f", "kwargs": [1]}, "'f': kwargs is [1]"),
        ({"name": "f", "kwargs": {1: 2}}, "'f': kwargs is {1: 2}"),
    ],
)
def test_a_bad_function_is_refused(fields: dict, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        RewardFunction(**fields)
    assert named in str(raised.value)


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (1.0, 1.0), (math.nan, 1.0), (0.0, math.inf), ("a", 1.0)])
def test_a_bad_scale_is_refused(low: float, high: float) -> None:
    with pytest.raises(ConfigError) as raised:
        RewardScale(low, high)
    assert f"low is {low!r} and high is {high!r}" in str(raised.value)


def test_a_reward_that_is_the_same_for_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="functions is empty"):
        RewardSpec([])
    with pytest.raises(ConfigError, match="every weight is 0"):
        RewardSpec([RewardFunction("numeric", weight=0.0)])


@pytest.mark.parametrize(
    ("weights_and_maxima", "scale", "expected"),
    [
        ([(1, 1)], None, (0.0, 1.0)),
        ([(0.75, 1), (0.25, 1)], None, (0.0, 1.0)),
        ([(2, 5), (0.5, 4)], None, (0.0, 12.0)),  # 2·5 + .5·4
        ([(1, 1), (-0.25, 2)], None, (-0.5, 1.0)),  # a penalty extends the low end
        ([(-1, 1)], None, (-1.0, 0.0)),
        ([(2, 5), (0.5, 4)], RewardScale(-1, 1), (-1.0, 1.0)),
        ([(1, 1), (-0.25, 2)], RewardScale(-1, 1), (-1.0, 1.0)),
    ],
)
def test_range(weights_and_maxima: list, scale: RewardScale | None, expected: tuple[float, float]) -> None:
    functions = [RewardFunction("f", weight=weight, maximum=maximum) for weight, maximum in weights_and_maxima]
    assert RewardSpec(functions, scale).range == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(0.0, -1.0), (12.0, 1.0), (6.0, 0.0), (3.0, -0.5), (18.0, 2.0)],  # −1 + 2·raw/12; nothing is clamped
)
def test_rescale(raw: float, expected: float) -> None:
    functions = [RewardFunction("f", 2.0, 5.0), RewardFunction("g", 0.5, 4.0)]
    assert RewardSpec(functions, RewardScale(-1.0, 1.0)).rescale(raw) == expected
    assert RewardSpec(functions).rescale(raw) == raw


@pytest.mark.parametrize(("raw", "expected"), [(-0.5, 0.0), (1.0, 3.0), (0.0, 1.0)])  # 0 + 3·(raw + .5)/1.5
def test_rescale_with_a_penalty_maps_the_whole_range(raw: float, expected: float) -> None:
    functions = [RewardFunction("f"), RewardFunction("g", weight=-0.25, maximum=2.0)]
    assert RewardSpec(functions, RewardScale(0.0, 3.0)).rescale(raw) == pytest.approx(expected)


def test_errors_are_for_the_user_and_stay_what_python_calls_them() -> None:
    assert issubclass(ConfigError, AcrlError) and issubclass(ConfigError, ValueError)
