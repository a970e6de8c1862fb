import math

import pytest
import torch

from acrl.functional import approx_kl, clip_fractions, explained_variance, repetition_fraction

GARBAGE = [100.0, math.nan, math.inf]


# Returns 1, −1, 3, 1 vary by Σ(R − 1)² = 0 + 4 + 4 + 0 = 8.
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, -1, 3, 1], 1.0),
        ([6.0, 4, 8, 6], 1.0),  # a constant offset is bias, not unexplained variance
        ([9.0, 9, 9, 9], 0.0),
        ([0.0, -2, 2, 2], 0.625),  # R − V = 1, 1, 1, −1, mean .5: Σ = 3·.25 + 2.25 = 3; 1 − 3/8
        ([-1.0, 1, -3, -1], -3.0),  # R − V = 2R: 1 − 4
    ],
)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_explained_variance(values, expected, garbage):
    returns = torch.tensor([[1.0, -1, garbage], [3, 1, garbage]])
    predicted = torch.tensor([[*values[:2], garbage], [*values[2:], garbage]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    assert explained_variance(predicted, returns, mask).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("returns", [[0.1] * 6, [1.0] * 6, [1000, 1000.0009, 1000, 1000, 1000, 1000]])
def test_explained_variance_of_constant_returns_is_undefined(returns):
    # Case 92: never −∞; the caller leaves the point out.
    kept = torch.tensor([returns], dtype=torch.float64)
    assert explained_variance(torch.arange(6.0)[None], kept, torch.ones(1, 6)).isnan()


def test_explained_variance_needs_two_tokens():
    returns = torch.tensor([[1.0, 2.0]])
    assert explained_variance(returns, returns, torch.tensor([[1, 0]])).isnan()
    assert explained_variance(returns, returns, torch.tensor([[0, 0]])).isnan()


@pytest.mark.parametrize("garbage", GARBAGE)
def test_clip_fractions_look_at_signs(garbage):
    # ε .2/.28. Clipped: .7 with A < 0 (low), 1.3 with A > 0 (high). Not: .7 with A > 0, 1.25 with A > 0, 1.5 with
    # A < 0, 1.5 with A = 0, .85 with A < 0, and the padding. One of eight each.
    ratios = [0.7, 1.3, 0.7, 1.25, 1.5, 1.5, 0.85, 1.0]
    advantages = torch.tensor([[-1.0, 1, 1, 1, -1, 0, -1, 1, -1]])
    logprobs = torch.tensor([[*map(math.log, ratios), garbage]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1, 0]])
    fractions = clip_fractions(logprobs, torch.zeros(1, 9), advantages, mask, 0.2, 0.28)
    assert [fraction.item() for fraction in fractions] == [1 / 8, 1 / 8]
    # With .2 above, 1.25 is clipped too; with .4 below, .7 is not.
    fractions = clip_fractions(logprobs, torch.zeros(1, 9), advantages, mask, 0.4, 0.2)
    assert [fraction.item() for fraction in fractions] == [0, 2 / 8]


def test_approx_kl():
    # ρ = 2: 2 − 1 − ln 2 = .306853; ρ = ½: ½ − 1 + ln 2 = .193147; mean .25.
    logprobs = torch.tensor([[math.log(2), math.log(0.5), math.nan]])
    assert approx_kl(logprobs, torch.zeros(1, 3), torch.tensor([[1, 1, 0]])).item() == pytest.approx(0.25)
    assert approx_kl(logprobs, torch.zeros(1, 3), torch.tensor([[1, 0, 0]])).item() == pytest.approx(0.306853)


def test_on_policy_diagnostics_are_zero():
    logprobs, mask = -torch.rand(3, 4), torch.ones(3, 4)
    assert approx_kl(logprobs, logprobs.clone(), mask) == 0
    assert clip_fractions(logprobs, logprobs.clone(), torch.randn(3, 4), mask, 0.2, 0.2) == (0, 0)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 0.0),
        ([1, 2, 3, 4, 1, 2, 3, 4], 0.2),  # 1234 2341 3412 4123 1234: 1 of 5
        ([9] * 8, 0.8),  # five times 9999: 4 of 5
        ([1, 2] * 4, 0.6),  # 1212 2121 1212 2121 1212: 3 of 5
        ([1, 2, 3, 1, 2, 3, 9, 9], 0.0),  # 1231 2312 3123 1239 2399: repeated threes only
        ([149_999, 149_998, 149_997, 149_996, 149_999, 149_998, 149_997, 149_996], 0.2),
        ([7, 7, 7], 0.0),
        ([7], 0.0),
    ],
)
def test_repetition_of_one_response(tokens, expected):
    ids = torch.full((1, 12), 7)  # padding looks like a loop, and is not read
    ids[0, : len(tokens)] = torch.tensor(tokens)
    mask = torch.arange(12)[None] < len(tokens)
    assert repetition_fraction(ids, mask).item() == pytest.approx(expected)
    assert repetition_fraction(ids[:, : len(tokens)], mask[:, : len(tokens)]).item() == pytest.approx(expected)


def test_repetition_is_within_a_response_and_averaged_over_non_empty_ones():
    # Two responses share every 4-gram with each other and none with themselves; one loops (.8); one is empty.
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8]] * 2 + [[9] * 8] * 2)
    mask = torch.ones(4, 8)
    mask[3] = 0
    assert repetition_fraction(ids, mask).item() == pytest.approx(0.8 / 3)
    assert repetition_fraction(ids, torch.zeros(4, 8)) == 0
