"""Results of sysbench 1.0 for `ioassay import`: each test of an output (fileio, cpu, memory, any other) is an entry.

Rates are those that sysbench prints. Where a test prints none (threads, mutex, scripts), events over the total time are
its rate. Latencies are those of events; only of fileio tests with one kind of request are they latencies of requests as
well (see `sysbench`). A latency that is printed as 0.00 ms says nothing and is left out. Intervals of --report-interval
and the bins of --histogram are not read.
"""

from __future__ import annotations

import re

from ioassay.errors import InputError
from ioassay.formats.number_parsing import real, whole_number
from ioassay.formats.printed_quantity import NUMBER, last_line, size
from ioassay.formats.result_entry import MIB, Entry, size_level
from ioassay.packs.foreign import sysbench

WANTED = "sysbench's output"
_VERSION = re.compile(r"^sysbench [01]\.[0-9]", re.M)
_OPTIONS = "Running the test with following options"
_END = "General statistics:"
_LIMIT = re.compile(r"^Prime numbers limit: ([0-9]{1,12})$", re.M)
_SIZED = r"^  (?P<name>block size|total size): (?P<number>[0-9]{1,12})(?P<unit>[KMGT]?i?B)$"
_MEMORY = re.compile(r"^  (operation|scope): ([a-z]{1,20})$", re.M)
_TRANSFERRED = re.compile(rf"^{NUMBER} MiB transferred \(({NUMBER}) MiB/sec\)$", re.M)
_OPERATIONS = re.compile(rf"^Total operations: [0-9]{{1,19}} \(({NUMBER}) per second\)$", re.M)
_EVENTS_RATE = re.compile(rf"^ *events per second: +({NUMBER})$", re.M)
_DOING = re.compile(r"^Doing (.{1,60}) test$", re.M)
_RATIO = re.compile(rf"^Read/Write ratio for combined random IO test: ({NUMBER})$", re.M)


def looks_like(text: str) -> bool:
    """Whether it is sysbench's output, with results or cut off."""
    return _VERSION.search(text) is not None


def read(text: str, source: str) -> list[Entry]:
    """The tests in their order; InputError names `source` when none was begun, or when a number is none."""
    starts = [found.start() for found in re.finditer(_OPTIONS, text)]
    if not starts:
        raise InputError(f"{source}: has no test of sysbench, only {last_line(text)}; wanted the output of 'run'")
    try:
        return [_entry(text[start:end]) for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _entry(part: str) -> Entry:
    kind = "fileio" if "File operations:" in part or "file open flags" in part else "other"
    kind = "cpu" if _LIMIT.search(part) else "memory" if "memory speed test" in part else kind
    threads = re.search(r"^Number of threads: ([0-9]{1,6})$", part, re.M)
    options = {"test": kind, **({"workers": threads[1]} if threads else {})}
    if _END not in part:
        return Entry(kind, options=options, problem=f"sysbench was ended before its results: {last_line(part)}")
    if kind == "fileio":
        return _of_files(part, options)
    own = {"cpu": _cpu, "memory": _memory}.get(kind, _other)
    levels, metrics = own(part)
    return Entry(kind, options={**options, **levels}, metrics={**metrics, **_event_times(part)})


def _cpu(part: str) -> tuple[dict[str, str], dict[str, float]]:
    limit, rate = _LIMIT.search(part), _EVENTS_RATE.search(part)
    metrics = {"event.rate": real(rate[1], "sysbench's events per second")} if rate else _rate(part)
    return {"prime_limit": limit[1]} if limit else {}, metrics


def _memory(part: str) -> tuple[dict[str, str], dict[str, float]]:
    """Random access has no rate in bytes that means more than that of its operations; both are printed."""
    levels = dict(_MEMORY.findall(part))
    for match in re.finditer(_SIZED, part, re.M):
        name = {"block size": "bs", "total size": "size"}[match["name"]]
        levels[name] = size_level(size(match["number"], match["unit"], f"sysbench's {match['name']}").rounded)
    metrics = {}
    if rate := _OPERATIONS.search(part):
        metrics["event.rate"] = real(rate[1], "sysbench's operations per second")
    if moved := _TRANSFERRED.search(part):
        metrics["memory.bw"] = real(moved[1], "sysbench's MiB/sec") * MIB
    return levels, metrics


def _other(part: str) -> tuple[dict[str, str], dict[str, float]]:
    return {}, _rate(part)


def _rate(part: str) -> dict[str, float]:
    seconds = real(_stated(part, "total time"), "sysbench's total time")
    return {"event.rate": _events(part) / seconds} if seconds else {}


def _of_files(part: str, options: dict[str, str]) -> Entry:
    tests = list(sysbench.file_tests(part))
    if len(tests) != 1:
        raise InputError(f"sysbench's fileio test has {len(tests)} sections of results; wanted 1")
    (test,) = tests
    doing, ratio = _DOING.search(part), _RATIO.search(part)
    what = doing[1] if doing else "fileio"
    levels = {
        "test": what,
        "bs": size_level(test.block_bytes) if test.block_bytes else "",
        "file_size": "" if test.file_bytes is None else size_level(test.file_bytes),
        "files": str(test.files or ""),
        "direct": "" if test.direct is None else str(int(test.direct)),
        "io_mode": {"libaio": "async", "mmap": "mmap"}.get(test.engine, "sync"),
        "rw_ratio": ratio[1] if ratio and "r/w" in what else "",
    }
    metrics: dict[str, float] = {}
    for kind, iops, mib in zip(("read", "write"), test.rates[:2], test.mib_per_s, strict=True):
        if iops:
            metrics |= {f"{kind}.iops": iops, f"{kind}.bw": real(mib, f"sysbench's MiB/s of {kind}") * MIB}
    if test.rates[2]:
        metrics["sync.rate"] = test.rates[2]
    for claim in sysbench.claims_of(test):
        metrics |= {f"{claim.kind}.lat.{name}": value for name, value in claim.latency_ns.items()}
    levels = {name: value for name, value in levels.items() if value}
    problem = "" if metrics else "no request was done"
    return Entry(what, options={**options, **levels}, metrics={**metrics, **_event_times(part)}, problem=problem)


def _event_times(part: str) -> dict[str, float]:
    """Of one event, in ns: the percentile that was asked for (95 by default), and the extremes."""
    times = sysbench.event_times_ns(part, _events(part))
    return {f"event.time.{name}": value for name, value in times.items()}


def _events(part: str) -> int:
    return whole_number(_stated(part, "total number of events"), "sysbench's events")


def _stated(part: str, name: str) -> str:
    place = part.find(_END)
    match = re.compile(rf"^ *{name}: +({NUMBER})s?$", re.M).search(part, place)
    if match is None:
        raise InputError(f"sysbench's results have no '{name}': its output is not complete, or of another version")
    return match[1]
