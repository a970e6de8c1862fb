"""Built-in format reward: does the whole completion match a regular expression?"""

import re

from acrl.errors import ConfigError, excerpt


def format(prompts: list[str], completions: list[str], pattern: str, **columns: list) -> list[float]:
    """1.0 where `pattern` matches the whole completion (`.` matches newlines too), else 0.0.

    The completion is the generated text alone: where the prompt template already opens a tag ("<think>\\n"), the
    pattern must not expect it. It runs without a time limit on whatever the model wrote: avoid nested repeats (a+)+.
    Raises: ConfigError for a pattern that does not compile.
    """
    regex = compile_pattern(pattern)
    return [1.0 if regex.fullmatch(completion) else 0.0 for completion in completions]


def compile_pattern(pattern: object) -> re.Pattern[str]:
    """The compiled pattern. Raises: ConfigError naming the pattern and what is wrong with it."""
    if not isinstance(pattern, str):
        raise ConfigError(
            f"reward function 'format': kwargs.pattern is {excerpt(pattern)}; "
            "give a regular expression for the whole completion, e.g. '.*#### [0-9]+'"
        )
    try:
        return re.compile(pattern, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"reward function 'format': kwargs.pattern {excerpt(pattern)} is not a regular expression: {error}"
        ) from error
