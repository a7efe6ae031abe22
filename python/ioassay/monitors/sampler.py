"""Reads all monitors on a fixed time grid while a trial runs, and says what that itself cost.

The grid does not drift: reading k is due at start + k x interval, however long the others took. Readings that would be
too late are skipped and counted, never squeezed together. It computes nothing from what it reads.

    sampler = Sampler(monitors, 0.25)
    sampler.start()
    try:
        sampler.mark()                      # when the load is let go: time zero
        ...
    finally:
        samples, cost = sampler.stop()

A process that is forked while the sampling thread runs inherits that thread's locks, so start the sampler when the
child is there already (`process.run(on_held=...)`).
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence

from ioassay.errors import UsageError
from ioassay.record import Samples, Warning_
from ioassay.roles import Monitor

SHORTEST_INTERVAL_S = 0.001
MAX_VALUES = 2_000_000
"""Values kept at most, of 8 bytes: about two hours of a 16-core machine every quarter of a second."""


class Sampler:
    """Samples `monitors` every `interval_s` seconds. Used once: start, perhaps mark, stop (also without a start).

    `warnings` says what could not be read, or went away meanwhile. UsageError for an impossible interval.
    """

    def __init__(
        self,
        monitors: Sequence[Monitor],
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        max_values: int = MAX_VALUES,
    ) -> None:
        if not interval_s >= SHORTEST_INTERVAL_S:
            raise UsageError(
                f"watch.interval is {interval_s:g} s; wanted at least {SHORTEST_INTERVAL_S:g} s, for example 0.25"
            )
        self.warnings: list[Warning_] = []
        self._asked_s = self._interval_s = interval_s
        self._clock = clock
        self._max_values = max_values
        self._logs = [_Log(monitor, self.warnings) for monitor in monitors]
        self._thread = threading.Thread(target=self._run, name="ioassay-sampler", daemon=True)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._origin_s = self._start_s = 0.0
        self._cpu_s = 0.0
        self._readings = self._missed = 0

    def start(self) -> None:
        """Take the first reading and begin; times count from here until `mark` says otherwise."""
        self._origin_s = self._start_s = self._clock()
        self._read_all()
        for log in self._logs:
            log.warn_if_empty()
        self._thread.start()

    def mark(self, at_s: float | None = None) -> None:
        """Make `at_s` (a reading of the clock; now by default) the zero of all times: earlier ones are negative."""
        self._origin_s = self._clock() if at_s is None else at_s

    def stop(self) -> tuple[list[Samples], dict[str, float]]:
        """Take the last reading and end; the samples of each monitor, and the cost.

        cost: cpu_s (processor time of the readings), samples (readings of all monitors), interval_s (as asked), missed
        (readings that came too late and were skipped), kept_interval_s (longer than asked when memory had to be saved).
        """
        self._stopping.set()
        if self._thread.ident is not None:  # otherwise the load failed before `start`: there is nothing to read
            self._thread.join()
            if self._failure is not None:
                raise self._failure
            self._read_all()
        cost = {
            "cpu_s": self._cpu_s,
            "samples": float(self._readings),
            "interval_s": self._asked_s,
            "missed": float(self._missed),
            "kept_interval_s": self._interval_s,
        }
        return [log.samples(self._origin_s) for log in self._logs], cost

    def _run(self) -> None:
        try:
            self._sample()
        except BaseException as error:  # handed over to the thread that stops us
            self._failure = error
        finally:
            self._cpu_s += time.thread_time()  # of this thread, its waiting included

    def _sample(self) -> None:
        tick = 1
        while not self._stopping.wait(max(0.0, self._start_s + tick * self._interval_s - self._clock())):
            self._read_all(counted=False)
            if sum(log.values for log in self._logs) > self._max_values:
                self._thin()
                tick //= 2
            following = next_tick(tick, self._clock() - self._start_s, self._interval_s)
            self._missed += max(0, following - tick - 1)
            tick = following

    def _read_all(self, counted: bool = True) -> None:
        began_s = time.thread_time()
        for log in self._logs:
            log.read(self._clock())
        self._readings += 1
        if counted:
            self._cpu_s += time.thread_time() - began_s

    def _thin(self) -> None:
        """Keep every second reading and take half as many from now on: memory stays bounded on a run of any length."""
        for log in self._logs:
            log.thin()
        self._interval_s *= 2


def next_tick(tick: int, elapsed_s: float, interval_s: float) -> int:
    """The number of the next grid point that lies ahead, after the reading of `tick` ended at `elapsed_s`."""
    return max(tick + 1, math.floor(elapsed_s / interval_s) + 1)


class _Log:
    """The readings of one monitor: rows of (time, names, values); rows with the same fields share their names."""

    def __init__(self, monitor: Monitor, warnings: list[Warning_]) -> None:
        self.values = 0
        self._monitor = monitor
        self._warnings = warnings
        self._said: set[str] = set()
        self._names: tuple[str, ...] = ()
        self._rows: list[tuple[float, tuple[str, ...], array[float]]] = []

    def read(self, now_s: float) -> None:
        try:
            reading = self._monitor.read()
        except OSError as error:
            self._say("monitor-unreadable", f"monitor '{self._monitor.name}' could not be read: {error}")
            return
        names = tuple(reading)
        if names != self._names:
            self._note_lost(reading, now_s)
            self._names = names
        if names:
            self._rows.append((now_s, self._names, array("d", reading.values())))
            self.values += len(names)

    def warn_if_empty(self) -> None:
        if not self._names and not self._said:
            self._say("monitor-empty", f"monitor '{self._monitor.name}' found nothing to read on this machine")

    def thin(self) -> None:
        self._rows = self._rows[::2]
        self.values = sum(len(names) for _, names, _ in self._rows)

    def samples(self, origin_s: float) -> Samples:
        time_s, name, value = array("d"), list[str](), array("d")
        for at_s, names, values in self._rows:
            time_s.extend([at_s - origin_s] * len(names))
            name.extend(names)
            value.extend(values)
        return Samples(monitor=self._monitor.name, time_s=time_s, name=name, value=value)

    def _note_lost(self, reading: Mapping[str, float], now_s: float) -> None:
        lost = sorted({name.rpartition(".")[0] or name for name in self._names if name not in reading})
        if lost and self._rows:
            after_s = now_s - self._rows[0][0]
            text = f"monitor '{self._monitor.name}' lost {', '.join(lost)} {after_s:.3g} s after its first reading"
            self._say("monitor-lost", text, key=f"lost {lost}")

    def _say(self, code: str, text: str, key: str = "") -> None:
        if (key or code) not in self._said:
            self._said.add(key or code)
            self._warnings.append(Warning_(code, text, getattr(self._monitor, "remedy", "")))
