"""What a running trial does now, about once a second: as its tool says, and as the kernel counts for its device.

Reading is a pread(2) of the end of the tool's output and one of /proc/diskstats, in the thread that waits for the tool.
It is the same in every run, whether or not anybody looks on. A source that has nothing to say is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ioassay.monitors import monitor
from ioassay.roles import CurrentRates, Driver, Rates

INTERVAL_S, SHORT_INTERVAL_S, SHORT_S = 1.0, 0.5, 2.0
"""Between two reports; and in the first seconds of a trial, since some trials have no more."""
_STALE_S = 2.5
"""A tool that has written nothing for so long says nothing of the moment; fio writes once a second."""
_END_BYTES = 4096
_SECTOR_BYTES = 512
_LEAST_MS = 20.0
"""Of the time of all requests: with less, rounding to milliseconds would change their mean by more than 5 %."""


class RateReader:
    """Hands a trial's current rates to `on_rates`: `begin` as its tool begins, `report` as often as one likes."""

    def __init__(
        self,
        driver: Driver,
        stdout: Path,
        device: str,
        on_rates: Callable[[CurrentRates], None],
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver, self._stdout, self._device, self._on_rates = driver, stdout, device, on_rates
        self._clock = clock
        self._disk = monitor("disk", devices=[device], root=root) if device else None
        self._began_s = self._reported_s = self._written_s = 0.0
        self._written_bytes = 0
        self._counted: Mapping[str, float] = {}

    def begin(self) -> None:
        """The tool begins now."""
        self._began_s = self._reported_s = self._written_s = self._clock()
        self._counted = self._counters()

    def report(self) -> None:
        """Hand over the rates since the last time, once that is long enough ago."""
        now_s = self._clock()
        seconds = now_s - self._reported_s
        if seconds < (INTERVAL_S if now_s - self._began_s > SHORT_S else SHORT_INTERVAL_S):
            return
        before, self._counted, self._reported_s = self._counted, self._counters(), now_s
        storage, latency_ns = _of_device(self._device, before, self._counted, seconds)
        device = self._device if storage is not None else ""
        self._on_rates(CurrentRates(now_s - self._began_s, self._of_tool(now_s), device, storage, latency_ns))

    def _of_tool(self, now_s: float) -> Rates | None:
        try:
            with self._stdout.open("rb") as file:
                size_bytes = os.fstat(file.fileno()).st_size
                end = os.pread(file.fileno(), _END_BYTES, max(0, size_bytes - _END_BYTES))
        except OSError:
            return None
        if size_bytes != self._written_bytes:
            self._written_bytes, self._written_s = size_bytes, now_s
        return self._driver.rates(end.decode(errors="replace")) if now_s - self._written_s < _STALE_S else None

    def _counters(self) -> Mapping[str, float]:
        with suppress(OSError, ValueError):
            return self._disk.read() if self._disk is not None else {}
        return {}


def _of_device(
    device: str, before: Mapping[str, float], after: Mapping[str, float], seconds: float
) -> tuple[Rates | None, float | None]:
    """Completed reads and writes, and their mean latency; flushes and discards are neither."""
    grown = {name.removeprefix(f"{device}."): after[name] - before.get(name, after[name]) for name in after}
    if not grown:
        return None, None
    requests, spent_ms = grown["reads"] + grown["writes"], grown["read_ms"] + grown["write_ms"]
    moved_bytes = _SECTOR_BYTES * (grown["read_sectors"] + grown["write_sectors"])
    latency_ns = 1e6 * spent_ms / requests if requests and spent_ms >= _LEAST_MS else None
    return Rates(requests / seconds, moved_bytes / seconds), latency_ns
