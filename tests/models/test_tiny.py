"""Tiny models: the directory they make, the same bytes each time, and the start they give RL."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import log_softmax

from acrl.data.chain import ALPHABET, LEVELS, RESPONSE_CAP, make_chain
from acrl.models import tiny
from acrl.models.recipe import NAMES, SIZES, Recipe, Stage, recipe_for
from acrl.models.tiny import RECIPE_FILE, make_tiny_model
from acrl.models.tokenizer import character_tokenizer
from acrl.models.warm_start import answer_loss

STAGES = (Stage("work", 3, copies=0.0, short=0.5), Stage("copy", 2, copies=0.6))
MICRO = Recipe(hidden=16, layers=1, heads=2, intermediate=32, lr=1e-2, stages=STAGES, tokens_per_step=200)

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a micro model without a word."""

    def make_micro(name: str = "model", seed: int = 0, recipe: Recipe = MICRO) -> Path:
        return make_tiny_model("tiny-base", tmp_path / name, seed=seed, progress=False, recipe=recipe)

    return make_micro


def test_the_directory_loads_as_any_other(make: Make) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    directory = make()
    model = AutoModelForCausalLM.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    generation = GenerationConfig.from_pretrained(directory)
    assert model.config.architectures == ["LlamaForCausalLM"]
    assert tokenizer.is_fast and len(tokenizer) == model.config.vocab_size == len(ALPHABET) + 3
    for holder in (model.config, generation):
        assert holder.eos_token_id == tokenizer.eos_token_id
        assert holder.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id
    assert generation.temperature is None and generation.top_k is None and generation.max_new_tokens is None
    assert model.config.attention_dropout == 0.0
    assert not any(isinstance(module, torch.nn.Dropout) for module in model.modules())
    assert model.dtype == torch.float32


def test_every_file_can_be_read_by_others_and_names_no_place(make: Make, tmp_path: Path) -> None:
    files = list(make().iterdir())
    assert {path.stat().st_mode for path in files} == {(tmp_path / "model" / "config.json").stat().st_mode}
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in files)


def test_the_seed_decides_every_byte_and_nothing_outside_changes(make: Make) -> None:
    torch.manual_seed(7)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.no_grad():  # what the caller does with gradients is of no account
        first = make("a")
    torch.rand(3)
    again, other = make("b"), make("c", seed=1)
    weights = [(directory / "model.safetensors").read_bytes() for directory in (first, again, other)]
    assert weights[0] == weights[1] != weights[2]
    torch.manual_seed(7)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_making_leaves_the_random_state(make: Make) -> None:
    state = torch.get_rng_state()
    make()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_finished_model_is_returned_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make()
    monkeypatch.setattr(tiny, "_build", None)  # would raise if called
    assert make() == directory


@pytest.mark.parametrize(
    ("seed", "recipe", "difference"),
    [
        (1, MICRO, "seed 0 instead of 1"),
        (0, replace(MICRO, version=0), "version 1 instead of 0"),
        (0, replace(MICRO, stages=STAGES[:1]), "stages .* instead of"),
    ],
)
def test_another_model_is_never_overwritten(make: Make, seed: int, recipe: Recipe, difference: str) -> None:
    weights = (make() / "model.safetensors").read_bytes()
    with pytest.raises(
        ValueError, match=f"model holds a model made otherwise \\({difference}.*; choose another directory"
    ):
        make(seed=seed, recipe=recipe)
    assert (make() / "model.safetensors").read_bytes() == weights


def test_a_directory_that_is_not_ours_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (make("lacking") / "model.safetensors").unlink()
    (make("garbled") / RECIPE_FILE).write_text("{")
    for name, message in {
        "foreign": f"foreign is not empty and holds no {RECIPE_FILE}; choose another directory",
        "file": "file is a file, not a directory; choose another directory",
        "lacking": "lacking lacks model.safetensors; choose another directory",
        "garbled": "garbled holds a model made otherwise .*unreadable",
    }.items():
        with pytest.raises(ValueError, match=message):
            make(name)
    assert (tmp_path / "foreign" / "notes.txt").read_text() == "mine"


def test_an_empty_directory_is_filled_and_parents_are_made(make: Make, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert (make("empty") / RECIPE_FILE).exists()
    assert (make("new/deep/model") / RECIPE_FILE).exists()


def test_a_build_that_fails_leaves_nothing(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(directory: Path, *_: object) -> None:
        (directory / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tiny, "_build", fail)
        with pytest.raises(KeyboardInterrupt):
            make()
    assert list(tmp_path.iterdir()) == []
    make()


def test_two_at_once_both_succeed(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = make("template")
    both_built = threading.Barrier(2)

    def build(directory: Path, *_: object) -> None:
        shutil.copytree(template, directory, dirs_exist_ok=True)
        both_built.wait(timeout=30)  # neither is renamed before both are built

    monkeypatch.setattr(tiny, "_build", build)
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(make())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [tmp_path / "model"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "template"]


def test_unknown_names_list_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no name 'tiny'; choose from tiny-base, tiny-aligned"):
        make_tiny_model("tiny", tmp_path / "model")
    with pytest.raises(ValueError, match="no size 'huge'; choose from xs, small, large"):
        make_tiny_model("tiny-base", tmp_path / "model", size="huge")


def test_names_and_sizes_give_different_recipes() -> None:
    assert len({recipe_for(name, size) for name in NAMES for size in SIZES}) == len(NAMES) * len(SIZES)


def test_progress_is_a_line_a_stage_where_there_is_no_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make: Make
) -> None:
    make("quiet")
    assert capfd.readouterr() == ("", "")
    make_tiny_model("tiny-base", tmp_path / "told", recipe=MICRO)
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.partition(", loss")[0] for line in err.splitlines()] == [
        "tiny-base: work, 3 steps",
        "tiny-base: copy, 2 steps",
    ]


def test_progress_is_a_bar_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    make_tiny_model("tiny-base", tmp_path / "model", recipe=MICRO)
    out, err = capsys.readouterr()
    assert out == ""
    assert "tiny-base: work" in err and "3/3" in err and "loss" in err and "left" in err


def test_importing_loads_neither_torch_nor_transformers() -> None:
    code = "import sys, acrl.models.tiny; print(sorted({'torch', 'transformers', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tokenizer_is_one_token_a_character(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    character_tokenizer(ALPHABET, max_length=50).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "5+4-2+7=5+4=9-2=7+7=14"
    ids = tokenizer(text)["input_ids"]
    assert ids == [3 + ALPHABET.index(character) for character in text]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([*ids, tokenizer.eos_token_id, tokenizer.pad_token_id], skip_special_tokens=True) == text
    assert tokenizer("5 a\n4")["input_ids"] == [8, 2, 2, 2, 7]
    assert tokenizer(["1+2=", "3="], padding=True)["input_ids"][1][:2] == [tokenizer.pad_token_id] * 2
    assert tokenizer.model_max_length == 50
    with pytest.raises(ValueError, match="'112' holds a character twice"):
        character_tokenizer("112", max_length=50)


def test_loss_counts_answer_tokens_only() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=9,
                hidden_size=8,
                intermediate_size=8,
                num_hidden_layers=1,
                num_attention_heads=2,
                pad_token_id=0,
            )
        )
    ids = torch.tensor([[3, 4, 5, 1, 0], [6, 7, 8, 3, 1]])
    is_answer = torch.tensor([[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)
    logprobs = log_softmax(model(ids).logits, dim=-1)
    expected = -(logprobs[0, 1, 5] + logprobs[0, 2, 1] + logprobs[1, 2, 3] + logprobs[1, 3, 1]) / 4
    torch.testing.assert_close(answer_loss(model, ids, is_answer), expected)
    ids[0, 4] = 2  # padding is of no account
    torch.testing.assert_close(answer_loss(model, ids, is_answer), expected)


def _accuracies(directory: Path, rows: list[dict[str, str]], sample: bool) -> dict[str, float]:
    """Share of right answers on each level, at temperature 1 or greedily, with transformers' own `generate`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)
    settings = {"do_sample": True, "temperature": 1.0, "top_k": 0} if sample else {"do_sample": False}
    right = dict.fromkeys(LEVELS, 0)
    inputs = tokenizer([row["prompt"] for row in rows], padding=True, return_tensors="pt")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ids = model.generate(**inputs, max_new_tokens=RESPONSE_CAP, **settings)[:, inputs["input_ids"].shape[1] :]
    for row, response in zip(rows, ids, strict=True):
        text = tokenizer.decode(response, skip_special_tokens=True)
        ended = tokenizer.eos_token_id in response
        right[row["difficulty"]] += ended and text.rpartition("=")[2] == row["answer"]
    return {level: count / (len(rows) / len(LEVELS)) for level, count in right.items()}


@pytest.fixture(scope="module")
def val_rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Evaluation prompts: 256 of each level."""
    directory = make_chain(tmp_path_factory.mktemp("chain"), train=0, val=768, test=0)
    return [json.loads(line) for line in (directory / "val.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_tiny_base_can_work_answers_out_and_seldom_does(tmp_path: Path, val_rows: list[dict[str, str]]) -> None:
    directory = make_tiny_model("tiny-base", tmp_path / "model")
    sampled = _accuracies(directory, val_rows, sample=True)
    greedy = _accuracies(directory, val_rows, sample=False)
    assert all(0.15 <= share <= 0.5 for share in sampled.values()), sampled
    assert 0.2 <= sum(sampled.values()) / 3 <= 0.35, sampled
    assert 0.1 <= sum(greedy.values()) / 3 <= 0.4, greedy


@pytest.mark.slow
def test_the_first_stage_alone_solves_the_task(tmp_path: Path, val_rows: list[dict[str, str]]) -> None:
    full = recipe_for("tiny-base", "small")
    directory = make_tiny_model("tiny-base", tmp_path / "model", recipe=replace(full, stages=full.stages[:1]))
    sampled = _accuracies(directory, val_rows, sample=True)
    greedy = _accuracies(directory, val_rows, sample=False)
    assert all(sampled[level] >= least for level, least in zip(LEVELS, (0.85, 0.8, 0.7), strict=True)), sampled
    assert min(greedy.values()) >= 0.95, greedy


@pytest.mark.slow
def test_tiny_aligned_starts_stronger(tmp_path: Path, val_rows: list[dict[str, str]]) -> None:
    sampled = _accuracies(make_tiny_model("tiny-aligned", tmp_path / "model"), val_rows, sample=True)
    assert 0.5 <= sum(sampled.values()) / 3 <= 0.7, sampled


@pytest.mark.slow
def test_two_processes_make_the_same_model_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from acrl.models.recipe import Recipe, Stage; from acrl.models.tiny import make_tiny_model; "
        "recipe = Recipe(16, 1, 2, 32, 1e-2, (Stage('work', 3, 0.0),), 200); "
        "make_tiny_model('tiny-base', sys.argv[1], recipe=recipe)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / RECIPE_FILE).exists()
