"""The format reward: the whole completion matches, or it earns nothing."""

import pytest

from acrl.errors import ConfigError
from acrl.rewards import Reward, RewardFunction, RewardSpec
from acrl.rewards.pattern import format


@pytest.mark.parametrize(
    ("pattern", "completion", "expected"),
    [
        ("[0-9]+", "18", 1.0),
        ("[0-9]+", "18 ", 0.0),
        ("[0-9]+", "x18", 0.0),
        ("[0-9]+", "", 0.0),
        (".*#### [0-9]+", "line one\nline two\n#### 18", 1.0),
        (".*#### [0-9]+", "#### 18\n", 0.0),
        # case 75: the template has opened the tag already, the completion closes it
        ("(<think>\n)?.*</think>.*", "a</think> 4", 1.0),
        ("<think>.*</think>.*", "a</think> 4", 0.0),
        ("x.y", "x\0y", 1.0),
        ("−?[0-9]", "−5", 1.0),
    ],
)
def test_format(pattern: str, completion: str, expected: float) -> None:
    assert format(["p"], [completion], pattern) == [expected]


def test_each_completion_is_judged_alone() -> None:
    assert format(["p"] * 3, ["1", "a", "2"], "[0-9]", difficulty=["easy"] * 3) == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{99999999999999999999}", "(?P<n>a)(?P<n>b)", 7, None])
def test_a_bad_pattern_is_refused_when_loaded(pattern: object) -> None:
    spec = RewardSpec([RewardFunction("format", kwargs={"pattern": pattern})])
    with pytest.raises(ConfigError) as raised:
        Reward(spec)
    assert "'format'" in str(raised.value) and repr(pattern) in str(raised.value)


def test_a_missing_pattern_is_refused_when_loaded() -> None:
    with pytest.raises(ConfigError, match=r"kwargs\.pattern"):
        Reward(RewardSpec([RewardFunction("format")]))


def test_the_configured_pattern_wins_over_a_column_of_that_name() -> None:
    reward = Reward(RewardSpec([RewardFunction("format", kwargs={"pattern": "a"})]))
    assert reward(["p"], ["a"], [{"pattern": "b"}]).total == [1.0]
