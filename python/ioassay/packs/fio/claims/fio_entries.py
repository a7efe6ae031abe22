"""fio's JSON, JSON+, terse output and logs for `ioassay import`: one group of jobs is one entry.

Of `fio --client` each client is a level of the factor `client`, and so are all of them together. Logs are told by their
names; those of one prefix are one entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ioassay.factors import HOST
from ioassay.formats.result_entry import Entry
from ioassay.metrics import format_metric, latency_percentile, percentile_name
from ioassay.packs.fio.claims import fio_json, fio_logs, fio_terse, fio_text
from ioassay.packs.fio.claims.fio_results import (
    DIRECTIONS,
    KINDS,
    SYNC,
    TOTAL,
    Clients,
    Job,
    Results,
    by_client,
    elapsed_s,
    error_words,
    final_reports,
    in_direction,
    merged_latency,
)
from ioassay.packs.fio.driver import fio_outcome
from ioassay.records.record import Warning_

WANTED = "fio's output in any of its formats, a log *_bw.log, …"
_NO_CONDITIONS = re.compile(
    r"^(name|description|filename|directory|randseed|output|write_\w+_log|log_\w+|\w*percentile\w*|group_reporting)$"
)
"""Options that may differ between jobs of one load."""
_SEVERAL = "several"
_CLIENT = "client"
_ALL_CLIENTS = "all clients"
_SHOWN_DIFFERENCES = 3
_HEAD_CHARS = 2**16


def looks_like(text: str) -> bool:
    """Whether it has fio's results."""
    return '"fio version"' in text[:_HEAD_CHARS] or fio_terse.looks_like(text) or fio_text.looks_like(text)


def resembles(text: str) -> bool:
    """Whether fio wrote it, in whatever form."""
    return re.search(r"\bfio\b", text[:_HEAD_CHARS]) is not None or fio_json.looks_like(text)


def grouped(files: Sequence[Path]) -> list[Entry]:
    """An entry for the logs of each prefix, of each host."""
    entries = []
    for logs in fio_logs.grouped([path for path in files if fio_logs.is_log(path)]):
        found = logs.read()
        entry = Entry(
            label=logs.prefix,
            options={HOST: logs.host} if logs.host else {},
            files=logs.paths,
            metrics=found.metrics,
            buckets=found.buckets,
            series=found.series,
            warnings=list(found.warnings),
            problem="" if found.metrics else "the logs hold no request",
            started_unix_s=min(path.stat().st_mtime for path in logs.paths),
            responses=(),
        )
        entries.append(entry)
    return entries


def read(text: str, source: str) -> list[Entry]:
    """The loads in a file; InputError names `source`."""
    return [entry for results in final_reports(_reports(text, source)) for entry in _of_run(results)]


def _reports(text: str, source: str) -> Sequence[Results]:
    """Of the format that is the most exact, where fio wrote several."""
    found: Sequence[Results] = fio_json.parse_each(text, source)
    whole, begun = len(found), fio_json.documents(text)
    if not found and fio_terse.looks_like(text):
        found = [fio_terse.parse(part, source) for part in fio_terse.split_by_growth(text, source)]
    elif not found and fio_text.looks_like(text):
        found = [fio_text.parse_with_options(part, source) for part in fio_text.split(text)]
    if found and whole < begun:
        broken = Warning_("results-broken", f"fio's JSON is broken: {begun - whole} of {begun} results are not read")
        found = [replace(one, warnings=[broken]) for one in found]
    return found or [fio_json.parse(text, source)]  # which says what is wrong


def _of_run(results: Results) -> list[Entry]:
    if results.clients is not None:
        return list(_entries_of_clients(results, results.clients))
    return [_entry(results, jobs) for jobs in _groups(results.jobs).values()]


def _groups(jobs: Sequence[Job]) -> dict[tuple[str, int], list[Job]]:
    """The jobs that ran as one load, by their group."""
    groups: dict[tuple[str, int], list[Job]] = {}
    for job in jobs:
        key = ("", job.group) if job.options else (job.name, job.group)
        groups.setdefault(key, []).append(job)
    return groups


def _entries_of_clients(results: Results, clients: Clients) -> Iterator[Entry]:
    """The loads of each client, those of which nothing is known, and all clients together."""
    text = "fio's JSON does not say which client had which of these global options, which are left out: "
    remedy = "give them in the sections of the jobs, or use fio 3.39 or newer"
    named = ", ".join(clients.unattributed)
    warnings = [Warning_("options-unattributed", text + named, remedy)] if named else []
    loads = {client: _groups(jobs) for client, jobs in by_client(results.jobs).items()}
    for client, groups in loads.items():
        own = replace(results, disks=[disk for disk in results.disks if disk.client == client])
        for jobs in groups.values():
            yield _of_client(_entry(own, jobs), client, warnings)
    signatures = [
        {key: [(job.name, job.options) for job in jobs] for key, jobs in groups.items()} for groups in loads.values()
    ]
    alike = bool(signatures) and all(signature == signatures[0] for signature in signatures)
    unknown = Entry(label="", started_unix_s=results.started_unix_s, responses=())
    first = next(iter(loads.values()), {})
    expected = [_entry(results, jobs) for jobs in first.values()] if alike else [unknown]
    for client, why in clients.absent.items():
        for one in expected:
            lost = replace(unknown, label=one.label, options=one.options, problem=why)
            yield _of_client(lost, client)
    if len(loads) > 1:
        warnings = [*warnings, *_sum_warnings(results, clients)]
        for entry in _entries_of_all(results, clients, alike=alike):
            yield replace(_of_client(entry, _ALL_CLIENTS, warnings), is_sum=True)


def _entries_of_all(results: Results, clients: Clients, *, alike: bool) -> Iterator[Entry]:
    """The loads of all clients together: by group where all were given the same jobs, else one of them all."""
    if not alike:
        entry = _with_percentiles(_entry(results, results.jobs), clients)
        differing = {key for job in results.jobs for key in job.options} - entry.options.keys()
        # Options of which each client has its own value are marked as such.
        several = {key: _SEVERAL for key in sorted(differing) if not _NO_CONDITIONS.match(key)}
        label = ", ".join(dict.fromkeys(job.name for job in results.jobs)) if several else entry.label
        yield replace(entry, label=label, options={**entry.options, **several})
        return
    groups = _groups(results.jobs)
    for jobs in groups.values():
        entry = _entry(results, jobs)
        yield _with_percentiles(entry, clients) if len(groups) == 1 else entry


def _of_client(entry: Entry, client: str, warnings: Sequence[Warning_] = ()) -> Entry:
    return replace(entry, options={_CLIENT: client, **entry.options}, warnings=[*entry.warnings, *warnings])


def _with_percentiles(entry: Entry, clients: Clients) -> Entry:
    """The load of all clients with fio's own percentiles of it, where there are no bins (plain JSON).

    fio computes them from the servers' histograms added up (sum_thread_stats of its stat.c, from version 3.39 on).
    """
    stated = fio_outcome.metrics([clients.total]) if clients.total is not None else {}
    percentiles = {name: value for name, value in stated.items() if latency_percentile(name) is not None}
    return replace(entry, metrics={**percentiles, **entry.metrics})


def _sum_warnings(results: Results, clients: Clients) -> Iterator[Warning_]:
    """What is missing in the sum over all clients, and where fio's own sum is another."""
    if clients.absent:
        text = f"the sum over all clients lacks {', '.join(f'{name} ({why})' for name, why in clients.absent.items())}"
        yield Warning_("clients-absent", text, "start fio --server there, and measure again")
    if others := differences(results):
        shown = [
            f"{one.metric} is {format_metric(one.metric, one.merged)} and not {format_metric(one.metric, one.stated)}"
            for one in others[:_SHOWN_DIFFERENCES]
        ]
        more = f", and {len(others) - len(shown)} more differ" if len(others) > len(shown) else ""
        text = f"fio's own sum '{TOTAL}' differs from its clients together: {'; '.join(shown)}{more}"
        yield Warning_("all-clients-differ", text, "use the values here, which are those of the clients' results")


def _entry(results: Results, jobs: Sequence[Job]) -> Entry:
    errors = [f"{job.name}: {error_words(job.error)}" for job in jobs if job.error]
    problem = "; ".join(errors) or ("" if any(job.ios for job in jobs) else "no request was done")
    # What all jobs of a group have in common; a job without a value for a flag has it set.
    common = set.intersection(*({*job.options.items()} for job in jobs))
    shared = {key: value for key, value in jobs[0].options.items() if (key, value) in common}
    metrics = fio_outcome.metrics(jobs)
    return Entry(
        label=jobs[0].name,
        options={key: value for key, value in shared.items() if not _NO_CONDITIONS.match(key)},
        metrics=metrics,
        buckets=fio_outcome.buckets(jobs),
        parts=fio_outcome.parts(replace(results, jobs=jobs)),
        warnings=[*_doubts(results, jobs)],
        problem=problem,
        started_unix_s=min(job.started_unix_s for job in jobs) or results.started_unix_s,
        responses=[name for name in metrics if "/" in name and name.endswith((".mean", ".p99"))],
    )


def _doubts(results: Results, jobs: Sequence[Job]) -> Iterator[Warning_]:
    yield from results.warnings
    if (idle := [job.name for job in jobs if not job.ios]) and len(idle) < len(jobs):
        yield Warning_("jobs-idle", f"{', '.join(dict.fromkeys(idle))}: did no request", "see whether it was to do any")
    if unsteady := next((job for job in jobs if job.unsteady), None):
        yield Warning_("steady-state-not-attained", f"{unsteady.name}: {unsteady.unsteady} was not attained")
    directions = [(job, name) for job in jobs for name in job.directions]
    if odd := next((one for job, name in directions for one in job.all_misfits(name, syncs=False)), None):
        implied = f"from {odd.low:.6g} to {odd.high:.6g}" if odd.high is not None else f"at least {odd.low:.6g}"
        yield Warning_("numbers-disagree", f"fio's {odd.name} is {odd.value:.6g}; its other numbers imply {implied}")
    if results.spoiled:
        text = f"fio printed no number for {', '.join(results.spoiled)}, and nothing is read there"
        yield Warning_("not-a-number", text)
    if left_out := [*_left_out(jobs)]:
        yield Warning_("latencies-incomplete", f"fio states no latency of all requests: {'; '.join(left_out)}")
    if len(jobs) > 1 and not jobs[0].options:
        text = f"{len(jobs)} results of '{jobs[0].name}' are taken as those of processes that ran together"
        yield Warning_("jobs-alike", text, "if they ran one after the other, import each from a file of its own")


def _left_out(jobs: Sequence[Job]) -> Iterator[str]:
    """Latencies of jobs taken as one load that are not of each job with requests."""
    for name in DIRECTIONS:
        done = [(job.name, job.directions[name]) for job in jobs if name in job.directions]
        own = [(job, direction.latencies) for job, direction in done if direction.ios]
        for kind in KINDS:
            lacking = [job for job, latencies in own if kind not in latencies]
            if 0 < len(lacking) < len(own):
                yield f"{name}.{kind} is without {', '.join(dict.fromkeys(lacking))}"
    if any(job.sync_latency for job in jobs) and not merged_latency(jobs, SYNC, "lat"):
        yield "sync.lat is left out, since the numbers of synchronisations are not known"


# Where fio's own sum over its clients is another than that of their results

_SAME = 1e-6
"""Relative: fio prints rates and latencies with six decimals."""
_SAME_RATE_BYTES_PER_S = 1.0
"""fio rounds a rate down to a whole number."""


class Difference(NamedTuple):
    """A metric of fio's own sum, stated by fio, that is not that of its clients' results merged."""

    metric: str
    stated: float
    merged: float


def differences(results: Results) -> list[Difference]:
    """The numbers of fio's own sum that its clients' entries do not add up to."""
    total = results.clients.total if results.clients is not None else None
    found: list[Difference] = []
    for name in DIRECTIONS:
        parts = in_direction(results.jobs, name)
        if total is None or name not in total.directions or not any(part.ios for part in parts):
            continue
        stated, took_s = total.directions[name], elapsed_s(results.jobs, (name,))
        ios, volume = sum(part.ios for part in parts), sum(part.bytes for part in parts)
        pairs: list[tuple[str, float, float, float]] = [("ios", stated.ios, ios, 0), ("bytes", stated.bytes, volume, 0)]
        if took_s and stated.rate_bytes_per_s is not None:
            pairs.append(("bw", stated.rate_bytes_per_s, volume / took_s, _SAME_RATE_BYTES_PER_S))
        for kind in KINDS:
            merged, own = merged_latency(results.jobs, name, kind), stated.latencies.get(kind)
            if merged is None or own is None:
                continue
            pairs += [(f"{kind}.{key}", own.statistics_ns[key], ns, 1.0) for key, ns in merged.statistics_ns.items()]
            for share, ns in _percentiles_ns(merged.bins, sorted(own.percentiles_ns)).items() if merged.bins else ():
                pairs.append((f"{kind}.{percentile_name(share)}", own.percentiles_ns[share], ns, 1.0))
        for key, said, merged_value, step in pairs:
            if not math.isclose(said, merged_value, rel_tol=_SAME if step else 0.0, abs_tol=step):
                found.append(Difference(f"{'total' if name == 'mixed' else name}.{key}", said, merged_value))
    return found


def _percentiles_ns(bins: Mapping[int, int], shares: Sequence[float]) -> dict[float, float]:
    """As fio defines them (calc_clat_percentiles): the first bin up to which a share of all requests lies."""
    found: dict[float, float] = {}
    total, reached = sum(bins.values()), 0
    ascending = iter(sorted(bins))
    value_ns = 0
    for share in shares:
        while reached < share / 100 * total and (following := next(ascending, None)) is not None:
            value_ns, reached = following, reached + bins[following]
        found[share] = value_ns
    return found
