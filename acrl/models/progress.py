"""Shows how far a build is: a bar on a terminal, one line a stage elsewhere; always on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, int, int, float], None]  # stage, steps done, steps in all, loss


@contextmanager
def reporter(title: str, enabled: bool) -> Iterator[Report]:
    """A function to call after every step; what it shows is gone or final when the context ends."""
    if not enabled:
        yield lambda stage, done, steps, loss: None
    elif sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield _lines(title)


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks = {}

        def report(stage: str, done: int, steps: int, loss: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(f"{title}: {stage}", total=steps, loss=loss)
            bar.update(tasks[stage], completed=done, loss=loss)

        yield report


def _lines(title: str) -> Report:
    started = time.monotonic()

    def report(stage: str, done: int, steps: int, loss: float) -> None:
        if done == steps:
            seconds = time.monotonic() - started
            print(
                f"{title}: {stage}, {steps} steps, loss {loss:.3f}, {seconds:.0f} s so far", file=sys.stderr, flush=True
            )

    return report
