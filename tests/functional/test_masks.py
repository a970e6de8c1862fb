import math

import pytest
import torch

from acrl.functional import masked_centre, masked_mean, masked_whiten, token_weights, zero_masked

AGGREGATIONS = ["token_mean", "sequence_mean", "constant"]
GARBAGE = [0.0, 100.0, math.nan, math.inf]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_masked_mean_reads_kept_positions_only(garbage):
    x = torch.tensor([[1.0, 2.0, garbage], [6.0, garbage, garbage]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert masked_mean(x, mask) == 3  # (1 + 2 + 6) / 3


def test_masked_mean_of_nothing_is_zero():
    assert masked_mean(torch.full((2, 3), math.nan), torch.zeros(2, 3)) == 0


def test_zero_masked_stops_the_gradient_too():
    x = torch.tensor([3.0, math.nan], requires_grad=True)
    squared = zero_masked(x, torch.tensor([1, 0])).square()
    squared.sum().backward()
    assert squared.tolist() == [9, 0]
    assert x.grad is not None and x.grad.tolist() == [6, 0]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_whitening_leaves_padding_out(garbage):
    # Mean 2, unbiased variance (1 + 0 + 1)/2 = 1. With five zeros the mean would be 6/8 = .75.
    x = torch.tensor([[1.0, 2.0, 3.0, *[garbage] * 5]])
    whitened = masked_whiten(x, torch.tensor([[1, 1, 1, 0, 0, 0, 0, 0]]))
    torch.testing.assert_close(whitened, torch.tensor([[-1.0, 0, 1, 0, 0, 0, 0, 0]]))
    assert whitened[0, 3:].eq(0).all()


def test_whitening_is_unbiased_and_over_the_whole_batch():
    # Rows that are constant on their own: mean 2, variance (1+1+1+1)/3, 1/√(4/3) = .8660 (biased would be 1).
    whitened = masked_whiten(torch.tensor([[1.0, 1.0], [3.0, 3.0]]), torch.ones(2, 2))
    torch.testing.assert_close(whitened, torch.tensor([[-0.8660254, -0.8660254], [0.8660254, 0.8660254]]))


def test_whitening_without_shifting_the_mean():
    # Mean 2, variance (4 + 0 + 4)/2 = 4: (x − 2)/2 + 2.
    whitened = masked_whiten(torch.tensor([[0.0, 2.0, 4.0, 9.0]]), torch.tensor([[1, 1, 1, 0]]), shift_mean=False)
    torch.testing.assert_close(whitened, torch.tensor([[1.0, 2.0, 3.0, 0.0]]))


def test_whitening_has_its_epsilon_inside_the_root():
    # Mean 1e-4, variance 2e-8: 1e-4/√(2e-8 + 1e-8) = 1/√3; an epsilon outside the root would give .7071.
    whitened = masked_whiten(torch.tensor([[0.0, 2e-4]], dtype=torch.float64), torch.ones(1, 2))
    torch.testing.assert_close(whitened, torch.tensor([[-1.0, 1.0]], dtype=torch.float64) / 3**0.5)


@pytest.mark.parametrize(("kept", "shift_mean", "expected"), [(1, True, 0.0), (1, False, 7.0), (0, True, 0.0)])
def test_whitening_fewer_than_two_values(kept, shift_mean, expected):
    mask = torch.tensor([[kept, 0, 0]])
    whitened = masked_whiten(torch.tensor([[7.0, 3.0, math.nan]]), mask, shift_mean)
    assert whitened.tolist() == [[expected, 0.0, 0.0]]


@pytest.mark.parametrize("value", [0.1, 0.7, 1000.1])
def test_equal_values_whiten_to_exactly_zero(value):
    # In float32 the mean of many .1 is not .1, and 1/√1e-8 = 1e4 would magnify the difference.
    mask = torch.ones(8, 125)
    mask[3, 20:] = 0
    x = torch.full((8, 125), value)
    assert masked_whiten(x, mask).eq(0).all()
    assert masked_centre(x, mask).eq(0).all()


# Case 38: response A has 2 tokens of loss 1, B has 8 tokens of loss 0, cap 10.
#   token_mean 2/10 · sequence_mean (1 + 0)/2 · constant 2/(2·10).
# peers.md §1.14: +1 on 2 tokens, −1 on 8, padded to 10, cap 20.
#   token_mean (2 − 8)/10 · sequence_mean (1 − 1)/2 · constant (2 − 8)/(2·20).
@pytest.mark.parametrize(
    ("losses", "cap", "expected"),
    [
        ((1.0, 0.0), 10, {"token_mean": 0.2, "sequence_mean": 0.5, "constant": 0.1}),
        ((1.0, -1.0), 20, {"token_mean": -0.6, "sequence_mean": 0.0, "constant": -0.15}),
    ],
)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_aggregations(losses, cap, expected, aggregation):
    mask = (torch.arange(10) < torch.tensor([[2], [8]])).double()
    loss = torch.tensor(losses, dtype=torch.float64)[:, None].expand(2, 10)
    total = (token_weights(mask, aggregation, cap) * loss).sum()
    assert total.item() == pytest.approx(expected[aggregation], abs=1e-12)


def test_ranks_with_unequal_token_counts():
    # Case 37: five tokens of loss 1 on one rank, one of loss 7 on the other: 12/6 = 2, not (1 + 7)/2 = 4.
    mask = (torch.arange(5) < torch.tensor([[5], [1]])).float()
    weights = token_weights(mask, "token_mean")
    rank_losses = weights[:1].sum() * 1, weights[1:].sum() * 7
    assert sum(rank_losses).item() == pytest.approx(2.0)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_an_empty_response_counts_for_nothing(aggregation):
    normal = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    with_empty = torch.cat([normal, torch.zeros(1, 4)])
    expected = torch.cat([token_weights(normal, aggregation, 4), torch.zeros(1, 4)])
    torch.testing.assert_close(token_weights(with_empty, aggregation, 4), expected)
    assert token_weights(torch.zeros(3, 4), aggregation, 4).eq(0).all()


def test_equal_lengths_make_the_aggregations_equal():
    # Three full responses of four tokens: 1/12 = 1/(3·4), whatever the name.
    for aggregation in AGGREGATIONS:
        torch.testing.assert_close(token_weights(torch.ones(3, 4), aggregation, 4), torch.full((3, 4), 1 / 12))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_unequal_lengths_tell_them_apart(aggregation):
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])
    expected = {
        "token_mean": [[1 / 4, 0, 0], [1 / 4, 1 / 4, 1 / 4]],
        "sequence_mean": [[1 / 2, 0, 0], [1 / 6, 1 / 6, 1 / 6]],
        "constant": [[1 / 10, 0, 0], [1 / 10, 1 / 10, 1 / 10]],
    }[aggregation]
    torch.testing.assert_close(token_weights(mask, aggregation, 5), torch.tensor(expected))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.bool, torch.float32),
        (torch.int64, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_weights_do_not_lose_precision_to_the_mask(dtype, expected):
    weights = token_weights(torch.ones(3, 1001).to(dtype), "token_mean")
    assert weights.dtype == expected
    torch.testing.assert_close(weights, torch.full((3, 1001), 1 / 3003, dtype=expected))


def test_weights_name_what_is_wrong():
    mask = torch.ones(1, 2)
    with pytest.raises(ValueError, match=r"'sum'.*token_mean, sequence_mean, constant"):
        token_weights(mask, "sum")
    with pytest.raises(ValueError, match=r"max_response_length, which is None.*token_mean or sequence_mean"):
        token_weights(mask, "constant")
    with pytest.raises(ValueError, match="which is 0"):
        token_weights(mask, "constant", 0)
