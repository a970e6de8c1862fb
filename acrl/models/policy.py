"""The policy: loading a causal LM and its tokenizer, and the one function that computes log-probs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from acrl.errors import ConfigError
from acrl.rollout.batch import RolloutBatch
from acrl.rollout.engine import at_least_float32, token_entropy, token_logprobs


@dataclass
class TokenScores:
    """Per response token: log-prob at temperature τ, and on request the entropy and the last hidden states."""

    logprobs: Tensor  # [N, T]
    entropy: Tensor | None = None  # [N, T] nats
    hidden: Tensor | None = None  # [N, T+1, D] before each response token, and after the last


def load_policy(path: str) -> nn.Module:
    """Return the causal LM at `path` in float32 with dropout off and the checkpoint's generation settings dropped.

    Raises:
        ConfigError: no model directory there.
    """
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(_directory(path), config=_config(path), dtype=torch.float32)
    finally:
        logging.enable_progress_bar()
    eos, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id
    model.generation_config = GenerationConfig(eos_token_id=eos, pad_token_id=pad)
    return model


def load_trunk(path: str) -> nn.Module:
    """Return the causal LM's body without its language-model head, in float32, dropout off."""
    trunk = load_policy(path).base_model
    assert isinstance(trunk, nn.Module)
    return trunk


def load_tokenizer(path: str) -> Any:
    """Return the tokenizer at `path`; a missing pad token becomes the EOS (masks go by position).

    Raises:
        ConfigError: no model directory there, or a tokenizer without EOS.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(_directory(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.policy.path {path!r} holds no tokenizer that can be read: {error}") from error
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"model.policy.path {path!r}: its tokenizer has no EOS token, so no answer could end.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def eos_ids(model: nn.Module, tokenizer: Any) -> Tensor:
    """Return every id that ends an answer, [k]: the tokenizer's, the config's and the generation config's."""
    found: set[int] = set()
    configs: list[Any] = [model.config, model.generation_config]
    for value in (tokenizer.eos_token_id, *(config.eos_token_id for config in configs)):
        found.update(value if isinstance(value, list | tuple) else [] if value is None else [value])
    return torch.tensor(sorted(found))


def score_tokens(
    model: nn.Module, batch: RolloutBatch, temperature: float, entropy: bool = False, hidden: bool = False
) -> TokenScores:
    """Return log π(y_t | x, y_<t) of every response token at temperature τ, [N, T], padding 0.

    log π = logits_y/τ − logsumexp(logits/τ), in float32 at least. Old, new and reference log-probs all come from here.
    """
    width = batch.response_ids.shape[1]
    out = model(**model_inputs(batch), use_cache=False, logits_to_keep=width + 1, output_hidden_states=hidden)
    logits = at_least_float32(out.logits[:, :-1]) / temperature
    logprobs = torch.where(batch.response_mask, token_logprobs(logits, batch.response_ids), 0.0)
    return TokenScores(
        logprobs,
        torch.where(batch.response_mask, token_entropy(logits.detach()), 0.0) if entropy else None,
        out.hidden_states[-1][:, -width - 1 :] if hidden else None,
    )


def model_inputs(batch: RolloutBatch) -> dict[str, Tensor]:
    """Return prompt and response side by side as a model's inputs, positions counted from the first real token."""
    mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1).long()
    return {
        "input_ids": torch.cat([batch.prompt_ids, batch.response_ids], dim=1),
        "attention_mask": mask,
        "position_ids": (mask.cumsum(dim=1) - 1).clamp_min(0),
    }


def _directory(path: str) -> str:
    if not (Path(path) / "config.json").is_file():
        made = "" if "tiny" not in Path(path).name else f" `acrl model make {Path(path).name}` makes the tiny one."
        raise ConfigError(f"model.policy.path {path!r} holds no model (no config.json in it).{made}")
    return path


def _config(path: str) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(_directory(path))
    for name in vars(config):
        if name.endswith(("dropout", "_pdrop", "dropout_prob")) and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    return config
