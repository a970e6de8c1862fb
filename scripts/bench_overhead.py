"""Time a GRPO iteration through `acrl fit` against the same work as a plain PyTorch loop, side by side in one run.

    OMP_NUM_THREADS=1 python scripts/bench_overhead.py

The plain loop is written without acrl but for the decode loop and the random numbers, so both sample the same answers;
it must end with the same parameters, or the comparison is off and the script fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from acrl.cli import main as acrl
from acrl.rollout.engine import generate
from acrl.rollout.noise import permutation, row_uniforms

BOUNDS = {64: 1.15, 8: 1.4}
GROUP, CAP, LR, BETA, SEED = 8, 40, 1e-4, 0.04, 1


def logprobs(model: torch.nn.Module, ids: Tensor, mask: Tensor, responses: Tensor) -> Tensor:
    """Return the response tokens' log-probs, [N, T]."""
    position = (mask.cumsum(1) - 1).clamp_min(0)
    width = responses.shape[1]
    out = model(input_ids=ids, attention_mask=mask, position_ids=position, use_cache=False, logits_to_keep=width + 1)
    return torch.log_softmax(out.logits[:, :-1].float(), dim=-1).gather(-1, responses[..., None]).squeeze(-1)


def plain(model_dir: str, data: str, completions: int, iterations: int) -> tuple[list[float], dict[str, Tensor]]:
    """Return the seconds of each iteration and the final parameters."""
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    policy = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).train()
    reference = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.0)
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    order = permutation(len(rows), SEED, "prompts", 0)
    count, eos, seconds = completions // GROUP, torch.tensor([tokenizer.eos_token_id]), []
    for iteration in range(iterations):
        start = perf_counter()
        chosen = [rows[i] for i in order[iteration * count : (iteration + 1) * count] for _ in range(GROUP)]
        prompts = tokenizer([row["prompt"] for row in chosen], return_tensors="pt", padding=True)
        prompt_ids, prompt_mask = prompts["input_ids"], prompts["attention_mask"]
        noise = row_uniforms(SEED, "rollout", iteration, 0, range(completions), CAP)
        out = generate(policy, prompt_ids, prompt_mask.bool(), noise, 1.0, CAP, eos, tokenizer.pad_token_id)
        keep, responses = out.response_mask.float(), out.response_ids
        texts = tokenizer.batch_decode([r[k] for r, k in zip(responses, out.response_mask, strict=True)], True)
        right = [text.rsplit("=", 1)[-1] == row["answer"] for text, row in zip(texts, chosen, strict=True)]
        rewards = torch.tensor(right, dtype=torch.float32).view(count, GROUP)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
        advantages = advantages.view(-1, 1).expand_as(keep)
        ids, mask = torch.cat([prompt_ids, responses], 1), torch.cat([prompt_mask, out.response_mask.long()], 1)
        with torch.no_grad():
            old, ref = logprobs(policy, ids, mask, responses), logprobs(reference, ids, mask, responses)
        for index in permutation(completions, SEED, "minibatch", iteration, 0).tensor_split(2):
            new, kept = logprobs(policy, ids[index], mask[index], responses[index]), keep[index]
            ratio, advantage = (new - old[index]).exp(), advantages[index]
            loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            gap = new - ref[index]
            loss = ((loss + BETA * ((-gap).exp() - 1 + gap)) * kept).sum(1) / kept.sum(1)
            optimizer.zero_grad()
            loss.mean().backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
        seconds.append(perf_counter() - start)
    return seconds, policy.state_dict()


def through_acrl(model_dir: str, data: str, completions: int, iterations: int, out: Path) -> tuple[list[float], dict]:
    """Return the seconds of each iteration, evaluation left out, and the final parameters, of one `acrl fit`."""
    flags = {
        "config": "configs/tiny/grpo.yaml",
        "seed_everything": SEED,
        "trainer.default_root_dir": out,
        "model.policy.path": model_dir,
        "model.batch.completions_per_iteration": completions,
        "model.optimizer.lr": LR,
        "data.train": data,
        "budget.iterations": iterations,
        "eval.every_completions": 10**9,
        "eval.prompts": 2,
    }
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
        code = acrl(["fit", *(f"--{key}={value}" for key, value in flags.items())])
    if code != 0:
        sys.exit(f"acrl fit ended with {code}")
    run = Path(printed.getvalue().splitlines()[-1])
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    state = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    seconds = [row["time/total"] - row["time/eval"] for row in rows if "time/total" in row]
    return seconds, {name.removeprefix("policy."): value for name, value in state.items()}


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Return ‖Δ‖/‖θ‖ over all parameters."""
    gap = sum(float((value - other[name]).square().sum()) for name, value in one.items())
    return (gap / sum(float(value.square().sum()) for value in one.values())) ** 0.5


def main() -> int:
    """Print a line per size and exit non-zero where a ratio is over its bound or the parameters differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="models/tiny-base")
    parser.add_argument("--data", default="data/chain/train.jsonl")
    parser.add_argument("--iterations", type=int, default=20, help="per block")
    parser.add_argument("--blocks", type=int, default=5, help="of each, in turn")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    failed = False
    out = Path(tempfile.mkdtemp())
    try:
        for completions, bound in BOUNDS.items():
            blocks = []
            for _ in range(args.blocks):
                ours, end = through_acrl(args.model, args.data, completions, args.iterations, out)
                theirs, plain_end = plain(args.model, args.data, completions, args.iterations)
                blocks.append((median(ours[1:]), median(theirs[1:])))  # a first iteration loads what later ones have
                gap = distance(plain_end, end)
                failed |= gap > 1e-5
            ratios = sorted(one / other for one, other in blocks)
            failed |= median(ratios) > bound
            seconds = [median(side) for side in zip(*blocks, strict=True)]
            print(
                f"{completions} completions: acrl fit {seconds[0]:.4f} s, plain loop {seconds[1]:.4f} s, ratio "
                f"{median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f} over {args.blocks} pairs of blocks, bound "
                f"{bound}); parameters differ by {gap:.1e}"
            )
    finally:
        shutil.rmtree(out)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
