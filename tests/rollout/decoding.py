"""Plain decoding to compare the engine with, and models whose answers are known."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn


def padded(prompts: list[list[int]], pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Left-padded ids and their mask."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (width - len(p)) + p for p in prompts])
    return ids, torch.tensor([[False] * (width - len(p)) + [True] * len(p) for p in prompts])


@torch.no_grad()
def answer_alone(
    model: nn.Module, prompt: list[int], noise: Tensor | None, temperature: float, cap: int, eos: set[int]
) -> list[int]:
    """One answer without padding, batch or cache: the whole text goes through the model for every token."""
    answer: list[int] = []
    while len(answer) < cap and not (answer and answer[-1] in eos):
        logits = model(input_ids=torch.tensor([prompt + answer]), use_cache=False).logits[0, -1]
        if noise is None:
            answer.append(int(logits.argmax()))
        else:
            cdf = (logits.double() / temperature).softmax(dim=0).cumsum(dim=0)
            answer.append(int((cdf <= noise[len(answer)]).sum()))
    return answer


class Cache:
    def batch_select_indices(self, index: Tensor) -> None:
        """There is nothing to select."""


class Successor(nn.Module):
    """Answers each token with `successors[token]`, or with logits drawn from `logits` whatever came before."""

    def __init__(self, vocabulary: int, successors: dict[int, int] | None = None, logits: Tensor | None = None) -> None:
        super().__init__()
        table = torch.zeros(vocabulary, vocabulary) if logits is None else logits.expand(vocabulary, vocabulary).clone()
        for token, following in (successors or {}).items():
            table[token, following] = 100.0
        self.table = nn.Parameter(table)

    def forward(self, input_ids: Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table[input_ids[:, -1:]], cache=Cache())
