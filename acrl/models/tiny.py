"""Makes the tiny models of the chain task: ordinary Hugging Face directories, trained from scratch in a minute."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acrl.data.chain import ALPHABET
from acrl.files import write_text
from acrl.models.progress import reporter
from acrl.models.recipe import Recipe, recipe_for

RECIPE_FILE = "acrl_recipe.json"  # written last: a directory without it is not finished
_MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_CONTEXT = 128  # tokens; the longest prompt and the response cap take 56
_THREADS = (
    1  # of torch while it trains: a second gains little here, loses much on a busy machine, and changes roundings
)


def make_tiny_model(
    name: str,
    directory: str | Path,
    size: str = "small",
    seed: int = 0,
    progress: bool = True,
    recipe: Recipe | None = None,
) -> Path:
    """The directory, now holding the model `name` (`tiny-base` or `tiny-aligned`) and its tokenizer.

    The same arguments give the same bytes of `model.safetensors` on one kind of machine; torch's global random state
    stays as it was. A directory that holds this very model already is returned at once. A missing or empty one is
    filled by renaming a finished sibling: it is never seen half-written, and two processes may do it at once.
    `size` is `xs`, `small` or `large` (about 0.1, 0.2 and 0.7 million parameters); `recipe` replaces the one that name
    and size stand for. `progress` shows a bar on stderr, or a line a stage where that is no terminal.
    ValueError for an unknown name or size, and for a directory that holds anything else: nothing is overwritten.
    """
    directory = Path(directory)
    recipe = recipe_for(name, size) if recipe is None else recipe
    wanted = json.loads(json.dumps({"name": name, "size": size, "seed": seed, **asdict(recipe)}))
    if _is_finished(directory, wanted):
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = directory.absolute().with_name(f".{directory.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    draft.mkdir()
    try:
        _build(draft, name, recipe, seed, progress)
        write_text(draft / RECIPE_FILE, json.dumps(wanted, indent=2) + "\n")
        try:
            draft.rename(directory)
        except OSError:  # somebody else has filled it meanwhile
            if not _is_finished(directory, wanted):
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return directory


def _is_finished(directory: Path, wanted: dict[str, Any]) -> bool:
    """Whether the directory holds the wanted model; False if it is missing or empty, ValueError if it holds another."""
    remedy = "choose another directory, or remove this one to have the model made there"
    if not directory.exists():
        return False
    if not directory.is_dir():
        raise ValueError(f"tiny model: {directory} is a file, not a directory; {remedy}")
    files = {path.name for path in directory.iterdir()}
    if not files:
        return False
    if RECIPE_FILE not in files:
        raise ValueError(f"tiny model: {directory} is not empty and holds no {RECIPE_FILE}; {remedy}")
    if missing := sorted(set(_MODEL_FILES) - files):
        raise ValueError(f"tiny model: {directory} lacks {', '.join(missing)}; {remedy}")
    found = _read_recipe(directory / RECIPE_FILE)
    if found != wanted:
        differing = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
        changes = ", ".join(f"{key} {found.get(key)!r} instead of {wanted.get(key)!r}" for key in differing)
        raise ValueError(f"tiny model: {directory} holds a model made otherwise ({changes}); {remedy}")
    return True


def _read_recipe(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"recipe": "unreadable"}


def _build(directory: Path, name: str, recipe: Recipe, seed: int, progress: bool) -> None:
    """Train the model and write it and its tokenizer into the directory."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from acrl.models.tokenizer import character_tokenizer
    from acrl.models.warm_start import train

    tokenizer = character_tokenizer(ALPHABET, max_length=_CONTEXT)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=_CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with reporter(name, progress) as report, _own_torch_state(seed), torch.enable_grad():
        model = LlamaForCausalLM(config)
        for stage in recipe.stages:
            train(model, tokenizer, recipe, stage, seed, report)
    with _no_transformers_bars():
        model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (directory / "model.safetensors").chmod((directory / "config.json").stat().st_mode)  # safetensors writes 0600


@contextmanager
def _own_torch_state(seed: int) -> Iterator[None]:
    """A seeded random state and a fixed number of threads inside; outside, both are as before."""
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(_THREADS)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def _no_transformers_bars() -> Iterator[None]:
    """Inside, transformers draws no progress bar of its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
