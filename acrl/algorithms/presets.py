"""A named algorithm's own values, read from where they live: the defaults of its constructor."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

SPECS = ("credit", "objective", "kl", "sampling", "critic")
SIZES = ("temperature", "max_response_length")  # fields of `Sampling` that no algorithm prescribes


def preset_of(kind: type) -> dict[str, Any]:
    """Return the algorithm's specs by the name of the constructor's argument, inherited defaults included."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if "__init__" in vars(base):
            for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items():
                if name in SPECS and parameter.default is not inspect.Parameter.empty:
                    found[name] = parameter.default
    return found


def departures(kind: type, specs: dict[str, Any]) -> list[str]:
    """Return `key value (preset value)` for every field of `specs` that differs from the algorithm's preset."""
    found = []
    for name, preset in preset_of(kind).items():
        for field in fields(preset):
            given, own = getattr(specs[name], field.name), getattr(preset, field.name)
            if given != own and field.name not in SIZES:
                found.append(f"{name}.{field.name} {given} (preset {own})")
    return found
