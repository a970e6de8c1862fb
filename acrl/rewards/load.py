"""From a configured name to a function that can be called, or a ConfigError before any model is loaded."""

import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from acrl.errors import ConfigError, excerpt
from acrl.rewards import numeric, pattern
from acrl.rewards.spec import VALID_NAMES, RewardFunction

BUILTIN: dict[str, Callable[..., Any]] = {"numeric": numeric.numeric, "format": pattern.format}

EXPECTED_SHAPE = "def f(prompts, completions, **columns) -> a list with one number (or None, or dict) per completion"
_BATCH = ("prompts", "completions")
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class LoadedFunction:
    """A reward function ready to be called as `call(prompts=…, completions=…, **columns)`."""

    part: str
    """Its name in logs: the function's name, with a number where two functions share it."""

    spec: RewardFunction
    call: Callable[..., Any]

    required_columns: tuple[str, ...]
    """The data columns it cannot do without."""


def load_functions(specs: Sequence[RewardFunction]) -> list[LoadedFunction]:
    """The functions in order; a file that several of them name is executed once. Raises: ConfigError."""
    modules: dict[Path, ModuleType] = {}
    loaded: list[LoadedFunction] = []
    for spec in specs:
        function = BUILTIN[spec.name] if spec.name in BUILTIN else _from_file(spec.name, modules)
        parameters = batch_parameters(function, spec.name)
        _check_kwargs(spec, parameters)
        required = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]
        loaded.append(
            LoadedFunction(
                part=_unused(spec.name.rpartition(":")[2], {other.part for other in loaded}),
                spec=spec,
                call=functools.partial(function, **spec.kwargs),
                required_columns=tuple(name for name in required if name not in spec.kwargs),
            )
        )
    return loaded


def batch_parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    """The named parameters of a batch function beside `prompts` and `completions`, which it takes by keyword.

    This is the one place that tells signatures apart. It knows TRL's shape: f(prompts, completions, **columns), where
    `prompts` may be left to `**columns`. Raises: ConfigError for any other, such as verl's compute_score.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"reward function {name!r}: no readable signature; expected {EXPECTED_SHAPE}") from error
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"reward function {name!r} is async, which is not supported; expected {EXPECTED_SHAPE}")
    parameters = {p.name: p for p in signature.parameters.values() if p.kind in _BY_KEYWORD}
    takes_columns = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    positional_only = any(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in signature.parameters.values())
    if "completions" not in parameters or not takes_columns or positional_only:
        raise ConfigError(
            f"reward function {name!r} has the signature {excerpt(str(signature))[1:-1]}; expected {EXPECTED_SHAPE}: "
            "every argument is passed by keyword, and **columns takes the data columns you do not name"
        )
    return {key: parameter for key, parameter in parameters.items() if key not in _BATCH}


def _check_kwargs(spec: RewardFunction, parameters: dict[str, inspect.Parameter]) -> None:
    """Raises: ConfigError for a keyword the function does not name; `**columns` would swallow a misspelt one."""
    for key in spec.kwargs:
        if key not in parameters:
            choices = ", ".join(map(repr, parameters)) or "none"
            raise ConfigError(
                f"reward function {spec.name!r}: kwargs.{key} is not one of its named parameters ({choices}); "
                "correct it, or name it in the function's signature"
            )
    if spec.name == "format":
        pattern.compile_pattern(spec.kwargs.get("pattern"))


def _from_file(name: str, modules: dict[Path, ModuleType]) -> Callable[..., Any]:
    """The function that `path/to/file.py:function` names. Raises: ConfigError."""
    file, _, attribute = name.rpartition(":")
    if not file and name.endswith(".py"):
        file, attribute = name, ""
    if not file.endswith(".py"):
        raise ConfigError(f"reward function {name!r} is unknown; {VALID_NAMES}")
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise ConfigError(
            f"reward function {name!r}: there is no file {path}; relative paths start at the current directory"
        )
    if path not in modules:
        modules[path] = _execute(path, name)
    module = modules[path]
    function = getattr(module, attribute, None)
    if not callable(function):
        problem = "is not callable" if hasattr(module, attribute) else "does not exist"
        raise ConfigError(
            f"reward function {name!r}: {attribute!r} {problem} in {path}; choose one of: {_functions_in(module)}"
        )
    return function


def _execute(path: Path, name: str) -> ModuleType:
    """The module made by running the file once. Raises: ConfigError where it cannot be compiled or raises."""
    # Named after the whole path: two files called rewards.py must not replace each other.
    module_name = f"acrl_reward_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # it is None only for suffixes Python does not know
    module = importlib.util.module_from_spec(spec)
    try:
        # Compiled from the source: a cached .pyc is stale when a file is edited within one second at the same size.
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OSError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}, line {line}" if line else str(path)
        raise ConfigError(f"reward function {name!r}: {where} cannot be read as Python: {error}") from error
    # Registered as an import would: dataclasses and pickle look modules up by name.
    sys.modules[module_name] = module
    try:
        with _importable(path.parent):
            exec(code, module.__dict__)
    except (Exception, SystemExit) as error:  # a script without a main guard may call sys.exit()
        del sys.modules[module_name]
        raise ConfigError(f"reward function {name!r}: running {path} raised {type(error).__name__}: {error}") from error
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Lets a file import its neighbours while it runs, as `python file.py` would, and only then."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def _functions_in(module: ModuleType) -> str:
    own = (
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    )
    return ", ".join(own) or "(the file defines no function)"


def _unused(name: str, taken: set[str]) -> str:
    """`name`, or `name_2`, `name_3`, … the first that is not taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
