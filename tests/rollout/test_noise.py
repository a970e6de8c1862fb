"""Random numbers belong to what they are for."""

from __future__ import annotations

import torch

from acrl.rollout.noise import permutation, row_uniforms, stream


def draw(*ids):
    return float(torch.rand(1, generator=stream(*ids)))


def test_a_stream_repeats_and_every_part_of_its_name_counts():
    assert draw(3, "rollout", 1, 2) == draw(3, "rollout", 1, 2)
    names = [(3, "rollout", 1, 2), (4, "rollout", 1, 2), (3, "eval", 1, 2), (3, "rollout", 2, 2), (3, "rollout", 12)]
    assert len({draw(*name) for name in names}) == len(names)


def test_rows_have_noise_of_their_own_wherever_they_are_cut():
    whole = row_uniforms(3, "rollout", 1, 0, range(6), 5)
    assert torch.equal(whole[2:4], row_uniforms(3, "rollout", 1, 0, range(2, 4), 5))
    assert len(whole.unique()) == 30
    assert whole.dtype == torch.float64 and whole.min() >= 0 and whole.max() < 1


def test_a_longer_answer_extends_the_noise():
    assert torch.equal(row_uniforms(3, "eval", 0, 0, range(2), 9)[:, :4], row_uniforms(3, "eval", 0, 0, range(2), 4))


def test_noise_is_uniform():
    noise = row_uniforms(3, "rollout", 0, 0, range(200), 50)
    assert abs(float(noise.mean()) - 0.5) < 3 * (1 / 12 / 10_000) ** 0.5
    assert abs(float((noise < 0.1).double().mean()) - 0.1) < 3 * (0.09 / 10_000) ** 0.5


def test_a_permutation_has_every_place_once():
    order = permutation(50, 3, "minibatch", 1, 0)
    assert sorted(order.tolist()) == list(range(50))
    assert order.tolist() != permutation(50, 3, "minibatch", 1, 1).tolist()


def test_global_generators_are_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    row_uniforms(3, "rollout", 0, 0, range(3), 4)
    permutation(9, 3, "minibatch", 0)
    assert torch.equal(before, torch.get_rng_state())
