"""Where an iteration's seconds go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Clock:
    """Seconds per phase and in total since the last lap."""

    def __init__(self) -> None:
        self._phases: defaultdict[str, float] = defaultdict(float)
        self._start = perf_counter()
        self._spent = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time within towards `name`."""
        start = perf_counter()
        try:
            yield
        finally:
            self._phases[name] += perf_counter() - start

    def add(self, name: str, seconds: float) -> None:
        """Count seconds measured elsewhere towards `name`."""
        self._phases[name] += seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the last lap."""
        return perf_counter() - self._start

    @property
    def spent(self) -> float:
        """Seconds of all laps, evaluation left out; settable, to take up a resumed run's."""
        return self._spent + self.elapsed - self._phases["eval"]

    @spent.setter
    def spent(self, seconds: float) -> None:
        self.restart()
        self._spent = seconds

    def shift(self, seconds: float) -> None:
        """Take seconds that belong to no lap out of the current one's total."""
        self._start += seconds

    def restart(self) -> None:
        """Start the current lap anew; what came before belongs to none."""
        self._phases.clear()
        self._start = perf_counter()

    def lap(self) -> dict[str, float]:
        """Return `time/<phase>` and `time/total` in seconds, and start a new lap."""
        self._spent = self.spent
        times = {f"time/{name}": seconds for name, seconds in self._phases.items()}
        times["time/total"] = self.elapsed
        self.restart()
        return times
