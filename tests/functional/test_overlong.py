import pytest
import torch

from acrl.functional import soft_overlong_penalty


def test_the_ramp():
    # Case 84, cap 100, buffer 20: (80 − l)/20 between 80 and 100, −1 beyond.
    lengths = torch.tensor([1, 79, 80, 81, 90, 100, 120])
    expected = torch.tensor([0, 0, 0, -0.05, -0.5, -1, -1])
    torch.testing.assert_close(soft_overlong_penalty(lengths, 100, 20), expected)
    torch.testing.assert_close(soft_overlong_penalty(lengths, 100, 20, coef=0.5), expected / 2)


def test_the_papers_own_numbers():
    # DAPO §3.4: cap 20,480, cache 4,096, so the ramp starts at 16,384 and is halfway at 18,432.
    penalty = soft_overlong_penalty(torch.tensor([16384, 18432, 20480]), 20480, 4096)
    torch.testing.assert_close(penalty, torch.tensor([0, -0.5, -1]))


def test_a_buffer_as_long_as_the_cap():
    torch.testing.assert_close(soft_overlong_penalty(torch.tensor([0, 5]), 10, 10), torch.tensor([0, -0.5]))


@pytest.mark.parametrize("buffer", [0, -1, 101])
def test_an_impossible_buffer_is_named(buffer):
    with pytest.raises(ValueError, match=rf"buffer is {buffer}.*1\.\.100"):
        soft_overlong_penalty(torch.tensor([5]), 100, buffer)
