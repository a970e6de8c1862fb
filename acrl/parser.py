"""The command line's parser: jsonargparse's errors as one message that names key, value and a valid choice."""

from __future__ import annotations

import difflib
import inspect
import re
from dataclasses import is_dataclass
from pydoc import locate
from typing import Any, NoReturn, get_type_hints

from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser

from acrl.algorithms import NAMED
from acrl.data.prompts import PromptData
from acrl.errors import AcrlError, ConfigError
from acrl.rewards import RewardSpec
from acrl.spec import Budget, Evaluation

GROUPS = {"trainer": Trainer, "data": PromptData, "reward": RewardSpec, "eval": Evaluation, "budget": Budget}
LINKED = ("model.seed", "model.evaluation", "data.reward")  # given elsewhere: seed_everything, eval, reward

TRUNCATION = (
    " Training samples from the whole distribution at model.sampling.temperature: log-probs are those of the whole "
    "distribution, so truncated samples would make every ratio and gradient wrong."
)
REASONS = dict.fromkeys(("top_p", "top_k", "min_p"), TRUNCATION)

_UNKNOWN = (
    re.compile(r"unrecognized arguments: (?P<key>.+)"),
    re.compile(r"Group '(?P<group>[^']+)' does not accept option '(?P<key>[^']+)'"),
    re.compile(r"(?:Option|Subcommand '\w+' does not accept option) '(?P<key>[^']+)'"),
)
_CLASS = re.compile(r"Problem with given class_path '([^']+)'")
_KEY = re.compile(r'Parser key "([^"]+)"')
_MISSING = re.compile(r"the following arguments are required: (.+)")
_EXPECTED = re.compile(r"(?:- )?Expected an? (?P<wanted>(?:<class|typing\.Literal).+?)(?:\. Got value: (?P<value>.*))?$")
_GIVEN = re.compile(r"Given value: (?:\{'class_path': '(?P<class>[^']+)'.*|(?P<value>.+))")
_NOISE = re.compile(r"^(Does not validate against|Subtypes: |Errors:|Given value type: |- Expected a <class 'NoneType'>)")

WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "NoneType": "null"}


class Parser(LightningArgumentParser):
    """A parser that raises a ConfigError instead of printing its usage."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the AcrlError behind `ex`, or a ConfigError that says what `message` means."""
        if not self.exit_on_error:  # one class's own keys: its caller knows where they belong
            super().error(message, ex)
        raise cause_of(ex) or ConfigError(explain(message)) from ex


def cause_of(error: BaseException | None) -> AcrlError | None:
    """Return the AcrlError that an error was raised from, if any."""
    while error is not None and not isinstance(error, AcrlError):
        error = error.__cause__
    return error


def explain(message: str) -> str:
    """Return jsonargparse's message in the user's words."""
    key, kind = "", None
    wanted: list[str] = []
    for line in map(str.strip, message.splitlines()):
        if found := _CLASS.search(line):
            kind = locate(found[1])
        elif found := _KEY.match(line):
            key = f"{key}.{found[1]}".lstrip(".")
        elif found := next((m for m in (pattern.search(line) for pattern in _UNKNOWN) if m), None):
            return _unknown(".".join(filter(None, (key, *found.groupdict().values()))), key, kind)
        elif found := _MISSING.search(line):
            return f"missing: {found[1].replace('fit.', '')}; give a config that has them, as in --config FILE."
        elif found := _EXPECTED.match(line):
            wanted.append(_words(found["wanted"]))
            if found["value"] is not None:
                return _invalid(key, found["value"], wanted)
        elif found := _GIVEN.match(line):
            if key == "model":
                return _no_algorithm(found["class"] or found["value"])
            if wanted:
                return _invalid(key, found["value"] or found["class"], wanted)
    return "; ".join(line for line in map(str.strip, message.splitlines()) if line and not _NOISE.match(line))
