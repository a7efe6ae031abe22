"""Results made elsewhere become a run: those of the tools in `result_entry.FORMATS`.

One entry is one trial; options that differ between the entries become factors; the same point again is a repetition.
The files are copied into the run verbatim. Deliberately not here: reading the formats.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ioassay import _core, drivers, metrics
from ioassay.api.run_results import Run
from ioassay.errors import InputError
from ioassay.factors import HOST, level_key
from ioassay.formats import claim_entries
from ioassay.formats.result_entry import REGISTRY, Entry
from ioassay.metrics import DIRECTIONS
from ioassay.records.record import FAILED, OK, Record, Scalar, Warning_
from ioassay.registry import faults_named
from ioassay.store.run_folder import RunStore, new_folder
from ioassay.study.model import Study, Suite, make_study
from ioassay.study.plan import make_trial

_ABSENT = "default"
_SHOWN_UNREAD = 5
_HEAD_BYTES = 16
_QUESTIONS_TO_SUMS = ["conditions", "verdict", "describe", "stability", "caveats"]
"""Those that compare no levels: a sum is no condition that could be chosen over its own parts."""


def import_results(files: Sequence[str | Path], output: str | Path | None = None, *, title: str | None = None) -> Run:
    """Turn results of fio or other tools that were made elsewhere into a run (docs/import.md).

    `output` is the new folder, by default runs/<time>-import. InputError for a file in no known format.
    """
    folder = Path(output) if output is not None else new_folder(Path("runs"), "import")
    return Run(take_in([Path(file) for file in files], folder, title))


def take_in(files: Sequence[Path], root: Path, title: str | None = None) -> RunStore:
    """Make a run at `root` from the files; InputError names the first that is none of the known formats.

    Of a folder or an archive those of unknown formats are left out with a warning.
    """
    with tempfile.TemporaryDirectory(prefix="ioassay-import-") as folder:
        entries = sorted(read(unpacked(files, Path(folder)), [*map(str, files)]), key=lambda one: one.started_unix_s)
        return _as_run(files, entries, root, title)


def unpacked(files: Sequence[Path], folder: Path) -> list[tuple[str, Path]]:
    """How each file in these is called, and where it is (`_core.unpack`); InputError names what cannot be unpacked."""
    try:
        return _core.unpack(files, folder)
    except _core.CoreError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from None


def _as_run(files: Sequence[Path], entries: Sequence[Entry], root: Path, title: str | None) -> RunStore:
    if not entries:
        raise InputError(
            f"{', '.join(map(str, files))}: no job's results are in there; expected what the tool wrote at its end"
        )
    tools = " and ".join(dict.fromkeys(entry.format for entry in entries))
    points = _points(entries)
    study = _study(entries, points, title or f"{tools} results from {len(files)} file{'s' if len(files) > 1 else ''}")
    seen: Counter[str] = Counter()
    trials = []
    for order, point in enumerate(points):  # the same point again is the next repetition
        trials.append(make_trial(study, point, seen[repr(point)], order))
        seen[repr(point)] += 1
    suite = Suite(name=study.name, title=study.title, description=study.description, studies=[study])
    store = RunStore.create(root, suite, {"imported": [str(path) for path in files]}, trials)
    for trial, entry in zip(trials, entries, strict=True):
        raw = store.begin(trial.id)
        for path in entry.files:
            store.keep(path, raw)
        runtimes_s = (entry.metrics.get(f"{name}.runtime", 0.0) for name in ("read", "write", "trim"))
        identity = {name: getattr(trial, name) for name in ("id", "study", "driver", "repetition", "seed", "order")}
        record = Record(
            trial={**identity, "point": dict(trial.point)},
            status=FAILED if entry.problem else OK,
            reason=entry.problem,
            started_unix_s=entry.started_unix_s or time.time(),
            duration_s=max(runtimes_s),
            metrics=dict(entry.metrics),
            parts=list(entry.parts),
            warnings=tuple(entry.warnings),
            raw=sorted(path.name for path in raw.iterdir()),
        )
        store.write(record, entry.buckets, entry.series)
    return store


class UnknownFormat(InputError):
    """A file that no reader knows: others beside it in a folder or an archive may hold results all the same."""


def read(members: Sequence[tuple[str, Path]], given: Collection[str] = ()) -> list[Entry]:
    """The loads that the files tell of, in their order; those `given` by name must be of known formats."""
    files = [path for _, path in members]
    for name, path in members:
        if not path.is_file():
            what = "is no regular file" if path.exists() else "no such file"
            raise InputError(f"{name}: {what}; expected files of results")
    groups = list[Entry]()
    for name in REGISTRY:
        if (grouped := getattr(REGISTRY.load(name), "grouped", None)) is not None:
            with faults_named("the files cannot be grouped"):
                groups += (replace(entry, format=name) for entry in grouped(files))
    taken = {path for group in groups for path in group.files}
    entries, unread = list[Entry](), dict[str, InputError]()
    for name, path in members:
        try:
            with faults_named(f"{name} cannot be read"):
                entries += _read_results(name, path) if path not in taken else []
        except UnknownFormat as error:
            if name in given:
                raise
            unread[name] = error
    if unread and not entries and not groups:
        raise next(iter(unread.values()))
    for group in groups:  # of a result that they lie beside, and after whose job or file they are named
        owners = [number for number, entry in enumerate(entries) if _lies_beside(group, entry)]
        if len(owners) != 1:
            entries.append(group)
            continue
        # The result's numbers win, its logs add series and the distributions that it has not.
        entry = entries[owners[0]]
        has = {(item.direction, item.kind) for item in entry.buckets}
        entries[owners[0]] = replace(
            entry,
            options={**group.options, **entry.options},
            files=[*entry.files, *group.files],
            metrics={**group.metrics, **entry.metrics},
            buckets=[*entry.buckets, *(one for one in group.buckets if (one.direction, one.kind) not in has)],
            series=[*entry.series, *group.series],
            warnings=[*entry.warnings, *group.warnings],
        )
    if unread:
        shown = f"{', '.join([*unread][:_SHOWN_UNREAD])}{', …' if len(unread) > _SHOWN_UNREAD else ''}"
        warning = Warning_("files-unused", f"{len(unread)} of {len(members)} files hold no results: {shown}")
        entries[0] = replace(entries[0], warnings=[*entries[0].warnings, warning])
    return entries


def _lies_beside(group: Entry, entry: Entry) -> bool:
    """Whether files of a group are those of a result: of its job or of its file's name, and of the host behind that."""
    file, host = entry.files[0], f".{group.options[HOST]}" if HOST in group.options else ""
    stem = file.name.removesuffix(host) if host else file.stem
    named = group.label == entry.label or re.search(rf"(?:^|_){re.escape(group.label)}$", stem) is not None
    return file.parent == group.files[0].parent and named and file.name.endswith(host)


def _read_results(name: str, path: Path) -> Iterable[Entry]:
    readers = claim_entries.readers()
    wanted = ", ".join(one.WANTED for one in readers if one.WANTED)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if refused := next((why for begin, why in claim_entries.binaries().items() if head.startswith(begin)), ""):
            raise UnknownFormat(f"{name}: {refused}")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnknownFormat(f"{name}: is binary; expected {wanted}") from None
    if not text.strip():
        raise UnknownFormat(f"{name}: is empty: its tool ended before it wrote results, or wrote them elsewhere")
    reader = next((one for one in readers if one.looks_like(text)), None)
    if reader is None:
        beginning = text.strip().splitlines()[0][:100]
        raise UnknownFormat(f"{name}: is in no known format; it begins with '{beginning}'; expected {wanted}")
    return (replace(entry, files=[path], format=reader.name) for entry in claim_entries.loads(reader, text, name))


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
    as_text = {key for point in points for key, level in point.items() if isinstance(level, str)}
    return [{key: str(level) if key in as_text else level for key, level in point.items()} for point in points]


def _common(entries: Sequence[Entry]) -> dict[str, str]:
    """Options that all entries have, with the same text: what the tool was asked for, whatever varied."""
    common = set.intersection(*({*entry.options.items()} for entry in entries))
    return {key: value for key, value in entries[0].options.items() if (key, value) in common}


def _answered(entry: Entry) -> list[str]:
    """All but amounts of work, of which none is better."""
    return [name for name in entry.metrics if not metrics.known(name) or metrics.metric(name).better != "none"]


def _study(entries: Sequence[Entry], points: Sequence[Mapping[str, Scalar]], title: str) -> Study:
    factors = {name: list(dict.fromkeys(point[name] for point in points)) for name in points[0]}
    directions = [name for name in DIRECTIONS if any(f"{name}.ios" in e.metrics for e in entries)]
    wanted = [f"{name}.{quantity}" for name in directions for quantity in ("bw", "iops", "lat.mean", "lat.p99")]
    wanted += [name for one in entries for name in (_answered(one) if one.responses is None else one.responses)]
    figures: list[dict[str, Any]] = []
    colour = {"color": next(iter(factors))} if factors else {}
    for way in directions:
        if factors and any(f"{way}.bw" in entry.metrics for entry in entries):
            figures.append({"kind": "bar", "name": f"{way}_bw", "x": next(iter(factors)), "y": f"{way}.bw"})
        kinds = {item.kind for entry in entries for item in entry.buckets if item.direction == way}
        for kind in (kind for kind in ("lat", "clat", "slat") if kind in kinds):
            figures.append({"kind": "cdf", "name": f"{way}_{kind}_cdf", "direction": way, "latency": kind, **colour})
        logged = {item.metric for entry in entries for item in entry.series if item.metric.startswith(f"{way}.")}
        figures += [{"kind": "series", "name": name.replace(".", "_"), "y": name} for name in sorted(logged)]
    return make_study(
        {
            "name": "import",
            "title": title,
            "driver": min((entry.format for entry in entries), key=lambda name: name not in drivers.REGISTRY),
            "params": _common(entries),
            "factors": factors,
            "watch": {"monitors": []},
            "analysis": {
                "responses": [
                    name for name in dict.fromkeys(wanted) if any(name in entry.metrics for entry in entries)
                ],
                "questions": _QUESTIONS_TO_SUMS if any(entry.is_sum for entry in entries) else [],
            },
            "figures": figures,
        },
        "import",
    )
