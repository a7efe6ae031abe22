"""Hit ratios of write buffers from a sample of a trace's pages (SHARDS), for traces that are too long to simulate.

No drive is simulated: of what a sample leaves, only the hits stand for those of the whole trace. How a sample is
drawn, and what its errors are: docs/simulator.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ioassay.errors import UsageError
from ioassay.records.record import Warning_
from ioassay.simulation.options import FEED, NAMES, PRECONDITION

LARGE_ERROR = 0.05
"""An error above which a warning asks for a larger sample."""
_TIMELESS = ("unaligned",)
"""Options of the arrival mode that hits depend on without a drive."""


@dataclass(frozen=True)
class Estimate:
    """A share of pages, and half the width of its interval of 95 %; None where the sample is too small for one."""

    value: float
    error: float | None


@dataclass(frozen=True)
class SampledHits:
    """What a sample of a trace says of one write buffer."""

    requests: int
    written_pages: int
    read_pages: int
    sampled_pages: int
    """Page reads and writes that were looked at."""
    rate: float
    """Share of the pages that were looked at: the one asked for, rounded so that the buffer has whole pages."""
    slots: int
    """Pages of the sample's buffer."""
    hit_ratio: Estimate
    read_hit_ratio: Estimate | None
    optimum: Estimate
    """The highest possible hit ratio of a buffer of this size."""

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers with their units in their names; None where there is none."""
        reads = self.read_hit_ratio or Estimate(0.0, None)
        return {
            "requests": self.requests,
            "written_pages": self.written_pages,
            "read_pages": self.read_pages,
            "sampled_pages": self.sampled_pages,
            "sample_rate": self.rate,
            "sample_slots": self.slots,
            "hit_ratio": self.hit_ratio.value,
            "hit_ratio_error": self.hit_ratio.error,
            "read_hit_ratio": reads.value if self.read_hit_ratio else None,
            "read_hit_ratio_error": reads.error,
            "optimum_hit_ratio": self.optimum.value,
            "optimum_hit_ratio_error": self.optimum.error,
        }

    @property
    def warnings(self) -> list[Warning_]:
        """What a reader of the numbers has to know."""
        return list(self._warnings())

    def _warnings(self) -> Iterator[Warning_]:
        if not self.written_pages:
            yield Warning_("nothing-measured", "the trace writes no page: there are no hits to estimate")
            return
        errors = [self.hit_ratio.error, self.optimum.error]
        if any(error is None or error > LARGE_ERROR for error in errors):
            text = f"the sample of {self.sampled_pages:,} pages is too small: an error is above {LARGE_ERROR}"
            yield Warning_("small-sample", text, "raise --sample")


def from_core(raw: Mapping[str, Any]) -> SampledHits:
    """What the core found of one buffer."""
    reads = raw["read_hit_ratio"]
    counts = {name: raw[name] for name in ("requests", "written_pages", "read_pages", "sampled_pages", "rate", "slots")}
    return SampledHits(
        **counts,
        hit_ratio=Estimate(*raw["hit_ratio"]),
        read_hit_ratio=None if reads is None else Estimate(*reads),
        optimum=Estimate(*raw["optimum_hit_ratio"]),
    )


def check(options: Mapping[str, Any]) -> None:
    """UsageError for an option of a simulation that has no effect on a sample: when requests come, and wear."""
    for name in options:
        if name in NAMES and NAMES[name].group in (FEED, PRECONDITION) and name not in _TIMELESS:
            raise UsageError(
                f"{name.replace('_', '-')} and sample do not go together: a sample has hit ratios, and no times or wear"
            )
