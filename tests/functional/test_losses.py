import math

import pytest
import torch

from acrl.functional import clipped_surrogate, value_loss


def surrogate(ratio, advantage, clip_low=0.2, clip_high=0.2, dual_clip=None):
    logprobs = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    loss = clipped_surrogate(
        logprobs, torch.zeros(1, 1), torch.tensor([[advantage]]), clip_low, clip_high, dual_clip=dual_clip
    )
    loss.sum().backward()
    assert logprobs.grad is not None
    return loss.item(), logprobs.grad.item()


# −min(ρA, clip(ρ)A); where the clipped branch wins the gradient is 0, else −A·ρ.
@pytest.mark.parametrize(
    ("ratio", "advantage", "clip", "loss", "gradient"),
    [
        (1.25, 1.0, (0.2, 0.28), -1.25, -1.25),  # case 22: below 1.28
        (1.25, 1.0, (0.2, 0.2), -1.2, 0.0),  # above 1.2
        (1.5, 1.0, (0.2, 0.28), -1.28, 0.0),
        (0.75, -1.0, (0.2, 0.28), 0.8, 0.0),  # case 22: 1 − .2 = .8
        (0.85, -1.0, (0.2, 0.28), 0.85, 0.85),
        (0.75, 1.0, (0.2, 0.2), -0.75, -0.75),  # A > 0 is not clipped below
        (1.5, -1.0, (0.2, 0.2), 1.5, 1.5),  # A < 0 is not clipped above
        (1.5, 0.0, (0.2, 0.2), 0.0, 0.0),
        (0.65, -2.0, (0.3, 0.2), 1.4, 0.0),  # clip_low alone: 2·.7
    ],
)
def test_clipped_surrogate(ratio, advantage, clip, loss, gradient):
    assert surrogate(ratio, advantage, *clip) == pytest.approx((loss, gradient))


# Case 21.
@pytest.mark.parametrize(
    ("ratio", "advantage", "dual_clip", "loss", "gradient"),
    [
        (1000, -1.0, None, 1000, 1000),
        (1000, -1.0, 3.0, 3, 0),
        (1000, -2.0, 3.0, 6, 0),
        (2.0, -1.0, 3.0, 2, 2),
        (1000, 1.0, 3.0, -1.2, 0),
        (1000, 1.0, None, -1.2, 0),
    ],
)
def test_dual_clip(ratio, advantage, dual_clip, loss, gradient):
    assert surrogate(ratio, advantage, dual_clip=dual_clip) == pytest.approx((loss, gradient))


@pytest.mark.parametrize("dual_clip", [0.5, 1.0, -3.0, math.nan])
def test_dual_clip_must_exceed_one(dual_clip):
    with pytest.raises(ValueError, match=r"dual_clip is .* above 1"):
        surrogate(1.0, -1.0, dual_clip=dual_clip)


@pytest.mark.parametrize("log_ratio", [100.0, 1e4, -100.0])
def test_huge_ratios_stay_finite(log_ratio):
    logprobs = torch.tensor([[log_ratio]], requires_grad=True)
    loss = clipped_surrogate(logprobs, torch.zeros(1, 1), -torch.ones(1, 1), 0.2, 0.2)
    loss.sum().backward()
    # A = −1: ρ = e²⁰ at the upper bound; below, the clip holds 1 − .2.
    assert loss.item() == pytest.approx(math.exp(20) if log_ratio > 0 else 0.8)
    assert logprobs.grad is not None and logprobs.grad.item() == 0


def test_value_loss_without_clip():
    # ½·(2 − 0)² and ½·(1 − 4)²; the gradient is V − R.
    values = torch.tensor([[2.0, 1.0]], requires_grad=True)
    loss = value_loss(values, torch.full((1, 2), 50.0), torch.tensor([[0.0, 4.0]]))
    loss.sum().backward()
    torch.testing.assert_close(loss.detach(), torch.tensor([[2.0, 4.5]]))
    torch.testing.assert_close(values.grad, torch.tensor([[2.0, -3.0]]))


@pytest.mark.parametrize(
    ("value", "clip", "loss", "gradient"),
    [
        (2.0, 0.5, 2.0, 2.0),  # clipped to 1.5: max(4, 2.25)/2
        (0.2, 0.5, 0.125, 0.0),  # moved past the clip towards R: max(.04, .5²)/2, and no gradient
        (0.8, 0.5, 0.32, 0.8),  # inside
        (0.2, 0.0, 0.5, 0.0),  # a clip of 0 holds the old value; it is not "no clip"
        (0.2, None, 0.02, 0.2),
    ],
)
def test_value_loss_with_clip(value, clip, loss, gradient):
    # The old value is 1, the return 0.
    values = torch.tensor([[value]], dtype=torch.float64, requires_grad=True)
    out = value_loss(values, torch.ones(1, 1), torch.zeros(1, 1), clip)
    out.sum().backward()
    assert values.grad is not None
    assert (out.item(), values.grad.item()) == pytest.approx((loss, gradient))
