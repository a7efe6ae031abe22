"""Two runs compared: is B faster than A, slower, the same, or do the data not decide?

A is the baseline, B is judged. Conditions are matched by study, point and response. All conditions of a response have
one model (`stats/condition_means.py`); each pair has two claims from it: a difference (the interval of the ratio of
means excludes 1) and equivalence (two one-sided tests against the margin). All claims of a comparison hold at once. The
cause of a difference is not examined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from ioassay import metrics
from ioassay.analysis import machine_conditions
from ioassay.analysis.claims import claim_verdicts
from ioassay.analysis.measurements.cells import Cell, cells
from ioassay.factors import level_key, setting_key
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.contrasts import MARGIN, Contrasts
from ioassay.stats.power import repetitions_needed
from ioassay.stats.ratio_of_means import Equivalence, Ratio, equivalence, ratio_interval
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.store.schema import Host
from ioassay.study.model import Study


class Verdict(StrEnum):
    """How B compares with A, worst first. Only what is a speed is slower or faster, such as a rate or a latency."""

    SLOWER = "slower"
    FASTER = "faster"
    CHANGED = "changed"
    """It differs, and the response is no speed: a hit ratio, or what has no better direction."""
    UNDECIDED = "undecided"
    SAME = "same"
    """It is proved to be within the margin."""
    WITHHELD = "withheld"
    """A run was measured on an unfit machine, or the kernel contradicts its claims."""


class Outcome(StrEnum):
    """What a whole comparison comes to, for those who act on one word."""

    CONTRADICTED = "contradicted"
    """The kernel contradicts the tool's claims, so that its numbers are no measurements: no conclusion is drawn."""
    NOT_COMPARABLE = "not-comparable"
    """The machine was not fit: no conclusion is drawn."""
    SLOWER = "slower"
    """In at least one row."""
    FASTER = "faster"
    """In at least one row, and slower in none."""
    CHANGED = "changed"
    SAME = "same"
    """In every row."""
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Row:
    """One condition and response in both runs.

    `ratio` is B's mean divided by A's, its interval among those of all rows; `p_adjusted` its p value adjusted over all
    rows. `needed`: the repetitions of each run that would show a difference of the margin; None where nothing tells it.
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
    margin: float = MARGIN
    equivalence: Equivalence | None = None
    needed: int | None = None
    p_adjusted: float | None = None
    verdict: Verdict = Verdict.UNDECIDED

    @property
    def interval(self) -> Interval | None:
        """The one that the verdict is read from: of 'same' that of the two one-sided tests."""
        if self.verdict == Verdict.SAME and self.equivalence is not None:
            return self.equivalence.interval
        return self.ratio.interval if isinstance(self.ratio, Ratio) else None

    @property
    def loss(self) -> float:
        """How many times worse B is than A, above 1."""
        ratio = self.ratio.ratio if isinstance(self.ratio, Ratio) else 1.0
        return ratio if metrics.metric(self.response).better == "lower" else 1 / ratio

    @property
    def rank(self) -> tuple[int, float]:
        """By verdict, then the largest loss first; of improvements and changes the largest ratio."""
        loss = self.loss
        size = max(loss, 1 / loss) if self.verdict in (Verdict.FASTER, Verdict.CHANGED) else loss
        known = isinstance(self.ratio, Ratio)
        return list(Verdict).index(self.verdict), -size if known else math.inf

    def restates(self, other: Row) -> bool:
        """Whether it says the same of the same condition in another unit: IOPS and bandwidth at one block size."""
        if self.interval is None or other.interval is None or self._subject != other._subject:
            return False
        return math.isclose(self.loss, other.loss, rel_tol=_UNIT_ROUNDING) and all(
            math.isclose(getattr(self.interval, end), getattr(other.interval, end), rel_tol=_UNIT_ROUNDING)
            for end in ("low", "high")
        )

    @property
    def _subject(self) -> tuple[str, ...]:
        return self.study, self.label, self.response.partition(".")[0], self.verdict


_UNIT_ROUNDING = 1e-4
"""Tools round rates; ends of intervals that differ by less than this share are those of one quantity."""


@dataclass(frozen=True)
class Unmatched:
    """A study, or one condition and response of it, that only one of the runs has."""

    study: str
    label: str = ""
    response: str = ""


@dataclass(frozen=True)
class Difference:
    """A setting of a study or a fact of the host that differs, `name` of `subject`; MACHINE and DRIVES as a whole.

    `host`: whose, where several measured. HOSTS: no host measured for both, `a` and `b` are those that did. PROGRAMS:
    the runs used two builds of a tool; `a` and `b` are their names or paths.
    """

    subject: str
    name: str = ""
    a: object = None
    b: object = None
    host: str = ""


MACHINE, DRIVES, HOSTS, PROGRAMS = (Difference(name) for name in ("machine", "drives", "hosts", "programs"))
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Comparison:
    """All rows, in the order of run B's studies. `only_a`, `only_b`: what is present in one run only."""

    a: str
    b: str
    margin: float
    confidence: float
    rows: tuple[Row, ...]
    only_a: tuple[Unmatched, ...]
    only_b: tuple[Unmatched, ...]
    differences: tuple[Difference, ...]
    """Of what was not compared: each makes the result harder to read."""
    unfit: tuple[str, ...] = ()
    """'A' and 'B', as far as the machine was not fit for it: no conclusion is drawn then."""
    contradicted: tuple[str, ...] = ()
    """'A' and 'B', as far as the kernel contradicts claims there: no conclusion is drawn then either."""

    def __post_init__(self) -> None:
        if not self.is_conclusive:  # so that nothing which shows a row can say what is withheld
            withheld = tuple(replace(row, verdict=Verdict.WITHHELD) for row in self.rows)
            object.__setattr__(self, "rows", withheld)

    @property
    def outcome(self) -> Outcome:
        """What the rows come to, and whether a conclusion is drawn from them at all."""
        if self.contradicted:
            return Outcome.CONTRADICTED
        if self.unfit:
            return Outcome.NOT_COMPARABLE
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.CHANGED):
            if verdict in self.counts:
                return Outcome(verdict.value)
        return Outcome.SAME if self.counts.keys() == {Verdict.SAME} else Outcome.UNDECIDED

    @property
    def is_conclusive(self) -> bool:
        """Whether the verdicts of the rows are to be relied on."""
        return not (self.contradicted or self.unfit)

    @property
    def regression(self) -> bool:
        """Whether B is slower anywhere; never where no conclusion is drawn."""
        return self.outcome == Outcome.SLOWER

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by verdict, worst first; verdicts that do not occur are absent."""
        found = [row.verdict for row in self.rows]
        return {verdict.value: found.count(verdict) for verdict in Verdict if verdict in found}

    @cached_property
    def results(self) -> list[tuple[Row, ...]]:
        """The rows, worst first; those that restate a row are with it."""
        by_condition: dict[tuple[str, str], list[list[Row]]] = {}
        for row in self.rows:
            groups = by_condition.setdefault((row.study, row.label), [])
            group = next((group for group in groups if row.restates(group[0])), None)
            if group is None:
                groups.append([row])
            else:
                group.append(row)
        every = [tuple(group) for groups in by_condition.values() for group in groups]
        return sorted(every, key=lambda group: group[0].rank)

    @property
    def worst(self) -> Row | None:
        """The row where B loses most."""
        slower = [row for row in self.rows if row.verdict == Verdict.SLOWER]
        return max(slower, key=lambda row: row.loss) if slower else None


def compare(a: Dataset, b: Dataset, margin: float = MARGIN, confidence: float = 0.95) -> Comparison:
    """Judge run `b` against the baseline `a`.

    `margin` is the share up to which a difference counts as none; `confidence` that all verdicts are right.
    """
    studies_a = {study.name: study for study in a.studies}
    rows: list[Row] = []
    missing_a: list[Unmatched] = []
    missing_b: list[Unmatched] = []
    differences: list[Difference] = []
    for study_b in b.studies:
        study_a = studies_a.pop(study_b.name, None)
        if study_a is None:
            missing_a.append(Unmatched(study_b.name))
            continue
        differences += _differences(study_a, study_b)
        for response in _responses((a, study_a), (b, study_b)):
            found_a, found_b = _by_key(a, study_a, response), _by_key(b, study_b, response)
            pairs = [(found_a[key], found_b[key]) for key in found_b if key in found_a]
            exact = not (a.is_measured(study_a) or b.is_measured(study_b))
            rows += _rows(study_b.name, response, pairs, margin, confidence, exact=exact)
            missing_b += _unmatched(study_b, response, found_a, found_b)
            missing_a += _unmatched(study_b, response, found_b, found_a)
    missing_b += [Unmatched(name) for name in studies_a]
    return Comparison(
        a=str(a.root),
        b=str(b.root),
        margin=margin,
        confidence=confidence,
        rows=tuple(_judged(rows, 1 - confidence)),
        only_a=tuple(missing_b),
        only_b=tuple(missing_a),
        differences=(*differences, *_host_differences(a, b)),
        unfit=tuple(letter for letter, records in (("A", a), ("B", b)) if _is_unfit(records)),
        contradicted=tuple(letter for letter, records in (("A", a), ("B", b)) if _is_contradicted(records)),
    )


def _is_unfit(records: Dataset) -> bool:
    conditions = machine_conditions.of_run(records)
    return conditions is not None and conditions.grade == machine_conditions.Grade.UNFIT


def _is_contradicted(records: Dataset) -> bool:
    measured = (study for study in records.studies if records.is_measured(study))
    return any(one.contradicted for study in measured for one in claim_verdicts.analyse(records, study))


def against(study: Study, response: str, a: Cell, b: Cell, margin: float = MARGIN, confidence: float = 0.95) -> Row:
    """One condition `b` judged against another one, `a`, of the same run; the row bears the point of `b`."""
    return judged_pairs(study.name, response, [(a, b)], margin, confidence)[0]


def judged_pairs(
    study: str, response: str, pairs: Sequence[tuple[Cell, Cell]], margin: float = MARGIN, confidence: float = 0.95
) -> list[Row]:
    """Each second condition judged against the first, all of one response, as rows of one comparison."""
    return _judged(_rows(study, response, pairs, margin, confidence), 1 - confidence)


def _unmatched(study: Study, response: str, own: Mapping[Key, Cell], other: Mapping[Key, Cell]) -> list[Unmatched]:
    return [Unmatched(study.name, own[key].label, response) for key in own if key not in other]


def _responses(*sides: tuple[Dataset, Study]) -> list[str]:
    return list(dict.fromkeys(name for records, study in reversed(sides) for name in records.responses(study)))


def _by_key(records: Dataset, study: Study, response: str) -> dict[Key, Cell]:
    """Condition -> its cell; the key ignores the order of factors and the spelling of levels."""
    found = cells(records, study, response).cells
    return {tuple(sorted((name, level_key(name, level)) for name, level in cell.point.items())): cell for cell in found}


def _rows(
    study: str,
    response: str,
    pairs: Sequence[tuple[Cell, Cell]],
    margin: float,
    confidence: float,
    *,
    exact: bool = False,
) -> list[Row]:
    """A row for each pair of A and B, all from one model; passes of two runs are not the same, hence no blocks."""
    known = [pair for pair in pairs if all((exact or one.values.size > 1) and mean_of(one.values) > 0 for one in pair)]
    model = fit([one.values for pair in known for one in pair], exact=exact) if known else Undefined("")
    place = {id(pair[1]): 2 * number for number, pair in enumerate(known)}
    rows = []
    for a, b in pairs:
        ratio, needed = _undefined(a, b), None
        if isinstance(model, ConditionMeans) and id(b) in place:
            contrasts = Contrasts(model.part([place[id(b)], place[id(b)] + 1]), confidence, margin)
            ratio, needed = contrasts.ratio(1, 0), None if model.exact else repetitions_needed(contrasts)
        rows.append(
            Row(
                study=study,
                point=dict(b.point),
                label=b.label,
                response=response,
                n_a=int(a.values.size),
                n_b=int(b.values.size),
                mean_a=mean_of(a.values),
                mean_b=mean_of(b.values),
                ratio=ratio,
                margin=margin,
                needed=needed,
            )
        )
    return rows


def _undefined(a: Cell, b: Cell) -> Ratio | Undefined:
    if min(a.values.size, b.values.size) < 2:
        return Undefined("a condition has one repetition only, so its spread is unknown")
    return Undefined("a mean is not above 0, so there is no ratio")


def _judged(rows: Sequence[Row], risk: float) -> list[Row]:
    """The verdicts, read from intervals that hold for all rows at once.

    Each claim has one part of the risk (Bonferroni's inequality), which bounds the chance of even one false verdict: of
    a row either a difference or equality can be false.
    """
    part = risk / max(sum(isinstance(row.ratio, Ratio) for row in rows), 1)
    return [_verdict(row, row.ratio, risk, part) if isinstance(row.ratio, Ratio) else row for row in rows]


def _verdict(row: Row, ratio: Ratio, risk: float, part: float) -> Row:
    if ratio.se > 0:
        bounds = ratio_interval(math.log(ratio.ratio), ratio.se, ratio.df, 1 - part)
        ratio = replace(ratio, interval=replace(bounds, confidence=1 - risk))
    same = equivalence(ratio, row.margin, part)
    same = replace(same, interval=replace(same.interval, confidence=1 - 2 * risk))
    apart = not ratio.interval.low <= 1 <= ratio.interval.high
    verdict = Verdict.SAME if same.equivalent else _direction(row.response, ratio.ratio) if apart else row.verdict
    return replace(row, ratio=ratio, equivalence=same, p_adjusted=min(1.0, ratio.p * risk / part), verdict=verdict)


def _direction(response: str, ratio: float) -> Verdict:
    metric = metrics.metric(response)
    if not metric.is_speed:
        return Verdict.CHANGED
    return Verdict.FASTER if (ratio > 1) == (metric.better == "higher") else Verdict.SLOWER


_IGNORED = {"name", "title", "description", "figures", "analysis", "seed", "repetitions", "until", "factors", "scale"}


def _differences(a: Study, b: Study) -> list[Difference]:
    """Settings that differ between the runs and are not what is compared."""
    found = []
    own_a, own_b = (_compared_settings(study) for study in (a, b))
    for key, right in own_b.items():
        left = own_a[key]
        if setting_key(key, left) == setting_key(key, right):
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            names = dict.fromkeys((*left, *right))
            inner = [name for name in names if setting_key(name, left.get(name)) != setting_key(name, right.get(name))]
            found += [Difference(b.name, f"{key}.{name}", left.get(name), right.get(name)) for name in inner]
        else:
            found.append(Difference(b.name, key, left, right))
    return found


def _compared_settings(study: Study) -> dict[str, Any]:
    """All but what is no condition; of a file that the run made and removed the folder, since its name says nothing."""
    settings = study.model_dump(exclude=_IGNORED)
    target = settings["target"]
    if target.get("keep") is False and isinstance(target.get("path"), str):
        target["path"] = str(Path(target["path"]).parent)
    return settings


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


def _host_differences(a: Dataset, b: Dataset) -> list[Difference]:
    """Facts of the hosts that differ, of those that change results: of each host that measured for both runs."""
    left, right = (_machines(records) for records in (a, b))
    shared = [host for host in left if host in right]
    if not shared:
        return [replace(HOSTS, a=list(filter(None, left)), b=list(filter(None, right)))]
    return [replace(one, host=host) for host in shared for one in _fact_differences(left[host], right[host])]


def _machines(records: Dataset) -> dict[str, Host]:
    """The facts of all that measured, by host."""
    return {host: facts for study in records.studies for host, facts in records.machines(study).items()}


def _fact_differences(a: Host, b: Host) -> list[Difference]:
    found = _machine_differences(a, b)
    is_comparable = _key(a) == _key(b)
    tools = [list(_section(host, "tools")) for host in (a, b)]
    for section, name in (*_HOST, *(("tools", tool) for tool in tools[0] if tool in tools[1])):
        left, right = (_section(host, section).get(name) for host in (a, b))
        if name == "cmdline" and not is_comparable:
            left, right = (_HASH.sub("#", text) if isinstance(text, str) else text for text in (left, right))
        if left != right:
            found.append(Difference("host", f"{section}.{name}", left, right))
    only = [[tool for tool in own if tool not in other] for own, other in (tools, tools[::-1])]
    chosen = all(only) and any("/" in tool for tool in (*only[0], *only[1]))  # by its path, and not what is installed
    return [*found, replace(PROGRAMS, a=only[0], b=only[1])] if chosen else found


def _machine_differences(a: Host, b: Host) -> list[Difference]:
    """Whether machine and drives are others, as far as their hashes were made with one key."""
    left, right = (_section(host, "identity") for host in (a, b))
    if not left or _key(a) != _key(b):
        return []
    found = []
    name = next((name for name in ("machine", "name") if name in left and name in right), None)
    if name and left[name] != right[name]:
        found.append(MACHINE)
    drives = [_drives(host) for host in (a, b)]
    if all(drives) and drives[0] != drives[1]:
        found.append(DRIVES)
    return found


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
