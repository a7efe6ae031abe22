"""What fio claims: one claim a direction, all jobs merged, from JSON (also JSON+), terse lines or the human report.

JSON says the most and is preferred where several formats were asked for. Jobs merge as the driver's metrics do: volumes
add up, the interval is the longest of the jobs that ran together, groups that ran one after the other add up. fio
times each job from its first to its last request; fsyncs in between and `end_fsync` are inside. Percentiles are only
told where there is one job, since those of several cannot be merged. Sizes and names come from the jobs' options
(`fio_options`), the formats without them are read by `fio_text`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions, command_line, fio_json, fio_text
from ioassay.formats.fio_job_options import JobFacts, job_facts
from ioassay.formats.number_parsing import real, whole_number
from ioassay.records.record import Claim

NAME = "fio"
STREAM = "stdout"
CONVENTIONS = Conventions(layout_apart=True)  # filesetup.c: layouts are written, loads opened for both
KINDS = ("read", "write", "trim")
_CLOCK_STEP_S = 1e-3
"""Run times are printed in whole milliseconds."""
_BEGINNING = re.compile(r'\{\s*"fio version"\s*:')
_PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


def matches(program: str) -> bool:
    """Whether this is fio, also under a versioned name (`fio-3.36`)."""
    return re.fullmatch(r"fio(-[\d.]+)?", program) is not None


def looks_like(text: str) -> bool:
    """Whether it has results of fio in any format."""
    return _BEGINNING.search(text) is not None or fio_text.looks_like(text)


def outputs(argv: Sequence[str]) -> list[str]:
    """The files that `--output` names, to which results go instead of standard output."""
    found = []
    for one in command_line.plain(argv):
        if matches(command_line.program(one)):
            for place, word in enumerate(one):
                if match := re.fullmatch(r"--?output(?:=(.*))?", word):
                    found.append(match[1] if match[1] is not None else "".join(one[place + 1 : place + 2]))
    return [name for name in found if name]


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of one run; of each, where a script starts fio several times. InputError says what is wrong.

    Of results that one run of fio printed again and again (--status-interval), the last count.
    """
    if not text.strip():
        raise InputError("fio's output is empty: it ended before it wrote results, or --output names a file")
    if documents := fio_json.documents(text, "fio's output"):
        runs = sum(matches(command_line.program(one)) for one in command_line.plain(argv))
        chosen = documents if runs == len(documents) else documents[-1:]
        return [claim for document in chosen for claim in from_json(document.table, _laid_out(text))]
    if _BEGINNING.search(text):
        raise InputError(f"fio's {fio_json.fault(text)}")
    return fio_text.read(text)


def _laid_out(text: str) -> list[str]:
    return ["layout"] if "Laying out IO file" in text else []


def from_json(table: Mapping[str, Any], unreported: Sequence[str] = ()) -> list[Claim]:
    """The claims in a table of `fio_json`. Directions without I/O claim nothing.

    InputError when it has no jobs or its numbers make no sense.
    """
    try:
        jobs = table.get("jobs") or [job for job in table.get("client_stats", ()) if job["jobname"] != "All clients"]
        if not jobs:
            raise InputError("fio's JSON has no jobs: nothing was run")
        options = job_facts(jobs, table.get("global options") or {})
        return [claim for kind in _kinds(jobs) if (claim := _claim(kind, jobs, options, unreported)) is not None]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"fio's JSON is not as fio writes it: {type(error).__name__} {error}") from None


def _kinds(jobs: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """`mixed` only where unified_rw_reporting left nothing else."""
    return KINDS if any(kind in job for job in jobs for kind in KINDS) else ("mixed",)


def _claim(
    section: str, jobs: Sequence[Mapping[str, Any]], options: JobFacts, unreported: Sequence[str] = ()
) -> Claim | None:
    parts = [(job, job[section]) for job in jobs if section in job]
    operations = sum(_operations(part) for _, part in parts)
    volume = sum(_bytes(part) for _, part in parts)
    if not operations and not volume:
        return None
    seconds = _elapsed_s(parts)
    kind = section if section in KINDS else options.only_kind or "mixed"
    return Claim(
        source=NAME,
        kind=kind,
        test=", ".join(dict.fromkeys(str(job.get("jobname", "")) for job, _ in parts)),
        operations=operations,
        bytes=volume,
        seconds=seconds,
        rate_bytes_per_s=_rate(parts, volume, seconds),
        clock_step_s=_CLOCK_STEP_S,
        latency_ns=_latencies([part for _, part in parts]),
        syncs=_syncs(jobs) if kind == options.syncs_with else None,
        errors=sum(_errors(job) for job in jobs),
        engine=options.engine,
        direct=options.direct,
        paths=options.paths,
        file_bytes=options.file_bytes,
        record_bytes=options.record_bytes.get(kind),
        includes=("fsync",) if options.fsyncs and kind == options.syncs_with else (),
        unreported=(*options.unreported, *unreported),
        doubts=_doubts(operations, len(parts), options),
    )


def _doubts(operations: int, jobs: int, options: JobFacts) -> tuple[str, ...]:
    named = {"no-operations": not operations, "several-clocks": jobs > 1, "among-others": options.runs_others}
    return tuple(name for name, applies in named.items() if applies)


def _operations(part: Mapping[str, Any]) -> int:
    """fio 2 has no count: it is the rate times the time there."""
    if "total_ios" in part:
        return whole_number(part["total_ios"], "total_ios")
    return round(real(part.get("iops", 0), "iops") * real(part.get("runtime", 0), "runtime") / 1e3)


def _bytes(part: Mapping[str, Any]) -> int:
    """fio 3 counts bytes and has `io_kbytes` beside them; fio 2 counts KiB."""
    unit = 1 if "io_kbytes" in part or "bw_bytes" in part else 1024
    return whole_number(part.get("io_bytes", 0), "io_bytes") * unit


def _rate(parts: Sequence[tuple[Any, Mapping[str, Any]]], volume: int, seconds: float) -> float | None:
    """As printed where there is one job."""
    if len(parts) == 1 and "bw_bytes" in parts[0][1]:
        return real(parts[0][1]["bw_bytes"], "bw_bytes")
    return volume / seconds if seconds else None


def _elapsed_s(parts: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    """The longest run time of each stage, added up: a group waits for the one before, unless it is a `new_group`."""
    longest_ms: dict[int, float] = {}
    stage, group = 0, None
    for job, part in parts:
        options = job.get("job options") or {}
        together = "new_group" in options and "stonewall" not in options
        if group is not None and job.get("groupid", 0) != group and not together:
            stage += 1
        group = job.get("groupid", 0)
        longest_ms[stage] = max(longest_ms.get(stage, 0.0), real(part.get("runtime", 0), "runtime"))
    return sum(longest_ms.values()) / 1e3


def _syncs(jobs: Sequence[Mapping[str, Any]]) -> int:
    return sum(whole_number((job.get("sync") or {}).get("total_ios", 0), "sync.total_ios") for job in jobs)


def _errors(job: Mapping[str, Any]) -> int:
    """With continue_on_error their number; else fio stops at the first and says its errno."""
    return whole_number(job["total_err"], "total_err") if "total_err" in job else int(bool(job.get("error", 0)))


def _latencies(parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """`lat` under its statistics' own names, `clat` and `slat` with theirs in front; in ns."""
    found: dict[str, float] = {}
    for kind, prefix in (("lat", ""), ("clat", "clat."), ("slat", "slat.")):
        measured = [(part, *_latency(part, kind)) for part in parts]
        counted = [(table, unit, _count(part, table)) for part, table, unit in measured if table]
        total = sum(count for *_, count in counted)
        if not total:
            continue
        mean = sum(real(table["mean"], f"{kind} mean") * unit * count for table, unit, count in counted) / total
        found[f"{prefix}mean"] = mean
        if len(counted) == 1:
            table, unit, _ = counted[0]
            found |= {f"{prefix}{name}": value * unit for name, value in _percentiles(table).items()}
    return found


def _latency(part: Mapping[str, Any], kind: str) -> tuple[Mapping[str, Any], int]:
    """`clat_ns` of fio 3, or `clat` in microseconds of fio 2, with its unit in ns."""
    return (part[f"{kind}_ns"] or {}, 1) if f"{kind}_ns" in part else (part.get(kind) or {}, 1000)


def _count(part: Mapping[str, Any], table: Mapping[str, Any]) -> int:
    if "N" in table:
        return whole_number(table["N"], "N")
    return _operations(part) if real(table.get("max", 0), "max") else 0


def _percentiles(table: Mapping[str, Any]) -> dict[str, float]:
    shares = {float(share): value for share, value in (table.get("percentile") or {}).items()}
    return {f"p{share:g}": real(shares[share], f"p{share:g}") for share in _PERCENTILES if share in shares}
