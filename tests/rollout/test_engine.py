"""The decode loop says what decoding each answer alone, without a cache, would say."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext

import pytest
import torch
from decoding import Successor, answer_alone, padded

from acrl.models.policy import eos_ids, load_policy, load_tokenizer
from acrl.rollout.engine import generate
from acrl.rollout.noise import row_uniforms
from acrl.rollout.sampler import Sampler

CAP, EOS = 12, 1
PROMPTS = [[5, 9, 4], [7], [3, 4, 5, 6, 7, 8, 9], [12, 13], [8, 8, 10, 4, 11], [5, 9, 4], [15, 3], [6, 6, 6, 6]]
TEMPERATURES = [None, 1.0, 0.6]


@pytest.fixture(scope="module")
def policy(model_dir):
    return load_policy(str(model_dir))


def noise_for(rows, temperature=1.0, cap=CAP):
    return None if temperature is None else row_uniforms(3, "rollout", 0, 0, rows, cap)


def decode(model, prompts, noise, temperature=1.0, cap=CAP, eos=(EOS,), pad_id=0, **settings):
    ids, mask = padded(prompts, pad_id)
    return generate(model, ids, mask, noise, temperature or 1.0, cap, torch.tensor(eos), pad_id, **settings)


def answers(generation):
    return [ids[mask].tolist() for ids, mask in zip(generation.response_ids, generation.response_mask, strict=True)]


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_answers_are_those_of_decoding_alone_without_a_cache(temperature, policy):
    noise = noise_for(range(len(PROMPTS)), temperature)
    expected = [
        answer_alone(policy, prompt, None if noise is None else noise[n], temperature or 1.0, CAP, {EOS})
        for n, prompt in enumerate(PROMPTS)
    ]
    generation = decode(policy, PROMPTS, noise, temperature)
    assert answers(generation) == expected
    assert len({len(answer) for answer in expected}) > 2
    assert generation.truncated.tolist() == [answer[-1] != EOS for answer in expected]


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("size", [1, 3])
def test_answers_do_not_depend_on_the_micro_batch(size, temperature, policy):
    noise = noise_for(range(len(PROMPTS)), temperature)
    found = []
    for start in range(0, len(PROMPTS), size):
        rows = slice(start, start + size)
        found += answers(decode(policy, PROMPTS[rows], None if noise is None else noise[rows], temperature))
    assert found == answers(decode(policy, PROMPTS, noise, temperature))


def test_noise_belongs_to_the_row(policy):
    others = [[9, 9, 9]] * 3 + [PROMPTS[3]] + [[4] * 9] * 4
    noise = noise_for(range(len(PROMPTS)))
    assert answers(decode(policy, others, noise))[3] == answers(decode(policy, PROMPTS, noise))[3]
    assert answers(decode(policy, [PROMPTS[0]] * 8, noise)) != [answers(decode(policy, PROMPTS, noise))[0]] * 8


def test_finished_rows_leave_the_cache_and_prompts_are_read_once(policy):
    shapes = []
    handle = policy.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        generation = decode(policy, PROMPTS, noise_for(range(8)))
    finally:
        handle.remove()
    assert shapes[0] == (8, 7) and {width for _, width in shapes[1:]} == {1}
    sizes = [rows for rows, _ in shapes]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 8
    running = [int((generation.response_mask.sum(dim=1) > t).sum()) for t in range(len(sizes))]
    assert all(rows < 2 * max(left, 1) or rows == left for rows, left in zip(sizes, running, strict=True))


@pytest.mark.parametrize("training", [True, False])
def test_gradient_checkpointing_and_mode_are_as_before_and_the_cache_was_on(training, model_dir):
    model = load_policy(str(model_dir))
    expected = answers(decode(model, PROMPTS, noise_for(range(8))))
    model.activation_checkpointing_enable()
    model.train(training)
    calls = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: calls.append((kwargs["input_ids"].shape[1], module.training)), with_kwargs=True
    )
    assert answers(decode(model, PROMPTS, noise_for(range(8)))) == expected
    assert calls[0] == (7, False) and set(calls[1:]) == {(1, False)}
    assert model.is_activation_checkpointing and model.training is training


def test_mode_is_restored_after_an_error(model_dir):
    model = load_policy(str(model_dir)).train()
    with pytest.raises(IndexError):
        decode(model, [[10_000]], noise_for(range(1)))
    assert model.training


def test_an_answer_ends_with_the_first_of_several_eos_ids():
    model = Successor(10, {3: 4, 4: 7, 7: 5, 5: 6, 6: 1, 8: 2})
    generation = decode(model, [[3], [5], [8]], None, cap=6, eos=(1, 2, 7))
    assert answers(generation) == [[4, 7], [6, 1], [2]]
    assert generation.response_mask.tolist() == [[True, True], [True, True], [True, False]]
    assert not generation.truncated.any()


def test_an_eos_as_first_token_is_an_answer_of_length_1():
    generation = decode(Successor(10, {3: 1}), [[3], [3]], None, cap=6)
    assert answers(generation) == [[1], [1]]
    assert generation.response_ids.shape == (2, 1) and not generation.truncated.any()


def test_where_pad_is_eos_the_mask_goes_by_position():
    model = Successor(10, {5: 6, 6: 2, 7: 8, 8: 9, 9: 7, 2: 5})
    generation = decode(model, [[2, 5], [7]], None, cap=5, eos=(2,), pad_id=2)
    assert generation.response_ids.tolist() == [[6, 2, 2, 2, 2], [8, 9, 7, 8, 9]]
    assert generation.response_mask.tolist() == [[True, True, False, False, False], [True] * 5]
    assert generation.truncated.tolist() == [False, True]


def test_a_prompt_token_that_equals_pad_is_read(policy):
    noise = noise_for(range(2))
    expected = [
        answer_alone(policy, prompt, noise[n], 1.0, CAP, {EOS}) for n, prompt in enumerate([[1, 5, 6], [3] * 6])
    ]
    assert answers(decode(policy, [[1, 5, 6], [3] * 6], noise, pad_id=1)) == expected


def test_an_eos_exactly_at_the_cap_is_no_truncation():
    model = Successor(10, {3: 4, 4: 5, 5: 1})
    assert decode(model, [[3]], None, cap=3).truncated.tolist() == [False]
    assert decode(model, [[3]], None, cap=2).truncated.tolist() == [True]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_frequencies_are_those_of_the_softmax(temperature):
    logits = torch.tensor([1.5, 0.0, -1.0, 2.0, -4.0, 0.5])
    n = 20_000
    noise = torch.rand(n, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    generation = decode(Successor(6, logits=logits), [[0]] * n, noise, temperature, cap=1)
    found = torch.bincount(generation.response_ids[:, 0], minlength=6) / n
    expected = (logits.double() / temperature).softmax(dim=0)
    assert ((found - expected).abs() <= 3 * (expected * (1 - expected) / n).sqrt()).all()


def test_noise_at_its_ends_gives_the_first_and_the_last_likely_token():
    model = Successor(4, logits=torch.tensor([-torch.inf, 0.0, 0.0, -torch.inf]))
    noise = torch.tensor([[0.0], [0.5 - 1e-9], [0.5], [1.0 - 2**-53]], dtype=torch.float64)
    assert decode(model, [[0]] * 4, noise, cap=1, eos=(3,)).response_ids[:, 0].tolist() == [1, 1, 2, 2]


def test_entropy_is_that_of_the_distribution_sampled_from():
    logits = torch.tensor([1.5, 0.0, -1.0, 2.0])
    model = Successor(4, logits=logits)
    noise = torch.full((2, 3), 0.5, dtype=torch.float64)
    entropy = decode(model, [[0]] * 2, noise, 0.5, cap=3, eos=(1,), with_entropy=True).entropy
    assert entropy.flatten().tolist() == pytest.approx(
        6 * [float(torch.distributions.Categorical(logits=logits * 2).entropy())]
    )


@pytest.fixture
def copied(model_dir, tmp_path):
    """A copy of the model's directory with some settings of a file changed."""

    def copy(file, **changes):
        directory = shutil.copytree(model_dir, tmp_path / "copy", dirs_exist_ok=True)
        settings = json.loads((directory / file).read_text())
        (directory / file).write_text(json.dumps(settings | changes))
        return str(directory)

    return copy


def test_the_checkpoints_generation_settings_have_no_effect(copied, policy):
    path = copied(
        "generation_config.json",
        **{"do_sample": True, "temperature": 0.1, "top_k": 1, "top_p": 0.1, "repetition_penalty": 5.0, "max_length": 3},
    )
    other = load_policy(path)
    assert other.generation_config.top_k != 1 and other.generation_config.repetition_penalty != 5.0
    for temperature in TEMPERATURES:
        noise = noise_for(range(8), temperature)
        assert answers(decode(other, PROMPTS, noise, temperature)) == answers(
            decode(policy, PROMPTS, noise, temperature)
        )


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_every_eos_of_the_model_directory_counts(file, copied):
    path = copied(file, eos_token_id=[7, 9])
    model, tokenizer = load_policy(path), load_tokenizer(path)
    assert {1, 7, 9} <= set(eos_ids(model, tokenizer).tolist())


def test_the_sampler_stops_at_every_eos(copied):
    path = copied("generation_config.json", eos_token_id=[7, 9])
    model = load_policy(path)
    sampler = Sampler(model, load_tokenizer(path), CAP, nullcontext)
    generation = sampler(*padded(PROMPTS), noise_for(range(8)), 1.0)
    ends = [answer[-1] for answer in answers(generation)]
    assert len({7, 9} & set(ends)) > 0
    assert all(not {1, 7, 9} & set(answer[:-1]) for answer in answers(generation))
    assert generation.truncated.tolist() == [end not in (1, 7, 9) for end in ends]


def test_a_tokenizer_without_pad_pads_with_its_eos(copied):
    path = copied("tokenizer_config.json", pad_token=None)
    tokenizer = load_tokenizer(path)
    assert (
        tokenizer.pad_token_id
        == tokenizer.eos_token_id
        == EOS
        < load_policy(path).get_input_embeddings().num_embeddings
    )


def test_dropout_is_off_while_training(copied):
    model = load_policy(copied("config.json", attention_dropout=0.5)).train()
    ids, mask = padded(PROMPTS)
    first, second = (model(input_ids=ids, attention_mask=mask.long()).logits for _ in range(2))
    assert torch.equal(first, second)
