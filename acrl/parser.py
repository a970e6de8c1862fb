"""The command line's parser: jsonargparse's errors as one message that names key, value and a valid choice."""

from __future__ import annotations

import difflib
import re
from dataclasses import is_dataclass
from itertools import chain
from pydoc import locate
from typing import Any, NoReturn, get_type_hints

from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser

from acrl.algorithms import NAMED, PPO
from acrl.data.prompts import PromptData
from acrl.errors import AcrlError, ConfigError
from acrl.rewards import RewardSpec
from acrl.spec import Budget, Evaluation

USAGE = "acrl {} --config FILE [--KEY VALUE ...]"
VERBS = {
    "fit": {
        "usage": USAGE.format("fit") + "\n       acrl fit --resume RUN_DIR [--KEY VALUE ...]",
        "description": "Train one policy. `--model.help GRPO` lists an algorithm's own keys.",
    },
    "validate": {"usage": USAGE.format("validate"), "description": "Print the accuracy on the prompts of data.val."},
    "test": {"usage": USAGE.format("test"), "description": "Print the accuracy on the prompts of data.test."},
}

TIP = "`acrl VERB --help` lists the keys, `acrl VERB --model.help GRPO` an algorithm's."

GROUPS = {"trainer": Trainer, "model": PPO, "data": PromptData, "reward": RewardSpec, "eval": Evaluation}
GROUPS["budget"] = Budget
LINKED = {"model.seed": "seed_everything", "model.evaluation": "eval.*", "data.reward": "reward.*"}

_TRUNCATION = (
    "training scores an answer under the whole distribution, so answers sampled from a part of it would make every "
    "ratio wrong (sharpen with model.sampling.temperature instead)"
)
REFUSED = {"top_p": _TRUNCATION, "top_k": _TRUNCATION, "min_p": _TRUNCATION}

_KEY = re.compile(r'Parser key "([^"]+)"')
_CLASS = re.compile(r"Problem with given class_path '([^']+)'")
_MISSING = re.compile(r"the following arguments are required: (.+)")
_STRAY = re.compile(r"unrecognized arguments: (?:(?!-)(?P<word>\S+)|-*(?P<key>[^\s=]+))")
_REFUSED = re.compile(r"(?:Group '(\w+)' does not accept option|Option|does not accept option) '([^']+)'")
_VALUE = re.compile(r"(?:Got|Given) value: (.+)")
_WANTED = re.compile(r"Expected a (?:<class '(\w+)'>|typing\.Literal\[(.+?)\])(?=\.|$)", re.MULTILINE)
_IMPORT = re.compile(r"Expected a dot import path string: (\S+)")
_NAME = re.compile(r"Given value: (?:\{'class_path': ')?([\w.]+)")
_WORDS = {
    "int": "a whole number",
    "list": "a list",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "NoneType": "null",
}


class Parser(LightningArgumentParser):
    """A parser that raises a ConfigError instead of printing its usage and leaving."""

    def parse_args(self, args: Any = None, *more: Any, **settings: Any) -> Any:
        """Parse the words; `--model.KEY null` reaches the class's own parser as the text None, which is mended."""
        if args is not None and not self.exit_on_error:
            args = [re.sub("=None$", "=null", word) for word in args]
        return super().parse_args(args, *more, **settings)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the AcrlError behind `ex`, or a ConfigError that says what `message` means."""
        if not self.exit_on_error:  # the keys of one class: whoever asked for it knows where they belong
            super().error(message, ex)
        raise cause_of(ex) or ConfigError(f"{explain(message)}\n{TIP}") from ex


def cause_of(error: BaseException | None) -> AcrlError | None:
    """Return the AcrlError that led to an error, if any."""
    while error is not None and not isinstance(error, AcrlError):
        error = error.__cause__
    return error


def in_full(error: AcrlError) -> AcrlError:
    """Return the error with a module's keys as the command line has them: sampling.groups is model.sampling.groups."""
    known = keys(PPO, "model")

    def full(found: re.Match[str]) -> str:
        return f"model.{found[0]}" if f"model.{found[0]}" in known else found[0]

    return type(error)(re.sub(r"(?<![\w.])\w+\.\w+", full, str(error)))


def explain(message: str) -> str:
    """Return one of jsonargparse's messages in the words of a user."""
    key = ".".join(_KEY.findall(message))
    if found := _MISSING.search(message):
        missing = re.sub(r"\b(fit|validate|test)\.", "", found[1])
        return f"missing: {missing}; give a --config FILE that has it, such as those in configs/tiny, or --KEY VALUE."
    if found := _STRAY.search(message):
        if found["word"]:
            return f"{found['word']!r} follows no key; write --KEY VALUE."
        return _unknown(key, found["key"], _CLASS.findall(message))
    if found := _REFUSED.search(message):
        return _unknown(key, ".".join(filter(None, found.groups())), _CLASS.findall(message))
    if key == "model" and (found := _NAME.search(message)):
        return _no_algorithm(found[1])
    if found := _IMPORT.search(message):
        return f"{key} is {found[1]!r}, which is no class that can be imported."
    detail = message[max((m.end() for m in _KEY.finditer(message)), default=0) :].lstrip(":\n ")
    value = _VALUE.search(detail)
    wanted = _WANTED.findall(detail[: value.start()]) if value else []
    if value and wanted:
        return f"{key} is {value[1]!r}; give {' or '.join(dict.fromkeys(map(_words, wanted)))}."
    return f"{key}: {detail}" if key else detail


def keys(kind: Any, prefix: str) -> list[str]:
    """Return every key below `prefix` that configures a class, nested ones included."""
    found: dict[str, None] = {}
    for base in kind.__mro__:
        hints = get_type_hints(base.__init__) if "__init__" in vars(base) and base is not object else {}
        for name, hint in hints.items():
            key = f"{prefix}.{name}"
            if name not in ("return", "args", "kwargs") and key not in LINKED:
                found |= dict.fromkeys(keys(hint, key) if is_dataclass(hint) else [key])
    return list(found)


def _unknown(prefix: str, name: str, class_paths: list[str]) -> str:
    """What is wrong with a key, and the one that was meant or those there are."""
    key = f"{prefix}.{name}".lstrip(".").replace("model.evaluation.", "eval.")
    if reason := REFUSED.get(key.rpartition(".")[2]):
        return f"{key} cannot be set: {reason}."
    if class_paths and key.startswith(prefix):
        known, whose = keys(locate(class_paths[-1]), prefix), f" for {class_paths[-1].rpartition('.')[2]}"
    else:
        groups = (keys(kind, group) for group, kind in GROUPS.items())
        known, whose = ["seed_everything", *chain.from_iterable(groups)], ""
    parent, _, last = key.rpartition(".")
    beside = _below(parent, known)
    if beside:  # compared by their own names: what neighbours share makes them all alike
        meant = [f"{parent}.{name}".lstrip(".") for name in difflib.get_close_matches(last, beside, n=1)]
    else:
        meant = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    while not beside:
        parent = parent.rpartition(".")[0]
        beside = _below(parent, known)
    choice = f"did you mean {meant[0]}?" if meant else f"{parent or 'acrl'} takes {', '.join(beside)}."
    return f"there is no key {key}{whose}; {choice}"


def _below(parent: str, known: list[str]) -> dict[str, None]:
    """The names that may follow `parent`."""
    start = f"{parent}." if parent else ""
    return dict.fromkeys(key[len(start) :].partition(".")[0] for key in known if key.startswith(start))


def _no_algorithm(name: str) -> str:
    names = [kind.__name__ for kind in NAMED]
    meant = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {meant[0]}?)" if meant else ""
    return f"model is {name!r}, which is no algorithm{hint}; choose one of {', '.join(names)}."


def _words(wanted: tuple[str, str]) -> str:
    """An expected type in words: ('int', '') or ('', "'k1', 'k2'")."""
    kind, choices = wanted
    return f"one of {choices}" if choices else _WORDS.get(kind, kind)
