"""Log-probs and values of sampled tokens: what a plain float64 computation gives, each at its own place."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from decoding import padded
from torch import nn

from acrl.models.critic import CriticModel, ValueHead
from acrl.models.policy import load_policy, score_tokens
from acrl.rollout.batch import RolloutBatch

PROMPTS = [[5, 9, 4], [7], [3, 4, 5, 6, 7, 8, 9], [12, 13]]
ANSWERS = [[4, 1], [8, 9, 3, 3, 0, 2], [1], [6, 7, 5, 1]]


def batch_of(prompts, answers, left=0, right=0, filler=0):
    """Rows with more padding than they need, filled with `filler`."""
    n = len(prompts)
    prompt_ids, prompt_mask = padded(prompts, filler)
    width = max(map(len, answers))
    ids = torch.tensor([a + [filler] * (width - len(a)) for a in answers])
    mask = torch.arange(width) < torch.tensor([len(a) for a in answers])[:, None]
    pad = nn.functional.pad
    zeros = torch.zeros(n)
    return RolloutBatch(
        prompt_ids=pad(prompt_ids, (left, 0), value=filler),
        prompt_mask=pad(prompt_mask, (left, 0), value=False),
        response_ids=pad(ids, (0, right), value=filler),
        response_mask=pad(mask, (0, right), value=False),
        truncated=torch.zeros(n, dtype=torch.bool),
        group_ids=torch.arange(n),
        rewards=zeros,
        accuracy=zeros,
        penalty=zeros,
        trains=torch.ones(n, dtype=torch.bool),
    )


@pytest.fixture(scope="module")
def policy(model_dir):
    return load_policy(str(model_dir)).train()


@pytest.fixture(scope="module")
def exact(model_dir):
    """Next-token log-probs before each token of an answer, computed alone and in float64, [T, V] at τ."""
    model = load_policy(str(model_dir)).double()

    @torch.no_grad()
    def logprobs(prompt, answer, temperature):
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0]
        return (logits[len(prompt) - 1 : -1] / temperature).log_softmax(dim=-1)

    return logprobs


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("left, right, filler", [(0, 0, 0), (3, 2, 7)])
def test_log_probs_and_entropies_are_those_of_each_answer_alone(temperature, left, right, filler, policy, exact):
    scores = score_tokens(policy, batch_of(PROMPTS, ANSWERS, left, right, filler), temperature, entropy=True)
    for n, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        logp = exact(prompt, answer, temperature)
        expected = logp.gather(1, torch.tensor(answer)[:, None])[:, 0]
        torch.testing.assert_close(scores.logprobs[n, : len(answer)].double(), expected, rtol=0, atol=1e-5)
        entropy = -(logp.exp() * logp).sum(dim=1)
        torch.testing.assert_close(scores.entropy[n, : len(answer)].double(), entropy, rtol=0, atol=1e-5)


def test_padding_scores_exactly_0(policy):
    batch = batch_of(PROMPTS, ANSWERS, left=3, right=2, filler=7)
    scores = score_tokens(policy, batch, 1.0, entropy=True)
    assert scores.logprobs.shape == batch.response_mask.shape
    assert torch.count_nonzero(scores.logprobs[~batch.response_mask]) == 0
    assert torch.count_nonzero(scores.entropy[~batch.response_mask]) == 0
    assert (scores.logprobs[batch.response_mask] < 0).all()


def test_logits_are_computed_for_response_positions_alone(policy):
    shapes = []
    handle = policy.lm_head.register_forward_hook(lambda module, args, out: shapes.append(tuple(out.shape)))
    try:
        score_tokens(policy, batch_of(PROMPTS, ANSWERS, left=20), 1.0)
    finally:
        handle.remove()
    assert shapes == [(4, 6 + 1, 16)]


def test_bf16_logits_are_normalised_in_float32(model_dir):
    model = load_policy(str(model_dir)).bfloat16()
    batch = batch_of(PROMPTS, ANSWERS)
    logits = []
    model.lm_head.register_forward_hook(lambda module, args, out: logits.append(out))
    found = score_tokens(model, batch, 0.6).logprobs
    exact = (logits[0][:, :-1].double() / 0.6).log_softmax(dim=-1).gather(-1, batch.response_ids[..., None])[..., 0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double()[batch.response_mask], exact[batch.response_mask], rtol=0, atol=1e-5)


class Positions(nn.Module):
    """A trunk, and a model around it, whose hidden state is the token's position."""

    def forward(self, position_ids, logits_to_keep=0, **_):
        hidden = position_ids[..., None].float()
        logits = hidden.expand(*position_ids.shape, 16)[:, -logits_to_keep:]
        return SimpleNamespace(last_hidden_state=hidden, hidden_states=(hidden * 0, hidden), logits=logits)


def critic_of_positions(model_dir, separate):
    critic = CriticModel(str(model_dir), hidden_size=1, separate=separate)
    critic.trunk = Positions() if separate else None
    nn.init.ones_(critic.head.linear.weight)
    return critic


@pytest.mark.parametrize("left, right", [(0, 0), (3, 2)])
@pytest.mark.parametrize("separate", [True, False])
def test_a_value_is_that_of_the_state_before_its_token_and_the_bootstrap_that_after_the_last(
    separate, left, right, model_dir
):
    batch = batch_of(PROMPTS, ANSWERS, left, right)
    hidden = None if separate else score_tokens(Positions(), batch, 1.0, hidden=True).hidden
    values, bootstrap = critic_of_positions(model_dir, separate)(batch, hidden)
    for n, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        last_of_prompt = len(prompt) - 1
        assert values[n, : len(answer)].tolist() == [last_of_prompt + t for t in range(len(answer))]
        assert bootstrap[n] == last_of_prompt + len(answer)
    assert values.shape == batch.response_mask.shape
    assert torch.count_nonzero(values[~batch.response_mask]) == 0


def test_value_head_computes_in_its_own_precision_under_autocast():
    head = ValueHead(4)
    nn.init.ones_(head.linear.weight)
    hidden = torch.tensor([1.0, 1e-4, 0, 0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = head(hidden)
    assert value.dtype == torch.float32 and float(value.detach()) == pytest.approx(1.0001, abs=1e-6)
