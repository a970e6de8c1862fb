"""The supervised warm start of a tiny model: first it learns to work answers out, then mostly to copy.

Afterwards it can do the right thing and seldom does, and the choice lies in its first token: what RL has to find.
"""

import math
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from acrl.data.chain import LARGEST_TOTAL, copied_answer, random_prompt, worked_answer
from acrl.models.progress import Report
from acrl.models.recipe import Recipe, Stage

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_POOL = 1024  # demonstrations sorted by length together, so that a batch has little padding
_SLIP = 0.03  # chance that a worked step is written down wrong

Encoded = tuple[list[int], list[int]]  # prompt ids, answer ids with EOS


def train(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    recipe: Recipe,
    stage: Stage,
    seed: int,
    report: Report,
) -> None:
    """Train `model` in place, on CPU, on the mean cross-entropy of the answer tokens (EOS included)."""
    highest = recipe.lr * stage.lr_share
    optimizers = _optimizers(model, highest)
    for step, batch in enumerate(_batches(tokenizer, stage, recipe.tokens_per_step, Random(f"{seed}/{stage.name}"))):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = highest * _schedule(step, stage.steps)
        loss = answer_loss(model, *batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        report(stage.name, step + 1, stage.steps, loss.item())


def answer_loss(model: "PreTrainedModel", ids: Tensor, is_answer: Tensor) -> Tensor:
    """Mean cross-entropy, in nats, of the tokens of `ids` [N, L] where `is_answer` [N, L]; padded on the right."""
    hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    chosen = is_answer[:, 1:]
    return cross_entropy(model.get_output_embeddings()(hidden[chosen]), ids[:, 1:][chosen])


def _optimizers(model: "PreTrainedModel", lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for embeddings, head and norms (Jordan et al., 2024)."""
    inner = [p for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in name]
    outer = [p for name, p in model.named_parameters() if p.ndim != 2 or ".layers." not in name]
    muon = torch.optim.Muon(inner, lr=lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(outer, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)]


def _schedule(step: int, steps: int) -> float:
    """Share of the highest learning rate: linear over the first tenth (30 steps at most), times a cosine to 0."""
    return min(1.0, (step + 1) / min(30, 1 + steps // 10)) * 0.5 * (1 + math.cos(math.pi * step / steps))


def _batches(
    tokenizer: "PreTrainedTokenizerBase", stage: Stage, tokens_per_step: int, rng: Random
) -> Iterator[tuple[Tensor, Tensor]]:
    """One (ids, is_answer) a step: demonstrations of similar length, about `tokens_per_step` tokens with padding."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    end = [vocabulary[str(tokenizer.eos_token)]]
    made = 0
    while made < stage.steps:
        most = 4 if made < stage.short * stage.steps else 8
        texts = [_demonstration(rng, most, stage.copies) for _ in range(_POOL)]
        pool = [([vocabulary[c] for c in prompt], [vocabulary[c] for c in answer] + end) for prompt, answer in texts]
        batches = _by_length(pool, tokens_per_step)
        rng.shuffle(batches)
        for batch in batches[: stage.steps - made]:
            made += 1
            yield _padded(batch, vocabulary[str(tokenizer.pad_token)])


def _demonstration(rng: Random, most_terms: int, copies: float) -> tuple[str, str]:
    prompt = random_prompt(rng, rng.randint(2, most_terms))
    if rng.random() < copies:
        return prompt, copied_answer(prompt)

    def slip(total: int) -> int:
        total = min(max(total, 0), LARGEST_TOTAL)  # an earlier slip can lead out
        if rng.random() >= _SLIP:
            return total
        return rng.choice([t for t in range(total - 2, total + 3) if t != total and 0 <= t <= LARGEST_TOTAL])

    return prompt, worked_answer(prompt, slip)


def _by_length(pool: list[Encoded], tokens_per_step: int) -> list[list[Encoded]]:
    """The pool in batches of neighbours by prompt length, so that worked and copied answers stay mixed."""
    batches: list[list[Encoded]] = [[]]
    width = 0
    for example in sorted(pool, key=lambda pair: len(pair[0])):
        width = max(width, _length(example))
        if batches[-1] and width * (len(batches[-1]) + 1) > tokens_per_step:
            batches.append([])
            width = _length(example)
        batches[-1].append(example)
    return batches


def _length(example: Encoded) -> int:
    return len(example[0]) + len(example[1])


def _padded(batch: list[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    width = max(map(_length, batch))
    ids = [[*prompt, *answer, *[pad] * (width - len(prompt) - len(answer))] for prompt, answer in batch]
    starts = torch.tensor([[len(prompt)] for prompt, _ in batch])
    ends = torch.tensor([[_length(example)] for example in batch])
    position = torch.arange(width)
    return torch.tensor(ids), (position >= starts) & (position < ends)
