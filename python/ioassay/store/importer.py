"""Results made elsewhere become a run: those of the tools in `FORMATS`.

One entry is one trial; options that differ between the entries become factors; the same point again is a repetition.
The files are copied into the run verbatim. Deliberately not here: reading the formats.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ioassay import drivers
from ioassay.errors import InputError
from ioassay.factors import level_key
from ioassay.formats.result_entry import Entry
from ioassay.pack import listed
from ioassay.records.record import FAILED, OK, Record, Scalar
from ioassay.registry import Contract, Registry
from ioassay.roles import Trial
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Study, Suite, make_study
from ioassay.study.plan import make_trial

_ABSENT = "default"
_QUESTIONS_TO_SUMS = ["conditions", "verdict", "describe", "stability", "caveats"]
"""Those that compare no levels: a sum is no condition that could be chosen over its own parts."""


FORMATS: dict[str, str] = listed(
    "formats",
    {
        "sysbench": "ioassay.formats.sysbench_results",
        "elbencho": "ioassay.formats.elbencho_csv",
        "vdbench": "ioassay.formats.vdbench_results",
        "phoronix": "ioassay.formats.phoronix_xml",
    },
)
"""Tool -> module with `looks_like(text)` and `read(text, source)`, which returns entries.

It may have `WANTED`, what file of the tool it reads; `grouped(files)`, the entries of files that are told by their
names and read together; and `resembles(text)`, whether a text that no format reads is refused in its words."""
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
    groups = [
        replace(entry, format=name)
        for name in REGISTRY
        if (grouped := getattr(REGISTRY.load(name), "grouped", None)) is not None
        for entry in grouped(files)
    ]
    taken = {path for group in groups for path in group.files}
    entries = [entry for path in files if path not in taken for entry in _read_results(path)]
    for group in groups:
        owners = [number for number, entry in enumerate(entries) if _is_of(entry, group)]
        if len(owners) == 1:
            entries[owners[0]] = _joined(entries[owners[0]], group)
        else:
            entries.append(group)
    return entries


def _is_of(entry: Entry, logs: Entry) -> bool:
    """Whether logs belong to a result: they lie beside it and are named after its job or its file."""
    (path, *_) = entry.files
    return path.parent == logs.files[0].parent and logs.label in (entry.label, path.stem)


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


def _read_results(path: Path) -> Iterable[Entry]:
    wanted = ", ".join(getattr(REGISTRY.load(name), "WANTED", name) for name in REGISTRY)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is binary; wanted {wanted}") from None
    if not text.strip():
        raise InputError(f"{path}: is empty: its tool ended before it wrote results, or wrote them elsewhere")
    formats = {name: REGISTRY.load(name) for name in REGISTRY}
    name = next((name for name, one in formats.items() if one.looks_like(text)), None) or next(
        (name for name, one in formats.items() if getattr(one, "resembles", lambda text: False)(text)), None
    )
    if name is None:
        beginning = text.strip().splitlines()[0][:100]
        raise InputError(f"{path}: is in no known format; it begins with '{beginning}'; wanted {wanted}")
    return (replace(entry, files=[path], format=name) for entry in formats[name].read(text, str(path)))


def _points(entries: Sequence[Entry]) -> list[dict[str, Scalar]]:
    """What distinguishes the entries: options that differ, and the label where these do not tell them apart.

    Levels that mean the same (`150ms`, `150000us`) have the spelling of the first.
    """
    spellings: dict[tuple[str, str], Scalar] = {}

    def level(entry: Entry, key: str) -> Scalar:
        text = entry.options.get(key, _ABSENT)
        given = int(text) if re.fullmatch(r"\d{1,18}", text) else text
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
            "driver": min((entry.format for entry in entries), key=lambda name: name not in drivers.REGISTRY),
            "factors": factors,
            "watch": {"monitors": []},
            "analysis": {
                "responses": _responses(entries, directions),
                "questions": _QUESTIONS_TO_SUMS if any(entry.is_sum for entry in entries) else [],
            },
            "figures": [figure for name in directions for figure in _figures(name, list(factors), entries)],
        },
        "import",
    )


def _responses(entries: Sequence[Entry], directions: Sequence[str]) -> list[str]:
    wanted = [f"{name}.{quantity}" for name in directions for quantity in ("bw", "iops", "lat.mean", "lat.p99")]
    wanted += [name for one in entries for name in (one.metrics if one.responses is None else one.responses)]
    return [name for name in dict.fromkeys(wanted) if any(name in entry.metrics for entry in entries)]


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
