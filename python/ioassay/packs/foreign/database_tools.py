"""Outputs of pgbench, redis-benchmark and sysbench; docs/claims.md has what they claim.

The interval of pgbench and redis-benchmark is that behind the rate, the operations divided by it: it has more digits
than the printed seconds, and that of pgbench begins when all clients are connected. Results of each script and
statement of pgbench (-f, -b, -r) are parts of the same transactions and not claimed again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ioassay.errors import InputError
from ioassay.formats import Conventions, claim_entries
from ioassay.formats.number_parsing import (
    between,
    equal,
    last_line,
    next_lines,
    parts_from,
    real,
    scaled,
    whole_number,
)
from ioassay.formats.result_entry import MIB, Entry, ResultFile, size_level
from ioassay.formats.text_rules import Fields, Tool, pattern, rules
from ioassay.records.record import Claim, Misfit, Warning_

_MS_NS = 1e6
_RULES = rules(Path(__file__).with_name("rules.toml"))
_CSV_HEAD = re.compile(r'^"test","rps",.{1,1000}$', re.M)
_STATISTICS = {"avg": "mean", "min": "min", "max": "max"}
_LONGEST_REPORT = 100_000
_MOST_TESTS = 1000


def _transactions(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """One claim a report, without those of its scripts."""
    for part in re.split(r"^(?=transaction type: |SQL script)", text, flags=re.M):
        found = _RULES["pgbench"].read(part)
        if "transactions" in found:
            yield Claim(
                source="pgbench",
                kind="keys",
                test=found.text("type"),
                operations=found.whole("transactions"),
                seconds=_interval_s(found, "transactions", "tps"),
                latency_ns=found.positive("mean", "stddev"),
                errors=found.whole("failed"),
                workers=found.whole("clients"),
            )


def _interval_s(found: Fields, number: str, rate: str) -> float | None:
    """That in which a number was done at a rate."""
    per_s = found.value(rate)
    return real(found[number].value / per_s, f"{found.tool}'s interval") if per_s else None


def _requests(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """One claim a test, of reports, quiet lines and the table of --csv."""
    _, *parts = re.split(r"^====== (.{1,200}) ======\s*$", text, flags=re.M)
    for test, part in zip(parts[::2], parts[1::2], strict=True):
        found = _RULES["redis"].read(part[:_LONGEST_REPORT])
        if {"requests", "rate"} <= found.numbers.keys():
            yield Claim(
                source="redis_benchmark",
                kind="keys",
                test=test,
                operations=found.whole("requests"),
                seconds=_interval_s(found, "requests", "rate"),
                workers=found.whole("clients"),
                latency_ns=_latencies(found.text("names").split(), found.text("values").split()),
            )
    for found in _RULES["redis_quiet"].lines(text, " requests per second, p50="):
        rate, latency_ns = found.value("rate"), found.positive("p50")
        yield Claim("redis_benchmark", "keys", found.text("test"), operations_per_s=rate, latency_ns=latency_ns)
    if head := _CSV_HEAD.search(text):
        names = [name.removesuffix("_latency_ms") for name in head[0].replace('"', "").split(",")]
        for line in takewhile(lambda line: line.startswith('"'), next_lines(text, head.end(), _MOST_TESTS)):
            fields = re.findall(r'"([^"]{0,200})"', line)
            if len(fields) != len(names):
                raise InputError(f"redis-benchmark's table has a row of {len(fields)} fields; expected {len(names)}")
            rate, latency_ns = real(fields[1], "redis-benchmark's rps"), _latencies(names[2:], fields[2:])
            yield Claim("redis_benchmark", "keys", fields[0], operations_per_s=rate, latency_ns=latency_ns)


def _latencies(names: Sequence[str], values: Sequence[str]) -> dict[str, float]:
    """Milliseconds in nanoseconds; columns that no statistic is known of are left out."""
    known = {_STATISTICS.get(name, name): value for name, value in zip(names, values, strict=False)}
    return {
        name: real(value, f"latency {name}") * _MS_NS
        for name, value in known.items()
        if name in _STATISTICS.values() or re.fullmatch(r"p[0-9]{1,2}", name)
    }


PGBENCH = Tool(
    "pgbench",
    sign="number of transactions actually processed: ",
    claims=_transactions,
    split=lambda text: parts_from(text, [match.start() for match in re.finditer("^transaction type: ", text, re.M)]),
    LEVELS=_RULES["pgbench_levels"],
    missing="pgbench printed no report of a run",
    silent=lambda text, words: bool({"-i", "--initialize"} & set(words)),
)
REDIS_BENCHMARK = Tool(
    "redis_benchmark",
    sign=r'throughput summary: | requests per second, p50=|"test","rps",',
    claims=_requests,
    missing="redis-benchmark printed no results",
    CONVENTIONS=Conventions(tests_are_work=True),
    LEVELS=_RULES["redis_levels"],
)


# sysbench 0.4 and 0.5 print exact numbers of requests; 1.1 prints none, only their rates and times.
# sysbench 1.0 prints rates to a hundredth and one exact number, its events: requests and those synchronisations that it
# makes between them, but not those after the last request. The interval behind the rates ends after these, and is
# longer than the printed total time. Events divided by the sum of the rates give it, and with it the number of requests
# of each kind; they are claimed where they come out whole within the rounding of the rates, else as bytes with that
# uncertainty. Latencies are those of events: of asynchronous requests, an event is little more than their submission.
# For `ioassay import` each test of an output is an entry. Where a test prints no rate (threads, mutex, scripts), it is
# the events over the total time. A latency that is printed as 0.00 ms says nothing and is left out.

_SECTION = re.compile(r"^File operations:|^Operations performed: +\d+ reads|^Throughput:\s+read: +IOPS=", re.M)
"""Of versions 1.0, 0.4 and 0.5, and 1.1."""
_OPTIONS = "Running the test with following options"
_END = re.compile(r"^(?:General statistics|Throughput):", re.M)
_DIRECT = re.compile(r".*directio.*|3|4000")
"""Flags by name, in 0.5 by number, in 0.4 as O_DIRECT of x86."""
_LONGEST_PART = 20_000
_PREPARED = pattern(r"^([0-9]{1,19}) bytes written in # seconds(?: \((#) Mi?B/sec\))?")
_CREATED = re.compile(r"^Creating file (\S{1,200})$", re.M)
_LEAST_MS = 1e-3
_BUCKET_LOG = math.log(1e5 / _LEAST_MS) / 1023
"""Of its histogram, of 1024 values from 1 µs to 100 s, a percentile is one (sb_histogram.c)."""
_BUCKET_SHARE = 0.02
"""From one of them to the next."""
_LATE_S = 0.1
"""Between its total time and the interval behind its rates, at most; 1 ms in quiet runs."""
_MOST_FILES = 4096
"""Beyond it files are not named: a verdict then goes by what was opened."""
_HALF_STEP = 0.005
"""Of rates, which have two decimals."""
_LARGEST_ERROR = 0.25
_STEP_MS = 0.01
"""Of latencies."""
_FEWEST_EVENTS = 10
"""With fewer their sum has no more digits than the printed mean."""


@dataclass(frozen=True)
class _FileTest:
    """What one fileio test prints before its results, and in them."""

    head: Fields
    body: Fields
    rates: tuple[float, float, float]
    """Of reads, writes and synchronisations a second."""
    numbers: tuple[int, int, int] | None
    """Of the same, where they are printed."""
    events: int
    """0 where they are not printed."""
    threads: int
    files: int
    engine: str
    direct: bool | None
    syncs_each: bool
    """Each write is synchronised."""
    syncs_at_end: bool


def _file_tests(text: str) -> Iterator[_FileTest]:
    """The fileio tests in an output, in their order; InputError where one has no rates or no number of events."""
    for number, part in enumerate(text.split(_OPTIONS)):
        sections = list(_SECTION.finditer(part))
        options = part[: sections[0].start()][:_LONGEST_PART] if number and sections else ""
        for section in sections:
            head = _RULES["sysbench_head"].read(options)
            body = _RULES["sysbench_body"].read(part[section.start() :][:_LONGEST_PART])
            numbers = None
            if "read_number" in body:
                numbers = (body["read_number"].rounded, body["write_number"].rounded, body["sync_number"].rounded)
                requests, per_s = numbers[0] + numbers[1], body["requests"].value
                share = per_s / requests if requests else 0.0
                rates = (numbers[0] * share, numbers[1] * share, numbers[2] * share)
            else:
                rates = (body["reads"].value, body["writes"].value, body["fsyncs"].value)
            flags = head.text("flags").strip()
            yield _FileTest(
                head,
                body,
                rates,
                numbers,
                events=0 if "IOPS=" in section[0] else body["total_number_of_events"].rounded,
                threads=head.whole("threads") or 1,
                files=head.whole("files") or 0,
                engine="libaio" if "Using asynchronous I/O" in options else "mmap" if "mmaped I/O" in options else "",
                direct=_DIRECT.fullmatch(flags) is not None if flags else None,
                syncs_each="Calling fsync() after each write operation" in options,
                syncs_at_end="Calling fsync() at the end of test, Enabled" in options,
            )
            options = ""


def _claims(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """Those of the files that were made, and of each test in their order."""
    for made in _PREPARED.finditer(text):
        rate = scaled(made[2], float(MIB), "sysbench's rate") if made[2] else None
        yield Claim(
            source="sysbench",
            kind="write",
            test="prepare",
            bytes=whole_number(made[1], "sysbench's bytes"),
            rate_bytes_per_s=rate.value if rate else None,
            rate_unit_bytes=rate.step if rate else 1.0,
            paths=tuple(_CREATED.findall(text[max(0, made.start() - _LONGEST_PART) : made.start()])),
        )
    for test in _file_tests(text):
        yield from _of_test(test)


def _event_times_ns(body: Fields, events: int) -> dict[str, float]:
    """Those of events; the mean from their sum, which has more digits than the printed mean, where the two agree."""
    times_ms, mean_ms, taken_s = body.positive("min", "max"), body.value("avg"), body.value("taken")
    sum_ms = body.value("sum") if taken_s is None else taken_s * 1e3
    if events >= _FEWEST_EVENTS and sum_ms is not None:
        summed_ms = sum_ms / events
        times_ms["mean"] = summed_ms if mean_ms is None or abs(summed_ms - mean_ms) <= _STEP_MS else mean_ms
    elif mean_ms is not None:
        times_ms["mean"] = mean_ms
    if "percentile" in body:
        times_ms[f"p{body['share'].rounded}"] = body["percentile"].value
    return {name: value * _MS_NS for name, value in times_ms.items() if value > 0}


def _misfits(test: _FileTest) -> list[Misfit]:
    """What of the general statistics contradicts the rest: each event has a time, and threads share the events out."""
    body, events, threads = test.body, test.events, test.threads
    found, step = list[Misfit](), _STEP_MS
    if "events_each" in body:
        found += equal("events of a thread", body["events_each"].value, events / threads, 1e-4)
    if not events or not {"min", "avg", "max", "sum"} <= body.numbers.keys():
        return found
    least, mean, most, total = (body[name].value for name in ("min", "avg", "max", "sum"))
    found += between("mean", mean, total / events - step, total / events + step)
    found += between("min", least, 0.0, mean + step)
    found += between("max", most, mean - step, total - (events - 1) * max(least - step, 0.0) + step)
    if "percentile" in body:
        value, share, loose = body["percentile"].value, body["share"].value, 1 + _BUCKET_SHARE
        beyond = total / (events * (1 - share / 100)) if share < 100 else most  # Markov's inequality
        found += between("percentile", value, least / loose - step, min(most, beyond) * loose + step)
        if value > step:
            place = round(math.log(value / _LEAST_MS) / _BUCKET_LOG)
            found += equal("percentile", value, _LEAST_MS * math.exp(place * _BUCKET_LOG), step / 2)
    if "time_each" in body:
        each_s = body["time_each"].value
        found += equal("time of a thread", each_s, total / 1e3 / threads, 1e-4 + step / 1e3)
        found += between("total time", body["total_time"].value, each_s - 1e-4, math.inf)
    return found


@dataclass(frozen=True)
class _Counts:
    """Requests of each kind behind the rates, and how far they may be wrong."""

    reads: float
    writes: float
    syncs: float
    seconds: float
    error: float

    @property
    def exact(self) -> bool:
        """They come out whole: what was assumed of the synchronisations is right."""
        parts = (self.reads, self.writes, self.syncs)
        return self.error < _LARGEST_ERROR and all(abs(part - round(part)) <= self.error for part in parts)


def _counts(test: _FileTest) -> _Counts | None:
    """None where nothing was done. Synchronisations at the end are those of each file, by one thread or by all."""
    reads, writes, syncs = test.rates
    events = test.events
    if not reads + writes:
        return None
    if test.numbers:
        return _Counts(*test.numbers, sum(test.numbers[:2]) / (reads + writes), error=0.0)
    if not events:
        return _Counts(reads, writes, syncs, 0.0, math.inf) if "avg" in test.body else None
    if test.syncs_each:
        return _shared_out(test, events * sum(test.rates) / (reads + writes))
    at_end = (test.files, test.files * test.threads, 0) if test.syncs_at_end and writes + syncs else (0,)
    candidates = [_shared_out(test, float(events + number)) for number in at_end]
    whole = [each for each in candidates if each.exact]
    if len({(round(each.reads), round(each.writes)) for each in whole}) == 1:
        return whole[0]
    unsure = _shared_out(test, float(events))
    most = max(at_end) / events * max(unsure.reads, unsure.writes)
    return _Counts(unsure.reads, unsure.writes, unsure.syncs, unsure.seconds, max(unsure.error, 1.0) + most)


def _shared_out(test: _FileTest, number: float) -> _Counts:
    """This number of requests and synchronisations, in the proportion of their rates."""
    total = sum(test.rates)
    reads, writes, syncs = (rate / total * number for rate in test.rates)
    seconds = number / total
    error = _HALF_STEP * seconds + 3 * _HALF_STEP / total * max(reads, writes, syncs)
    if sum(rate > 0 for rate in test.rates) == 1:
        error = 0.1  # of one kind all events are exact
    return _Counts(reads, writes, syncs, seconds, error)


def _of_test(test: _FileTest) -> Iterator[Claim]:
    """A read, a write or both; none where nothing was done."""
    counts = _counts(test)
    if counts is None:
        return
    head, body, block_bytes = test.head, test.body, test.head.whole("block_size")
    file_bytes = head.whole("file_size")
    whole_bytes = block_bytes if block_bytes and file_bytes is not None and file_bytes % block_bytes == 0 else None
    alone = not (counts.reads and counts.writes) and round(counts.syncs) <= test.files * test.threads
    syncs_between = test.syncs_each or (counts.syncs and not counts.exact)
    latency_ns, misfits = _event_times_ns(body, test.events), _misfits(test)
    sides = (("read", counts.reads, "bandwidth_read"), ("write", counts.writes, "bandwidth_written"))
    for place, (kind, number, bandwidth) in enumerate(sides):
        if not number:
            continue
        writes, per_s = kind == "write", test.rates[place]
        printed = body.numbers.get(bandwidth) or (body["moved"] if number == counts.reads + counts.writes else None)
        rate, total = list[Misfit](), list[Misfit]()
        if printed and block_bytes:
            step = printed.step + _HALF_STEP * block_bytes
            rate = equal("bandwidth", printed.value, per_s * block_bytes, step)
        if test.events:
            # The interval behind the rates ends after the total time: when all is synchronised, and threads are gone.
            late_s = _LATE_S + 0.02 * counts.seconds if alone and not writes else math.inf
            longest_s = counts.seconds * (1 + counts.error / test.events) + 1e-3
            total = between("total time", body["total_time"].value, counts.seconds - late_s, longest_s)
        known = counts.exact or not test.events
        size = whole_number(round(number) * whole_bytes, "sysbench's bytes") if whole_bytes and counts.seconds else None
        yield Claim(
            source="sysbench",
            kind=kind,
            operations=round(number) if counts.exact else None,
            bytes=size,
            seconds=counts.seconds or None,
            rate_bytes_per_s=printed.value if printed else None,
            rate_unit_bytes=max(printed.step if printed else 1.0, 0.0 if known else counts.error * (block_bytes or 1)),
            latency_ns=latency_ns if alone and not syncs_between and not test.engine else {},
            latency_step_ns=dict.fromkeys(
                latency_ns.keys() - {"mean"} if test.events >= _FEWEST_EVENTS else latency_ns, _STEP_MS * _MS_NS
            ),
            operations_per_s=per_s,
            operations_per_s_step=2 * _HALF_STEP,
            syncs=round(counts.syncs) if writes and counts.exact and test.engine != "mmap" else None,
            writes_per_sync=1 if writes and test.syncs_each else None,
            engine=test.engine,
            direct=test.direct,
            paths=tuple(f"test_file.{one}" for one in range(test.files)) if test.files <= _MOST_FILES else (),
            file_bytes=file_bytes,
            record_bytes=block_bytes,
            includes=("fsync",) if writes and test.syncs_at_end else (),
            misfits=(*misfits, *total, *rate),
        )


def _entries(text: str) -> Iterator[Entry]:
    """The tests in their order; InputError when none was begun, or when a number is none."""
    _, *parts = text.split(_OPTIONS)
    if not parts:
        raise InputError(f"has no test of sysbench, only {last_line(text)}; expected the output of 'run'")
    yield from (_entry(_OPTIONS + part) for part in parts)


def _entry(part: str) -> Entry:
    other, head = _RULES["sysbench_other"].read(part), _RULES["sysbench_head"].read(part)
    kinds = {"prime_limit": "cpu", "operations": "memory", "transactions": "oltp", "flags": "fileio"}
    known = {**other.texts, **head.texts}
    kind = next((kind for field, kind in kinds.items() if field in known), "other")
    options = {"test": kind, "workers": head.text("threads"), "target_rate": head.text("target_rate")}
    options = {name: level for name, level in options.items() if level}
    section, end = _SECTION.search(part), _END.search(part)
    if end is None:
        return Entry(kind, options=options, problem=f"sysbench was ended before its results: {last_line(part)}")
    body = _RULES["sysbench_body"].read(part[min(end.start(), section.start() if section else end.start()) :])
    events = body.whole("total_number_of_events") or 0
    warnings: Sequence[Warning_] = ()
    if kind == "fileio":
        kind, levels, metrics, warnings = _of_files(part, head)
    else:
        levels = {name: other.text(name) for name in ("prime_limit", "operation", "scope")}
        sizes = {"bs": other.whole("block_size"), "size": other.whole("total_size")}
        levels |= {name: size_level(value) for name, value in sizes.items() if value is not None}
        total_s = body["total_time"].value
        rates = {
            "event.rate": other.value("operations") or other.value("events") or (events / total_s if total_s else None),
            "memory.bw": other.value("moved"),
            "transactions.ops": other.value("transactions"),
            "transactions.ops_rate": other.value("transaction_rate"),
            "queries.ops": other.value("queries"),
            "queries.ops_rate": other.value("query_rate"),
        }
        metrics = {name: rate for name, rate in rates.items() if rate is not None}
        if errors := other.whole("ignored"):
            warnings = [Warning_("errors", f"{errors} transactions of sysbench failed and were begun again")]
    fatal = other.text("fatal")
    problem = f"sysbench: {fatal}" if fatal else "" if metrics else "no request was done"
    levels = {name: level for name, level in levels.items() if level}
    times = {f"event.time.{name}": value for name, value in _event_times_ns(body, events).items()}
    return Entry(kind, options={**options, **levels}, metrics={**metrics, **times}, problem=problem, warnings=warnings)


def _of_files(part: str, head: Fields) -> tuple[str, dict[str, str], dict[str, float], Sequence[Warning_]]:
    """What a fileio test does, its levels, its metrics and what is to be said of them."""
    tests = list(_file_tests(_OPTIONS + part))
    if len(tests) != 1:
        raise InputError(f"sysbench's fileio test has {len(tests)} sections of results; expected 1")
    (test,) = tests
    what, block_bytes, file_bytes = head.text("doing") or "fileio", head.whole("block_size"), head.whole("file_size")
    levels = {
        "test": what,
        "bs": size_level(block_bytes) if block_bytes else "",
        "file_size": "" if file_bytes is None else size_level(file_bytes),
        "files": str(test.files or ""),
        "direct": "" if test.direct is None else str(int(test.direct)),
        "io_mode": {"libaio": "async", "mmap": "mmap"}.get(test.engine, "sync"),
        "rw_ratio": head.text("ratio") if "r/w" in what else "",
        "fsync_freq": head.text("fsync_freq"),
    }
    metrics = {"sync.rate": test.rates[2]} if test.rates[2] else {}
    claims = claim_entries.entries(list(_of_test(test)))
    for entry in claims:
        metrics = {**entry.metrics, **metrics}
    return what, levels, metrics, [warning for entry in claims for warning in entry.warnings]


SYSBENCH = Tool(
    "sysbench",
    claims=_claims,
    missing="sysbench printed no results of a fileio test",
    silent=lambda text, words: bool(_END.search(text)) and (not _SECTION.search(text) or any(_file_tests(text))),
    sign=lambda text: _SECTION.search(text) or "Creating files for the test" in text,
    split=lambda text: parts_from(text, [match.start() for match in re.finditer(r"^sysbench \d", text, re.M)]),
    RESULTS=ResultFile(
        "sysbench's output", lambda text: re.search(r"^sysbench [01]\.[0-9]+", text, re.M) is not None, _entries
    ),
)
