"""Latencies over time: the histogram logs that trials kept, of all their jobs together.

They stay in the raw folders of the trials, since a log has a histogram for each interval, and are read when asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ioassay.formats import fio_logs
from ioassay.records.record import LatencyWindow
from ioassay.store.dataset import Dataset


def kept(records: Dataset, trial: str) -> bool:
    """Whether a trial kept a histogram log, readable or not."""
    return bool(_logs(records, trial))


def _logs(records: Dataset, trial: str) -> Sequence[Path]:
    return fio_logs.histogram_logs(records.root / "trials" / trial / "raw")


def of_trials(records: Dataset, trials: Iterable[str], direction: str) -> dict[str, list[LatencyWindow]]:
    """Trial -> its windows of one direction; trials without such a log are absent.

    InputError for a log that cannot be read.
    """
    found = {}
    for trial in trials:
        if windows := fio_logs.latency_windows(_logs(records, trial)).get(direction):
            found[trial] = windows
    return found
