"""The reward of a batch: sums, scales, and a named error for everything a function can do wrong."""

import math
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from acrl.errors import DataError, RewardError, excerpt
from acrl.rewards import Reward, RewardFunction, RewardResult, RewardScale, RewardSpec, check_golds, contract
from acrl.rewards.score import read_score


@pytest.fixture
def write(tmp_path: Path):
    """Writes a reward file whose functions are given as {name: body}, and returns its path."""

    def write_file(**bodies: str) -> Path:
        path = tmp_path / "mine.py"
        functions = (
            f"def {name}(prompts, completions, **columns):\n{textwrap.indent(body, '    ')}\n"
            for name, body in bodies.items()
        )
        path.write_text("import math\n" + "\n".join(functions))
        return path

    return write_file


def rewarded(path: Path, *names: str, completions: tuple[str, ...] = ("a", "b"), **columns: list) -> RewardResult:
    reward = Reward(RewardSpec([RewardFunction(f"{path}:{name}") for name in names]))
    rows = [{key: values[i] for key, values in columns.items()} for i in range(len(completions))]
    return reward([f"prompt {i}" for i in range(len(completions))], list(completions), rows)


# --- sums -------------------------------------------------------------------------------------------------------------


def test_total_is_the_weighted_sum_and_parts_are_unweighted(write) -> None:
    # case 99: 1.0 and 0.0 with weights .7 and .3 -> total .7, parts 1 and 0
    path = write(one="return [1.0]", zero="return [0.0]")
    spec = RewardSpec([RewardFunction(f"{path}:one", weight=0.7), RewardFunction(f"{path}:zero", weight=0.3)])
    result = Reward(spec)(["p"], ["c"], [{}])
    assert result.total == [0.7]
    assert result.parts == {"one": [1.0], "zero": [0.0]}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((4.0, 1.0), 1.0),  # all that can be had: Σ weight·maximum = .5·4 + 2·1 = 4
        ((0.0, 0.0), -1.0),
        ((4.0, 0.0), 0.0),  # −1 + 2·2/4
        ((1.0, 0.0), -0.75),  # −1 + 2·.5/4
    ],
)
def test_scale_maps_nothing_to_low_and_everything_to_high(write, scores: tuple[float, float], expected: float) -> None:
    path = write(f=f"return [{scores[0]}]", g=f"return [{scores[1]}]")
    functions = [RewardFunction(f"{path}:f", weight=0.5, maximum=4.0), RewardFunction(f"{path}:g", weight=2.0)]
    reward = Reward(RewardSpec(functions, RewardScale(-1.0, 1.0)))
    assert reward.range == (-1.0, 1.0)
    result = reward(["p"], ["c"], [{}])
    assert result.total == [expected]
    assert result.parts == {"f": [scores[0]], "g": [scores[1]]}


def test_none_adds_nothing_and_is_left_out_of_the_parts(write) -> None:
    path = write(f="return [1.0, None]", g="return [None, 0.5]")
    result = rewarded(path, "f", "g")
    assert result.total == [1.0, 0.5]
    assert result.parts == {"f": [1.0, None], "g": [None, 0.5]}
    assert result.accuracy == [1.0, 0.0]  # not verified counts as not right


def test_a_name_used_twice_gets_a_number(write) -> None:
    path = write(f="return [1.0, 0.0]", f_2="return [0.0, 0.0]")
    assert list(rewarded(path, "f", "f_2", "f", "f").parts) == ["f", "f_2", "f_3", "f_4"]


def test_accuracy_is_the_first_functions_acc_or_its_maximum(write) -> None:
    path = write(
        f="return [{'score': 0.0, 'acc': True}, {'score': 2.0, 'acc': 0}, {'score': 2.0}, 2.0 - 1e-7, 1.9, 3]",
        g="return [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]",
    )
    functions = [RewardFunction(f"{path}:f", maximum=2.0), RewardFunction(f"{path}:g")]
    result = Reward(RewardSpec(functions, RewardScale(-1.0, 1.0)))(["p"] * 6, ["c"] * 6, [{}] * 6)
    assert result.accuracy == [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]


def test_further_numbers_of_a_dict_are_kept(write) -> None:
    path = write(f="return [{'score': 1.0, 'steps': 3}, {'score': 0.0}]")
    result = rewarded(path, "f")
    assert result.extras == {"f/steps": [3.0, None]}
    assert result.parts == {"f": [1.0, 0.0]}


def test_the_built_in_verifier_and_format_together() -> None:
    functions = [RewardFunction("numeric"), RewardFunction("format", 0.5, kwargs={"pattern": ".*#### .*"})]
    result = Reward(RewardSpec(functions))(["p"] * 3, ["#### 18", "18", "#### 17"], [{"answer": "18"}] * 3)
    assert result.total == [1.5, 1.0, 0.5]
    assert result.accuracy == [1.0, 1.0, 0.0]
    assert result.parts == {"numeric": [1.0, 1.0, 0.0], "format": [1.0, 0.0, 1.0]}


# --- what a function is handed ----------------------------------------------------------------------------------------


def test_a_function_gets_texts_and_every_column(write) -> None:
    path = write(
        f="""
        assert prompts == ["prompt 0", "prompt 1"] and completions == ["a", "b"]
        assert columns == {"answer": ["1", "2"], "difficulty": ["easy", None]}
        return [1.0, 0.0]
        """.replace("        ", "")
    )
    reward = Reward(RewardSpec([RewardFunction(f"{path}:f")]))
    rows = [{"answer": "1", "difficulty": "easy"}, {"answer": "2"}]  # the second row lacks a column: None
    assert reward(["prompt 0", "prompt 1"], ["a", "b"], rows).total == [1.0, 0.0]


def test_a_function_that_empties_its_arguments_harms_no_other(write) -> None:
    body = "completions.clear(); prompts.clear(); columns['answer'].clear(); return [1.0, 1.0]"
    path = write(f=body, g="assert len(columns['answer']) == len(completions) == 2; return [0.5, 0.5]")
    assert rewarded(path, "f", "g", answer=["1", "2"]).total == [1.5, 1.5]


def test_an_empty_batch_calls_no_function(write) -> None:
    path = write(f="raise RuntimeError('called')")
    assert Reward(RewardSpec([RewardFunction(f"{path}:f")]))([], [], []) == RewardResult([], [], {"f": []}, {})


def test_arguments_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 prompts, 2 completions, 1 rows"):
        Reward(RewardSpec())(["p"], ["a", "b"], [{"answer": "1"}])


def test_numbers_of_other_libraries_are_numbers(write) -> None:
    class Tensor0:
        def item(self) -> float:
            return 0.25

    class TensorN:
        def item(self) -> float:
            raise ValueError("several elements")

    score = read_score(Tensor0(), 1.0)
    assert score is not None and score.score == 0.25
    with pytest.raises(ValueError, match="TensorN, not a number"):
        read_score(TensorN(), 1.0)
    path = write(f="import array\nreturn array.array('d', [0.5, 1.0])")  # has tolist, like numpy's and torch's
    assert rewarded(path, "f").total == [0.5, 1.0]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "row", "problem", "value"),
    [
        ("return [0.0, math.nan]", "row 1 of 2", "not finite", "nan"),
        ("return [0.0, -math.inf]", "row 1 of 2", "not finite", "-inf"),
        ("return [0.0, 10 ** 5000]", "row 1 of 2", "not finite", "<int>"),
        ("return [0.0, '1.0']", "row 1 of 2", "str, not a number", "'1.0'"),
        ("return [0.0, [1.0]]", "row 1 of 2", "list, not a number", "[1.0]"),
        ("return [0.0, 1j]", "row 1 of 2", "complex, not a number", "1j"),
        ("return [0.0, {'acc': 1}]", "row 1 of 2", "no 'score'", "{'acc': 1}"),
        ("return [0.0, {'score': None}]", "row 1 of 2", "'score' is NoneType", "{'score': None}"),
        ("return [0.0, {'score': math.nan}]", "row 1 of 2", "'score' is not finite", "{'score': nan}"),
        ("return [0.0, {'score': 1, 'acc': 0.5}]", "row 1 of 2", "'acc' is neither 0 nor 1", "0.5"),
        ("return [0.0, {'score': 1, 'acc': 'yes'}]", "row 1 of 2", "'acc' is str", "yes"),
        ("return [0.0, {'score': 1, 'why': 'no'}]", "row 1 of 2", "'why' is str", "'why': 'no'"),
        ("return [0.0, {'score': 1, 'why': math.nan}]", "row 1 of 2", "'why' is not finite", "nan"),
        ("return [1.0]", "rows 0 to 1", "1 results for 2 completions", "[1.0]"),
        ("return [1.0] * 3", "rows 0 to 1", "3 results for 2 completions", "[1.0, 1.0, 1.0]"),
        ("return []", "rows 0 to 1", "0 results for 2 completions", "[]"),
        ("return 1.0", "rows 0 to 1", "float instead of a list", "1.0"),
        ("return None", "rows 0 to 1", "NoneType instead of a list", "None"),
        ("return 'ab'", "rows 0 to 1", "str instead of a list", "'ab'"),
        ("return {'a': 1, 'b': 2}", "rows 0 to 1", "dict instead of a list", "{'a': 1, 'b': 2}"),
        ("return (c for c in completions)", "rows 0 to 1", "generator instead of a list", "<generator"),
    ],
)
def test_a_bad_result_names_function_row_and_value(write, body: str, row: str, problem: str, value: str) -> None:
    path = write(f=body)
    with pytest.raises(RewardError) as raised:
        rewarded(path, "f", completions=("first", "second"))
    message = str(raised.value)
    completion = "second" if row.startswith("row 1") else "first"
    for part in (f"'{path}:f'", row, problem, value, f"'{completion}'", "'prompt ", "Return one finite number"):
        assert part in message


@pytest.mark.parametrize("raising", ["1 / 0", "raise SystemExit(3)", "raise AssertionError"])
def test_an_exception_names_the_row_that_causes_it(write, raising: str) -> None:
    path = write(f=f"if 'bad' in completions: {raising}\nreturn [0.0] * len(completions)")
    with pytest.raises(RewardError) as raised:
        rewarded(path, "f", completions=("good", "bad", "good"))
    message = str(raised.value)
    cause = raised.value.__cause__
    assert cause is not None
    for part in (f"'{path}:f'", "row 1 of 3", f"raised {type(cause).__name__}", "prompt: 'prompt 1'", "'bad'"):
        assert part in message


def test_an_exception_no_single_row_causes_names_the_batch(write) -> None:
    path = write(f="if len(completions) > 1: raise ValueError('\\x1b[2J too many')\nreturn [0.0]")
    with pytest.raises(RewardError, match="rows 0 to 1 in the batch: raised ValueError") as raised:
        rewarded(path, "f")
    assert isinstance(raised.value.__cause__, ValueError)
    assert "no row was found" in str(raised.value) and "\x1b" not in str(raised.value)


def test_the_search_for_the_row_gives_up_when_slow(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "SEARCH_SECONDS", -1.0)
    path = write(f="if 'bad' in completions: 1 / 0\nreturn [0.0] * len(completions)")
    with pytest.raises(RewardError, match="no row was found"):
        rewarded(path, "f", completions=("good", "good", "bad"))


def test_a_keyboard_interrupt_is_not_a_reward_error(write) -> None:
    path = write(f="if len(completions) > 1: raise KeyboardInterrupt\nreturn [0.0]")
    with pytest.raises(KeyboardInterrupt):
        rewarded(path, "f")


def test_hostile_text_is_shortened_and_escaped_in_the_message(write) -> None:
    path = write(f="return [math.nan]")
    with pytest.raises(RewardError) as raised:
        rewarded(path, "f", completions=("\x1b[2J\r\0\u202e" + "x" * 1_000_000,))
    message = str(raised.value)
    assert len(message) < 1200
    assert r"\x1b[2J\r\x00\u202exxx" in message and "(1,000,007 characters)" in message
    assert not any(character in message for character in "\x1b\r\0\u202e")


def test_every_function_returning_none_names_the_row(write) -> None:
    path = write(f="return [1.0, None]", g="return [None, None]")
    with pytest.raises(RewardError) as raised:
        rewarded(path, "f", "g", completions=("first", "second"))
    for part in (f"'{path}:f', '{path}:g'", "row 1 of 2", "every function returned None", "'second'"):
        assert part in str(raised.value)


def test_a_sum_beyond_floats_is_an_error(write) -> None:
    path = write(f="return [1e308, 1e308]")
    with pytest.raises(RewardError, match="row 0 of 2 in the batch: the weighted sum is not finite"):
        rewarded(path, "f", "f")
    assert math.isfinite(1e308)


def test_a_column_no_row_has_is_named_with_the_ones_there_are() -> None:
    reward = Reward(RewardSpec())
    assert reward.required_columns == ["answer"]
    with pytest.raises(RewardError) as raised:
        reward(["p"], ["18"], [{"solution": "18"}])
    for part in ("'numeric'", "row 0 of 1", "needs the column 'answer'", "value: {'solution': '18'}"):
        assert part in str(raised.value)


def test_a_bad_gold_at_reward_time_names_row_and_value() -> None:
    with pytest.raises(RewardError) as raised:
        Reward(RewardSpec())(["p", "q"], ["1", "1"], [{"answer": "1"}, {"answer": "one"}])
    assert "row 1 of 2" in str(raised.value) and "answer is 'one'" in str(raised.value)
    assert isinstance(raised.value.__cause__, DataError)


# --- golds before a run -----------------------------------------------------------------------------------------------


class _Row:
    def __init__(self, line: int, answer: object) -> None:
        self.id = f"train.jsonl:{line}"
        self.columns = {"answer": answer}


def test_golds_that_cannot_be_matched_are_listed_before_a_run() -> None:
    rows = [_Row(line, "18" if line == 3 else f"no {line}") for line in range(1, 9)]
    with pytest.raises(DataError) as raised:
        check_golds(RewardSpec(), rows, "data/train.jsonl")
    message = str(raised.value)
    assert "data/train.jsonl: the reward function 'numeric' cannot use 7 of 8 answers" in message
    assert "train.jsonl:1: 'answer' is 'no 1'; " in message and "train.jsonl:6: 'answer' is 'no 6'" in message
    assert "no 7" not in message and "and 2 more" in message


def test_good_golds_and_other_verifiers_golds_pass() -> None:
    assert check_golds(RewardSpec(), [_Row(1, "#### 18")], "f") is None
    assert check_golds(RewardSpec([RewardFunction("mine.py:f")]), [_Row(1, "any text")], "f") is None


# --- quoting, imports -------------------------------------------------------------------------------------------------


class _Repr:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class _NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("a\nb", r"'a\nb'"),
        ("x" * 201, "'" + "x" * 200 + "'… (201 characters)"),
        (0.5, "0.5"),
        (10**5000, "<int>"),
        (_NoRepr(), "<_NoRepr>"),
        (_Repr("a\n\x1bb"), r"a\n\x1bb"),
        ([1] * 1000, "[" + "1, " * 66 + "1…"),
    ],
    ids=lambda value: excerpt(value, 20),
)
def test_excerpt(value: object, quoted: str) -> None:
    assert excerpt(value) == quoted


def test_rewards_import_no_torch() -> None:
    code = "import sys, acrl.rewards; print(sorted({'torch', 'numpy', 'pytorch_lightning'} & set(sys.modules)))"
    root = Path(contract.__file__).parents[2]
    printed = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert printed.stdout.strip() == "[]", printed.stderr
