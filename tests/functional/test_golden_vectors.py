"""Outputs and gradients of verl and ROLL on random inputs (tests/vectors/vectors.json says which), to 1e-6."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from acrl.functional import (
    clip_fractions,
    clipped_surrogate,
    gae,
    group_advantages,
    kl_estimate,
    masked_whiten,
    soft_overlong_penalty,
    token_weights,
    value_loss,
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "vectors.json").read_text())


def cases(name: str) -> Any:
    return pytest.mark.parametrize("case", VECTORS[name], ids=[f"{name}{i}" for i in range(len(VECTORS[name]))])


def tensor(case: dict[str, Any], key: str, requires_grad: bool = False) -> Tensor:
    return torch.tensor(case[key], dtype=torch.float64, requires_grad=requires_grad)


def assert_near(actual: Tensor, expected: Any) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=1e-6)


@cases("gae")
def test_gae(case):
    mask = tensor(case, "response_mask")
    advantages, returns = gae(
        tensor(case, "token_rewards"), tensor(case, "values"), mask, gamma=case["gamma"], lam=case["lam"]
    )
    assert_near(advantages, case["advantages"])
    assert_near(returns, case["returns"])
    assert_near(masked_whiten(advantages, mask), case["whitened_advantages"])


@cases("group_advantages")
def test_group_advantages(case):
    for name, expected in case["out"].items():
        baseline, scale = name.split("|")
        assert_near(
            group_advantages(tensor(case, "rewards"), torch.tensor(case["group_ids"]), baseline, scale), expected
        )


@cases("policy_loss")
def test_policy_loss(case):
    logprobs, old_logprobs = tensor(case, "logprobs", requires_grad=True), tensor(case, "old_logprobs")
    advantages, mask = tensor(case, "advantages"), tensor(case, "response_mask")
    clip = case["clip_low"], case["clip_high"]
    weights = token_weights(mask, case["aggregation"], case["max_response_length"])
    loss = (weights * clipped_surrogate(logprobs, old_logprobs, advantages, *clip, case["dual_clip"])).sum()
    loss.backward()
    assert_near(loss.detach(), case["loss"])
    assert_near(logprobs.grad, case["grad_logprobs"])
    low, high = clip_fractions(logprobs.detach(), old_logprobs, advantages, mask, *clip)
    assert_near(low + high, case["clip_fraction"])


@cases("value_loss")
def test_value_loss(case):
    values = tensor(case, "values", requires_grad=True)
    per_token = value_loss(values, tensor(case, "old_values"), tensor(case, "returns"), case["value_clip"])
    loss = (token_weights(tensor(case, "response_mask"), "token_mean") * per_token).sum()
    loss.backward()
    assert_near(loss.detach(), case["loss"])
    assert_near(values.grad, case["grad_values"])


@cases("kl")
def test_kl(case):
    logprobs = tensor(case, "logprobs", requires_grad=True)
    out = kl_estimate(logprobs, tensor(case, "ref_logprobs"), case["estimator"])
    out.sum().backward()
    assert_near(out.detach(), case["out"])
    assert_near(logprobs.grad, case["grad_of_sum"])


@cases("masked_whiten")
def test_masked_whiten(case):
    assert_near(masked_whiten(tensor(case, "x"), tensor(case, "mask"), case["shift_mean"]), case["out"])


@cases("soft_overlong")
def test_soft_overlong(case):
    lengths = torch.tensor(case["lengths"])
    penalty = soft_overlong_penalty(lengths, case["max_response_length"], case["buffer"], case["coef"])
    assert_near(penalty.double(), case["out"])
