"""A learned drive as a file: its options with intervals, and the measured points that `drive check` compares it with.

The format is that of docs/real-drives.md. What a fit saw and what was held out both go into the points; the file says
of each option whether the readings tell it. Nothing here is judged or printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import atomic_file
from ioassay.errors import UsageError
from ioassay.packs.ssd.twin.loads import Fit, Parameter, Reading, plain
from ioassay.simulation.drive_files import STATISTICS
from ioassay.simulation.options import NAMES

FIT, CHOICE = "fit", "choice"
_CHOICE = "not told by the readings: a usual value, or what follows from the capacity"
_BASIS = {"yes": "fitted", "combination": "fitted", "no": "assumed", "assumed": "assumed"}
_KEYS = ("operation", "pattern", "size_bytes", "depth")
"""Of a load, in the table of points."""
_DIGITS = 5
_LEAST_LIMIT, _LIMIT_OF_ERROR = 0.01, 2.0
"""The limit that a file claims: so many times the mean error that the fit left, and 1 % at least. `drive check` judges
halves of the points, and either half may have all of the error."""


def write(fit: Fit, readings: Sequence[Reading], path: Path, *, about: str, source: str) -> None:
    """Write the description to `path`, and its points next to it; UsageError where that cannot be.

    `about` names the drive, `source` says what was measured, when, and by what.
    """
    points = path.with_suffix(".csv")
    rows = _rows(readings)
    try:
        if rows:
            atomic_file.write(points, _csv(rows))
        atomic_file.write(path, _toml(fit, rows, points.name, about, source))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; --output names another place") from None


def _toml(fit: Fit, rows: Sequence[Mapping[str, Any]], points: str, about: str, source: str) -> str:
    # Of a list each value is a parameter, such as `page_type_read_us 0`: of the list holds what holds of the first.
    told = {each.name.partition(" ")[0]: each for each in fit.parameters[::-1] if each.name.partition(" ")[0] in NAMES}
    tied = {name: parameter for parameter in fit.parameters for name in parameter.options if name in NAMES}
    options = {name: value for name, value in fit.options.items() if name in NAMES}
    entries = [_entry(name, value, told.get(name) or tied.get(name)) for name, value in options.items()]
    used = {FIT: source} | ({CHOICE: _CHOICE} if any(f"source = {_value(CHOICE)}" in each for each in entries) else {})
    lines = [f"about = {_value(about)}", "", "[sources]", *_lines(used), "", "[drive]", *entries]
    for operation in sorted({row["operation"] for row in rows}):
        table = {"about": f"{operation}s in a closed loop", "data": points, "source": FIT, "operation": operation}
        lines += ["", f"[measurements.{operation}s]", *_lines(table)]
        if limits := _limits(fit, operation):
            lines += [f"limits = {{ {', '.join(f'{key} = {limit}' for key, limit in limits.items())} }}"]
    return "\n".join(lines) + "\n"


def _entry(name: str, value: Any, parameter: Parameter | None) -> str:
    identified = parameter.identified if parameter is not None else "assumed"
    basis = _BASIS[identified]
    parts = {"value": value, "unit": NAMES[name].unit or None, "basis": basis}
    parts["source"] = FIT if basis == "fitted" else CHOICE
    if parameter is not None and parameter.name == name:
        parts |= {"low": parameter.low, "high": parameter.high}
    parts["identified"] = identified
    return f"{name} = {{ {', '.join(_lines(parts))} }}"


def _limits(fit: Fit, operation: str) -> dict[str, float]:
    """Statistic -> the mean error that the file claims, of the loads that `drive check` can simulate."""
    found: dict[str, list[float]] = {}
    for residual in fit.residuals:
        if residual.load.operation == operation and residual.statistic in STATISTICS:
            found.setdefault(residual.statistic, []).append(abs(residual.modelled / residual.measured - 1))
    claimed = {name: max(_LIMIT_OF_ERROR * sum(each) / len(each), _LEAST_LIMIT) for name, each in sorted(found.items())}
    return {name: round(min(limit, 0.99), 3) for name, limit in claimed.items()}


def _rows(readings: Iterable[Reading]) -> list[dict[str, Any]]:
    """The readings that are plain closed loops over the whole range: what a drive file can name."""
    readings = [reading for reading in readings if not reading.is_host_bound]
    chosen = plain(reading.load for reading in readings)
    rows = []
    for reading in (each for each in readings if each.load in chosen):
        statistics = {name: f"{reading.statistics[name]:.6g}" for name in STATISTICS if reading.statistics.get(name)}
        if statistics:
            rows.append({"engine": "fio", **{name: getattr(reading.load, name) for name in _KEYS}, **statistics})
    return rows


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Words and numbers, which need no quotes."""
    columns = ["engine", *_KEYS, *STATISTICS]
    lines = [columns, *([str(row.get(name, "")) for name in columns] for row in rows)]
    return "".join(f"{','.join(line)}\n" for line in lines)


def _lines(table: Mapping[str, Any]) -> list[str]:
    """Keys with their values, of those that have one."""
    return [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]


def _value(value: Any) -> str:
    """A value of TOML: strings, whole numbers, true and false are as in JSON."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}" if value < 10**_DIGITS else f"{value:.0f}"
    return json.dumps(value if isinstance(value, int) else str(value), ensure_ascii=False)
