"""What makes a tiny model: its shape and its two stages of supervised learning. Values only, so it loads at once."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Stage:
    """Steps of supervised learning on one mixture of demonstrations."""

    name: str
    steps: int
    copies: float  # share of demonstrations that copy the last operand
    lr_share: float = 1.0  # of the recipe's learning rate
    short: float = 0.0  # share of the steps, the first ones, that see 2–4 terms only instead of 2–8


@dataclass(frozen=True)
class Recipe:
    """All that decides a tiny model's weights, its seed apart. A change of the code that trains it is a new version."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    lr: float  # the highest one, for Muon and AdamW alike: a linear warm-up, then a cosine to 0 in every stage
    stages: tuple[Stage, ...]
    tokens_per_step: int = 1200  # padding included
    version: int = 1


# ours: stage 1 solves all levels (≥ 0.95 greedy) for every seed tried; stage 2 stops while a quarter of the samples and
# of the greedy answers are right, so that RL has as much to find in either
_WORK = Stage("learn to work out", steps=600, copies=0.0, short=0.3)
_COPY = Stage("learn to copy", steps=200, copies=0.58, lr_share=0.25)

NAMES = {"tiny-base": (_WORK, _COPY), "tiny-aligned": (_WORK, replace(_COPY, copies=0.2))}
SIZES = {  # hidden, layers, heads, intermediate, lr
    "xs": (64, 2, 4, 128, 0.01),
    "small": (96, 2, 4, 192, 0.008),
    "large": (128, 4, 4, 256, 0.005),
}


def recipe_for(name: str, size: str) -> Recipe:
    """The recipe of a named model; ValueError that lists the choices where there is none."""
    for what, value, choices in (("name", name, NAMES), ("size", size, SIZES)):
        if value not in choices:
            raise ValueError(f"tiny model: no {what} {value!r}; choose from {', '.join(choices)}")
    return Recipe(*SIZES[size], stages=NAMES[name])
