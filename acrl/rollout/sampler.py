"""Answers from a module's model: the engine bound to a model, its tokenizer and a precision."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn

from acrl.models.policy import eos_ids
from acrl.rollout.engine import Generation, generate


class Sampler:
    """Generates on the model's device and returns to the CPU, where rewards and filters live."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        max_response_length: int,
        precision: Callable[[], AbstractContextManager],
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_response_length = max_response_length
        self.precision = precision
        self.eos_ids = eos_ids(model, tokenizer)

    def __call__(
        self,
        prompt_ids: Tensor,
        prompt_mask: Tensor,
        uniforms: Tensor | None,
        temperature: float,
        with_entropy: bool = False,
    ) -> Generation:
        """Return one answer per prompt; greedy where `uniforms` is None."""
        device = next(self.model.parameters()).device
        with self.precision():
            out = generate(
                self.model,
                prompt_ids.to(device),
                prompt_mask.to(device),
                None if uniforms is None else uniforms.to(device),
                temperature,
                self.max_response_length,
                self.eos_ids.to(device),
                self.tokenizer.pad_token_id,
                with_entropy,
            )
        found: dict[str, Any] = {name: None if value is None else value.cpu() for name, value in vars(out).items()}
        return Generation(**found)

    def decode(self, ids: list[int]) -> str:
        """Return the text of response ids, special tokens left out."""
        return self.tokenizer.decode(ids, skip_special_tokens=True)
