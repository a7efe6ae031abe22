"""A learned drive as a file: its options with intervals, and the measured points that `drive check` compares it with.

The format is that of docs/real-drives.md. What a fit saw and what was held out both go into the points; the file says
of each option whether the readings tell it. Nothing here is judged or printed.
"""

from __future__ import annotations

import csv
import io
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
    entries = [
        _entry(name, value, told.get(name) or tied.get(name)) for name, value in fit.options.items() if name in NAMES
    ]
    used = {FIT: source} | ({CHOICE: _CHOICE} if any(f"source = {_text(CHOICE)}" in each for each in entries) else {})
    lines = [f"about = {_text(about)}", "", "[sources]", *(f"{key} = {_text(each)}" for key, each in used.items())]
    lines += ["", "[drive]", *entries]
    for operation in sorted({row["operation"] for row in rows}):
        name = f"{operation}s"
        lines += ["", f"[measurements.{name}]", f"about = {_text(f'{operation}s in a closed loop')}"]
        lines += [f"data = {_text(points)}", f"source = {_text(FIT)}", f"operation = {_text(operation)}"]
        if limits := _limits(fit, operation):
            lines += [f"limits = {{ {', '.join(f'{key} = {limit}' for key, limit in limits.items())} }}"]
    return "\n".join(lines) + "\n"


def _entry(name: str, value: Any, parameter: Parameter | None) -> str:
    identified = parameter.identified if parameter is not None else "assumed"
    basis = _BASIS[identified]
    parts = {"value": _value(value)}
    if unit := NAMES[name].unit:
        parts["unit"] = _text(unit)
    parts |= {"basis": _text(basis), "source": _text(FIT if basis == "fitted" else CHOICE)}
    if parameter is not None and parameter.name == name:
        bounds = {"low": parameter.low, "high": parameter.high}
        parts |= {key: _value(bound) for key, bound in bounds.items() if bound is not None}
    parts["identified"] = _text(identified)
    return f"{name} = {{ {', '.join(f'{key} = {text}' for key, text in parts.items())} }}"


def _limits(fit: Fit, operation: str) -> dict[str, float]:
    """Statistic -> the mean error that the file claims, of the loads that `drive check` can simulate."""
    found: dict[str, list[float]] = {}
    for residual in fit.residuals:
        if residual.load.operation == operation and residual.statistic in STATISTICS:
            found.setdefault(residual.statistic, []).append(abs(residual.modelled / residual.measured - 1))
    means = {name: sum(errors) / len(errors) for name, errors in found.items()}
    return {
        name: round(min(max(_LIMIT_OF_ERROR * mean, _LEAST_LIMIT), 0.99), 3) for name, mean in sorted(means.items())
    }


def _rows(readings: Iterable[Reading]) -> list[dict[str, Any]]:
    """The readings that are plain closed loops over the whole range: what a drive file can name."""
    readings = [reading for reading in readings if not reading.is_host_bound]
    chosen = plain(reading.load for reading in readings)
    rows = []
    for reading in readings:
        if (load := reading.load) not in chosen:
            continue
        statistics = {name: f"{reading.statistics[name]:.6g}" for name in STATISTICS if reading.statistics.get(name)}
        if statistics:
            keys = {"operation": load.operation, "pattern": load.pattern, "size_bytes": load.size_bytes}
            rows.append({"engine": "fio", **keys, "depth": load.depth, **statistics})
    return rows


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    columns = ["engine", "operation", "pattern", "size_bytes", "depth", *STATISTICS]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _text(text: str) -> str:
    """A string of TOML: those of JSON are some."""
    return json.dumps(text, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}" if value < 10**_DIGITS else f"{value:.0f}"
    return str(value) if isinstance(value, int) else _text(str(value))
