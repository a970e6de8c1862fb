"""The exact numeric verifier: expected values are written by hand."""

import time
from fractions import Fraction

import pytest

from acrl.errors import DataError, excerpt
from acrl.rewards.numeric import check_gold, numeric, read_number


def score(completion: str, gold: object) -> float:
    [result] = numeric(["2+3="], [completion], [gold])
    assert result["acc"] == result["score"]
    return result["score"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("18", Fraction(18)),
        ("  18\n", Fraction(18)),
        ("+18", Fraction(18)),
        ("-18", Fraction(-18)),
        ("018", Fraction(18)),
        ("1,234", Fraction(1234)),
        ("-1,234,567.5", Fraction(-12345675, 10)),
        ("1234567", Fraction(1234567)),
        (".5", Fraction(1, 2)),
        ("0.10", Fraction(1, 10)),
        ("3/4", Fraction(3, 4)),
        ("-6/8", Fraction(-3, 4)),
        ("1,000/3", Fraction(1000, 3)),
        ("0.1" + "0" * 61, Fraction(1, 10)),  # 64 characters, the longest that is read
    ],
)
def test_reads_exactly_one_number(text: str, number: Fraction) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "-", "+", ".", ",", "/", "abc", "18.", "1..2", "1.2.3", "--5", "+-5", "- 5", "5-", "(5)", "[5]"),
        *("1 2", "17 18 19", "18 apples", "the answer is 18", "$18", "18%", "18,", "1/2/3", "1.5/2", "1/-2", "3 / 4"),
        *("1,23", "1234,567", "1,2345", "0,123", ",123", "1,,234", "1_000"),
        *("1e3", "1E3", "1e999999999", "inf", "nan", "Infinity", "0x12", "0b1", "1j"),
        *("1/0", "0/0", "1/00"),
        *("<answer></answer>", "\\boxed{18}"),
    ],
)
def test_refuses_what_is_not_exactly_one_number(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9+9=18", 18),
        ("9+9 = 18 = 36/2 = 5", 5),
        ("#### 18", 18),
        ("17 #### 18", 18),
        ("9 + 9 = 18\n#### 18", 18),  # case 69: the gold column holds the worked solution
        ("He has <<9*2=18>>18 eggs.\n#### 18", 18),
        ("#### 17\nno, 9+9= 18", 18),  # the last marker counts, whichever it is
        ("=17 #### 18", 18),
        ("9+9＝18", 18),
    ],
)
def test_the_final_answer_follows_the_last_marker(text: str, number: int) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize("text", ["18=", "18 ####", "18 = eighteen", "18 #### eighteen", "18 ###", "9+9=18 17"])
def test_nothing_before_the_last_marker_counts(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("completion", "gold", "expected"),
    [
        ("18", "18", 1.0),
        ("18.0", "18", 1.0),
        ("1,800", "1800", 1.0),
        ("36/2", "18", 1.0),
        ("0.75", "3/4", 1.0),
        ("0.3333333333333333", "1/3", 0.0),
        ("17", "18", 0.0),
        # case 74: no containment, no listing, no empty answer
        ("", "18", 0.0),
        ("118", "18", 0.0),
        ("181", "18", 0.0),
        (" ".join(map(str, range(1, 20))), "18", 0.0),
        ("17 or 18", "18", 0.0),
        ("<answer></answer>", "18", 0.0),
        ("", "0", 0.0),
        # case 70: exact, however small
        (f"1/{2**98}", f"1/{2**99}", 0.0),
        (f"1/{2**99}", f"1/{2**99}", 1.0),
        # case 69: one extraction for both sides
        ("18", "9 + 9 = 18\n#### 18", 1.0),
        ("9 + 9 = 18", "#### 18", 1.0),
    ],
)
def test_score(completion: str, gold: str, expected: float) -> None:
    assert score(completion, gold) == expected


@pytest.mark.parametrize(
    ("completion", "gold", "expected"),
    [
        ("−5", "-5", 1.0),  # U+2212 MINUS SIGN (case 82)
        ("–5", "-5", 1.0),  # U+2013 EN DASH
        ("‑5", "-5", 1.0),  # U+2011 NON-BREAKING HYPHEN
        ("－5", "-5", 1.0),  # U+FF0D FULLWIDTH HYPHEN-MINUS
        ("5", "−5", 0.0),
        ("４２", "42", 1.0),  # full-width digits count as digits
        ("𝟒𝟐", "42", 1.0),
        ("\u00a042\u2009", "42", 1.0),  # spaces of other widths
        ("42\ufffd", "42", 0.0),  # half-decoded bytes
        ("\ufffd", "42", 0.0),
        # normalisation alone would read these as 22, 12, 1.5, 12
        ("2²", "22", 0.0),
        ("1₂", "12", 0.0),
        ("⒈5", "1.5", 0.0),
        ("①②", "12", 0.0),
        ("½", "1/2", 0.0),
        ("٤٢", "42", 0.0),  # Arabic-Indic digits are not read
        ("4\u030142", "442", 0.0),  # a combining accent
        ("4\u200b2", "42", 0.0),  # a zero-width space
        ("42\0", "42", 0.0),
        ("\ud800", "42", 0.0),  # half a surrogate pair
        ("x ≠ 42", "42", 0.0),
        ("x =\u0338 42", "42", 0.0),  # ≠ in two characters
    ],
)
def test_unicode(completion: str, gold: str, expected: float) -> None:
    assert score(completion, gold) == expected


@pytest.mark.parametrize(
    "hostile",
    [
        "9" * 1_000_000,
        "=" * 1_000_000,
        "#" * 1_000_000,
        " " * 1_000_000,
        "\0" * 1_000_000,
        "1," * 500_000,
        "1/" * 500_000,
        "0" * 1_000_000 + "=" + "-" * 1_000_000,
        "a" + "\u0301\u0316" * 500_000,  # quadratic to normalise
        "=" + "\ufdfa" * 64,  # each becomes 18 characters
        "1/" + "9" * 62,
    ],
    ids=lambda text: ascii(text[:4]),
)
def test_hostile_completions_are_cheap_and_wrong(hostile: str) -> None:
    start = time.perf_counter()
    assert score(hostile, "18") == 0.0
    assert time.perf_counter() - start < 0.5  # takes 1 ms; the quadratic ones would take minutes


def test_longer_than_64_characters_is_not_read() -> None:
    assert read_number("0.1" + "0" * 62) is None


@pytest.mark.parametrize("gold", ["18", "#### 18", 18, -3, 0.5, 0.1, 1e-7, 10**5000], ids=excerpt)
def test_a_readable_gold_has_no_problem(gold: object) -> None:
    assert check_gold(gold) is None


def test_a_float_gold_is_its_shortest_decimal() -> None:
    assert score("0.1", 0.1) == 1.0


@pytest.mark.parametrize("gold", ["", "eighteen", "1331 and 1728", "18 apples", "1e3", None, True, [18], float("nan")])
def test_an_unreadable_gold_is_named(gold: object) -> None:
    assert "exactly one number" in str(check_gold(gold))
    with pytest.raises(DataError) as raised:
        numeric(["p", "p"], ["1", "18"], ["1", gold])
    assert f"row 1: answer is {gold!r}" in str(raised.value)
