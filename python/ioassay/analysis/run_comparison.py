"""Two runs against each other: is B faster than A, slower, the same, or can it not be told?

A is the baseline, B is judged. Conditions are matched by study, point and response. Three things are asked of each
pair: is there a difference (the interval of the ratio of means), is it negligible (two one-sided tests against the
margin), and could so many questions produce it by chance (Benjamini and Hochberg). What a difference is caused by is
not asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioassay import metrics
from ioassay.analysis.measurements.cells import Cell, cells
from ioassay.factors import level_key, setting_key
from ioassay.narrative import phrases
from ioassay.records.record import Scalar
from ioassay.stats.posthoc import benjamini_hochberg
from ioassay.stats.ratio_of_means import (
    Equivalence,
    Ratio,
    TwoSample,
    equivalence,
    mann_whitney,
    ratio_of_means,
    welch_t,
)
from ioassay.stats.result import Undefined, mean_of, plain
from ioassay.store.dataset import Dataset
from ioassay.store.schema import Host
from ioassay.study.model import Study

FASTER, SLOWER, SAME, UNDECIDED, CHANGED = "faster", "slower", "same", "undecided", "changed"
VERDICTS = (SLOWER, FASTER, CHANGED, UNDECIDED, SAME)
METHOD = (
    "ratio of means with the delta method on the log scale and Satterthwaite's degrees of freedom; p values adjusted "
    "over all rows (Benjamini-Hochberg); 'same' by two one-sided tests against the margin"
)


@dataclass(frozen=True)
class Row:
    """One condition and response in both runs.

    `ratio` is B's mean divided by A's; `p_adjusted` its p value adjusted over all rows. `verdict`: FASTER and SLOWER
    (better and worse, in the response's better direction; SLOWER also for a higher latency), CHANGED for a response
    without one, SAME (proved to be within the margin), UNDECIDED; `reason` says why in words.
    """

    study: str
    point: dict[str, Scalar]
    label: str
    response: str
    n_a: int
    n_b: int
    mean_a: float
    mean_b: float
    ratio: Ratio | Undefined
    welch: TwoSample | Undefined
    mann_whitney: TwoSample | Undefined
    equivalence: Equivalence | Undefined
    p_adjusted: float | None = None
    verdict: str = UNDECIDED
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """All rows, in the order of run B's studies. `only_a`, `only_b`: conditions present in one run only, in words."""

    a: str
    b: str
    margin: float
    confidence: float
    rows: tuple[Row, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    warnings: tuple[str, ...]
    method: str = METHOD

    @property
    def regression(self) -> bool:
        """Whether B is slower anywhere."""
        return any(row.verdict == SLOWER for row in self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by verdict, worst first; verdicts that do not occur are absent."""
        found = [row.verdict for row in self.rows]
        return {verdict: found.count(verdict) for verdict in VERDICTS if verdict in found}

    def statement(self) -> str:
        """One or two sentences for people."""
        if not self.rows:
            return "Nothing can be compared: the runs share no condition with values."
        parts = [f"{verdict} in {number}" for verdict, number in self.counts.items()]
        told = f"B against A, over {phrases.count(len(self.rows), 'comparison')}: {phrases.listed(parts, 9)}."
        slower = [row for row in self.rows if row.verdict == SLOWER and isinstance(row.ratio, Ratio)]
        if not slower:
            return told
        worst = max(slower, key=_loss)
        return f"{told} Worst: {worst.study}, {worst.label}: {worst.reason}"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form."""
        return {
            **plain(self),
            "regression": self.regression,
            "counts": self.counts,
            "statement": self.statement(),
        }


def compare(a: Dataset, b: Dataset, margin: float = 0.05, confidence: float = 0.95) -> Comparison:
    """Judge run `b` against the baseline `a`.

    `margin` is the share up to which a difference counts as none; `confidence` that of every interval, and one minus
    it the rate of false differences among those found.
    """
    studies_a = {study.name: study for study in a.studies}
    rows: list[Row] = []
    missing_a, missing_b, warnings = [], [], []
    for study_b in b.studies:
        study_a = studies_a.pop(study_b.name, None)
        if study_a is None:
            missing_a.append(f"study {study_b.name}")
            continue
        warnings += _differences(study_a, study_b)
        for response in _responses((a, study_a), (b, study_b)):
            found_a, found_b = _by_key(a, study_a, response), _by_key(b, study_b, response)
            rows += [
                _row(study_b, response, found_a[key], found_b[key], margin, confidence)
                for key in found_b
                if key in found_a
            ]
            missing_b += [f"{study_b.name}, {found_a[key].label}: {response}" for key in found_a if key not in found_b]
            missing_a += [f"{study_b.name}, {found_b[key].label}: {response}" for key in found_b if key not in found_a]
    missing_b += [f"study {name}" for name in studies_a]
    return Comparison(
        a=str(a.root),
        b=str(b.root),
        margin=margin,
        confidence=confidence,
        rows=tuple(_judged(rows, margin, 1 - confidence)),
        only_a=tuple(missing_b),
        only_b=tuple(missing_a),
        warnings=(*warnings, *_host_differences(a, b)),
    )


def against(study: Study, response: str, a: Cell, b: Cell, margin: float = 0.05, confidence: float = 0.95) -> Row:
    """One condition `b` judged against another one, `a`, of the same run; the row bears the point of `b`."""
    return _judged([_row(study, response, a, b, margin, confidence)], margin, 1 - confidence)[0]


def _responses(*sides: tuple[Dataset, Study]) -> list[str]:
    return list(dict.fromkeys(name for records, study in reversed(sides) for name in records.responses(study)))


def _by_key(records: Dataset, study: Study, response: str) -> dict[tuple[tuple[str, str], ...], Cell]:
    """Condition -> its cell; the key ignores the order of factors and the spelling of levels."""
    found = cells(records, study, response).cells
    return {tuple(sorted((name, level_key(name, level)) for name, level in cell.point.items())): cell for cell in found}


def _row(study: Study, response: str, a: Cell, b: Cell, margin: float, confidence: float) -> Row:
    ratio = ratio_of_means(b.values, a.values, confidence)
    return Row(
        study=study.name,
        point=dict(b.point),
        label=b.label,
        response=response,
        n_a=int(a.values.size),
        n_b=int(b.values.size),
        mean_a=mean_of(a.values),
        mean_b=mean_of(b.values),
        ratio=ratio,
        welch=welch_t(b.values, a.values),
        mann_whitney=mann_whitney(b.values, a.values),
        equivalence=equivalence(ratio, margin, 1 - confidence) if isinstance(ratio, Ratio) else ratio,
    )


def _judged(rows: Sequence[Row], margin: float, risk: float) -> list[Row]:
    adjusted = iter(benjamini_hochberg([row.ratio.p for row in rows if isinstance(row.ratio, Ratio)]))
    return [_verdict(row, next(adjusted) if isinstance(row.ratio, Ratio) else None, margin, risk) for row in rows]


def _verdict(row: Row, p: float | None, margin: float, risk: float) -> Row:
    if isinstance(row.ratio, Undefined) or isinstance(row.equivalence, Undefined) or p is None:
        reason = row.ratio.reason if isinstance(row.ratio, Undefined) else ""
        return replace(row, verdict=UNDECIDED, reason=f"{phrases.name(row.response)}: not compared: {reason}.")
    shown = f"{phrases.name(row.response)} is {_change(row.ratio)}"
    within = phrases.percent(margin)
    if row.equivalence.equivalent:
        return replace(row, p_adjusted=p, verdict=SAME, reason=f"{shown}, proved to be within {within}.")
    if p < risk:
        return replace(row, p_adjusted=p, verdict=_direction(row.response, row.ratio.ratio), reason=f"{shown}.")
    reason = f"{shown}: neither a difference nor equality to within {within} is proved; repeat more often."
    return replace(row, p_adjusted=p, verdict=UNDECIDED, reason=reason)


def _direction(response: str, ratio: float) -> str:
    better = metrics.metric(response).better
    if better == "none":
        return CHANGED
    return FASTER if (ratio > 1) == (better == "higher") else SLOWER


def _change(ratio: Ratio) -> str:
    low, high = (phrases.points(end - 1, sign=True) for end in (ratio.interval.low, ratio.interval.high))
    level = phrases.level(ratio.interval.confidence)
    way = "higher" if ratio.ratio >= 1 else "lower"
    return f"{phrases.points(abs(ratio.ratio - 1))} % {way} in B ({level} interval {low} to {high} %)"


def _loss(row: Row) -> float:
    """How many times worse B is than A, above 1."""
    ratio = row.ratio.ratio if isinstance(row.ratio, Ratio) else 1.0
    return ratio if metrics.metric(row.response).better == "lower" else 1 / ratio


_IGNORED = {"name", "title", "description", "figures", "analysis", "seed", "repetitions", "until", "factors", "scale"}


def _differences(a: Study, b: Study) -> list[str]:
    """Settings that differ between the runs and are not what is compared: each makes the result harder to read."""
    said = []
    own_a, own_b = (study.model_dump(exclude=_IGNORED) for study in (a, b))
    for key, right in own_b.items():
        left = own_a[key]
        if setting_key(key, left) == setting_key(key, right):
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            names = dict.fromkeys((*left, *right))
            inner = [name for name in names if setting_key(name, left.get(name)) != setting_key(name, right.get(name))]
            said += [
                f"{b.name}: {key}.{name} is {left.get(name)!r} in A and {right.get(name)!r} in B" for name in inner
            ]
        else:
            said.append(f"{b.name}: {key} is {left!r} in A and {right!r} in B")
    return said


_HOST = (
    ("cpu", "model"),
    ("cpu", "governors"),
    ("kernel", "release"),
    ("kernel", "cmdline"),
    ("memory", "total_bytes"),
    ("virtualisation", "vm"),
)


_HASH = re.compile(r"#[0-9a-f]{8}\b")
"""What stands in a kernel's command line for a value that is not stored (ioassay.host.privacy.boot)."""


def _host_differences(a: Dataset, b: Dataset) -> list[str]:
    """Facts of the hosts that differ, of those that change results."""
    said = _machine_differences(a.host, b.host)
    is_comparable = _key(a.host) == _key(b.host)
    tools = [list(_section(records.host, "tools")) for records in (a, b)]
    for section, name in (*_HOST, *(("tools", tool) for tool in tools[0] if tool in tools[1])):
        left, right = (_section(records.host, section).get(name) for records in (a, b))
        if name == "cmdline" and not is_comparable:
            left, right = (_HASH.sub("#", text) if isinstance(text, str) else text for text in (left, right))
        if left != right:
            said.append(f"host: {section}.{name} is {left!r} in A and {right!r} in B")
    return said


def _machine_differences(a: Host, b: Host) -> list[str]:
    """Whether machine and drives are others, as far as their hashes were made with one key."""
    left, right = (_section(host, "identity") for host in (a, b))
    if not left or _key(a) != _key(b):
        return []
    said = []
    name = next((name for name in ("machine", "name") if name in left and name in right), None)
    if name and left[name] != right[name]:
        said.append("host: A and B were measured on different machines")
    drives = [_drives(host) for host in (a, b)]
    if all(drives) and drives[0] != drives[1]:
        said.append("disk: A and B were measured on different drives")
    return said


def _key(host: Host) -> str | None:
    """By which key the hashes among the facts were made."""
    key: str | None = _section(host, "identity").get("key")
    return key


def _section(host: Host, name: str) -> Mapping[str, Any]:
    """A section of the facts; an empty one where there is none, or host.json was damaged."""
    found = host.get(name)
    return found if isinstance(found, Mapping) else {}


def _drives(host: Host) -> set[str]:
    """The hashes of the drives under the path that was measured."""
    devices = _section(host, "disk").get("devices") or ()
    return {str(device["identity"]) for device in devices if isinstance(device, Mapping) and "identity" in device}
