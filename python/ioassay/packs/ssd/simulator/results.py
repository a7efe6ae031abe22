"""What a simulation gave, for people: means, percentiles and shares from the core's counts and distributions.

Nothing is simulated here. A mean of a saturated run is a number about the length of the trace; `warnings` says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import atomic_file
from ioassay.errors import UsageError
from ioassay.records.record import Warning_
from ioassay.simulation.options import FEED, NAMES, PRECONDITION
from ioassay.simulation.traces import nothing_left, replaced
from ioassay.units import format_count

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from ioassay._core import Histogram

SECTOR_BYTES = 512
PS_PER_US = 1e6
PS_PER_MS = 1e9
_MAPPING = ("mapping_hits", "mapping_misses", "translation_reads", "translation_writes")
_PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


@dataclass(frozen=True)
class OfflineOptimum:
    """The most write hits that a buffer of a size can have on a trace, whatever its policy (docs/policies.md)."""

    written_pages: int
    hits: int

    @property
    def hit_ratio(self) -> float:
        """Share of written pages that are hits; 0 where nothing was written."""
        return _ratio(self.hits, self.written_pages) or 0.0

    def gain_share(self, hit_ratio: float) -> float | None:
        """The share of the possible gain that a policy reaches; None where no policy can gain anything.

        (its hits - hits without a buffer) / (hits of the optimum - hits without a buffer), and there are no hits
        without a buffer.
        """
        return _ratio(hit_ratio, self.hit_ratio)


@dataclass(frozen=True)
class Simulation:
    """The outcome of one simulation; `raw` is what the core said, and `prepare` of its trace."""

    raw: Mapping[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers that are asked for most, with their units in their names; None where there is none.

        `requests` completed and were measured. `hit_ratio` is 0 where no page was written to a buffer, for nothing
        hit it then; `write_amplification` is None where no page was written to flash, for it has no value then.
        Padding of a buffer's blocks is no work for a user: it counts as amplification, and not as throughput.
        `throughput_mb_s` is in 10^6 bytes over the time to the last completion.
        """
        raw = self.raw
        drive, tally, elements = (raw[name] for name in ("drive", "tally", "elements"))
        programmed = drive["written_pages"] + drive["moved_pages"]
        mapping = {name: tally[name] for name in _MAPPING}
        lookups = mapping["mapping_hits"] + mapping["mapping_misses"]
        busy_s = sum(elements["busy_ps"]) / 1e12 / len(elements["busy_ps"])
        return {
            **self._numbers("all"),
            "hit_ratio": _ratio(tally["write_hits"], tally["buffered_writes"]) or 0.0,
            "read_hit_ratio": _ratio(tally["read_hits"], tally["buffered_reads"]),
            # Pages programmed for data, over those of them that users wrote.
            "write_amplification": _ratio(programmed, drive["written_pages"] - tally["pad_writes"]),
            **{name: drive[name] for name in ("erases", "cleanings", "moved_pages", "written_pages", "dead_blocks")},
            **{name: drive[name] for name in ("slc_pages", "folded_pages")},
            "slc_free_share": raw["slc_free_share"],
            "least_element_erases": min(elements["erases"]),
            "most_element_erases": max(elements["erases"]),
            "most_block_erases": max(elements["most_block_erases"]),
            **{name: tally[name] for name in ("pad_reads", "pad_writes")},
            "left_in_buffer": tally["buffered_at_end"],
            # None where the drive's memory has the whole mapping.
            "mapping_hit_ratio": _ratio(mapping["mapping_hits"], lookups),
            **(mapping if any(mapping.values()) else dict.fromkeys(mapping)),
            "mean_utilisation": _ratio(busy_s, self.span_s),
            "saturated": raw["steadiness"]["saturated"],
            "steady": raw["steadiness"]["steady"],
            **{name: tally[name] for name in ("issued", "unfinished")},
            "simulated_s": self.span_s,
            "wall_s": raw["wall_s"],
        }

    @property
    def parts(self) -> dict[str, Simulation]:
        """Each flow by its name, with what `response`, `user_bytes` and `span_s` need; none of a trace."""
        none = {"padding": {"read": 0, "write": 0}}
        return {name: Simulation({**raw, **none}) for name, raw in self.raw.get("flows", {}).items()}

    @property
    def flows(self) -> dict[str, dict[str, Any]]:
        """Of each flow counts, times and rates as in `summary`; of one that reads and writes, those of both as well."""
        found = {}
        for name, part in self.parts.items():
            kinds = [kind for kind in ("read", "write") if part.raw[kind]["count"]]
            numbers = {kind: part._numbers(kind) for kind in ("all", *(kinds if len(kinds) > 1 else ()))}
            found[name] = {**numbers.pop("all"), **numbers}
        return found

    def _numbers(self, kind: str) -> dict[str, Any]:
        """Count, times and rates of requests of a kind."""
        of, names, histogram = self.raw[kind], (*_PERCENTILES, "max_ms"), self.response(kind)
        values = [*histogram.quantiles(_PERCENTILES.values()), float(histogram.max or 0)] if histogram.count else []
        return {
            "requests": of["count"],
            "mean_response_ms": _ms(of["mean_response_ps"]),
            **(dict(zip(names, (value / 1e6 for value in values), strict=True)) if values else dict.fromkeys(names)),
            "mean_device_ms": _ms(of["mean_device_ps"]),
            "throughput_mb_s": _ratio(self.user_bytes(kind) / 1e6, self.span_s),
            "iops": _ratio(of["count"], self.span_s),
        }

    @property
    def nothing(self) -> str:
        """Why nothing was measured; '' where a request was."""
        if self.raw["all"]["count"]:
            return ""
        if reason := nothing_left(self.raw["changes"], self.raw["prepare"]):
            return reason
        if self.raw["tally"]["unfinished"]:
            return "no request was complete at the end"
        if left := self.raw["tally"]["buffered_at_end"]:
            return f"no request reached the drive: the buffer kept all of the {left:,} pages"
        return "the trace has neither reads nor writes"

    @property
    def span_s(self) -> float:
        """Simulated time from the first request to the last completion, or to the last issue if that is later."""
        tally = self.raw["tally"]
        return float(max(tally["last_completion_ps"], tally["last_issue_ps"]) / 1e12)

    def statistics(self, kind: str = "all") -> dict[str, float]:
        """`mean_us`, `p50_us`, `p99_us` and `iops` of the requests of `all`, `read`, `write` or `other`; {} of none."""
        times, histogram = self.raw[kind], self.response(kind)
        if not times["count"]:
            return {}
        p50_ns, p99_ns = histogram.quantiles((0.5, 0.99))
        mean_us, iops = times["mean_response_ps"] / PS_PER_US, times["count"] / self.span_s if self.span_s else 0.0
        return {"mean_us": mean_us, "iops": iops, "p50_us": p50_ns / 1e3, "p99_us": p99_ns / 1e3}

    @property
    def latencies_us(self) -> np.ndarray:
        """Shape (requests,), float64, in order of issue: from issue to completion; nan of one that is not complete.

        Of requests as they reach the drive, behind a buffer in front of it. UsageError unless the run kept them.
        """
        import numpy as np

        if "latency_us" not in self.raw:
            raise UsageError("the run kept no latency of single requests; expected Drive.run(trace, latencies=True)")
        return np.frombuffer(self.raw["latency_us"])

    def response(self, kind: str = "all") -> Histogram:
        """Response times in nanoseconds of `all`, `read`, `write` or `other` (trims and flushes)."""
        histogram: Histogram = self.raw[kind]["response_ns"]
        return histogram

    @property
    def elements(self) -> pl.DataFrame:
        """A row for each flash element: pages, cleanings, erases, `busy_s`, `utilisation` (0 to 1), block erasures."""
        import polars as pl

        frame = pl.DataFrame({**self.raw["elements"]}).with_row_index("element")
        busy_s = pl.col("busy_ps") / 1e12
        share = busy_s / self.span_s if self.span_s else pl.lit(None, pl.Float64)
        return frame.with_columns(busy_s=busy_s, utilisation=share).drop("busy_ps")

    @property
    def series(self) -> pl.DataFrame:
        """A row for each slice of simulated time, beginning at `time_s`: requests, response, what the drive did."""
        import polars as pl

        def share(part: str, whole: str) -> pl.Expr:
            return pl.when(pl.col(whole) > 0).then(pl.col(part) / pl.col(whole))

        columns = dict(self.raw["series"])
        width_ps, busy = columns.pop("width_ps"), columns.pop("busy_ps")
        width = len(self.raw["elements"]["busy_ps"])
        columns["response_ps"] = list(map(float, columns["response_ps"]))
        frame = pl.DataFrame(columns).with_row_index("time_s")
        return frame.select(
            pl.col("time_s") * (width_ps / 1e12),
            *("issued", "completed"),
            mean_response_ms=share("response_ps", "completed") / PS_PER_MS,
            **{name: name for name in ("outstanding", "written_pages", "moved_pages", "slc_pages", "folded_pages")},
            write_amplification=1 + share("moved_pages", "written_pages"),
            **{name: name for name in ("cleanings", "erases")},
            mean_utilisation=pl.Series([sum(row) / width / width_ps for row in busy], dtype=pl.Float64),
            busiest_utilisation=pl.Series([max(row) / width_ps for row in busy], dtype=pl.Float64),
        )

    @property
    def utilisation(self) -> pl.DataFrame:
        """The share of time that each element began to work in, a row for each slice and element."""
        import polars as pl

        width_ps, rows = self.raw["series"]["width_ps"], self.raw["series"]["busy_ps"]
        columns = {
            "time_s": [index * width_ps / 1e12 for index, row in enumerate(rows) for _ in row],
            "element": [element for row in rows for element in range(len(row))],
            "utilisation": [busy_ps / width_ps for row in rows for busy_ps in row],
        }
        return pl.DataFrame(columns)

    @property
    def warnings(self) -> list[Warning_]:
        """What a reader of the numbers has to know."""
        summary, raw, found = self.summary, self.raw, list[Warning_]()
        unfinished, preconditioned = summary["unfinished"], raw["preconditioned"]
        slower = "feed it slower (--feed scaled:2), or keep a number outstanding (--feed closed:32)"
        if raw["tally"]["gave_up"]:
            issued = format_count(summary["issued"])
            text = f"saturated: given up with {format_count(unfinished)} requests outstanding after {issued}"
            about = "the mean is about the length of the trace, not about the drive"
            found.append(Warning_("saturated", f"{text}; {about}", slower))
        elif summary["saturated"]:
            text = f"saturated: of every 100 requests {100 * raw['steadiness']['growth']:.1f} piled up"
            found.append(Warning_("saturated", f"{text}; the mean grows with the trace", slower))
        elif not summary["steady"]:
            halves = [f"{_ms(half) or 0.0:.4g} ms" for half in raw["steadiness"]["halves_ps"]]
            text = f"not steady: the mean response was {' in the first half and '.join(halves)} in the second"
            found.append(Warning_("unsteady", text, "use a longer trace, or precondition the drive (--precondition 1)"))
        if self.nothing and not unfinished:
            remedy = "use a longer trace, a smaller --buffer, or --mode inline" if summary["left_in_buffer"] else ""
            found.append(Warning_("nothing-measured", self.nothing, remedy))
        if summary["written_pages"] and not summary["cleanings"] and not preconditioned:
            text = "the drive never cleaned: this is how it does when fresh, not in long use"
            found.append(Warning_("never-cleaned", text, "precondition it (--precondition 1), or write more"))
        if preconditioned and not preconditioned["settled"]:
            text = "write amplification did not settle while the drive was preconditioned"
            found.append(Warning_("not-settled", text))
        if dead := summary["dead_blocks"]:
            remedy = "raise --endurance, or 0 for blocks that last for ever"
            found.append(Warning_("worn-out", f"{dead} blocks were worn out and are dead", remedy))
        if unfinished and not summary["saturated"]:
            text = f"{unfinished} requests were not complete at the end and are not counted"
            found.append(Warning_("unfinished", text))
        return found

    def user_bytes(self, kind: str) -> int:
        """Bytes of the completed requests of `all`, `read` or `write`, without padding."""
        pads = {name: self.raw["padding"][name] * self.raw["tally"][f"pad_{name}s"] for name in ("read", "write")}
        padding = sum(pads.values()) if kind == "all" else pads.get(kind, 0)
        return int(max(self.raw[kind]["sectors"] - padding, 0)) * SECTOR_BYTES


def _ms(value_ps: float | None) -> float | None:
    return None if value_ps is None else value_ps / PS_PER_MS


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


LARGE_ERROR = 0.05
"""An error above which a warning asks for a larger sample."""


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
        counts = ("requests", "written_pages", "read_pages", "sampled_pages")
        numbers = {name: getattr(self, name) for name in counts}
        numbers |= {"sample_rate": self.rate, "sample_slots": self.slots}
        ratios = {"hit_ratio": self.hit_ratio, "read_hit_ratio": self.read_hit_ratio, "optimum_hit_ratio": self.optimum}
        for name, ratio in ratios.items():
            numbers |= {name: ratio.value if ratio else None, f"{name}_error": ratio.error if ratio else None}
        return numbers

    @property
    def warnings(self) -> list[Warning_]:
        """What a reader of the numbers has to know."""
        if not self.written_pages:
            return [Warning_("nothing-measured", "the trace writes no page: there are no hits to estimate")]
        text = f"the sample of {self.sampled_pages:,} pages is too small: an error is above {LARGE_ERROR}"
        errors = [self.hit_ratio.error, self.optimum.error]
        is_small = any(error is None or error > LARGE_ERROR for error in errors)
        return [Warning_("small-sample", text, "raise --sample")] if is_small else []


def sampled(raw: Mapping[str, Any]) -> SampledHits:
    counts = {name: raw[name] for name in ("requests", "written_pages", "read_pages", "sampled_pages", "rate", "slots")}
    ratios = (raw["hit_ratio"], raw["read_hit_ratio"], raw["optimum_hit_ratio"])
    hits, reads, optimum = (None if ratio is None else Estimate(**ratio) for ratio in ratios)
    assert hits and optimum
    return SampledHits(**counts, hit_ratio=hits, read_hit_ratio=reads, optimum=optimum)


def check_sampled(options: Mapping[str, Any]) -> None:
    """UsageError for an option of a simulation that has no effect on a sample: when requests come, and wear."""
    for name in options:
        # Of the options of a feed, hits depend on `unaligned` without a drive.
        if name in NAMES and NAMES[name].group in (FEED, PRECONDITION) and name != "unaligned":
            both = f"{name.replace('_', '-')} and sample do not go together"
            raise UsageError(f"{both}: a sample has hit ratios, and no times or wear")


TABLES = ("series", "elements", "utilisation")
SUMMARY = "summary.json"


def file_names(csv: bool) -> list[str]:
    return [SUMMARY, *(f"{table}.{'csv' if csv else 'parquet'}" for table in TABLES)]


def check_files(folder: Path, files: Sequence[str], *, force: bool = False) -> None:
    """Refuse a folder that cannot take the files; raises UsageError. Ask before the work is done."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, expected a folder")
    for name in files:
        if (folder / name).exists() and not force:
            raise UsageError(f"{folder / name} exists; --force replaces it")


def save(
    simulation: Simulation, folder: Path, summary: Mapping[str, Any], *, csv: bool = False, force: bool = False
) -> list[Path]:
    """Write `summary` and the tables of a simulation to `folder`, which is made; each file whole or not at all.

    Raises UsageError as `check_files`, OSError.
    """
    check_files(folder, file_names(csv), force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        frame: pl.DataFrame = getattr(simulation, table)
        with replaced(folder / f"{table}.{'csv' if csv else 'parquet'}", force=True) as unfinished:
            frame.write_csv(unfinished) if csv else frame.write_parquet(unfinished)
    save_summary(folder, summary)
    return [folder / name for name in file_names(csv)]


def save_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write `summary` to `folder`, which is made, in place of what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    atomic_file.write(folder / SUMMARY, json.dumps(summary, indent=2, default=str) + "\n")
