"""Descriptions of drives: TOML files that give each option of the simulated drive with its unit, basis and source.

A file describes one drive: `about`, `[sources]` (key -> citation), `[drive]` (option -> entry) and, where the drive was
measured, `[measurements.NAME]`. An entry is `{ value, unit, basis, source }`, and of a fit also `low`, `high` and
`identified`. Built-in files are in `drives/`;
a file of the user's own is named by its path. This module reads and checks them and simulates nothing; whether the
core can simulate such a drive, `ioassay.simulator.check` says. The format is described in docs/real-drives.md.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import hints
from ioassay.errors import InputError, UsageError
from ioassay.simulation.options import CONTROLLER, DRIVE, NAMES, SHARE, SIZE, Option, read

BASES = ("assumed", "measured", "fitted", "published", "data-sheet")
"""Where a value comes from: published is a parameter set that others gave, such as a simulator's configuration."""
STATISTICS = ("mean_us", "iops", "p50_us", "p99_us")
"""Columns of measurements that a model is compared with."""

_TABLE_KEYS = ("about", "sources", "drive", "measurements")
IDENTIFIED = ("yes", "combination", "no", "assumed")
"""Whether measurements tell a value: alone, only together with others, or not at all."""
_ENTRY_KEYS = ("value", "unit", "basis", "source", "low", "high", "identified")
BOUNDS = ("low", "high")
_REQUIRED = ("value", "basis", "source")
_MEASUREMENT_KEYS = ("about", "data", "source", "engine", "operation", "pattern", "sizes", "options", "limits")
_POINT_KEYS = ("engine", "operation", "pattern", "size_bytes", "depth")
_OPERATIONS, _PATTERNS = ("read", "write"), ("random", "sequential")
_SCALES: Mapping[str, Mapping[str, float]] = {
    "us": {"us": 1.0, "ns": 1e-3, "ms": 1e3},
    "us/4KiB": {"us/4KiB": 1.0},
    "us/B": {"us/B": 1.0, "ns/B": 1e-3},
    "us/sector": {"us/sector": 1.0},
    "MB/s": {"MB/s": 1.0, "GB/s": 1e3},
    "commands/s": {"commands/s": 1.0},
    "B": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "share": {"share": 1.0, "%": 0.01},
}
"""Unit of an option -> the units that a file may use, and their factors."""


@dataclass(frozen=True)
class Entry:
    """One option of a drive. `value` is in the option's own unit, as `ioassay.simulate` takes it."""

    value: Any
    unit: str
    """Of `value`; empty for counts, flags and choices."""
    basis: str
    source: str
    """A key of the file's sources."""
    low: float | None = None
    high: float | None = None
    """Bounds of a 90 % interval, in the unit of `value`."""
    identified: str = ""
    """One of `IDENTIFIED`; empty in a file that does not say it."""


@dataclass(frozen=True)
class Point:
    operation: str
    pattern: str
    size_bytes: int
    depth: int
    statistics: Mapping[str, float]
    """Those of `STATISTICS` that the row has."""
    flows: str = ""
    """Flows that load the drive meanwhile, as `ioassay.simulator.flows` takes them."""


@dataclass(frozen=True)
class Measurement:
    """Points that were measured on a real drive, and what differs from the drive's entries in that campaign."""

    name: str
    about: str
    source: str
    points: tuple[Point, ...]
    options: Mapping[str, Entry] = field(default_factory=dict)
    """Of the host and of the drive's state in that campaign."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Statistic -> the largest mean error that the description claims, as a share. Without one, no fit uses it."""
    has_fit: bool = True
    """Whether any value of the drive, or of its own options, is fitted."""

    @property
    def fitted(self) -> tuple[Point, ...]:
        """The points that a fit may use: every second one, by size and depth. The others are held out."""
        return self.points[::2] if self.limits and self.has_fit else ()


@dataclass(frozen=True)
class DriveFile:
    name: str
    path: Path
    about: str
    sources: Mapping[str, str]
    """Key -> citation."""
    entries: Mapping[str, Entry]
    measurements: tuple[Measurement, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Its options, as `ioassay.simulate` takes them."""
        return {name: entry.value for name, entry in self.entries.items()}


def builtin() -> dict[str, Path]:
    """Name -> file of the built-in drives, sorted by name."""
    folder = Path(__file__).parent / "drives"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load(drive: str | Path) -> DriveFile:
    """The drive of that name, or of the file at that path: anything with a '/' or the ending .toml.

    Raises UsageError for an unknown name, InputError with file and key for what is wrong in a file.
    """
    known = builtin()
    path = Path(drive)
    if str(drive) in known:
        path = known[str(drive)]
    elif path.suffix != ".toml" and "/" not in str(drive):
        others = f"expected one of {', '.join(known)}, or a file such as ./my.toml"
        raise UsageError(f"no drive is called '{drive}'; {hints.suggestion(str(drive), known, others)}")
    from ioassay import validation

    try:
        table = validation.toml(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected the description of a drive") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return _Reader(path).drive(table)


def drive_options(drive: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a drive that is given by name, by file, or as options already. Errors as of `load`."""
    if drive is None:
        return {}
    return dict(drive) if isinstance(drive, Mapping) else load(drive).options


class _Reader:
    """Reads one file; every error names it and the key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sources: dict[str, str] = {}

    def drive(self, table: Mapping[str, Any]) -> DriveFile:
        self._known("", table, _TABLE_KEYS)
        for name, citation in self._table("sources", table.get("sources", {})).items():
            self.sources[name] = self._text(f"sources.{name}", citation)
        about = self._text("about", table.get("about"))
        entries = self._entries("drive", table.get("drive"))
        measurements = self._table("measurements", table.get("measurements", {}))
        read_ones = tuple(self._measurement(name, each, entries) for name, each in measurements.items())
        return DriveFile(self.path.stem, self.path, about, self.sources, entries, read_ones)

    def _entries(self, key: str, table: Any) -> dict[str, Entry]:
        options = {name: option for name, option in NAMES.items() if option.group in (DRIVE, CONTROLLER)}
        entries = {}
        for name, entry in self._table(key, table).items():
            place = f"{key}.{name}"
            if name not in options:
                raise self._wrong(place, f"no option of a drive has this name; {hints.suggestion(name, options)}")
            self._known(place, self._table(place, entry), _ENTRY_KEYS)
            for part in _REQUIRED:
                if part not in entry:
                    raise self._wrong(f"{place}.{part}", f"is missing; an entry has {', '.join(_ENTRY_KEYS[:4])}")
            if (basis := entry["basis"]) not in BASES:
                raise self._wrong(f"{place}.basis", f"is {hints.shown(basis)}; expected {', '.join(BASES)}")
            unit = entry.get("unit", "")
            value = self._value(place, options[name], entry["value"], unit)
            source = self._source(f"{place}.source", entry["source"])
            low, high = (self._bound(f"{place}.{part}", options[name], entry.get(part), unit) for part in BOUNDS)
            if low is not None and high is not None and low > high:
                raise self._wrong(f"{place}.low", f"is {hints.shown(entry['low'])}; expected at most high")
            if (identified := entry.get("identified", "")) not in ("", *IDENTIFIED):
                known = ", ".join(IDENTIFIED)
                raise self._wrong(f"{place}.identified", f"is {hints.shown(identified)}; expected {known}")
            entries[name] = Entry(value, options[name].unit, basis, source, low, high, identified)
        return entries

    def _bound(self, key: str, option: Option, bound: Any, unit: Any) -> float | None:
        """A bound in the option's own unit; None where the file has none."""
        if bound is None:
            return None
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not bound >= 0:
            raise self._wrong(key, f"is {hints.shown(bound)}; expected a number from 0 on")
        return float(bound * _SCALES.get(option.unit, {"": 1})[unit])

    def _value(self, key: str, option: Option, value: Any, given: Any) -> Any:
        wanted = _SCALES.get(option.unit, {"": 1})
        if given not in wanted:
            units = " or ".join(name or "none" for name in wanted)
            raise self._wrong(f"{key}.unit", f"is {hints.shown(given)}; expected {units}")
        numbers = value if isinstance(value, list) else [value]
        if any(isinstance(each, int | float) and not isinstance(each, bool) and not each >= 0 for each in numbers):
            raise self._wrong(f"{key}.value", f"is {hints.shown(value)}; expected 0 or more")
        if given and any(isinstance(each, bool) or not isinstance(each, int | float) for each in numbers):
            raise self._wrong(f"{key}.value", f"is {hints.shown(value)}; expected a number of {given}")
        scaled = [each * wanted[given] for each in numbers] if given else numbers
        if option.kind == SIZE:
            if scaled[0] != int(scaled[0]):
                raise self._wrong(f"{key}.value", f"is {hints.shown(value)} {given}; expected whole bytes")
            scaled = [int(scaled[0])]
        elif option.kind == SHARE and not scaled[0] <= 1:
            raise self._wrong(f"{key}.value", f"is {hints.shown(value)} {given}; expected at most 1 (100 %)")
        converted = scaled if isinstance(value, list) else scaled[0]
        try:
            read(option, converted)
        except UsageError as error:
            raise self._wrong(f"{key}.value", str(error)) from None
        return converted

    def _measurement(self, name: str, table: Any, of_drive: Mapping[str, Entry]) -> Measurement:
        key = f"measurements.{name}"
        self._known(key, self._table(key, table), _MEASUREMENT_KEYS)
        for part in ("about", "data", "source"):
            self._text(f"{key}.{part}", table.get(part))
        limits = self._table(f"{key}.limits", table.get("limits", {}))
        self._known(f"{key}.limits", limits, STATISTICS)
        for statistic, limit in limits.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < 1:
                raise self._wrong(f"{key}.limits.{statistic}", f"is {hints.shown(limit)}; expected a share below 1")
        points = tuple(self._points(key, table))
        if not points:
            raise self._wrong(
                f"{key}.data", f"has no row of this engine, operation, pattern and sizes in {table['data']}"
            )
        options = self._entries(f"{key}.options", table.get("options", {}))
        return Measurement(
            name,
            table["about"],
            self._source(f"{key}.source", table["source"]),
            points,
            options,
            limits,
            any(entry.basis == "fitted" for entry in (*of_drive.values(), *options.values())),
        )

    def _points(self, key: str, table: Mapping[str, Any]) -> Iterator[Point]:
        """The rows of the data file that the measurement selects, by size and depth."""
        path = self.path.parent / table["data"]
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is no UTF-8"
            raise self._wrong(f"{key}.data", f"{path}: {reason}") from None
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        if missing := [column for column in _POINT_KEYS if column not in (rows.fieldnames or ())]:
            raise self._wrong(f"{key}.data", f"{path} has no column {missing[0]}; expected {', '.join(_POINT_KEYS)}")
        chosen = table.get("sizes", [])
        if not isinstance(chosen, list):
            raise self._wrong(f"{key}.sizes", f"is {hints.shown(chosen)}; expected a list such as ['4KiB']")
        try:
            sizes = {int(read(NAMES["page"], size)) for size in chosen}
        except UsageError as error:
            raise self._wrong(f"{key}.sizes", str(error)) from None
        points: list[Point] = []
        for number, row in enumerate(rows, 1):
            point = self._point(f"{key}.data", f"{path}, row {number}", row)
            if all(table.get(part, row[part]) == row[part] for part in ("engine", "operation", "pattern")) and (
                not sizes or point.size_bytes in sizes
            ):
                points.append(point)
        yield from sorted(points, key=lambda point: (point.size_bytes, point.depth))

    def _point(self, key: str, place: str, row: Mapping[str, Any]) -> Point:
        try:
            size_bytes, depth = int(row["size_bytes"]), int(row["depth"])
            statistics = {name: float(row[name]) for name in STATISTICS if row.get(name)}
        except (TypeError, ValueError):
            raise self._wrong(key, f"{place}: expected whole numbers for size_bytes and depth, and numbers") from None
        if row["operation"] not in _OPERATIONS or row["pattern"] not in _PATTERNS:
            wanted = f"operation {' or '.join(_OPERATIONS)}, pattern {' or '.join(_PATTERNS)}"
            raise self._wrong(key, f"{place}: expected {wanted}")
        if size_bytes < 1 or depth < 1 or not all(value > 0 for value in statistics.values()) or not statistics:
            raise self._wrong(key, f"{place}: expected numbers above 0, and one of {', '.join(STATISTICS)} at least")
        return Point(row["operation"], row["pattern"], size_bytes, depth, statistics, row.get("flows") or "")

    def _source(self, key: str, name: Any) -> str:
        if name not in self.sources:
            known = ", ".join(self.sources) or "none"
            raise self._wrong(key, f"is {hints.shown(name)}; expected a key of [sources], which has {known}")
        return str(name)

    def _known(self, key: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in table:
            if name not in known:
                place = f"{key}.{name}" if key else name
                raise self._wrong(place, f"unknown key; {hints.suggestion(name, known)}")

    def _table(self, key: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._wrong(key, "is missing" if value is None else f"is {hints.shown(value)}; expected a table")
        return value

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, "is missing" if value is None else f"is {hints.shown(value)}; expected text")
        return value

    def _wrong(self, key: str, message: str) -> InputError:
        return InputError(f"{self.path}: {key}: {message}")
