"""How long a drive lasts under a workload, from the wear of one simulation of it in steady state.

Erasures for each page of the host come from the steady part of the run: its beginning is cut off where that makes the
standard error of the write amplification least (MSER: K. P. White, Simulation 69, 1997). Intervals are those of a
ratio of sums over batches of the host's writes (batch means: B. Schmeiser, Operations Research 30, 1982; the ratio:
W. G. Cochran, Sampling Techniques, 1977). With *even wear* every block reaches its endurance; nothing here levels wear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay import _core, units
from ioassay.errors import UsageError
from ioassay.stats.result import Interval

if TYPE_CHECKING:
    from ioassay.packs.ssd.simulator.results import Simulation
    from ioassay.stats.result import Floats

WARRANTY_YEARS = 5.0
CONFIDENCE = 0.9
DAYS_PER_YEAR = 365.25
_DAY_S = 86_400.0
_CELLS = 50
"""Parts of the run with equal writes, in which it settles."""
_BATCHES = 10
_DRIFT = 0.03
"""How far the write amplification may differ between the halves of the steady part."""


@dataclass(frozen=True)
class Lifetime:
    """What a drive endures. Bytes are the host's, intervals of 90 %; the workload's rate has no error of its own."""

    endurance: int
    """Erasures of a block."""
    capacity_bytes: int
    daily_bytes: float
    is_rate_given: bool
    """Whether `daily_bytes` was given; otherwise it is that of the trace's time stamps."""
    steady_share: float
    """Share of the run's writes behind its settling."""
    write_amplification: float
    """Bytes programmed for each byte of the host: hits of a cache lower it, writes of partial pages raise it."""
    write_amplification_interval: Interval
    written_bytes: float
    """By the host until all blocks have reached their endurance: TBW, with even wear."""
    written_bytes_interval: Interval
    erasures: Mapping[int, int]
    """Erasures in the run -> blocks that were erased as often."""
    run_bytes: int
    """By the host in the run."""
    warranty_years: float

    @property
    def years(self) -> float:
        """Until all blocks have reached their endurance."""
        return self.written_bytes / self.daily_bytes / DAYS_PER_YEAR

    @property
    def years_interval(self) -> Interval:
        return self.written_bytes_interval.scaled(1 / self.daily_bytes / DAYS_PER_YEAR)

    @property
    def drive_writes_per_day(self) -> float:
        """DWPD: drive writes a day over the warranty that the drive endures with even wear."""
        return self.written_bytes / self.capacity_bytes / self.warranty_years / DAYS_PER_YEAR

    @property
    def mean_erasures(self) -> float:
        """Of a block in the run."""
        return sum(count * blocks for count, blocks in self.erasures.items()) / sum(self.erasures.values())

    @property
    def first_dead_years(self) -> float:
        """Until the first block is dead, at the earliest: if the most worn block of the run keeps its lead."""
        return self.endurance / max(self.erasures) * self.run_bytes / self.daily_bytes / DAYS_PER_YEAR

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers with their units in their names."""
        found: dict[str, Any] = {"endurance": self.endurance, "daily_writes_gb": self.daily_bytes / 1e9}
        found |= {"warranty_years": self.warranty_years, "steady_share": self.steady_share}
        interval, dwpd = self.written_bytes_interval, self.drive_writes_per_day
        for name, value, range_ in (
            ("write_amplification", self.write_amplification, self.write_amplification_interval),
            ("tbw", self.written_bytes / 1e12, interval.scaled(1e-12)),
            ("dwpd", dwpd, interval.scaled(dwpd / self.written_bytes)),
            ("years", self.years, self.years_interval),
        ):
            found |= {name: value, f"{name}_low": range_.low, f"{name}_high": range_.high}
        found |= {"first_dead_block_years": self.first_dead_years, "mean_erasures": self.mean_erasures}
        return {**found, "erasures": dict(self.erasures)}


def lifetime(
    done: Simulation,
    *,
    endurance: int | None = None,
    daily_writes: str | int | None = None,
    warranty_years: float = WARRANTY_YEARS,
) -> Lifetime:
    """How long the drive of a simulation lasts under its trace.

    `endurance` is the number of erasures of a block, by default the drive's; `daily_writes` what the host writes a day,
    in bytes or as a size ("500GB"), by default by the trace's time stamps. Simulate with `endurance=0`, so that no
    block is dead.
    Raises UsageError for what the run cannot tell, with the remedy.
    """
    import numpy as np

    setup, drive = done.raw["setup"], done.raw["drive"]
    endurance = setup["drive"]["endurance"] if endurance is None else endurance
    daily_bytes = check_terms(endurance, daily_writes, warranty_years)
    run_bytes = done.user_bytes("write")
    if not run_bytes or not drive["written_pages"]:
        raise UsageError("the run wrote nothing to flash: there is no wear to tell a lifetime by")
    if drive["dead_blocks"]:
        hint = "simulate with --endurance 0 --save-state first"
        raise UsageError(f"{drive['dead_blocks']} blocks died in the run, and the state fixes their endurance; {hint}")
    settled, share = _steady(done)
    batches = np.array_split(settled, _BATCHES, axis=1)
    written, programmed, erased = zip(*(cells.sum(axis=1).tolist() for cells in batches), strict=True)
    page_bytes = int(setup["drive"]["page"])
    flash_per_host = drive["written_pages"] * page_bytes / run_bytes
    amplification, interval = _ratio(programmed, written)
    erases, erases_interval = _ratio(erased, written)
    budget = endurance * sum(done.raw["block_erases"].values()) * page_bytes / flash_per_host
    return Lifetime(
        endurance=endurance,
        capacity_bytes=_core.drive_check(setup)["capacity_bytes"],
        daily_bytes=daily_bytes or _daily_bytes(done, run_bytes),
        is_rate_given=daily_bytes is not None,
        steady_share=share,
        write_amplification=amplification * flash_per_host,
        write_amplification_interval=interval.scaled(flash_per_host),
        written_bytes=budget / erases,
        written_bytes_interval=erases_interval.inverse().scaled(budget),
        erasures=dict(done.raw["block_erases"]),
        run_bytes=run_bytes,
        warranty_years=warranty_years,
    )


def check_terms(endurance: int, daily_writes: str | int | None, warranty_years: float) -> int | None:
    """Bytes that are written a day, if they are given; UsageError for terms that no lifetime can be of."""
    if endurance <= 0:
        hint = "state the erasures that its flash is rated for, such as --endurance 3000"
        raise UsageError(f"endurance is {endurance}: its blocks last for any number of erasures; {hint}")
    if not 0 < warranty_years < float("inf"):
        raise UsageError(f"warranty is {warranty_years:g} years, expected more than 0")
    try:
        daily_bytes = None if daily_writes is None else units.parse_size(daily_writes)
    except ValueError as error:
        raise UsageError(f"daily-writes: {error}") from None
    if daily_bytes == 0:
        raise UsageError("daily-writes is 0, expected more: a drive that is not written to is not worn")
    return daily_bytes


def _daily_bytes(done: Simulation, run_bytes: int) -> float:
    """By the trace's time stamps."""
    feed, issued_ps = str(done.raw["setup"]["feed"]["feed"]), done.raw["tally"]["last_issue_ps"]
    remedy = "state what the host writes a day, such as --daily-writes 500GB"
    if feed.startswith(("closed", "batch")):
        raise UsageError(f"feed is {feed}, which does not keep the trace's time stamps; {remedy}, or use --feed open")
    if not issued_ps:
        raise UsageError(f"the trace has no time stamps but one; {remedy}")
    if done.summary["saturated"]:
        raise UsageError(f"saturated: the drive cannot write at the trace's rate; {remedy}, or --feed scaled:2")
    return run_bytes / (int(issued_ps) / 1e12) * _DAY_S


def _steady(done: Simulation) -> tuple[Floats, float]:
    """The steady part of a run and its share of the writes: host pages, programmed pages, erasures of each cell."""
    import numpy as np

    series = done.raw["series"]
    written, moved, erased = (np.array(series[name], float) for name in ("written_pages", "moved_pages", "erases"))
    rows = np.stack([written, written + moved, erased])
    shares = np.arange(1, _CELLS) / _CELLS * written.sum()
    edges = np.unique(np.append(0, np.searchsorted(np.cumsum(written), shares) + 1))
    cells = np.add.reduceat(rows, edges[edges < rows.shape[1]], axis=1)
    cells = cells[:, cells[0] > 0]
    count = cells.shape[1]
    if count < _CELLS // 2:
        raise UsageError(f"the writes are in {count} parts of the time series only; use more slices: --slices 4096")
    waf = cells[1] / cells[0]
    errors = [waf[first:].var() / (count - first) for first in range(count // 2 + 1)]
    first = int(np.argmin(errors))
    steady = cells[:, first:]
    longer = "precondition the drive (--precondition 1), and use a longer trace or a smaller drive"
    blocks, erases = sum(done.raw["block_erases"].values()), steady[2].sum()
    if erases < blocks:
        text = f"{erases:,.0f} erasures of {blocks:,} blocks in the steady part, and 1 of each block is the least"
        raise UsageError(f"no steady state is seen: {text}; {longer}")
    # A run that could be cut anywhere has settled from its beginning, or not at all.
    halves = np.array_split(cells if first == count // 2 else steady, 2, axis=1)
    before, after = (half[1].sum() / half[0].sum() for half in halves)
    if abs(after - before) > _DRIFT * before:
        text = f"write amplification was {before:.3g} in the first half of it and {after:.3g} in the second"
        raise UsageError(f"no steady state is seen: {text}; {longer}")
    return steady, float(steady[0].sum() / written.sum())


def _ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, Interval]:
    """The ratio of two sums over batches, and its interval."""
    from ioassay.stats import distributions

    count, whole = len(above), sum(below)
    ratio = sum(above) / whole
    square = sum((up - ratio * down) ** 2 for up, down in zip(above, below, strict=True))
    error = (count / (count - 1) * square) ** 0.5 / whole
    half = distributions.t_ppf((1 + CONFIDENCE) / 2, count - 1) * error
    return ratio, Interval(max(ratio - half, ratio / 100), ratio + half, CONFIDENCE, "batch means")
