"""Settings under which sampled answers would not be the policy's own are refused, by name."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from acrl.errors import ConfigError
from acrl.spec import Sampling


@pytest.mark.parametrize(
    "field, value",
    [
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("max_response_length", 0),
        ("refill_rounds", 0),
        ("overlong_buffer", 0.0),
        ("overlong_buffer", 1.1),
        ("overlong_weight", 0.0),
        ("overlong_weight", math.nan),
    ],
)
def test_a_value_that_cannot_work_is_named(field, value):
    with pytest.raises(ConfigError, match=rf"sampling\.{field} is {value}"):
        Sampling(**{field: value})


def test_a_temperature_of_0_points_to_evaluation():
    with pytest.raises(ConfigError, match=r"eval\.temperature 0"):
        Sampling(temperature=0)


def test_there_is_no_truncation_of_the_distribution():
    assert not {field.name for field in fields(Sampling)} & {"top_p", "top_k", "min_p", "repetition_penalty"}
