"""The driver replay: a trace's requests are issued to the target by io_uring, each at the time that the trace has.

Parameters are the trace, as `simulate` has it, and how it is issued (docs/replay.md). The total latency (`lat`) of a
request is its response time, from when it was due, and its completion latency (`clat`) the service time, from its
issue. The issue itself is done by `_core.replay` in a process of its own (`replay_worker`).
"""

from __future__ import annotations

import functools
import json
import math
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay._core import Histogram
from ioassay.drivers import ended_badly, flag
from ioassay.errors import InputError, StudyError, ToolError, UsageError
from ioassay.hints import suggestion
from ioassay.host import block_devices
from ioassay.metrics import PERCENTILES, SHARE, SIGNED, Metric, metric, percentile_name, plain
from ioassay.packs.replay import claims, replay_worker
from ioassay.packs.replay.claims import MOVED, Document
from ioassay.records.record import FAILED, OK, SKIPPED, Buckets, Series, Warning_
from ioassay.roles import READ, WRITE, Command, Driver, Estimate, Load, Outcome, Parsed, Rates, Trial, short_s
from ioassay.simulation import traces
from ioassay.simulation.options import of_key
from ioassay.simulation.trace_parameters import NotFound, TraceParameters

TARGET = "target"
"""The word for the target's size: `prepare.shrink = "target"`, `prepare.limit = "target"`."""
TIMED, FAST = "timed", "fast"
DEPTHS = {TIMED: 1024, FAST: 32}
SETUP = "replay.json"
_OWN = ("pace", "speed", "depth", "direct", "duration")
_PAGE = "4KiB"
_UNMAPPABLE = ("folder", "nvme-character")
"""Forms of a virtual drive that are neither a file nor a block device."""
SECTOR_BYTES = 512
_MOST_DEPTH = 32768
"""Entries of a ring (io_uring_setup(2))."""
_SLOW_BYTES_PER_S, _USUAL_BYTES_PER_S, _USUAL_REQUEST_S = 5e6, 2e8, 1e-4
LATE_SHARE, _SLOWER = 0.1, 1.01
"""Of the p99 of response times, what that of lateness may be; of the trace's span, what the replay may take."""

LATENESS = "replay.lateness"
_STATISTICS = ("mean", "max", *map(percentile_name, PERCENTILES))


def _share(value: float) -> str:
    return f"{value:.2%}"


def _label(statistic: str) -> str:
    """`Lateness, 99th percentile`, as latencies are called."""
    return f"Lateness, {metric(f'total.lat.{statistic}').label.partition(', ')[2]}"


@dataclass(frozen=True)
class Settings:
    """What a point asks for."""

    trace: TraceParameters
    pace: str
    speed: float
    depth: int
    direct: bool
    duration_s: float | None

    def prepared(self, target_bytes: int | None = None) -> dict[str, Any] | None:
        """What is done to the trace, its times included; without a size, but for what needs the target's."""
        mapped = [name for name in ("shrink", "limit") if self.trace.prepare.get(name) == TARGET]
        given = {name: value for name, value in self.trace.prepare.items() if target_bytes or name not in mapped}
        if not target_bytes and "limit" in mapped:
            given.pop("beyond", None)
        if self.speed != 1.0:
            given["time_scale"] = given.get("time_scale", 1.0) / self.speed
        return replace(self.trace, prepare=given).prepared(_PAGE, **({TARGET: target_bytes} if target_bytes else {}))

    def source(self, repetition: int, target_bytes: int | None = None) -> dict[str, Any]:
        """The description of the requests; NotFound and StudyError as of `TraceParameters.trace`."""
        trace = self.trace
        return traces.source(
            trace.trace(repetition), format=trace.format, read=trace.read, prepare=self.prepared(target_bytes)
        )

    @property
    def is_mapped(self) -> bool:
        """Whether the preparation brings every request into the target, whatever its size is."""
        return TARGET in (self.trace.prepare.get("shrink"), self.trace.prepare.get("limit"))


def read(params: Mapping[str, Any]) -> Settings:
    """What a point asks for; StudyError names the parameter."""
    trace = TraceParameters.of(params, _OWN)
    pace = params.get("pace", TIMED)
    if pace not in DEPTHS:
        raise StudyError(f"is {pace!r}; {suggestion(str(pace), DEPTHS)}", key="params.pace")
    speed, depth = params.get("speed", 1.0), params.get("depth", DEPTHS[pace])
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < float("inf"):
        raise StudyError(f"is {speed!r}; expected a factor such as 2, which is twice as fast", key="params.speed")
    if pace == FAST and speed != 1.0:
        raise StudyError(f"is {speed}, and pace is 'fast': no time of the trace is kept", key="params.speed")
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= _MOST_DEPTH:
        raise StudyError(f"is {depth!r}; expected 1 to {_MOST_DEPTH} requests", key="params.depth")
    duration_s = None
    if "duration" in params:
        with of_key("params.duration"):
            duration_s = units.parse_duration_s(params["duration"])
            if duration_s <= 0:
                raise ValueError(f"{params['duration']!r} is no time, expected more than 0")
    return Settings(trace, pace, float(speed), depth, "direct" not in params or flag(params, "direct"), duration_s)


@dataclass(frozen=True)
class Facts:
    """What a trace's requests are, once they are read and prepared; sizes in bytes."""

    requests: int
    moved_bytes: int
    written_bytes: int
    writes: bool
    end_bytes: int
    align_bytes: int
    """What all offsets and lengths are multiples of."""
    span_s: float


def facts(wanted: Settings) -> Facts:
    """Those of the first repetition. UsageError and InputError for what cannot be read, NotFound for no file."""
    source = wanted.source(0)
    path = source.get("path")
    state = Path(path).stat() if path and Path(path).exists() else None
    return _facts(pickle.dumps(source), (state.st_mtime_ns, state.st_size) if state else None)


@functools.lru_cache(maxsize=256)
def _facts(source: bytes, version: tuple[int, int] | None) -> Facts:
    """`version`: of a trace's file, which may change while this process lives."""
    seen = traces.info(pickle.loads(source))
    kinds, time, space = seen["kinds"], seen["time"], seen["space"]
    requests = {name: amount["requests"] for name, amount in kinds.items()}
    written = sum(kinds[name]["bytes"] for name in ("write", "trim") if name in kinds)
    moved = sum(kinds[name]["bytes"] for name in ("read", "write") if name in kinds)
    return Facts(
        requests=seen["requests"],
        moved_bytes=moved,
        written_bytes=written,
        writes=bool(requests.get("write") or requests.get("trim")),
        end_bytes=space["end_bytes"],
        align_bytes=math.gcd(space["offset_align_bytes"], space["length_align_bytes"]),
        span_s=time["span_s"] or 0.0,
    )


class Replay(Driver):
    """Replays a trace. Implements `roles.Driver`."""

    name = "replay"
    measures = True
    length_key = "duration"
    counts_from_arrival = True
    responses = ("total.lat.p99", f"{LATENESS}.p99")
    metrics = (
        *(Metric(f"{LATENESS}.{name}", "ns", "lower", _label(name), units.format_ns) for name in _STATISTICS),
        Metric("replay.late", "", "lower", "Share of requests issued more than 50 µs late", _share, SHARE),
        Metric("replay.drift", "ppm", "none", "Growth of lateness over time", lambda ppm: f"{ppm:.3g} ppm", SIGNED),
        Metric("replay.stretch", "", "lower", "Time of the replay over that of the trace", plain),
        Metric("replay.outstanding", "requests", "none", "Most requests outstanding", units.format_count),
    )

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names what is wrong; a warning for a trace that is not here and may be absent."""
        wanted = read(params)
        kind = target.get("kind", "null")
        if kind in ("null", "folder") or target.get("form") in _UNMAPPABLE:
            found = f"is '{kind}'" if kind in ("null", "folder") else f"has the form '{target['form']}'"
            raise StudyError(f"{found}; expected a file, a device or a virtual drive as one of them", key="target.kind")
        with of_key("params.prepare"):
            prepare = wanted.prepared()
        wanted.trace.check(prepare)
        try:
            seen = facts(wanted)
        except NotFound as error:
            return [Warning_("trace-absent", f"{error}; its trials will be skipped", wanted.trace.get)]
        except (UsageError, InputError) as error:
            raise StudyError(str(error), key="params.trace") from None
        if not seen.requests:
            raise StudyError("has no requests once it is prepared", key="params.trace")
        if (path := target.get("path")) and _is_trace(wanted, Path(str(path)).expanduser()):
            raise StudyError(f"{path} is the trace itself; expected another file, or a device", key="target.path")
        size_bytes = target_bytes(target)
        if size_bytes is not None and not wanted.is_mapped and (problem := beyond(seen, size_bytes)):
            raise StudyError(problem, key="params.trace")
        block_bytes = _block_bytes(target)
        if wanted.direct and seen.align_bytes % block_bytes:
            found = f"has requests that are not whole blocks of {block_bytes} bytes, which direct I/O takes"
            remedy = f"expected --sizes round-out with --page {block_bytes} (prepare), or --buffered (direct = false)"
            raise StudyError(f"{found}; {remedy}", key="params.trace")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        try:
            return WRITE if facts(read(params)).writes else READ
        except NotFound:  # nothing will be issued
            return READ

    def page_cache_remedy(self, params: Mapping[str, Any]) -> str:
        return "" if params.get("direct", True) else "set direct = true in [params]"

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """The trace's span, or the time of its requests on a common drive."""
        wanted = read(params)
        try:
            seen = facts(wanted)
        except NotFound:
            return Estimate(0.0, 0)
        return Estimate(_expected_s(wanted, seen) + 0.5, seen.written_bytes)

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        wanted = read(params)
        try:
            whole_s = _expected_s(wanted, facts(wanted))
        except NotFound:
            return None
        part_s = short_s(whole_s, share)
        return None if part_s is None else {**params, "duration": f"{round(part_s * 1000)}ms"}

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        """The worker with its description; None where the trace is not here. ToolError: it does not fit the target."""
        wanted = read(trial.params)
        if load.path is None:
            raise ToolError("the target yields no path; expected a file or a block device")
        try:
            seen, source = facts(wanted), wanted.source(trial.repetition, load.size_bytes)
        except NotFound:
            return None
        if not wanted.is_mapped and (problem := beyond(seen, load.size_bytes)):
            raise ToolError(f"the trace {problem}")
        if "path" in source:
            source["path"] = str(Path(source["path"]).absolute())
        setup: dict[str, Any] = {
            "path": str(load.path.absolute()),
            "size_bytes": load.size_bytes,
            "pace": wanted.pace,
            "depth": wanted.depth,
            "direct": wanted.direct,
            "exclusive": False,  # the target has claimed it
            "seed": trial.seed % 2**63,
        }
        if wanted.duration_s is not None:
            setup["duration_ns"] = round(wanted.duration_s * 1e9)
        slow_s = 120 + 10 * _expected_s(wanted, seen) + seen.moved_bytes / _SLOW_BYTES_PER_S
        text = json.dumps({"source": source, "setup": setup}, indent=1)
        return Command(replay_worker.command((raw / SETUP).absolute()), slow_s, files={SETUP: text})

    def rates(self, output: str) -> Rates | None:
        """Between the last two lines of progress."""
        lines = []
        for line in output.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and {"completed", "bytes", "elapsed_s"} <= said.keys():
                lines.append((said["completed"], said["bytes"], said["elapsed_s"]))
        if len(lines) < 2 or (took_s := lines[-1][2] - lines[-2][2]) <= 0:
            return None
        return Rates((lines[-1][0] - lines[-2][0]) / took_s, (lines[-1][1] - lines[-2][1]) / took_s)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed with the reason unless requests were issued until the trace's end, or that of the time."""
        wanted = read(trial.params)
        if outcome is None:
            return Parsed(SKIPPED, _absence(wanted), lasting=True)
        try:
            done = claims.read(outcome.stdout.read_text(encoding="utf-8", errors="replace"))
        except (OSError, InputError) as error:
            return Parsed(FAILED, ended_badly(outcome, self.name, "raise run.timeout") or str(error))
        if outcome.timed_out or done.ended in ("interrupted", "failed"):
            bad = ended_badly(outcome, self.name, "raise run.timeout")
            return Parsed(FAILED, bad or f"{done.reason or done.ended} (after {done.requests:,} requests)")
        if not any(each.ios for each in done.directions.values()):
            why = f"no request completed: {_failures(done)}" if done.failures else "no request was issued"
            return Parsed(FAILED, why, claims=claims.claims(done))
        return Parsed(
            OK,
            metrics=_metrics(done),
            buckets=list(_buckets(done)),
            series=list(_series(done)),
            claims=claims.claims(done),
            warnings=list(_warnings(done)),
        )


def beyond(seen: Facts, size_bytes: int) -> str:
    """That a trace does not fit a target, and what makes it fit; '' where it does."""
    if seen.end_bytes <= size_bytes:
        return ""
    reach, size = units.format_size(seen.end_bytes), units.format_size(size_bytes)
    return (
        f"reaches {reach} ({seen.end_bytes} bytes), and the target has {size} ({size_bytes} bytes); "
        "expected a larger target, --shrink target (prepare.shrink), which keeps what is near near, "
        "or --fold (prepare.limit with beyond = 'wrap')"
    )


def target_bytes(target: Mapping[str, Any]) -> int | None:
    """The size of a target as far as its settings, or what is there, say it."""
    if (size := target.get("size")) is not None:
        try:
            return units.parse_size(size)
        except (ValueError, TypeError):  # the target says what is wrong with it
            return None
    path = Path(str(target["path"])).expanduser() if target.get("path") else None
    if path is None or not path.exists():
        return None
    number = block_devices.number_of(path)
    device = block_devices.device(number) if number is not None else None
    return device.size_bytes if device is not None else path.stat().st_size or None


def _block_bytes(target: Mapping[str, Any]) -> int:
    """The least that direct I/O on a target moves, as far as it is known before it is opened."""
    if target.get("kind") == "virtual":
        return int(target.get("block_size", SECTOR_BYTES))
    number = block_devices.number_of(Path(str(target["path"]))) if target.get("kind") == "device" else None
    device = block_devices.device(number) if number is not None else None
    if device is None:
        return SECTOR_BYTES
    said = block_devices.text_of(block_devices.disk_of(device).folder / "queue/logical_block_size")
    return int(said) if said.isdecimal() else SECTOR_BYTES


def _is_trace(wanted: Settings, path: Path) -> bool:
    trace = wanted.source(0).get("path")
    return bool(trace and path.exists() and Path(trace).exists() and os.path.samefile(path, trace))  # noqa: PTH121


def _absence(wanted: Settings) -> str:
    try:
        wanted.trace.trace(0)
    except NotFound as error:
        return f"{error}. {wanted.trace.get}"
    return "the replay was not started"


def _expected_s(wanted: Settings, seen: Facts) -> float:
    span_s = seen.span_s
    if wanted.pace == FAST:
        span_s = seen.moved_bytes / _USUAL_BYTES_PER_S + seen.requests * _USUAL_REQUEST_S
    return min(span_s, wanted.duration_s) if wanted.duration_s is not None else span_s


# What a replay said, as metrics, distributions, series and warnings


def _metrics(done: Document) -> dict[str, float]:
    found: dict[str, float] = {}
    took_s = done.seconds
    for name, each in done.directions.items():
        found[f"{name}.ios"] = float(each.ios)
        found |= {f"{name}.lat.{key}": value for key, value in each.response.statistics_ns().items()}
        if name in MOVED:
            found |= {f"{name}.clat.{key}": value for key, value in each.lat.statistics_ns().items()}
            found |= _volumes(name, each.ios, each.bytes, took_s)
    moved = [each for name, each in done.directions.items() if name in MOVED]
    if ios := sum(each.ios for each in moved):
        found |= {"total.ios": float(ios)} | _volumes("total", ios, sum(each.bytes for each in moved), took_s)
        for kind, histogram in _totals(done).items():
            values = histogram.quantiles([percent / 100 for percent in PERCENTILES])
            found |= {f"total.{kind}.{percentile_name(p)}": v for p, v in zip(PERCENTILES, values, strict=True)}
            times = [each.response if kind == "lat" else each.lat for each in moved if each.ios]
            counted = [(each.ios, one) for each, one in zip([one for one in moved if one.ios], times, strict=True)]
            found[f"total.{kind}.mean"] = sum(number * (one.mean_ns or 0.0) for number, one in counted) / ios
            found[f"total.{kind}.max"] = float(max(one.max_ns or 0 for one in times))
    issued = sum(done.lateness.bins.values())
    found["replay.outstanding"] = float(done.most_outstanding)
    if done.pace != TIMED:  # else its thread spins until the next request is due
        found["cpu.per_io"] = done.cpu_ns / max(issued, 1)
    else:
        found |= {f"{LATENESS}.{key}": v for key, v in done.lateness.statistics_ns().items() if key in _STATISTICS}
        found["replay.late"] = done.late / max(issued, 1)
        if done.drift_ppm is not None:
            found["replay.drift"] = done.drift_ppm
        if done.span_ns and done.ended == "trace":
            found["replay.stretch"] = took_s * 1e9 / done.span_ns
    return found


def _volumes(name: str, ios: int, size_bytes: int, took_s: float) -> dict[str, float]:
    rates = {f"{name}.bw": size_bytes / took_s, f"{name}.iops": ios / took_s} if took_s > 0 and ios else {}
    return {f"{name}.bytes": float(size_bytes), f"{name}.runtime": took_s, **rates}


def _totals(done: Document) -> dict[str, Histogram]:
    """Response times and service times of all requests that move or release bytes."""
    found = {"lat": Histogram(), "clat": Histogram()}
    for name, each in done.directions.items():
        if name in MOVED:
            found["lat"].merge(each.response.histogram())
            found["clat"].merge(each.lat.histogram())
    return found


def _buckets(done: Document) -> Iterator[Buckets]:
    for name, each in done.directions.items():
        for kind, times in (("lat", each.response), *((("clat", each.lat),) if name in MOVED else ())):
            if times.bins:
                values = sorted(times.bins)
                yield Buckets(name, kind, values, [times.bins[value] for value in values])
    for kind, histogram in _totals(done).items():
        if histogram.count:
            yield Buckets("total", kind, *histogram.buckets())


_RATES = {"read_ios": "read.iops", "read_bytes": "read.bw", "write_ios": "write.iops", "write_bytes": "write.bw"}


def _series(done: Document) -> Iterator[Series]:
    """Rates in each second, the last of which is shorter, and the largest lateness in it."""
    rows = max(map(len, done.series.values()), default=0)
    ends = [min(second + 1.0, max(done.seconds, second + 1e-9)) for second in range(rows)]
    for column, name in _RATES.items():
        if any(values := done.series.get(column, [])):
            yield Series(
                name, ends, [value / (end - row) for row, (value, end) in enumerate(zip(values, ends, strict=True))]
            )
    if any(values := done.series.get("lateness_max_ns", [])):
        yield Series(f"{LATENESS}.max", ends, values)


def _failures(done: Document) -> str:
    """The most frequent kind of failure, with its first request."""
    failed = max(done.failures, key=lambda each: each.count)
    where = f"request {failed.number} ({units.format_size(failed.length_bytes)} at byte {failed.offset_bytes})"
    others = sum(each.count for each in done.failures)
    return f"{others:,} requests failed; the first {failed.kind} that did is {where}: {failed.text}"


_CAUSES = {
    "depth": ("{depth} requests were outstanding, as many as depth allows", "raise depth, or lower speed"),
    "buffers": ("the buffers of outstanding requests were full", "lower speed"),
    "trace": (
        "the trace was read more slowly than it is",
        "keep it in the cache of parsed traces (ioassay trace info)",
    ),
}
_MACHINE = ("the machine issued them late", "use an idle machine, run.scheduler = 'fifo:5', or a lower speed")


def _cause(done: Document) -> tuple[str, str]:
    """Why requests were late, with the remedy: what held at least half of them, or else the machine."""
    for name, (cause, remedy) in _CAUSES.items():
        if 2 * getattr(done.waits, name) >= max(done.late, 1):
            return cause.format(depth=done.depth), remedy
    return _MACHINE


_MAPPINGS = ("folded", "shrunk", "rounded", "cut", "wrapped", "split")


def _warnings(done: Document) -> Iterator[Warning_]:
    """What makes the numbers answer another question than the trace asks."""
    if done.failures:
        yield Warning_("requests-failed", _failures(done), "the claims have their number; dmesg may have the cause")
    if moved := {name: done.changes[name] for name in _MAPPINGS if done.changes.get(name)}:
        said = ", ".join(f"{count:,} {name}" for name, count in moved.items())
        text = f"requests were changed to fit the target: {said}; places and sizes are not quite the trace's"
        yield Warning_("requests-mapped", text, "compare only replays that are mapped alike")
    if done.pace != TIMED or not done.lateness.bins:
        return
    cause, remedy = _cause(done)
    late_ns = done.lateness.statistics_ns()["p99"]
    response_ns = _totals(done)["lat"].quantile(0.99) if any(each.ios for each in done.directions.values()) else 0.0
    if late_ns > LATE_SHARE * response_ns > 0:
        shown = (
            f"the p99 of lateness is {units.format_ns(late_ns)}, that of response times {units.format_ns(response_ns)}"
        )
        yield Warning_("replay-late", f"{shown}: {cause}, so that response times are partly the replay's own", remedy)
    longest_ns = max((each.lat.max_ns or 0 for each in done.directions.values()), default=0)
    if done.ended == "trace" and done.seconds * 1e9 > _SLOWER * done.span_ns + longest_ns:
        took, span = units.format_duration(done.seconds), units.format_duration(done.span_ns / 1e9)
        yield Warning_("replay-slower", f"the replay took {took}, the trace {span}: {cause}", remedy)
