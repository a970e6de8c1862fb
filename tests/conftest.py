"""Fixtures: a random tiny model, a few chain prompts, and a trainer that runs iterations without a command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from acrl.algorithms import RLModule
from acrl.algorithms.presets import preset_of
from acrl.data.chain import ALPHABET, make_chain
from acrl.data.prompts import PromptData
from acrl.models.tokenizer import character_tokenizer
from acrl.rewards import RewardSpec
from acrl.spec import BatchPlan, Policy, Sampling
from acrl.trainer import iteration_trainer

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 20,000 random weights with the chain task's characters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    directory = tmp_path_factory.mktemp("model") / "random-llama"
    tokenizer = character_tokenizer(ALPHABET, max_length=128)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,  # peaked enough that answers end and differ in length
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain task's files, few rows."""
    directory = tmp_path_factory.mktemp("data")
    make_chain(directory, seed=0, train=240, val=48, test=48)
    return directory


@pytest.fixture
def prompt_data(data_dir: Path) -> Callable[..., PromptData]:
    """Build a `PromptData` over the few rows."""

    def build(reward: RewardSpec | None = None) -> PromptData:
        files = {split: str(data_dir / f"{split}.jsonl") for split in ("train", "val", "test")}
        return PromptData(**files, reward=reward or RewardSpec())

    return build


@pytest.fixture
def build(model_dir: Path) -> Callable[..., RLModule]:
    """Build a module on the random model: 4 prompts × 4 answers of at most 12 tokens, unless told otherwise."""

    def make(kind: type[RLModule], **changes: Any) -> RLModule:
        settings: dict[str, Any] = {
            "policy": Policy(str(model_dir)),
            "batch": BatchPlan(completions_per_iteration=16, group_size=4),
            "seed": 3,
        }
        if "sampling" not in changes:
            preset = preset_of(kind).get("sampling", Sampling())
            changes["sampling"] = replace(preset, max_response_length=12)
        return kind(**settings | changes)

    return make


@pytest.fixture
def train() -> Callable[..., RLModule]:
    """Run iterations without a command line or a run directory."""

    def run(module: RLModule, data: PromptData, iterations: int, **settings: Any) -> RLModule:
        trainer = iteration_trainer(iterations, **settings)
        trainer.fit(module, datamodule=data)
        return module

    return run
