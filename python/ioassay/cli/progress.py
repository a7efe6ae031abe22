"""Progress of a run on a terminal: a bar, the time left, the current point and its current rates.

Where stderr is no terminal, a line a minute.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ioassay import debug_log, units
from ioassay.cli import console
from ioassay.roles import CurrentRates, Trial
from ioassay.runner.progress import Progress, RemainingTime

_BAR_COLUMNS = 24
_ERASE_LINE, _ERASE_BELOW, _UP = "\x1b[K", "\x1b[J", "\x1b[A"
"""To the end of the line, to the end of the screen, one line up (ECMA-48: EL, ED, CUU)."""


class Bar:
    """One line of a terminal, and one below it while there are rates, redrawn in place and removed at the end.

    What is said stays above it. Between drawings the cursor is in its first line.
    """

    every_s = 0.1

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream, self.total, self._left, self._point, self.rates = stream, total, "", "", ""
        self.completed = 0
        self._drawn_s = -self.every_s
        self._erase = _ERASE_LINE
        self._lock = threading.Lock()

    def update(self, *, left: str | None = None, point: str | None = None, rates: str | None = None) -> None:
        """Show the time left, what is under way, or how fast it is; rates of '' take their line away."""
        self._left = self._left if left is None else left
        self._point = self._point if point is None else point
        self.rates = self.rates if rates is None else rates
        if time.monotonic() - self._drawn_s >= self.every_s:
            self._draw()

    def say(self, text: str) -> None:
        with self._lock:
            self._stream.write(f"\r{self._erase}{text}\n")
        self._draw()

    def end(self) -> None:
        with self._lock:
            self._stream.write(f"\r{self._erase}")
            self._stream.flush()

    def _draw(self) -> None:
        full = round(_BAR_COLUMNS * min(self.completed / max(self.total, 1), 1.0))
        bar = "━" * full + "╺" + "─" * (_BAR_COLUMNS - full - 1) if full < _BAR_COLUMNS else "━" * full
        line = f"{bar} {self.completed}/{self.total} {self._left} left {self._point}"
        with self._lock:
            try:
                columns = os.get_terminal_size(self._stream.fileno()).columns or 80
            except OSError:
                columns = 80
            self._stream.write("\r" + line[: columns - 1] + self._erase)
            if self.rates:
                self._stream.write("\n" + self.rates[: columns - 1] + _UP)
            self._erase = _ERASE_BELOW if self.rates else _ERASE_LINE
            self._stream.flush()
            self._drawn_s = time.monotonic()


class Log(Bar):
    every_s = 60.0

    def __init__(self, stream: TextIO, total: int) -> None:
        super().__init__(stream, total)
        self._drawn_s = time.monotonic()

    def say(self, text: str) -> None:
        """The end of the command says it."""

    def end(self) -> None:
        """Lines stay."""

    def _draw(self) -> None:
        self._drawn_s = time.monotonic()
        console.note(f"{self.completed} of {self.total} trials done, {self._left} left: {self._point}")


class Terminal(Progress):
    """A bar over all trials. The time left comes from this run's own trials, and before the first from the plan.

    Where several run at once, a trial counts for the share of one that it had of the time.
    """

    def __init__(self, bar: Bar, total: int, forecast_s: float) -> None:
        self._bar = bar
        self._left = RemainingTime(total, forecast_s, time.monotonic)
        self._running: dict[str, Trial] = {}
        bar.update(left=units.format_duration(round(forecast_s)))

    def grown(self, trials: int) -> None:
        self._bar.total = self._left.total = trials

    def preparing(self, text: str, share: float) -> None:
        self._bar.update(point=f"{text} {share:.0%}")

    def started(self, trial: Trial) -> None:
        self._running[trial.id] = trial
        self._left.start(trial.id)
        self._bar.update(point=self._latest(), rates="0 s" if self._bar.rates else "")

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """Show the current rates, each with its source; of several hosts those of the trial that is shown."""
        if self._running and trial.id != next(reversed(self._running)):
            return
        sources = []
        for name, source in ((trial.driver, rates.tool), (rates.device, rates.storage)):
            if source is not None:
                numbers = [f"{units.format_count(source.iops)} IOPS", units.format_rate(source.bytes_per_s)]
                if source is rates.storage and rates.latency_ns is not None:
                    numbers.append(units.format_ns(rates.latency_ns))
                sources.append(f"{name} {', '.join(numbers)}")
        left = units.format_duration(round(self._left.seconds()))
        line = f"{int(rates.elapsed_s)} s" + (f"  now {'   '.join(sources)}" if sources else "")
        self._bar.update(left=left, point=self._latest(), rates=line)

    def ended(self, trial: Trial, status: str) -> None:
        self._running.pop(trial.id, None)
        self._left.end(trial.id)
        self._bar.completed += 1
        if status == "failed":
            self._bar.say(f"failed: {_named(trial)}")
        self._bar.update(left=units.format_duration(round(self._left.seconds())))
        if self._running:
            self._bar.update(point=self._latest())

    def said(self, text: str) -> None:
        self._bar.say(text)

    def _latest(self) -> str:
        """The trial that began last, and how many others run."""
        latest = next(reversed(self._running.values()))
        others = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        return f"{_named(latest)} #{latest.repetition + 1}{others}"


def _named(trial: Trial) -> str:
    from ioassay.study import plan

    return f"{trial.study} {plan.describe(trial.point)}"


@contextmanager
def shown(total: int, forecast_s: float) -> Iterator[Progress]:
    """A Progress for `total` trials: a bar where stderr is a terminal, and a line a minute elsewhere."""
    if debug_log.enabled():  # a bar and a log would overwrite each other
        yield Progress()
        return
    bar = (Bar if sys.stderr.isatty() else Log)(sys.stderr, total)
    try:
        yield Terminal(bar, total, forecast_s)
    finally:
        bar.end()


@contextmanager
def _passing_line() -> Iterator[Callable[[str], None] | None]:
    """Draws a line of stderr in place, which is gone at the end; None where stderr is no terminal."""
    if not sys.stderr.isatty() or debug_log.enabled():
        yield None
        return
    drawn = False

    def draw(text: str) -> None:
        nonlocal drawn
        drawn = True
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        sys.stderr.write(f"\r{text[: columns - 1]}{_ERASE_LINE}")
        sys.stderr.flush()

    try:
        yield draw
    finally:
        if drawn:
            sys.stderr.write(f"\r{_ERASE_LINE}")
            sys.stderr.flush()


@contextmanager
def examining() -> Iterator[Callable[[str, float], None]]:
    """Takes what is examined before a run, with its share; drawn only where stderr is a terminal, and gone after."""
    with _passing_line() as draw:
        yield lambda text, share: draw(f"{text}: {share:.0%}") if draw else None


_SILENT_S = 1.0
"""What takes less says nothing."""
Listener = Callable[[int, int], None]
"""Called with what was read and all there is, bytes or requests; all is 0 where nobody knows."""


@contextmanager
def reading_progress() -> Iterator[Listener | None]:
    """What to call with the progress of reading; None where nobody looks on. The line is gone at the end."""
    began_s = time.monotonic()
    with _passing_line() as draw:

        def listen(done: int, total: int) -> None:
            elapsed_s, share = time.monotonic() - began_s, min(done / total, 1.0) if total else 0.0
            if draw and elapsed_s >= _SILENT_S:  # the time alone where the end is unknown, as of standard input
                rest = units.format_duration(elapsed_s * (1 - share) / share) if share else ""
                so_far = f"{units.format_duration(elapsed_s)} so far"
                draw(f"{share:.0%} of the trace, {rest} left" if rest else so_far)

        yield listen if draw else None
