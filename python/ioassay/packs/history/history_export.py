"""Runs for dashboards: OpenMetrics text, which Prometheus takes, and the line protocol of InfluxDB.

Each mean of a condition is a sample at the time at which its run began. Beside them stand what they are worth: the
grade of the machine's conditions, and the worst verdict on a claim.

OpenMetrics 1.0 (prometheus.io/docs/specs/om/open_metrics_spec) wants base units, all samples of a series together and
in the order of time, and `# EOF` at the end. The line protocol (docs.influxdata.com, "Line protocol") has no escape for
a line feed or a backslash in a tag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.errors import UsageError
from ioassay.factors import level_word
from ioassay.narrative.conditions_text import GRADES
from ioassay.report.tables import BREAKS
from ioassay.verify.verdict import CATEGORIES

if TYPE_CHECKING:
    from ioassay.packs.history.history_store import Store

_UNITS = {
    "ns": ("seconds", 1e-9),
    "µs": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "bytes": ("bytes", 1.0),
    "bytes/s": ("bytes_per_second", 1.0),
}
"""Of a metric: the unit that OpenMetrics writes at the end of its name, and the factor to it."""
_GRADE, _VERDICT = "ioassay_conditions_grade", "ioassay_claims_verdict"


@dataclass(frozen=True)
class _Value:
    """A response of a condition in one run; `labels` are those of its series."""

    run: Mapping[str, Any]
    labels: Mapping[str, str]
    response: str
    unit: str
    n: int
    mean: float

    @property
    def begun(self) -> datetime:
        moment: datetime = self.run["begun"]
        return moment


def text(store: Store, format: str, study: str | None, metric: str | None, where: Mapping[str, str]) -> Iterator[str]:
    """The lines of the chosen values, in one of FORMATS; without a line where nothing is chosen.

    UsageError for two runs of one series that began at the same instant, which a series cannot have.
    """
    values = [*_values(store, study, metric, where)]
    return _openmetrics(values) if format == "openmetrics" else map(_line, values)


def _values(store: Store, study: str | None, metric: str | None, where: Mapping[str, str]) -> Iterator[_Value]:
    runs = store.runs(study, where)
    for name in runs["study"].unique(maintain_order=True):
        known = {row["run"]: row for row in runs.rows(named=True) if row["study"] == name}
        for row in store.values(name, metric, where).iter_rows(named=True):
            labels = {"study": name, "condition": row["condition"], "host": row["host"]}
            for factor, level in json.loads(row["point"]).items():
                plain = re.sub(r"\W", "_", factor, flags=re.ASCII)
                key = plain if plain not in (*labels, "response") and plain[0].isalpha() else f"factor_{plain}"
                labels[key] = level_word(level)
            own = {key: value for key, value in labels.items() if value}
            yield _Value(known[row["run"]], own, row["response"], row["unit"] or "", row["n"], row["mean"])


# OpenMetrics


def _openmetrics(values: Iterable[_Value]) -> Iterator[str]:
    families: dict[str, tuple[str, str, list[tuple[dict[str, str], _Value, float]]]] = {}
    for one in values:
        unit, factor = _UNITS.get(one.unit, ("", 1.0))
        name = "_".join(filter(None, ("ioassay", re.sub(r"\W", "_", one.response, flags=re.ASCII), unit)))
        about = metrics.metric(one.response).label
        # Two names that are one here, such as a.b and a_b, differ by a label.
        labels = {**one.labels, "response": one.response}
        families.setdefault(name, (unit, about, []))[2].append((labels, one, one.mean * factor))
        own = {name: one.labels[name] for name in ("study", "host") if name in one.labels}
        for name, column, scale in ((_GRADE, "grade", [*GRADES.values()]), (_VERDICT, "verdict", [*CATEGORIES])):
            if one.run[column] in scale:
                about = ", ".join(f"{place} {word}" for place, word in enumerate(scale))
                families.setdefault(name, ("", about, []))[2].append((own, one, float(scale.index(one.run[column]))))
    for name, (unit, about, samples) in sorted(families.items()):
        yield f"# TYPE {name} gauge"
        if unit:
            yield f"# UNIT {name} {unit}"
        yield f"# HELP {name} {_escaped(about)}"
        yield from _samples(name, samples)
    yield "# EOF"


def _samples(name: str, samples: Iterable[tuple[dict[str, str], _Value, float]]) -> Iterator[str]:
    series: dict[str, dict[datetime, tuple[str, float]]] = {}
    for labels, one, value in samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
        known = series.setdefault(shown, {}).setdefault(one.begun, (one.run["run"], value))
        if known[0] != one.run["run"]:
            both = f"{known[0]} and {one.run['run']}"
            raise UsageError(
                f"the runs {both} of {one.run['study']} began at the same instant; choose one with --where run=…"
            )
    for shown, points in sorted(series.items()):
        for moment, (_, value) in sorted(points.items()):
            yield f"{name}{{{shown}}} {value!r} {moment.timestamp():.6f}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


# The line protocol


def _line(one: _Value) -> str:
    tags = "".join(f",{_tag(name)}={_tag(value)}" for name, value in sorted(one.labels.items()))
    named = {name: one.run[name] for name in ("run", "grade", "verdict", "commit") if one.run[name]}
    fields = [f"mean={one.mean!r}", f"n={one.n}i", *(f"{name}={_string(value)}" for name, value in named.items())]
    measurement = re.sub(r"([, ])", r"\\\1", re.sub(BREAKS, " ", one.response).replace("\\", "/"))
    return f"{measurement}{tags} {','.join(fields)} {round(one.begun.timestamp() * 1e6)}000"


def _tag(text: str) -> str:
    return re.sub(r"([,= ])", r"\\\1", re.sub(BREAKS, " ", text).replace("\\", "/"))


def _string(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", re.sub(BREAKS, " ", text)) + '"'
