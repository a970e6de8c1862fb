import math

import pytest
import torch

from acrl.functional import kl_estimate


def both(logprob, ref_logprob, estimator, dtype=torch.float64):
    logprobs = torch.tensor([[logprob]], dtype=dtype, requires_grad=True)
    kl = kl_estimate(logprobs, torch.tensor([[ref_logprob]], dtype=dtype), estimator)
    kl.sum().backward()
    assert logprobs.grad is not None
    return kl.item(), logprobs.grad.item()


# Case 17, L = −1 − (−1.5) = .5: k1 = .5, k2 = .125, k3 = e^−.5 − 1 + .5 = .60653 − .5; gradients 1, L, 1 − e^−L.
@pytest.mark.parametrize(
    ("estimator", "expected"), [("k1", (0.5, 1.0)), ("k2", (0.125, 0.5)), ("k3", (0.106531, 0.393469))]
)
def test_values_and_gradients(estimator, expected):
    assert both(-1.0, -1.5, estimator) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-99.9, -1e4, 1e4])
def test_k3_is_finite_far_from_the_reference(log_ratio, dtype):
    # L is held at ±20: e²⁰ − 1 − 20 = 485,165,174.4 or e^−20 − 1 + 20 = 19; a cap of 10 on k3 is verl's, not ours.
    value, gradient = both(log_ratio, 0.0, "k3", dtype)
    assert value == pytest.approx(485165174.41 if log_ratio < 0 else 19.0)
    assert gradient == 0


def test_k3_is_not_clamped_within_the_limit():
    # L = −15: e¹⁵ − 1 − 15 = 3,269,001.37; gradient 1 − e¹⁵.
    assert both(-15.0, 0.0, "k3") == pytest.approx((3269001.37, -3269016.37), rel=1e-8)


def test_k1_and_k2_are_not_clamped():
    assert both(-100.0, -0.1, "k1") == pytest.approx((-99.9, 1.0))
    assert both(-100.0, -0.1, "k2") == pytest.approx((4990.005, -99.9))  # ½·99.9²


def test_k3_is_never_negative():
    # Case 12. In float32, exp(−L) − 1 + L is −6e-8 for many small L.
    signs = torch.tensor([1.0, -1.0])[:, None]
    scales = 2.0 ** torch.arange(-36, 4)[:, None, None]
    log_ratios = scales * signs * torch.rand(200, generator=torch.Generator().manual_seed(0))
    assert (kl_estimate(log_ratios, torch.zeros(()), "k3") >= 0).all()


def test_k3_keeps_its_digits_near_the_reference():
    # L = 1e-3 in float32: ½L² − L³/6 = 5e-7 − 1.67e-10.
    assert both(1e-3, 0.0, "k3", torch.float32)[0] == pytest.approx(4.99833e-7, rel=1e-3)


# Case 18: π = (.5, .3, .2), π_ref = (.2, .3, .5), L = (ln 2.5, 0, ln .4) = (.91629, 0, −.91629).
#   KL = .5·.91629 − .2·.91629 = .27489. Reverse-KL gradient in logits π·(L − KL): .5·.64140, −.3·.27489, −.2·1.19118.
#   k3 gives π − π_ref, k1 nothing.
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [("k1", [0.0, 0.0, 0.0]), ("k2", [0.32070, -0.08247, -0.23824]), ("k3", [0.3, 0.0, -0.3])],
)
def test_expected_gradient_as_a_loss(estimator, expected):
    policy, reference = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    logits = policy.log().requires_grad_()
    (policy * kl_estimate(logits.log_softmax(0), reference.log(), estimator)).sum().backward()
    torch.testing.assert_close(logits.grad, torch.tensor(expected).double(), atol=1e-5, rtol=0)


# papers.md §5: x ~ q = N(0, 1), p = N(m, 1), KL = m²/2; bias and standard deviation in units of the true KL.
@pytest.mark.parametrize(
    ("mean", "estimator", "bias", "deviation"),
    [
        (0.1, "k1", 0, 20.0),
        (0.1, "k2", 0.0025, 1.42),
        (0.1, "k3", 0, 1.42),
        (1.0, "k1", 0, 2.0),
        (1.0, "k2", 0.25, 1.73),
        (1.0, "k3", 0, 1.70),
    ],
)
def test_schulmans_table(mean, estimator, bias, deviation):
    x = torch.linspace(-12, 12, 20_001, dtype=torch.float64)
    density = (-x.square() / 2).exp()
    density /= density.sum()
    kl = kl_estimate(-x.square() / 2, -(x - mean).square() / 2, estimator) / (mean**2 / 2)
    expectation = (density * kl).sum()
    assert expectation.item() - 1 == pytest.approx(bias, abs=1e-6)
    assert (density * (kl - expectation).square()).sum().sqrt().item() == pytest.approx(deviation, abs=0.006)


def test_the_reference_itself_is_at_distance_zero():
    logprobs = torch.tensor([[-0.3, -math.pi]])
    for estimator in ("k1", "k2", "k3"):
        assert kl_estimate(logprobs, logprobs.clone(), estimator).eq(0).all()


def test_unknown_estimator_is_named():
    with pytest.raises(ValueError, match=r"estimator is 'k4'.*k1, k2, k3"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")
