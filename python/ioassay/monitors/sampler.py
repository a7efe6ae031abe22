"""Reads all monitors on a fixed time grid while a trial runs, and says what that itself cost.

The grid does not drift: reading k is due at start + k x interval, however long the others took. Readings that would be
too late are skipped and counted, never squeezed together. It computes nothing from what it reads.

Texts of monitors that can give them unparsed are parsed when all is over: the load pays for the reading alone. On a
run so long that they would fill the memory, the oldest are parsed as new ones come.

A process that is forked while the sampling thread runs inherits that thread's locks, so start the sampler when the
child is there already (`process.run(on_held=...)`).
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ioassay.errors import UsageError, one_line
from ioassay.monitors.text_monitor import TextMonitor, Texts
from ioassay.records.record import Samples, Warning_
from ioassay.roles import Monitor, ProcessMonitor

_SENSELESS = (ValueError, LookupError, ArithmeticError)
"""What parsing raises where a kernel writes another format than its documentation."""
SHORTEST_INTERVAL_S = 0.001
MAX_VALUES = 2_000_000
"""Values kept at most, of 8 bytes: about two hours of a 16-core machine every quarter of a second."""
MAX_TEXT_BYTES = 1 << 26
"""Texts of one monitor that may wait to be parsed."""


class Sampler:
    """Samples `monitors` every `interval_s` seconds. Used once: start, perhaps end, stop (also without it).

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
                f"watch.interval is {interval_s:g} s; expected at least {SHORTEST_INTERVAL_S:g} s, for example 0.25"
            )
        self.warnings: list[Warning_] = []
        self._asked_s = self._interval_s = interval_s
        self._clock = clock
        self._max_values = max_values
        self._logs = [_Log(monitor, self.warnings) for monitor in monitors]
        self._attached = [monitor for monitor in monitors if isinstance(monitor, ProcessMonitor)]
        self._thread = threading.Thread(target=self._sample, name="ioassay-sampler", daemon=True)
        self._running = threading.Lock()  # held until the end; cheaper to wait for than an Event
        self._running.acquire()
        self._failure: BaseException | None = None
        self._origin_s = self._start_s = 0.0
        self._ended = False
        self._cpu_s = 0.0
        self._readings = self._missed = self._values = 0

    def attach(self, pid: int) -> None:
        """Show a process, held before its first instruction, to the monitors of processes."""
        for monitor in self._attached:
            monitor.attach(pid)

    @property
    def unavailable(self) -> dict[str, Mapping[str, str]]:
        """Monitor -> what it cannot count on this machine, with the reason; those that can count all are left out."""
        return {monitor.name: monitor.unavailable for monitor in self._attached if monitor.unavailable}

    def start(self) -> None:
        """Take the first reading and begin; times count from the end of this call."""
        self._start_s = self._clock()
        self._read_all()
        self._values = sum(log.begin() for log in self._logs)
        self._thread.start()
        self._origin_s = self._clock()

    def end(self) -> None:
        """Take the last reading, at the end of the load, and take no more; what it costs to stop is not sampled."""
        if self._thread.ident is None or self._ended:  # the load failed before `start`: there is nothing to read
            return
        self._ended = True
        self._running.release()
        self._thread.join()
        if self._failure is None:
            self._read_all()

    def stop(self) -> tuple[list[Samples], dict[str, float]]:
        """End, if that was not done, and parse; the samples of each monitor, and the cost.

        cost: cpu_s (processor time of the readings), samples (readings of all monitors), interval_s (as asked), missed
        (readings that came too late and were skipped), kept_interval_s (longer than asked when memory had to be saved),
        parsing_cpu_s (processor time of what was parsed after the end).
        """
        self.end()
        if self._failure is not None:
            raise self._failure
        began_s = time.thread_time()
        samples = [log.samples(self._origin_s) for log in self._logs]
        for monitor in self._attached:
            monitor.detach()
        return samples, {
            "cpu_s": self._cpu_s,
            "samples": float(self._readings),
            "interval_s": self._asked_s,
            "missed": float(self._missed),
            "kept_interval_s": self._interval_s,
            "parsing_cpu_s": time.thread_time() - began_s,
        }

    def _sample(self) -> None:
        tick = 1
        try:
            while not self._running.acquire(timeout=max(0.0, self._start_s + tick * self._interval_s - self._clock())):
                self._read_all(counted=False)
                if self._values > self._max_values:
                    # Every second reading is kept, and half as many are taken from now on: memory stays bounded.
                    self._values = sum(log.thin() for log in self._logs)
                    self._interval_s *= 2
                    tick //= 2
                following = next_tick(tick, self._clock() - self._start_s, self._interval_s)
                self._missed += max(0, following - tick - 1)
                tick = following
        except BaseException as error:  # handed over to the thread that stops us
            self._failure = error
        finally:
            self._cpu_s += time.thread_time()  # of this thread, its waiting included

    def _read_all(self, counted: bool = True) -> None:
        began_s = time.thread_time()
        for log in self._logs:
            self._values += log.read(self._clock())
        self._readings += 1
        if counted:
            self._cpu_s += time.thread_time() - began_s


def next_tick(tick: int, elapsed_s: float, interval_s: float) -> int:
    """The number of the next grid point that lies ahead, after the reading of `tick` ended at `elapsed_s`."""
    return max(tick + 1, math.floor(elapsed_s / interval_s) + 1)


class _Log:
    """The readings of one monitor: rows of (time, names, values); rows with the same fields share their names.

    Texts wait in `_texts` until they are parsed, in the order they were taken.
    """

    def __init__(self, monitor: Monitor, warnings: list[Warning_]) -> None:
        self._monitor = monitor
        self._of_texts = monitor if isinstance(monitor, TextMonitor) else None
        self._warnings = warnings
        self._said: set[str] = set()
        self._names: tuple[str, ...] = ()
        self._rows: list[tuple[float, tuple[str, ...], array[float]]] = []
        self._texts: deque[tuple[float, Texts, int]] = deque()
        self._text_bytes = 0

    def read(self, now_s: float) -> int:
        """Take one reading; how many values it has, for a text by the latest that was parsed."""
        if self._of_texts is not None and not self._of_texts.files:
            return 0
        try:
            if self._of_texts is None:
                self._keep(now_s, self._monitor.read())
                return len(self._names)
            texts = self._of_texts.texts()
        except OSError as error:
            self._say("monitor-unreadable", f"monitor '{self._monitor.name}' could not be read: {error}")
            return 0
        except _SENSELESS as error:
            self._say_senseless(error)
            return 0
        size = sum(map(len, texts))
        self._texts.append((now_s, texts, size))
        self._text_bytes += size
        self._parse(MAX_TEXT_BYTES)
        return len(self._names)

    def begin(self) -> int:
        """Parse the first reading, before the load, and warn if it has nothing; how many values it has."""
        self._parse()
        if not self._names and not self._said and not getattr(self._monitor, "often_absent", False):
            self._say("monitor-empty", f"monitor '{self._monitor.name}' found nothing to read on this machine")
        return len(self._names)

    def thin(self) -> int:
        """Drop every second reading; how many values are left."""
        odd = len(self._rows) % 2
        self._rows = self._rows[::2]
        self._texts = deque(itertools.islice(self._texts, odd, None, 2))
        self._text_bytes = sum(size for _, _, size in self._texts)
        return sum(len(names) for _, names, _ in self._rows) + len(self._texts) * len(self._names)

    def samples(self, origin_s: float) -> Samples:
        self._parse()
        time_s, name, value = array("d"), list[str](), array("d")
        for at_s, names, values in self._rows:
            time_s.extend([at_s - origin_s] * len(names))
            name.extend(names)
            value.extend(values)
        return Samples(monitor=self._monitor.name, time_s=time_s, name=name, value=value)

    def _parse(self, most_bytes: int = -1) -> None:
        """Parse the oldest texts, until those that wait have no more bytes than that; by default all."""
        while self._of_texts is not None and self._texts and self._text_bytes > most_bytes:
            at_s, texts, size = self._texts.popleft()
            self._text_bytes -= size
            try:
                self._keep(at_s, self._of_texts.parse(texts))
            except _SENSELESS as error:
                self._say_senseless(error)

    def _say_senseless(self, error: Exception) -> None:
        """A kernel with another format costs the readings that it spoils, and no trial."""
        fault = one_line(f"{type(error).__name__}: {error}")
        self._say("monitor-senseless", f"monitor '{self._monitor.name}' was given readings that make no sense: {fault}")

    def _keep(self, at_s: float, reading: Mapping[str, float]) -> None:
        names, values = tuple(reading), array("d", reading.values())
        if not all(map(math.isfinite, values)):
            raise ValueError("a value that is not finite")
        if names != self._names:
            gone = {name.rpartition(".")[0] or name for name in self._names if name not in reading}
            lost = sorted(name for name in gone if f"lost {name}" not in self._said)
            if lost and self._rows:
                self._said.update(f"lost {name}" for name in lost)
                after_s = at_s - self._rows[0][0]
                text = f"monitor '{self._monitor.name}' lost {', '.join(lost)} {after_s:.3g} s after its first reading"
                self._say("monitor-lost", text, again=True)
            self._names = names
        if names:
            self._rows.append((at_s, self._names, values))

    def _say(self, code: str, text: str, *, again: bool = False) -> None:
        if again or code not in self._said:
            self._said.add(code)
            self._warnings.append(Warning_(code, text, getattr(self._monitor, "remedy", "")))
