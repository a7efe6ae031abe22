"""One instant for trials of several hosts: each tells when its tool is held, the last one fixes the instant.

Clocks differ. A host's offset is that of its clock from the middle of the quickest of a few questions, wrong by half of
that question's time at most (D. L. Mills, Computer Network Time Synchronization).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LEAD_S = 0.4
"""From fixing an instant to it: the hosts have to hear of it, and read their counters."""
_QUESTIONS = 12


@dataclass(frozen=True)
class ClockOffset:
    """By how much a host's clock is ahead of this one's, in seconds, and what that may be wrong by."""

    seconds: float = 0.0
    uncertainty_s: float = 0.0


def clock_offset(ask: Callable[[], float], clock: Callable[[], float] = time.time) -> ClockOffset:
    """Compare a clock with this host's; `ask` gives its time."""
    found = []
    for _ in range(_QUESTIONS):
        before_s = clock()
        there_s = ask()
        after_s = clock()
        found.append(ClockOffset(there_s - (before_s + after_s) / 2, (after_s - before_s) / 2))
    return min(found, key=lambda one: one.uncertainty_s)


class CommonStart:
    """The start of one group of trials. Each host arrives or leaves once; the others wait for none that left."""

    def __init__(self, hosts: Sequence[str], absent: Sequence[str] = ()) -> None:
        self._expected, self._absent = set(hosts), list(absent)
        self._slowest_s, self._instant_s = 0.0, 0.0
        self._changed = threading.Condition()

    def arrive(self, host: str, offset: ClockOffset) -> None:
        """The host's tool is held."""
        with self._changed:
            self._slowest_s = max(self._slowest_s, offset.uncertainty_s)
            self._take(host)

    def leave(self, host: str) -> None:
        """The host does not start with the others, or has started."""
        with self._changed:
            if host in self._expected:
                self._absent.append(host)
            self._take(host)

    @property
    def absent(self) -> Sequence[str]:
        """Hosts that do not start with the others."""
        return tuple(sorted(self._absent))

    def instant_s(self, timeout_s: float) -> float | None:
        """The instant by this host's clock; None where it is not fixed within the time."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._instant_s), timeout_s)
            return self._instant_s or None

    def _take(self, host: str) -> None:
        self._expected.discard(host)
        if not self._expected and not self._instant_s:
            self._instant_s = time.time() + _LEAD_S + 10 * self._slowest_s
            self._changed.notify_all()
