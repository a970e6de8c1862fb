"""Loading reward functions: everything wrong is found before a model is loaded, and named."""

import sys
from pathlib import Path

import pytest

from acrl.errors import ConfigError
from acrl.rewards import Reward, RewardFunction, RewardSpec
from acrl.rewards.load import load_functions

GOOD = """
from textwrap import dedent

LIMIT = 3

def length(prompts, completions, longest=LIMIT, **columns):
    return [float(len(c) <= longest) for c in completions]

def other(completions, **columns):
    return [0.5] * len(completions)

def _private(prompts, completions, **columns):
    return []
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


def load(name: str, **kwargs: object):
    [function] = load_functions([RewardFunction(name, kwargs=kwargs)])
    return function


def refused(name: str, **kwargs: object) -> str:
    with pytest.raises(ConfigError) as raised:
        load(name, **kwargs)
    assert name in str(raised.value)
    return str(raised.value)


def test_a_function_of_a_file(file: Path) -> None:
    function = load(f"{file}:length")
    assert function.part == "length"
    assert function.call(prompts=["p"] * 2, completions=["abc", "abcd"], answer=["1", "2"]) == [1.0, 0.0]


def test_kwargs_are_passed(file: Path) -> None:
    assert load(f"{file}:length", longest=4).call(prompts=["p"], completions=["abcd"]) == [1.0]


def test_a_relative_path_starts_at_the_current_directory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert load("mine.py:other").call(prompts=["p"], completions=["c"]) == [0.5]
    assert load("./mine.py:other").call(prompts=["p"], completions=["c"]) == [0.5]


def test_an_edited_file_is_read_again(file: Path) -> None:
    file.write_text(GOOD.replace("0.5", "0.7"))  # same size, same second: a cached .pyc would be stale
    first = load(f"{file}:other").call(prompts=["p"], completions=["c"])
    file.write_text(GOOD.replace("0.5", "0.9"))
    assert (first, load(f"{file}:other").call(prompts=["p"], completions=["c"])) == ([0.7], [0.9])
    assert not (file.parent / "__pycache__").exists()


def test_a_file_used_twice_is_executed_once(tmp_path: Path) -> None:
    path = tmp_path / "counted.py"
    path.write_text(
        "print('executed', file=open(__file__ + '.log', 'a'))\n"
        "def f(prompts, completions, **c): return []\n"
        "def g(prompts, completions, **c): return []\n"
    )
    load_functions([RewardFunction(f"{path}:f"), RewardFunction(f"{path}:g")])
    assert (tmp_path / "counted.py.log").read_text() == "executed\n"


def test_a_file_may_import_its_neighbour_and_define_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "acrl_test_neighbour.py").write_text("HALF = 0.5\n")
    path = tmp_path / "mine.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom acrl_test_neighbour import HALF\n"
        "@dataclass\nclass C:\n    x: int = 0\n"
        "def f(prompts, completions, **columns): return [HALF]\n"
    )
    before = list(sys.path)
    assert load(f"{path}:f").call(prompts=["p"], completions=["c"]) == [0.5]
    assert sys.path == before
    sys.modules.pop("acrl_test_neighbour")


def test_files_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    for folder, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "r.py").write_text(f"def f(prompts, completions, **c): return [{value}]\n")
    functions = load_functions([RewardFunction(f"{tmp_path}/{folder}/r.py:f") for folder in "ab"])
    assert [f.call(prompts=["p"], completions=["c"]) for f in functions] == [[1.0], [2.0]]
    assert [f.part for f in functions] == ["f", "f_2"]
    assert len({f.call.func.__module__ for f in functions} & set(sys.modules)) == 2  # as pickle looks them up


def test_a_callable_object_and_a_partial_are_functions_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import functools\n"
        "class Judge:\n    def __call__(self, prompts, completions, **columns): return [1.0]\n"
        "judge = Judge()\n"
        "def scaled(factor, prompts, completions, **columns): return [factor]\n"
        "doubled = functools.partial(scaled, 2.0)\n"
    )
    assert load(f"{path}:judge").call(prompts=["p"], completions=["c"]) == [1.0]
    assert load(f"{path}:doubled").call(prompts=["p"], completions=["c"]) == [2.0]


def test_columns_a_function_cannot_do_without_are_known(file: Path) -> None:
    file.write_text("def f(prompts, completions, answer, level, tolerance, note=None, **columns): return []\n")
    assert load(f"{file}:f", tolerance=0.1).required_columns == ("answer", "level")
    assert Reward(RewardSpec([RewardFunction("numeric")])).required_columns == ["answer"]


@pytest.mark.parametrize("name", ["numerical", "math", "mine.txt:f", ":f", "numeric:f", "package.module"])
def test_an_unknown_name_lists_the_choices(name: str) -> None:
    message = refused(name)
    assert "'numeric', 'format' or 'path/to/file.py:function'" in message


def test_a_missing_file(tmp_path: Path) -> None:
    assert f"there is no file {tmp_path / 'none.py'}" in refused(f"{tmp_path}/none.py:f")
    (tmp_path / "folder.py").mkdir()
    assert "there is no file" in refused(f"{tmp_path}/folder.py:f")


@pytest.mark.parametrize("attribute", [":lenght", ":", ""])
def test_a_missing_name_lists_the_functions_of_the_file(file: Path, attribute: str) -> None:
    message = refused(f"{file}{attribute}")
    assert "does not exist" in message and "choose one of: length, other" in message and "_private" not in message


def test_a_name_that_is_no_function(file: Path) -> None:
    message = refused(f"{file}:LIMIT")
    assert "'LIMIT' is not callable" in message and "length, other" in message


def test_a_file_without_functions(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    assert "the file defines no function" in refused(f"{tmp_path}/empty.py:f")


@pytest.mark.parametrize("source", [b"def f(:\n", b"x = 1\n  y\n", b"a = '\xff'\n", b"a\0b", b"# coding: nonsense\n"])
def test_a_file_that_is_not_python(tmp_path: Path, source: bytes) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(source)
    assert f"{path}" in refused(f"{path}:f") and "cannot be read as Python" in refused(f"{path}:f")


def test_a_file_that_cannot_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*args: object) -> None:
        raise PermissionError("denied")

    monkeypatch.setattr(Path, "read_bytes", deny)
    assert f"{file} cannot be read as Python: denied" in refused(f"{file}:other")


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("x = 1\ny = 2\ndef f(:\n")
    assert f"{path}, line 3" in refused(f"{path}:f")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import no_such_module_here\n", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import sys; sys.exit('usage')\n", "SystemExit: usage"),
    ],
)
def test_a_file_that_raises_when_run(tmp_path: Path, source: str, named: str) -> None:
    path = tmp_path / "raising.py"
    path.write_text(source)
    modules = set(sys.modules)
    message = refused(f"{path}:f")
    assert f"running {path} raised {named}" in message
    assert not any("acrl_reward_raising" in name for name in set(sys.modules) - modules)


@pytest.mark.parametrize(
    "signature",
    [
        "()",
        "(p, c)",
        "(p, c, **columns)",
        "(*args)",
        "(**columns)",
        "(prompts, completions)",
        "(prompts, completions, answer)",
        "(prompts, completions, /, **columns)",
        "(factor, /, prompts, completions, **columns)",
        "(data_source, solution_str, ground_truth, extra_info=None)",
        "(data_source, solution_str, ground_truth, extra_info=None, **kwargs)",
        "(queries, prompts, labels, **kwargs)",
    ],
)
def test_a_signature_of_another_shape_is_refused_with_the_expected_one(file: Path, signature: str) -> None:
    file.write_text(f"def f{signature}: return []\n")
    message = refused(f"{file}:f")
    assert signature in message and "def f(prompts, completions, **columns)" in message


def test_async_functions_and_unreadable_signatures_are_refused(file: Path) -> None:
    file.write_text("async def f(prompts, completions, **columns): return []\nfrom builtins import dict as d\n")
    assert "is async" in refused(f"{file}:f")
    assert "def f(prompts, completions, **columns)" in refused(f"{file}:d")


@pytest.mark.parametrize("key", ["longset", "prompts", "completions", "answer"])
def test_an_unknown_kwarg_is_named_with_the_choices(file: Path, key: str) -> None:
    message = refused(f"{file}:length", **{key: 4})
    assert f"kwargs.{key} is not one of its named parameters ('longest')" in message


def test_an_unknown_kwarg_of_a_built_in() -> None:
    assert "kwargs.tolerance" in refused("numeric", tolerance=0.1)
    assert "kwargs.patern" in refused("format", patern="a")
