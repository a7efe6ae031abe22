"""What fio claims: one claim a direction, all jobs merged, from JSON (also JSON+), terse lines or the human report.

JSON says the most and is preferred where several formats were asked for. Jobs merge as the driver's metrics do: volumes
add up, the interval is the longest of the jobs that ran together, groups that ran one after the other add up. fio
times each job from its first to its last request; fsyncs in between and `end_fsync` are inside. Percentiles are only
told where there is one job, since those of several cannot be merged. Sizes and names come from the jobs' options
(`fio_job_options`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions, tool_runs
from ioassay.metrics import percentile_name
from ioassay.packs.fio.claims import fio_job_options, fio_json, fio_terse, fio_text
from ioassay.packs.fio.claims.fio_job_options import JobFacts, by_files, job_facts
from ioassay.packs.fio.claims.fio_results import (
    Job,
    Results,
    by_client,
    elapsed_s,
    in_direction,
    merged,
    merged_latency,
)
from ioassay.records.record import SEVERAL_ENGINES, Claim

NAME = "fio"
STREAM = "stdout"
CONVENTIONS = Conventions(layout_apart=True, exact_ranks=True)
"""filesetup.c: layouts are written, loads opened for both; stat.c, calc_clat_percentiles."""
KINDS = ("read", "write", "trim")
_CLOCK_STEP_S = 1e-3
"""Run times are printed in whole milliseconds."""
_PREFIXES = {"": "lat", "clat.": "clat", "slat.": "slat"}
_WITHOUT_JOBS = re.compile(r"--?(version|help|enghelp|cmdhelp|parse-only|showcmd|server|crctest|cpuclock)")
_SOURCE = "fio's output"
_UNTIMED = frozenset({"gtod_reduce", "disable_lat", "disable_clat", "disable_slat"})
"""Of a group with such a job the latencies are of other requests alone, and only JSON says of how many."""


matches = fio_job_options.is_fio
expanded = fio_job_options.expanded
named_servers = fio_job_options.named_servers


def _format_of(text: str) -> Any:
    formats: tuple[Any, ...] = (fio_json, fio_terse, fio_text)
    return next((format for format in formats if format.looks_like(text)), None)


def looks_like(text: str) -> bool:
    """Whether it has results of fio in any format."""
    return _format_of(text) is not None


def prints(words: Sequence[str]) -> bool:
    """Whether a fio with these arguments runs jobs."""
    return not any(_WITHOUT_JOBS.match(word) for word in words)


def split(text: str) -> list[str]:
    """A part for each report: of one run with --status-interval there are several."""
    return list(known.split(text)) if (known := _format_of(text)) else []


def outputs(argv: Sequence[str]) -> list[str]:
    """The files that `--output` names, to which results go instead of standard output."""
    return list(filter(None, fio_job_options.values(tool_runs.words_of(argv, matches), "output")))


def inputs(argv: Sequence[str]) -> list[str]:
    """Words that may name files of jobs: `expanded` puts their options in their places."""
    return [word for word in tool_runs.words_of(argv, matches)[1:] if not word.startswith("-")]


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of one run. InputError says what is wrong.

    Of results that one run of fio printed again and again (--status-interval), the last count. With `--client` they are
    claims of servers, whatever the format: their files are none of this host.
    """
    text, words, named = (split(text) or [text])[-1], tool_runs.words_of(argv, matches), named_servers(argv)
    facts = None
    format = _format_of(text) or fio_json  # which says what is wrong
    if format is fio_json:
        known = results = fio_json.parse(text, _SOURCE)
    elif format is fio_terse:
        if fio_job_options.option(words, "status-interval") is not None:
            lines = [line for line in text.splitlines() if fio_terse.looks_like(line)]
            text = "\n".join(lines[-(_lines_of_report(words) or len({line.split(";")[2] for line in lines})) :])
        results = _with_options(fio_terse.parse(text, _SOURCE), words)
        known = replace(results, jobs=[_with_own_percentiles(job) for job in results.jobs])
    else:
        results, stated = fio_text.parse(text, _SOURCE)
        known = _with_options(results, words)
        facts = None if known is not results else stated
    merged = _of_unnamed(results, words)
    found = claims(known, merged or facts)
    jobs = fio_job_options.jobs_of(words).values()
    if merged and any(_UNTIMED & options.keys() for options in jobs) and format is not fio_json:
        found = [replace(one, latency_ns={}, latency_step_ns={}) for one in found]
    return [replace(one, servers=one.servers or named, paths=()) for one in found] if named else found


def _lines_of_report(words: Sequence[str]) -> int:
    """A line for each process; one for those of a group that is reported as a whole (`__show_run_stats`, stat.c)."""
    lines = of_group = 0
    for options in fio_job_options.jobs_of(words).values():
        of_group *= not {"stonewall", "wait_for_previous", "new_group"} & options.keys()
        clones = int(options["numjobs"]) if options.get("numjobs", "").isdecimal() else 1
        added = clones if "group_reporting" not in options else not of_group
        lines, of_group = lines + added, of_group + added
    return lines


def _with_options(results: Results, words: Sequence[str]) -> Results:
    """With the options of the command line, where it names every job of the results."""
    options = fio_job_options.jobs_of(words)
    if not results.jobs or not all(job.name in options for job in results.jobs):
        return results
    return replace(results, jobs=[job.with_options(options[job.name]) for job in results.jobs])


def _of_unnamed(results: Results, words: Sequence[str]) -> Mapping[str, JobFacts] | None:
    """What is true of each job of the results where one is missing: with group_reporting another one's are its own too.

    None where all are there. Where the engine of one makes no calls, calls do not show all that they did.
    """
    options, names = fio_job_options.jobs_of(words), {job.name for job in results.jobs} - {""}
    if not names < options.keys():
        return None
    is_hidden = any(table.get("ioengine") in ("mmap", "null") for table in options.values())
    return dict.fromkeys(names, JobFacts(engine=SEVERAL_ENGINES if is_hidden else ""))


def _with_own_percentiles(job: Job) -> Job:
    """A terse line's percentiles are those of `lat` where the option says so (show_thread_status_terse_all, stat.c)."""
    made = dict(job.directions)
    for name, direction in made.items() if job.options.get("lat_percentiles", "0") != "0" else ():
        if {"clat", "lat"} <= direction.latencies.keys():
            clat, lat = direction.latencies["clat"], direction.latencies["lat"]
            own = {"clat": replace(clat, percentiles_ns={}), "lat": replace(lat, percentiles_ns=clat.percentiles_ns)}
            made[name] = replace(direction, latencies={**direction.latencies, **own})
    return replace(job, directions=made)


def claims(results: Results, facts: Mapping[str, JobFacts] | None = None) -> list[Claim]:
    """The claims in the results of one run; directions without I/O claim nothing. InputError when it has no jobs.

    Jobs of different engines are claimed apart, since their calls are seen in different ways. `facts` are what the
    format says of each job's options where it does not repeat them.
    """
    if not results.jobs:
        raise InputError(f"{_SOURCE} has no jobs: nothing was run")
    jobs = []
    for job in results.jobs:  # `mixed` only where unified_rw_reporting left nothing else
        apart = {kind: found for kind, found in job.directions.items() if kind in KINDS}
        jobs.append(replace(job, directions=apart or job.directions, options=job.options if facts is None else {}))
    if facts is None:
        parts = [(own, job_facts(own)) for own in by_files(jobs)]
    else:
        stated = [facts.get(job.name, JobFacts()) for job in jobs]
        unlike = [each for place, each in enumerate(stated) if each not in stated[:place]]
        parts = [([job for job, own in zip(jobs, stated, strict=True) if own == each], each) for each in unlike]
    made, silent = list[Claim](), list[JobFacts]()
    for own, said in parts:
        found = [_claim(section, replace(results, jobs=own), said) for section in (*KINDS, "mixed")]
        made += filter(None, found)
        silent += [] if any(found) else [said]
    # A job that ends within its ramp claims nothing of what it did to files that others claim.
    beside = [{name for said in silent if {*said.paths} & {*one.paths} for name in said.unreported} for one in made]
    return [
        replace(one, unreported=(*one.unreported, *sorted(more - {*one.unreported})))
        for one, more in zip(made, beside, strict=True)
    ]


def _claim(section: str, results: Results, facts: JobFacts) -> Claim | None:
    jobs = [job for job in results.jobs if section in job.directions]
    parts = in_direction(jobs, section)
    operations, volume = sum(part.ios for part in parts), sum(part.bytes for part in parts)
    if not operations and not volume:
        return None
    seconds = elapsed_s(jobs, (section,))
    kind = section if section in KINDS else facts.only_kind or "mixed"
    alone = parts[0] if len(parts) == 1 else None
    counted = all(part.ios_stated for part in parts)
    exact = all(part.bytes_stated for part in parts)
    rate = _rate([(part.rate_bytes_per_s, part.runtime_s) for part in parts], seconds)
    per_s = _rate([(part.operations_per_s, part.runtime_s) for part in parts], seconds)
    wrote = any(part.bytes for part in in_direction(results.jobs, "write"))
    has_syncs = kind == ("write" if wrote else "read")
    servers = tuple(name for name in by_client(results.jobs) if name)
    known = [job for job in results.jobs if job.syncs is not None]
    # What sync_file_range wrote, which fio times as well, is durable nowhere.
    syncs = [job.syncs or 0 if "sync_file_range" in job.options else job.timed_syncs for job in known]
    laid_out = "Laying out IO file" in results.messages
    doubts = {
        "no-operations": counted and not operations,
        "several-clocks": not alone or any(job.options.get("numjobs", "1") != "1" for job in jobs),
        "among-others": facts.runs_others,
    }
    return Claim(
        source=NAME,
        kind=kind,
        test=", ".join(dict.fromkeys(job.name for job in jobs)),
        operations=operations if counted else None,
        bytes=volume if exact else None,
        seconds=seconds,
        rate_bytes_per_s=volume / seconds if rate is None and exact and seconds else rate,
        rate_unit_bytes=sum(part.rate_step_bytes_per_s for part in parts) if rate is not None or not counted else 1.0,
        clock_step_s=_CLOCK_STEP_S,
        **_latencies(results.jobs, jobs, section, syncs=has_syncs),
        operations_per_s=per_s,
        operations_per_s_step=sum(part.operations_per_s_step for part in parts),
        syncs=sum(syncs) if has_syncs and syncs else None,
        writes_per_sync=facts.writes_per_sync if kind in ("write", "mixed") else None,
        errors=sum(job.errors for job in results.jobs),
        engine=facts.engine,
        direct=facts.direct,
        paths=() if servers else facts.paths,
        paths_stated=facts.paths_stated and not servers,
        servers=servers,
        file_bytes=facts.file_bytes,
        record_bytes=facts.record_bytes.get(kind),
        pattern=facts.patterns.get(kind, ""),
        working_set_bytes=facts.working_set_bytes if facts.patterns.get(kind) else None,
        includes=(
            *(("fsync",) if facts.fsyncs and has_syncs else ()),
            *(("osync",) if facts.synchronous and kind == "write" else ()),
        ),
        unreported=(*facts.unreported, *(("layout",) if laid_out else ())),
        doubts=tuple(name for name, applies in doubts.items() if applies),
        misfits=tuple(each for job in jobs for each in job.all_misfits(section, syncs=has_syncs)),
    )


def _rate(printed: Sequence[tuple[float | None, float]], seconds: float) -> float | None:
    """The printed rates of jobs and the time of each, as one rate; None where one printed none."""
    if len(printed) == 1:
        return printed[0][0]
    known = [rate * own_s for rate, own_s in printed if rate is not None]
    return sum(known) / seconds if seconds and len(known) == len(printed) else None


def _latencies(all_jobs: Sequence[Job], jobs: Sequence[Job], direction: str, *, syncs: bool) -> dict[str, Any]:
    """`lat` under its statistics' own names, `clat`, `slat` and the synchronisations' with theirs in front; in ns."""
    latencies = {prefix: merged_latency(jobs, direction, kind) for prefix, kind in _PREFIXES.items()}
    latencies["sync."] = merged([job.sync_latency for job in all_jobs if syncs and job.sync_latency])
    statistics_ns: dict[str, float] = {}
    steps_ns: dict[str, float] = {}
    for prefix, latency in latencies.items():
        if latency is None:
            continue
        shares = {percentile_name(percent): value_ns for percent, value_ns in latency.percentiles_ns.items()}
        known = {f"{prefix}{name}": value_ns for name, value_ns in (latency.statistics_ns | shares).items() if value_ns}
        statistics_ns |= known
        fine = (f"{prefix}mean", f"{prefix}stddev")
        steps_ns |= {name: latency.step_ns for name in known if name not in fine}
    timed = max((one.count for prefix, one in latencies.items() if one and prefix != "sync."), default=0)
    made = sum(part.ios for part in in_direction(jobs, direction))
    return {
        "latency_ns": statistics_ns,
        "latency_step_ns": {name: step for name, step in steps_ns.items() if step},
        "latency_operations": timed if 0 < timed < made else None,
    }
