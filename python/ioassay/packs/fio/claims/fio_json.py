"""fio's JSON and JSON+ of versions 2 and 3, also of `--client`, read into `fio_results`.

Text that fio mixes into its own output, before, between and after its documents, is kept as messages. A value that fio
cannot have written (text for a number, a negative count, more requests than a drive's life has room for) is refused by
its key, and the whole document with it. A new key of fio's is added here: to the table that has it, and to the reader.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from typing_extensions import TypedDict

from ioassay import validation
from ioassay.errors import InputError
from ioassay.formats.number_parsing import equal, leave_out, parts_from, quotient, text_around, whole_number
from ioassay.packs.fio.claims.fio_results import (
    CPU,
    DIRECTIONS,
    KINDS,
    TOTAL,
    Clients,
    CpuUse,
    Direction,
    Disk,
    Job,
    Latency,
    Results,
    by_client,
    client_name,
    error_number,
    rate_misfits,
)
from ioassay.records.record import Misfit
from ioassay.validation import Amount, Count, Whole

_UNKNOWN = "this is not as fio writes it"
_SEVERAL_FILENAMES = re.compile(r'"filename"[^{}]*"filename"')
_BEGINNING = re.compile(r'\{\s*"fio version"\s*:')
"""Not only at the beginning of a line: of many messages fio loses some in the middle of one."""
_TABLES_OF_CLIENTS = re.compile(r'"global options"\s*:\s*\[')
_NAMELESS = re.compile(r"^\{", re.M)
"""Where no version is said."""
_CLOCK_STEP_S = 1e-3
_NO_NUMBER = re.compile(r"(?<=[:,\[])( *)(-?)(?:nan|inf)(?= *[,\]}\n])", re.I)
_COUNTS = frozenset({"runtime", "total_ios", "io_bytes", "io_kbytes"})
_STATISTICS = frozenset({"min", "max", "mean", "stddev"})
_MOST_BROKEN = 100
"""Beginnings of JSON without an end that are tried: each costs the time of counting all lines before it."""


class _LatencyTable(TypedDict, total=False):
    min: Amount
    max: Amount
    mean: Amount
    stddev: Amount
    N: Count
    bins: dict[Whole, Count]
    percentile: dict[Amount, Amount]


class _PriorityTable(TypedDict, total=False):
    """What is measured of the requests of one priority, by its class, level and hint as in linux/ioprio.h."""

    prioclass: Count
    prio: Count
    priohint: Count
    clat_ns: _LatencyTable | None
    lat_ns: _LatencyTable | None


class _DirectionTable(TypedDict, total=False):
    io_bytes: Whole
    io_kbytes: Whole
    bw: Amount
    bw_bytes: Amount
    iops: Amount
    runtime: Amount
    total_ios: Count
    slat_ns: _LatencyTable | None
    clat_ns: _LatencyTable | None
    lat_ns: _LatencyTable | None
    slat: _LatencyTable | None
    clat: _LatencyTable | None
    lat: _LatencyTable | None
    prios: list[_PriorityTable]
    clat_high_prio: _LatencyTable | None
    clat_low_prio: _LatencyTable | None
    lat_high_prio: _LatencyTable | None
    lat_low_prio: _LatencyTable | None
    cachehit: Amount


class _SyncTable(_DirectionTable, total=False):
    """Of a direction's keys it has `total_ios` and `lat_ns`."""


class _SteadyTable(TypedDict, total=False):
    ss: str
    attained: int
    data: dict[str, Amount | list[Amount]]


_Options = TypedDict("_Options", {"job options": dict[str, str] | None}, total=False)


class _JobTable(_Options, total=False):
    jobname: str
    groupid: int
    error: int
    total_err: Count
    job_start: Amount
    job_runtime: Amount
    latency_target: Amount
    latency_depth: Count
    usr_cpu: Amount
    sys_cpu: Amount
    ctx: Count
    majf: Count
    minf: Count
    read: _DirectionTable
    write: _DirectionTable
    trim: _DirectionTable
    mixed: _DirectionTable
    sync: _SyncTable | None
    steadystate: _SteadyTable
    hostname: str
    port: Count


_Results = TypedDict(
    "_Results",
    {
        "fio version": str,
        "timestamp": Amount,
        "timestamp_ms": Amount,
        "jobs": list[_JobTable],
        "client_stats": list[_JobTable],
        "disk_util": list[dict[str, Any]],
    },
    total=False,
)
_OneTable = TypedDict("_OneTable", {"global options": dict[str, str] | None}, total=False)
_Tables = TypedDict("_Tables", {"global options": list[dict[str, Any]]}, total=False)


class _Document(_Results, _OneTable, total=False):
    pass


class _DocumentOfClients(_Results, _Tables, total=False):
    """From version 3.39 on, of several clients."""


_TABLES: Mapping[str, Any] = {
    **dict.fromkeys(("jobs", "client_stats"), _JobTable),
    **dict.fromkeys(DIRECTIONS, _DirectionTable),
    **{f"{kind}{unit}": _LatencyTable for kind in KINDS for unit in ("", "_ns")},
    **{f"{kind}_{level}_prio": _LatencyTable for kind in KINDS[1:] for level in ("high", "low")},
    "sync": _SyncTable,
    "steadystate": _SteadyTable,
    "prios": _PriorityTable,
}
"""Key -> the type of its table, or of each one in its list."""
for _table in (_Document, _DocumentOfClients, *_TABLES.values()):
    _table.__pydantic_config__ = {"extra": "allow"}  # so that it can be said which keys were not read
_OF_OTHERS = re.compile(
    r"(?:bw|iops)(?:_\w+)?|iodepth_\w+|latency_\w+|time|eta|elapsed|desc|first_error|duration|criterion"
    r"|max_deviation|slope"
)
"""Keys that say what others say as well, or how fio looked: of them nothing is lost."""


def _unread(value: Any, known: frozenset[str], place: str = "") -> Iterator[str]:
    """Keys of a document that no type here has, and that are neither empty nor 0."""
    for table in value if isinstance(value, list) else [value]:
        for key, inner in table.items() if isinstance(table, dict) else ():
            if key in known and key in _TABLES:
                yield from _unread(inner, _TABLES[key].__optional_keys__, f"{place}{key}.")
            elif inner and key not in known and not _OF_OTHERS.fullmatch(key):
                yield f"{place}{key}"


def parse(text: str, source: str) -> Results:
    """The results in a JSON or JSON+ text with anything around it; the last where there are several.

    InputError names `source` when there are none, or when they are cut off.
    """
    if results := parse_each(text, source):
        return results[-1]
    if not text.strip():
        raise InputError(f"{source}: is empty: fio ended before it wrote its results, or --output names a file")
    if fault := _fault(text):
        raise InputError(f"{source}: {fault}")
    beginning = text.strip().splitlines()[0][:100]
    why = "fio refused, was ended, or wrote another format"
    raise InputError(f"{source}: has no JSON; it begins with '{beginning}': {why}; run it with --output-format=json")


def parse_each(text: str, source: str) -> list[Results]:
    """All results in a text; none where none is whole. InputError names `source` and what is not as fio writes it."""
    text = _as_json(text)
    places = list(_objects(text))
    messages = text_around(text, places)
    try:
        return [_results(text[start:end], source, messages) for start, end in places]
    except KeyError as error:
        raise InputError(f"{source}: a latency has no {error}; expected JSON as fio writes it") from None


def split(text: str) -> list[str]:
    """A part for each document, with what is after the one before; one where no document is whole."""
    ends = [end for _, end in _objects(_as_json(text))]
    return parts_from(text, [0, *ends[:-1]])


def _as_json(text: str) -> str:
    """With JSON's words, as Python has them, where fio prints a number that is none; as long as before."""
    return _NO_NUMBER.sub(lambda found: f"{found[1]}{' ' * len(found[2])}NaN", text)


def _mended(text: str, source: str) -> tuple[str, list[str]]:
    """A document in which a repeated `filename` has all its values and no field is NaN, and which were."""
    spoiled: dict[str, None] = {}

    def of_pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        odd = [key for key, value in pairs if isinstance(value, float) and not math.isfinite(value)]
        if counts := _COUNTS & {*odd}:
            raise InputError(f"{source}: {min(counts)} is no number; {_UNKNOWN}")
        table = {key: value for key, value in pairs if key not in odd}
        names = [value for key, value in pairs if key == "filename" and isinstance(value, str)]
        if len(names) > 1:
            table["filename"] = ":".join(names)
        spoiled.update(dict.fromkeys(odd))
        return {} if _STATISTICS & {*odd} else table

    return json.dumps(json.loads(text, object_pairs_hook=of_pairs)), [*spoiled]


def looks_like(text: str) -> bool:
    """Whether a document begins in it, whole or not."""
    return documents(text) > 0


def documents(text: str) -> int:
    """How many begin in it, whole or not."""
    return len(_BEGINNING.findall(text))


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Where each JSON object with fio's keys begins and ends."""
    decoder, position, broken, beginnings = json.JSONDecoder(), 0, 0, _beginnings(text)
    while (beginning := beginnings.search(text, position)) and broken < _MOST_BROKEN:
        try:
            found, position = decoder.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):  # no JSON, or a number or a nesting that Python will not take
            position, broken = beginning.end(), broken + 1
            continue
        if isinstance(found, dict) and found.keys() & {"jobs", "client_stats"}:
            yield beginning.start(), position


def _beginnings(text: str) -> re.Pattern[str]:
    return _BEGINNING if _BEGINNING.search(text) else _NAMELESS


def _fault(text: str) -> str:
    """What ends the last thing in a text that looks like fio's JSON too early; '' where nothing looks like it."""
    beginnings = [found.start() for found in _beginnings(text).finditer(text)]
    if not beginnings:
        return ""
    lines = text.count("\n") + 1
    try:
        validation.table(text[beginnings[-1] :].rstrip(), "it")
    except InputError as error:
        found = re.search(r"\((.*) at line (\d+) column (\d+)\)$", str(error))
        if found and not found[1].startswith("EOF"):
            line = text.count("\n", 0, beginnings[-1]) + int(found[2])
            return (
                f"JSON is broken in line {line} of {lines}, column {found[3]}: {found[1]}; expected it as fio wrote it"
            )
    return f"JSON is cut off after {lines} lines: fio was ended while it wrote"


def _results(text: str, source: str, messages: str) -> Results:
    # fio uses the files of all that it was given, and repeats the key in the table of options for each.
    plain, spoiled = _mended(text, source) if _SEVERAL_FILENAMES.search(text) or "NaN" in text else (text, [])
    if spoiled:
        return replace(_results(plain, source, messages), spoiled=spoiled)
    if _TABLES_OF_CLIENTS.search(text):
        of_clients = validation.read(_DocumentOfClients, plain, source, _UNKNOWN)
        options = _options_of(of_clients.get("global options", []))
        return _of_clients(of_clients, messages, options, {}, [])
    document = validation.read(_Document, plain, source, _UNKNOWN)
    shared = document.get("global options") or {}
    if document.get("jobs") or "client_stats" not in document:
        jobs = [_job(job, shared) for job in document.get("jobs", [])]
        return _run(document, jobs, messages, None)
    unattributed: list[str] = []
    if (clients := len({_client(entry) for entry in document["client_stats"]})) > 1:
        shared, unattributed = _shared_options(text, clients)
    return _of_clients(document, messages, {}, shared, unattributed)


def _of_clients(
    document: _Results,
    messages: str,
    options: Mapping[str, Mapping[str, str]],
    shared: Mapping[str, str],
    unattributed: Sequence[str],
) -> Results:
    """The results of servers, with the global options of each or those of all."""
    total, jobs = None, []
    for entry in document.get("client_stats", []):
        job = _job(entry, options.get(_client(entry), shared))
        if job.name == TOTAL and "job options" not in entry:
            total = replace(job, client="")
        else:
            jobs.append(job)
    absent = _absent(messages, list(by_client(jobs)))
    return _run(document, jobs, messages, Clients(total, absent, unattributed))


def _run(document: _Results, jobs: Sequence[Job], messages: str, clients: Clients | None) -> Results:
    leave_out(_unread(document, _Document.__optional_keys__))
    return Results(
        version=document.get("fio version", ""),
        jobs=jobs,
        disks=[_disk(disk) for disk in document.get("disk_util", [])],
        messages=messages,
        started_unix_s=document.get("timestamp_ms", 0.0) / 1e3 or document.get("timestamp", 0.0),
        clients=clients,
    )


def _client(entry: _JobTable) -> str:
    return client_name(entry.get("hostname", ""), entry.get("port", 0))


def _disk(disk: Mapping[str, Any]) -> Disk:
    counts = {key: float(value) for key, value in disk.items() if isinstance(value, int | float) and key != "port"}
    host, port = disk.get("hostname"), disk.get("port")
    client = client_name(host, port) if isinstance(host, str) and isinstance(port, int) else ""
    return Disk(str(disk.get("name", "?")), counts, client)


def _job(job: _JobTable, shared: Mapping[str, str]) -> Job:
    own = "usr_cpu" in job  # other programs print what is read of fio's results, and compute it in other ways
    directions = {name: _direction(job[name], own) for name in DIRECTIONS if name in job}  # type: ignore[literal-required]
    runtime_ms = job.get("job_runtime") or max((1e3 * each.runtime_s for each in directions.values()), default=0)
    error, sync, steady = error_number(job.get("error", 0), "error"), job.get("sync"), job.get("steadystate") or {}
    return Job(
        name=job.get("jobname", ""),
        group=job.get("groupid", 0),
        error=error,
        directions=directions,
        client=_client(job),
        runtime_s=runtime_ms / 1e3,
        cpu=CpuUse(*(float(job.get(name, 0.0)) for name in CPU)),  # type: ignore[arg-type]
        errors=job.get("total_err", int(bool(error))),
        syncs=sync.get("total_ios", 0) if sync else None,
        sync_latency=_latency(sync, "lat", sync.get("total_ios", 0), own) if sync else None,
        unsteady="" if steady.get("attained", 1) else steady.get("ss", "?"),
        started_unix_s=job.get("job_start", 0.0) / 1e3,
        measured=_measured(job, steady),
    ).with_options({**shared, **(job.get("job options") or {})})


def _measured(job: _JobTable, steady: _SteadyTable) -> dict[str, float]:
    """What fio found of a job as a whole: metrics of it alone."""
    data = steady.get("data", {}) if steady.get("attained") else {}
    means = {name: data.get(f"{name}_mean") for name in ("bw", "iops")}
    found: dict[str, float] = {f"steady.{name}": mean for name, mean in means.items() if isinstance(mean, int | float)}
    if job.get("latency_target"):
        found["latency_target.depth"] = job.get("latency_depth", 0)
    tables = {name: job[name] for name in DIRECTIONS if name in job}  # type: ignore[literal-required]
    hits = {name: table["cachehit"] for name, table in tables.items() if "cachehit" in table}
    return found | {f"{name}.cache_hit_ratio": percent / 100 for name, percent in hits.items()}


_PRIORITY_CLASSES = ("default", "realtime", "best-effort", "idle")
"""By their numbers in linux/ioprio.h."""


def _by_priority(table: _DirectionTable, ios: int, own: bool) -> Iterator[tuple[str, Latency | None]]:
    """`<priority>/<kind>` and the latency of its requests; of 3.15 to 3.29 fio says "high" and "low" alone."""
    for level, kind in product(("high", "low"), KINDS[1:]):
        yield f"{level}-priority/{kind}", _latency(table, f"{kind}_{level}_prio", ios, own)
    for one in table.get("prios", []):
        number, hint = one.get("prioclass", 0), one.get("priohint", 0)
        name = _PRIORITY_CLASSES[number] if number < len(_PRIORITY_CLASSES) else f"class{number}"
        name += f"-{one.get('prio', 0)}{f'-hint{hint}' if hint else ''}"
        for kind in KINDS[1:]:
            yield f"{name}/{kind}", _latency(one, kind, ios, own)  # type: ignore[arg-type]


def _direction(table: _DirectionTable, own: bool) -> Direction:
    """fio 3 counts bytes and has `io_kbytes` beside them; fio 2 counts KiB in `io_bytes`. `own`: fio printed it."""
    runtime_s = table.get("runtime", 0.0) / 1e3
    unit = 1 if "io_kbytes" in table or "bw_bytes" in table else 1024
    stated = "total_ios" in table
    ios = table["total_ios"] if stated else round(table.get("iops", 0.0) * runtime_s)
    latencies = [*((kind, _latency(table, kind, ios, own)) for kind in KINDS), *_by_priority(table, ios, own)]
    return Direction(
        ios=ios if stated else whole_number(ios, "iops times runtime"),
        bytes=whole_number(table.get("io_bytes", 0) * unit, "io_bytes"),
        runtime_s=runtime_s,
        latencies={kind: latency for kind, latency in latencies if latency is not None},
        ios_stated=stated,
        rate_bytes_per_s=table.get("bw_bytes"),
        operations_per_s=table.get("iops"),
        misfits=_misfits(table, unit, runtime_s, ios if stated else None, 0.0 if own else _CLOCK_STEP_S),
    )


def _misfits(table: _DirectionTable, unit: int, runtime_s: float, ios: int | None, clock_s: float) -> list[Misfit]:
    """fio computes each of these from bytes, requests and whole milliseconds (stat.c, add_ddir_status_json).

    fio 2 rounds bytes down to the `unit`, and requests a second to a whole number.
    """
    volume = table.get("io_bytes", 0) * unit
    found = equal("io_kbytes", table.get("io_kbytes", volume // 1024), volume / 1024, 1)
    if "bw_bytes" in table:
        found += quotient("bw_bytes", volume, runtime_s, table["bw_bytes"], 0.0, clock_s, 1)
    if "bw" in table:
        found += rate_misfits("bw", volume / 1024, runtime_s, table["bw"], (unit - 1) / 1024, clock_s, 1)
    if ios is not None and (value := table.get("iops")) is not None:
        found += quotient("iops", ios, runtime_s, value, 0.0, clock_s, 0.01 if unit == 1 else 1)
    return found


def _latency(table: _DirectionTable, kind: str, ios: int, own: bool) -> Latency | None:
    """`clat_ns` of fio 3, or `clat` in microseconds of fio 2. None when nothing was measured."""
    is_ns, unit_ns = f"{kind}_ns" in table, 1 if f"{kind}_ns" in table or kind.endswith("_prio") else 1000
    found: _LatencyTable | None = table.get(f"{kind}_ns" if is_ns else kind)  # type: ignore[assignment]
    if not found:
        return None
    bins = {value: count for value, count in found.get("bins", {}).items() if count}
    if unit_ns != 1:
        bins = {whole_number(value * unit_ns, f"{kind} bin"): count for value, count in bins.items()}
    count = found.get("N", sum(bins.values()) or (ios if found.get("max") else 0))
    if not count:
        return None
    shares = found.get("percentile", {})
    return Latency(
        count=count,
        mean_ns=found["mean"] * unit_ns,
        stddev_ns=found["stddev"] * unit_ns,
        min_ns=found["min"] * unit_ns,
        max_ns=found["max"] * unit_ns,
        bins=bins,
        percentiles_ns={share: value * unit_ns for share, value in shares.items() if share > 0},
        count_stated="N" in found,
        percentile_unit_ns=float(own and unit_ns == 1),
    )


# `fio --client`: fio connects to servers (`fio --server`) and calls each connection a client. Whose options are whose,
# and who has no results: handle_ts, handle_job_opt and fio_client_add of fio's client.c, sum_thread_stats of stat.c.

_OPTIONS_OF_ALL = re.compile(r'"global options"\s*:\s*(?=\{)')
_UNREACHED = re.compile(r"^fio: failed to connect to (.+):(\d+)$", re.M)
_GONE = re.compile(r"^(?:client: host=(.+) disconnected|fio: client (.+?)(?: timed out|, timeout on cmd .*))$", re.M)


def _shared_options(text: str, clients: int) -> tuple[dict[str, str], list[str]]:
    """The global options that all clients were given, and those of which a document does not say whose they are.

    fio repeats them for each client in one table before version 3.39.
    """
    place = _OPTIONS_OF_ALL.search(text)
    pairs = json.JSONDecoder(object_pairs_hook=list).raw_decode(text, place.end())[0] if place else ()
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        if isinstance(value, str):
            values.setdefault(key, []).append(value)
    shared = {key: own[0] for key, own in values.items() if len(own) >= clients and len(set(own)) == 1}
    return shared, [key for key in values if key not in shared]


def _absent(messages: str, present: Sequence[str]) -> dict[str, str]:
    """Clients without results, of which fio's messages tell, and why. fio goes on without them."""
    found = {
        client_name(match[1], int(match[2][:5])): "fio could not connect to it"
        for match in _UNREACHED.finditer(messages)
    }
    for match in _GONE.finditer(messages):
        host = match[1] or match[2]  # fio does not print the port
        name = f"{host}:?" if host in present else host
        found.setdefault(name, "the connection was lost before it sent results")
    return {name: why for name, why in found.items() if name not in present}


def _options_of(listed: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The global options of each client, which fio lists apart from version 3.39 on."""
    found: dict[str, dict[str, str]] = {}
    for table in listed:
        host, port = table.get("hostname"), table.get("port")
        if isinstance(host, str) and isinstance(port, int):
            name = client_name(host, port)
            found[name] = {key: value for key, value in table.items() if isinstance(value, str) and key != "hostname"}
    return found
