"""The `transformers` engine: our own decode loop over a causal LM's forward and cache.

Nothing is inherited from the checkpoint's generation settings, and the noise of a row is the row's own, so what is
sampled depends neither on the micro-batch nor on what else is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Generation:
    """n answers. `truncated` means no EOS within the cap; an engine may know neither log-probs nor entropies."""

    response_ids: Tensor  # [n, T] right-padded with pad_id
    response_mask: Tensor  # [n, T] bool, the EOS included
    truncated: Tensor  # [n] bool
    logprobs: Tensor | None = None  # [n, T] of the chosen tokens in the distribution sampled from; τ = 1 where greedy
    entropy: Tensor | None = None  # [n, T] nats, of the distribution sampled from


@contextmanager
def decoding(model: nn.Module) -> Iterator[None]:
    """Within it the model is in evaluation mode: in training mode gradient checkpointing may switch its cache off."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    uniforms: Tensor | None,
    temperature: float,
    max_response_length: int,
    eos_ids: Tensor,
    pad_id: int,
    with_entropy: bool = False,
) -> Generation:
    """Return one answer per prompt, sampled at `temperature` by inverse CDF from `uniforms`, greedy where it is None.

    token t of row n is the first v with Σ_{u≤v} softmax(logits/τ)_u > uniforms[n, t]

    Args:
        model: a causal LM that returns logits and a cache.
        prompt_ids: [n, P] left-padded.
        prompt_mask: [n, P] bool.
        uniforms: [n, max_response_length] float64 in [0, 1).
        temperature: τ > 0; unused where greedy.
        max_response_length: tokens an answer may have, its EOS included.
        eos_ids: [k] every id that ends an answer.
        pad_id: fills answers on the right.
        with_entropy: also return each step's entropy.
    """
    n, device = prompt_ids.shape[0], prompt_ids.device
    response_ids = torch.full((n, max_response_length), pad_id, dtype=prompt_ids.dtype, device=device)
    response_mask = torch.zeros((n, max_response_length), dtype=torch.bool, device=device)
    logprobs = torch.zeros((n, max_response_length), dtype=torch.float64, device=device)
    entropy = torch.zeros((n, max_response_length), device=device) if with_entropy else None
    ended = torch.zeros(n, dtype=torch.bool, device=device)
    live = torch.arange(n, device=device)  # the rows still in the model's batch
    token, mask = prompt_ids, prompt_mask.long()
    position = (mask.cumsum(dim=1) - 1).clamp_min(0)
    cache = None
    with decoding(model):
        for t in range(max_response_length):
            out = model(
                input_ids=token,
                attention_mask=mask,
                position_ids=position,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.cache
            logits = at_least_float32(out.logits[:, -1]) / (temperature if uniforms is not None else 1.0)
            chosen = _choose(logits, None if uniforms is None else uniforms[live, t])
            running = ~ended[live]
            rows = live[running]
            response_ids[rows, t] = chosen[running]
            response_mask[rows, t] = True
            logprobs[rows, t] = token_logprobs(logits, chosen)[running].double()
            if entropy is not None:
                entropy[rows, t] = token_entropy(logits)[running].float()
            ended[rows] = torch.isin(chosen[running], eos_ids)
            left = int((~ended).sum())
            if left == 0 or t + 1 == max_response_length:
                break
            if left <= len(live) // 2:  # finished rows cost as much as running ones
                keep = (~ended[live]).nonzero().squeeze(1)
                cache.batch_select_indices(keep)
                live, mask, position, chosen = live[keep], mask[keep], position[keep], chosen[keep]
            token = chosen[:, None]
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
            position = position[:, -1:] + 1
    width = int(response_mask.any(dim=0).sum())
    return Generation(
        response_ids[:, :width],
        response_mask[:, :width],
        truncated=~ended,
        logprobs=logprobs[:, :width],
        entropy=None if entropy is None else entropy[:, :width],
    )


def at_least_float32(x: Tensor) -> Tensor:
    """Return x in float32, or in float64 where it is that already: bf16 log-softmax errs by more than a clip range."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return log softmax(logits) at `tokens`, [...] from [..., V]."""
    return logits.gather(-1, tokens[..., None]).squeeze(-1) - logits.logsumexp(dim=-1)


def token_entropy(logits: Tensor) -> Tensor:
    """Return −Σ p·log p of softmax(logits), nats, [...] from [..., V]."""
    logp = torch.log_softmax(logits, dim=-1)
    return -(logp.exp() * logp).sum(dim=-1)


def _choose(logits: Tensor, uniform: Tensor | None) -> Tensor:
    if uniform is None:
        return logits.argmax(dim=-1)
    cdf = torch.softmax(logits.double(), dim=-1).cumsum(dim=-1)
    token = torch.searchsorted(cdf, (uniform.to(logits.device) * cdf[:, -1])[:, None], right=True)
    return token.squeeze(1).clamp_max(logits.shape[-1] - 1)
