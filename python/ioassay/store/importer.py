"""Results made elsewhere become a run: fio's JSON, JSON+, terse output and logs, and those of the tools in `FORMATS`.

One group of jobs is one trial; options that differ between the files become factors; the same point again is a
repetition. Of `fio --client` each client is a level of the factor `client`, and so are all of them together. The files
are copied into the run verbatim. Deliberately not here: reading the formats (`ioassay.formats`).
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ioassay.drivers.fio import fio_metrics
from ioassay.errors import InputError
from ioassay.factors import level_key
from ioassay.formats import fio_clients, fio_json, fio_logs, fio_terse
from ioassay.formats.fio_results import Clients, Job, Results, by_client
from ioassay.formats.result_entry import Entry
from ioassay.metrics import format_metric, latency_percentile
from ioassay.pack import listed
from ioassay.records.record import FAILED, OK, Record, Scalar, Warning_
from ioassay.registry import Contract, Registry
from ioassay.roles import Trial
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Study, Suite, make_study
from ioassay.study.plan import make_trial

_DIFFERENCES_THAT_ARE_NO_CONDITIONS = re.compile(
    r"^(name|description|filename|directory|randseed|output|write_\w+_log|log_\w+|\w*percentile\w*|group_reporting)$"
)
_ABSENT = "default"
_SEVERAL = "several"
_CLIENT = "client"
_ALL_CLIENTS = "all clients"
_SHOWN_DIFFERENCES = 3
_QUESTIONS_TO_CLIENTS = ["conditions", "verdict", "describe", "stability", "caveats"]
"""Those that compare no levels: a sum is no condition that could be chosen over its own parts."""
_FIO_JSON = '"fio version"'
_HEAD_CHARS = 2**16
_FIO_WORD = re.compile(r"\bfio\b")
FORMATS: dict[str, str] = listed(
    "formats",
    {
        "sysbench": "ioassay.formats.sysbench_results",
        "elbencho": "ioassay.formats.elbencho_csv",
        "vdbench": "ioassay.formats.vdbench_results",
        "phoronix": "ioassay.formats.phoronix_xml",
    },
)
"""Formats of results beside those of fio, which this file reads itself: tool -> module with `looks_like(text)` and
`read(text, source)`, which returns entries; `WANTED` says what file of the tool it is."""
REGISTRY = Registry("formats", "format of results", FORMATS, Contract("looks_like", "read"))
__all__ = ["FORMATS", "REGISTRY", "Entry", "read", "take_in"]


def take_in(files: Sequence[Path], root: Path, title: str | None = None) -> RunStore:
    """Make a run at `root` from the files; InputError names the first that is none of the known formats."""
    entries = sorted(read(files), key=lambda entry: entry.started_unix_s)
    if not entries:
        raise InputError(
            f"{', '.join(map(str, files))}: no job's results are in there; wanted what the tool wrote at its end"
        )
    tools = " and ".join(dict.fromkeys(entry.format for entry in entries))
    study = _study(entries, title or f"{tools} results from {len(files)} file{'s' if len(files) > 1 else ''}")
    trials = _trials(study, entries)
    suite = Suite(name=study.name, title=study.title, description=study.description, studies=[study])
    store = RunStore.create(root, suite, {"imported": [str(path) for path in files]}, trials)
    for trial, entry in zip(trials, entries, strict=True):
        _keep(store, trial, entry)
    return store


def read(files: Sequence[Path]) -> list[Entry]:
    """The loads that the files tell of, in their order."""
    for path in files:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is no regular file" if path.exists() else "no such file"
            raise InputError(f"{path}: {what}; wanted files of results")
    log_files = [path for path in files if fio_logs.is_log(path)]
    entries = [entry for path in files if path not in log_files for entry in _read_results(path)]
    for logs in fio_logs.grouped(log_files):
        found = _read_logs(logs)
        owners = [number for number, entry in enumerate(entries) if _is_of(entry, logs)]
        if len(owners) == 1:
            entries[owners[0]] = _joined(entries[owners[0]], found)
        else:
            entries.append(found)
    return entries


def _is_of(entry: Entry, logs: fio_logs.Logs) -> bool:
    """Whether logs belong to a result: they lie beside it and are named after its job or its file."""
    (path, *_) = entry.files
    return path.parent == logs.paths[0].parent and logs.prefix in (entry.label, path.stem)


def _joined(entry: Entry, logs: Entry) -> Entry:
    """A result with its logs: the result's numbers win, the logs add series and the distributions it has not."""
    has = {(item.direction, item.kind) for item in entry.buckets}
    added = [item for item in logs.buckets if (item.direction, item.kind) not in has]
    return replace(
        entry,
        files=[*entry.files, *logs.files],
        metrics={**logs.metrics, **entry.metrics},
        buckets=[*entry.buckets, *added],
        series=[*entry.series, *logs.series],
        warnings=[*entry.warnings, *logs.warnings],
    )


def _read_results(path: Path) -> Iterator[Entry]:
    text = _text(path)
    if (name := _format_of(text)) is not None:
        yield from (replace(entry, files=[path], format=name) for entry in REGISTRY.load(name).read(text, str(path)))
        return
    results = _parse(text, path)
    if results.clients is not None:
        yield from _entries_of_clients(path, results, results.clients)
        return
    for jobs in _groups(results.jobs).values():
        yield _entry(path, results, jobs)


def _groups(jobs: Sequence[Job]) -> dict[tuple[str, int], list[Job]]:
    """The jobs that ran as one load, by their group."""
    groups: dict[tuple[str, int], list[Job]] = {}
    for job in jobs:
        key = ("", job.group) if job.options else (job.name, job.group)
        groups.setdefault(key, []).append(job)
    return groups


def _entries_of_clients(path: Path, results: Results, clients: Clients) -> Iterator[Entry]:
    """The loads of each client, those of which nothing is known, and all clients together."""
    warnings = _option_warnings(clients)
    loads = {client: _groups(jobs) for client, jobs in by_client(results.jobs).items()}
    for client, groups in loads.items():
        own = replace(results, disks=[disk for disk in results.disks if disk.client == client])
        for jobs in groups.values():
            yield _of_client(_entry(path, own, jobs), client, warnings)
    signatures = [_signature(groups) for groups in loads.values()]
    alike = bool(signatures) and all(signature == signatures[0] for signature in signatures)
    unknown = Entry(label="", files=[path], started_unix_s=results.started_unix_s)
    first = next(iter(loads.values()), {})
    expected = [_entry(path, results, jobs) for jobs in first.values()] if alike else [unknown]
    for client, why in clients.absent.items():
        for one in expected:
            lost = replace(unknown, label=one.label, options=one.options, problem=why)
            yield _of_client(lost, client)
    if len(loads) > 1:
        warnings = [*warnings, *_sum_warnings(results, clients)]
        for entry in _entries_of_all(path, results, clients, alike=alike):
            yield _of_client(entry, _ALL_CLIENTS, warnings)


def _entries_of_all(path: Path, results: Results, clients: Clients, *, alike: bool) -> Iterator[Entry]:
    """The loads of all clients together: by group where all were given the same jobs, else one of them all."""
    if not alike:
        entry = _entry(path, results, results.jobs)
        yield _with_several(_with_percentiles(entry, clients), results.jobs)
        return
    groups = _groups(results.jobs)
    for jobs in groups.values():
        entry = _entry(path, results, jobs)
        yield _with_percentiles(entry, clients) if len(groups) == 1 else entry


def _signature(groups: Mapping[tuple[str, int], Sequence[Job]]) -> dict[tuple[str, int], Any]:
    """What two clients that were given the same job file have in common."""
    return {key: [(job.name, job.options) for job in jobs] for key, jobs in groups.items()}


def _of_client(entry: Entry, client: str, warnings: Sequence[Warning_] = ()) -> Entry:
    return replace(entry, options={_CLIENT: client, **entry.options}, warnings=[*entry.warnings, *warnings])


def _with_several(entry: Entry, jobs: Sequence[Job]) -> Entry:
    """The load of all clients, with options of which each has its own value marked as such."""
    differing = {key for job in jobs for key in job.options} - entry.options.keys()
    several = {key: _SEVERAL for key in sorted(differing) if not _DIFFERENCES_THAT_ARE_NO_CONDITIONS.match(key)}
    label = ", ".join(dict.fromkeys(job.name for job in jobs)) if several else entry.label
    return replace(entry, label=label, options={**entry.options, **several})


def _with_percentiles(entry: Entry, clients: Clients) -> Entry:
    """The load of all clients with fio's own percentiles of it, where there are no bins (plain JSON).

    fio computes them from the servers' histograms added up (sum_thread_stats of its stat.c, from version 3.39 on).
    """
    stated = fio_metrics.metrics([clients.total]) if clients.total is not None else {}
    percentiles = {name: value for name, value in stated.items() if latency_percentile(name) is not None}
    return replace(entry, metrics={**percentiles, **entry.metrics})


def _option_warnings(clients: Clients) -> list[Warning_]:
    if not clients.unattributed:
        return []
    names = ", ".join(clients.unattributed)
    text = f"fio's JSON does not say which client had which of these global options, which are left out: {names}"
    return [Warning_("options-unattributed", text, "give them in the sections of the jobs, or use fio 3.39 or newer")]


def _sum_warnings(results: Results, clients: Clients) -> Iterator[Warning_]:
    """What is missing in the sum over all clients, and where fio's own sum is another."""
    if clients.absent:
        text = f"the sum over all clients lacks {', '.join(f'{name} ({why})' for name, why in clients.absent.items())}"
        yield Warning_("clients-absent", text, "start fio --server there, and measure again")
    if differences := fio_clients.differences(results):
        shown = [
            f"{one.metric} is {format_metric(one.metric, one.merged)} and not {format_metric(one.metric, one.stated)}"
            for one in differences[:_SHOWN_DIFFERENCES]
        ]
        more = f", and {len(differences) - len(shown)} more differ" if len(differences) > len(shown) else ""
        text = f"fio's own sum '{fio_clients.TOTAL}' differs from its clients together: {'; '.join(shown)}{more}"
        yield Warning_("all-clients-differ", text, "use the values here, which are those of the clients' results")


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is binary; wanted {_wanted()}") from None
    return text


def _parse(text: str, path: Path) -> Results:
    if not text.strip():
        raise InputError(f"{path}: is empty: its tool ended before it wrote results, or wrote them elsewhere")
    parse = fio_terse.parse if fio_terse.looks_like(text) else fio_json.parse
    try:
        return parse(text, str(path))
    except InputError:
        if _FIO_WORD.search(text[:_HEAD_CHARS]):
            raise
        beginning = text.strip().splitlines()[0][:100]
        raise InputError(f"{path}: is in no known format; it begins with '{beginning}'; wanted {_wanted()}") from None


def _wanted() -> str:
    others = ", ".join(getattr(REGISTRY.load(name), "WANTED", name) for name in REGISTRY)
    return f"fio's JSON, JSON+ or terse output, a log *_bw.log, …, {others}"


def _format_of(text: str) -> str | None:
    """The format of `FORMATS` or of a plugin that the text is in; those of fio come first."""
    if fio_terse.looks_like(text) or _FIO_JSON in text[:_HEAD_CHARS]:
        return None
    return next((name for name in REGISTRY if REGISTRY.load(name).looks_like(text)), None)


def _entry(path: Path, results: Results, jobs: Sequence[Job]) -> Entry:
    errors = [f"{job.name}: fio's error {job.error}" for job in jobs if job.error]
    problem = "; ".join(errors) or ("" if any(job.ios for job in jobs) else "no request was done")
    return Entry(
        label=jobs[0].name,
        files=[path],
        options=_shared_options(jobs),
        metrics=fio_metrics.metrics(jobs),
        buckets=fio_metrics.buckets(jobs),
        parts=fio_metrics.parts(replace(results, jobs=jobs)),
        problem=problem,
        started_unix_s=results.started_unix_s,
    )


def _shared_options(jobs: Sequence[Job]) -> dict[str, str]:
    """The options that all jobs of a group have in common; a job without a value for a flag has it set."""
    common = dict(jobs[0].options)
    for job in jobs[1:]:
        common = {key: value for key, value in common.items() if job.options.get(key) == value}
    return {key: value for key, value in common.items() if not _DIFFERENCES_THAT_ARE_NO_CONDITIONS.match(key)}


def _read_logs(logs: fio_logs.Logs) -> Entry:
    found = logs.read()
    return Entry(
        label=logs.prefix,
        files=logs.paths,
        metrics=found.metrics,
        buckets=found.buckets,
        series=found.series,
        warnings=list(found.warnings),
        problem="" if found.metrics else "the logs hold no request",
        started_unix_s=min(path.stat().st_mtime for path in logs.paths),
    )


def _points(entries: Sequence[Entry]) -> list[dict[str, Scalar]]:
    """What distinguishes the entries: options that differ, and the label where these do not tell them apart.

    Levels that mean the same (`150ms`, `150000us`) have the spelling of the first.
    """
    spellings: dict[tuple[str, str], Scalar] = {}

    def level(entry: Entry, key: str) -> Scalar:
        given = _level(entry.options.get(key, _ABSENT))
        return spellings.setdefault((key, level_key(key, given)), given)

    keys = dict.fromkeys(key for entry in entries for key in entry.options)
    levels = {key: [level(entry, key) for entry in entries] for key in keys}
    differing = [key for key in keys if len(set(levels[key])) > 1]
    points: list[dict[str, Scalar]] = [{key: levels[key][place] for key in differing} for place in range(len(entries))]
    labels: dict[str, set[str]] = {}
    for point, entry in zip(points, entries, strict=True):
        labels.setdefault(repr(point), set()).add(entry.label)
    if any(len(found) > 1 for found in labels.values()):
        points = [{"job": entry.label, **point} for point, entry in zip(points, entries, strict=True)]
    return points


def _level(text: str) -> Scalar:
    return int(text) if re.fullmatch(r"\d{1,18}", text) else text


def _study(entries: Sequence[Entry], title: str) -> Study:
    points = _points(entries)
    factors = {name: list(dict.fromkeys(point[name] for point in points)) for name in points[0]}
    if any(isinstance(level, str) for levels in factors.values() for level in levels):
        factors = {
            name: [str(level) for level in levels] if any(isinstance(level, str) for level in levels) else levels
            for name, levels in factors.items()
        }
    directions = [name for name in ("read", "write", "trim") if any(f"{name}.ios" in e.metrics for e in entries)]
    return make_study(
        {
            "name": "import",
            "title": title,
            "driver": min((entry.format for entry in entries), key=lambda name: name != "fio"),
            "factors": factors,
            "watch": {"monitors": []},
            "analysis": {
                "responses": _responses(entries, directions),
                "questions": _QUESTIONS_TO_CLIENTS if _ALL_CLIENTS in factors.get(_CLIENT, []) else [],
            },
            "figures": [figure for name in directions for figure in _figures(name, list(factors), entries)],
        },
        "import",
    )


def _responses(entries: Sequence[Entry], directions: Sequence[str]) -> list[str]:
    wanted = [f"{name}.{quantity}" for name in directions for quantity in ("bw", "iops", "lat.mean", "lat.p99")]
    wanted += [name for entry in entries if entry.format != "fio" for name in entry.metrics if name not in wanted]
    wanted = list(dict.fromkeys(wanted))
    return [name for name in wanted if any(name in entry.metrics for entry in entries)]


def _figures(direction: str, factors: Sequence[str], entries: Sequence[Entry]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    kinds = {item.kind for entry in entries for item in entry.buckets if item.direction == direction}
    if factors and any(f"{direction}.bw" in entry.metrics for entry in entries):
        made.append({"kind": "bar", "name": f"{direction}_bw", "x": factors[0], "y": f"{direction}.bw"})
    colour = {"color": factors[0]} if factors else {}
    made += [
        {"kind": "cdf", "name": f"{direction}_{kind}_cdf", "direction": direction, "latency": kind, **colour}
        for kind in ("lat", "clat", "slat")
        if kind in kinds
    ]
    logged = {item.metric for entry in entries for item in entry.series if item.metric.startswith(f"{direction}.")}
    made += [{"kind": "series", "name": metric.replace(".", "_"), "y": metric} for metric in sorted(logged)]
    return made


def _trials(study: Study, entries: Sequence[Entry]) -> list[Trial]:
    """One trial an entry; the same point again is the next repetition."""
    seen: dict[str, int] = {}
    trials = []
    for order, point in enumerate(_points(entries)):
        shown = {
            name: str(level) if isinstance(study.factors[name][0], str) else level for name, level in point.items()
        }
        repetition = seen.get(repr(shown), 0)
        seen[repr(shown)] = repetition + 1
        trials.append(make_trial(study, shown, repetition, order))
    return trials


def _keep(store: RunStore, trial: Trial, entry: Entry) -> None:
    raw = store.begin(trial.id)
    for path in entry.files:
        shutil.copy2(path, raw / path.name)
    record = Record(
        trial={
            "id": trial.id,
            "study": trial.study,
            "driver": trial.driver,
            "point": dict(trial.point),
            "repetition": trial.repetition,
            "seed": trial.seed,
            "order": trial.order,
        },
        status=FAILED if entry.problem else OK,
        reason=entry.problem,
        started_unix_s=entry.started_unix_s or time.time(),
        duration_s=max((entry.metrics.get(f"{name}.runtime", 0.0) for name in ("read", "write", "trim")), default=0.0),
        metrics=dict(entry.metrics),
        parts=list(entry.parts),
        warnings=tuple(entry.warnings),
        raw=sorted(path.name for path in raw.iterdir()),
    )
    store.write(record, entry.buckets, entry.series)
