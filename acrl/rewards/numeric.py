"""Built-in verifier: is the completion's final answer exactly the gold number?

Everything here sees model output, which is hostile input: a search for a marker and one linear pattern on at most
64 characters are all the work done per completion.
"""

import math
import re
import unicodedata
from fractions import Fraction
from functools import lru_cache
from typing import Any

from acrl.errors import DataError, excerpt

MARKERS = ("####", "=", "＝")
LONGEST = 64

# Digits are spelled out: \d would also match digits of other scripts. A leading zero is no thousands group: "0,123".
_INTEGER = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)"
_NUMBER = re.compile(rf"[+-]?(?:{_INTEGER}(?:\.[0-9]+)?|\.[0-9]+|{_INTEGER}/{_INTEGER})")

# Compatibility normalisation leaves these alone: modifier minus, hyphen, figure dash, en dash, minus sign, heavy minus.
_MINUS_SIGNS = str.maketrans(dict.fromkeys("˗‐‒–−➖", "-"))

# Compatibility forms that differ from the plain character in looks only. The others carry meaning that normalisation
# drops: 2² would become 22, 2½ would become 21⁄2, ⒈5 would become 1.5.
_LOOKS_ONLY = ("<wide>", "<narrow>", "<small>", "<font>", "<noBreak>")


def numeric(prompts: list[str], completions: list[str], answer: list[Any], **columns: list) -> list[dict[str, float]]:
    """1.0 where the completion's final answer is the gold `answer` as an exact rational, else 0.0; `acc` is the same.

    Both sides go through `read_number`, so a gold of GSM8K's form ("… #### 18") works.
    Raises: DataError for a gold that is not one number.
    """
    results = []
    for row, (completion, gold) in enumerate(zip(completions, answer, strict=True)):
        expected = _read_gold(gold)
        if expected is None:
            raise DataError(f"row {row}: answer is {excerpt(gold)}; {check_gold(gold)}")
        score = float(read_number(completion) == expected)
        results.append({"score": score, "acc": score})
    return results


def check_gold(answer: object) -> str | None:
    """What is wrong with a gold answer, or None. The caller knows file and row."""
    if _read_gold(answer) is None:
        return (
            "its final answer (after the last '=' or '####', if any) must be exactly one number, "
            "like 18, -3, 1,234, 0.5 or 3/4"
        )
    return None


def read_number(text: str) -> Fraction | None:
    """The number that is the text's final answer, or None where that is not exactly one number.

    The final answer is what follows the last marker (`=` or `####`), or the whole text without one, spaces stripped.
    A number is an optional sign and: digits, with thousands commas in groups of three or without, and a decimal part;
    or a fraction a/b of two integers. No exponents, units or trailing full stop; nothing is searched for inside a text.
    """
    ends = [at + len(marker) for marker in MARKERS if (at := text.rfind(marker)) >= 0]
    candidate = text[max(ends, default=0) :].strip()
    if len(candidate) > LONGEST:  # before normalisation, which is quadratic in long runs of combining characters
        return None
    return _rational(candidate)


@lru_cache(maxsize=4096)  # golds and answers recur; candidates are short
def _rational(candidate: str) -> Fraction | None:
    candidate = _plain(candidate)
    if not _NUMBER.fullmatch(candidate):
        return None
    try:
        return Fraction(candidate.replace(",", ""))
    except ZeroDivisionError:
        return None


def _read_gold(answer: object) -> Fraction | None:
    """The gold as a rational: a text like a completion's, or a finite Python number at its shortest decimal form."""
    if isinstance(answer, str):
        return read_number(answer)
    if isinstance(answer, bool):
        return None
    if isinstance(answer, int):
        return Fraction(answer)
    if isinstance(answer, float) and math.isfinite(answer):
        return Fraction(repr(answer))
    return None


def _plain(text: str) -> str:
    """`text` in compatibility form (full-width digits become ASCII) with ASCII minus signs; "" where that would lie."""
    for character in text:
        tag = unicodedata.decomposition(character).partition(" ")[0]
        if tag.startswith("<") and tag not in _LOOKS_ONLY:
            return ""
    return unicodedata.normalize("NFKC", text).translate(_MINUS_SIGNS)
