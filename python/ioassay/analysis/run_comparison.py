"""Two runs compared: is B faster than A, slower, the same, or do the data not decide?

A is the baseline, B is judged. Conditions are matched by study, point and response. All conditions of a response have
one model (`stats/condition_means.py`); each pair has two claims from it: a difference (the interval of the ratio of
means excludes 1) and equivalence (two one-sided tests against the margin). All claims of a comparison hold at once. The
cause of a difference is not examined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

from ioassay import metrics
from ioassay.analysis import claim_verdicts, machine_conditions
from ioassay.analysis.measurements.cells import Cell, by_key
from ioassay.factors import setting_key
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.contrasts import (
    MARGIN,
    Contrasts,
    Equivalence,
    Ratio,
    equivalence,
    ratio_interval,
    repetitions_needed,
)
from ioassay.stats.result import Interval, Undefined, mean_of
from ioassay.store.dataset import Dataset, Host, section
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
        both = (self, other)
        subject, subject_of_other = (
            (row.study, row.label, row.response.partition(".")[0], row.verdict) for row in both
        )
        numbers = [(row.loss, row.interval.low, row.interval.high) for row in both if row.interval]
        return (
            subject == subject_of_other
            and len(numbers) == len(both)
            and all(math.isclose(*pair, rel_tol=_UNIT_ROUNDING) for pair in zip(*numbers, strict=True))
        )


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
        if not self.is_conclusive:
            return Outcome.CONTRADICTED if self.contradicted else Outcome.NOT_COMPARABLE
        return Outcome(next(iter(self.counts), Verdict.UNDECIDED))

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
        found: dict[tuple[str, str], list[list[Row]]] = {}
        for row in self.rows:
            groups = found.setdefault((row.study, row.label), [])
            group = next((group for group in groups if row.restates(group[0])), None)
            if group is None:
                groups.append(group := [])
            group.append(row)
        return sorted((tuple(group) for groups in found.values() for group in groups), key=lambda group: group[0].rank)

    @property
    def worst(self) -> Row | None:
        return next((row for row, *_ in self.results if row.verdict == Verdict.SLOWER), None)


def compare(a: Dataset, b: Dataset, margin: float = MARGIN, confidence: float = 0.95) -> Comparison:
    """Judge run `b` against the baseline `a`.

    `margin` is the share up to which a difference counts as none; `confidence` that all verdicts are right.
    """
    studies = {study.name: study for study in a.studies}
    rows: list[Row] = []
    only_a: list[Unmatched] = []
    only_b: list[Unmatched] = []
    differences: list[Difference] = []
    for study in b.studies:
        if (baseline := studies.pop(study.name, None)) is None:
            only_b.append(Unmatched(study.name))
            continue
        differences += _differences(study.name, _settings(baseline), _settings(study))
        exact = not (a.is_measured(baseline) or b.is_measured(study))
        for response in dict.fromkeys((*b.responses(study), *a.responses(baseline))):
            in_a, in_b = by_key(a, baseline, response), by_key(b, study, response)
            pairs = [(in_a[key], in_b[key]) for key in in_b if key in in_a]
            rows += _rows(study.name, response, pairs, margin, confidence, exact=exact)
            only_a += [Unmatched(study.name, in_a[key].label, response) for key in in_a if key not in in_b]
            only_b += [Unmatched(study.name, in_b[key].label, response) for key in in_b if key not in in_a]
    unfit, contradicted = [], []
    for letter, run in (("A", a), ("B", b)):
        conditions = machine_conditions.of_run(run)
        if conditions is not None and conditions.grade == machine_conditions.Grade.UNFIT:
            unfit.append(letter)
        measured = (study for study in run.studies if run.is_measured(study))
        if any(one.contradicted for study in measured for one in claim_verdicts.analyse(run, study)):
            contradicted.append(letter)
    return Comparison(
        a=str(a.root),
        b=str(b.root),
        margin=margin,
        confidence=confidence,
        rows=tuple(_judged(rows, 1 - confidence)),
        only_a=(*only_a, *map(Unmatched, studies)),
        only_b=tuple(only_b),
        differences=(*differences, *_host_differences(a, b)),
        unfit=tuple(unfit),
        contradicted=tuple(contradicted),
    )


def judged_pairs(
    study: str, response: str, pairs: Sequence[tuple[Cell, Cell]], margin: float = MARGIN, confidence: float = 0.95
) -> list[Row]:
    """Each second condition, whose point the row bears, judged against the first: all of one response and study."""
    return _judged(_rows(study, response, pairs, margin, confidence), 1 - confidence)


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
    known = [all((exact or one.values.size > 1) and mean_of(one.values) > 0 for one in pair) for pair in pairs]
    values = [one.values for pair in compress(pairs, known) for one in pair]
    model, place = fit(values, exact=exact) if values else Undefined(""), 0
    rows = []
    for (a, b), is_known in zip(pairs, known, strict=True):
        ratio: Ratio | Undefined = Undefined("a mean is not above 0, so there is no ratio")
        needed = None
        if is_known and isinstance(model, ConditionMeans):
            contrasts = Contrasts(model.part([place, place + 1]), confidence, margin)
            ratio, needed = contrasts.ratio(1, 0), None if model.exact else repetitions_needed(contrasts)
            place += 2
        elif min(a.values.size, b.values.size) < 2:
            ratio = Undefined("a condition has one repetition only, so its spread is unknown")
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
    direction = Verdict.CHANGED
    if (metric := metrics.metric(row.response)).is_speed:
        direction = Verdict.FASTER if (ratio.ratio > 1) == (metric.better == "higher") else Verdict.SLOWER
    verdict = Verdict.SAME if same.equivalent else direction if apart else row.verdict
    return replace(row, ratio=ratio, equivalence=same, p_adjusted=min(1.0, ratio.p * risk / part), verdict=verdict)


_IGNORED = {"name", "title", "description", "figures", "analysis", "seed", "repetitions", "until", "factors", "scale"}


def _settings(study: Study) -> dict[str, Any]:
    """All but what is no condition; of a file that the run made and removed the folder, since its name says nothing."""
    settings = study.model_dump(exclude=_IGNORED)
    target = settings["target"]
    if target.get("keep") is False and isinstance(target.get("path"), str):
        target["path"] = str(Path(target["path"]).parent)
    return settings


def _differences(study: str, a: Mapping[str, object], b: Mapping[str, object], table: str = "") -> Iterator[Difference]:
    """Settings that differ between the runs and are not what is compared; those of a table one by one."""
    for name in dict.fromkeys((*a, *b)):
        left, right = a.get(name), b.get(name)
        if setting_key(name, left) == setting_key(name, right):
            continue
        if not table and isinstance(left, dict) and isinstance(right, dict):
            yield from _differences(study, left, right, f"{name}.")
        else:
            yield Difference(study, table + name, left, right)


_FACTS = ("cpu.model", "cpu.governors", "kernel.release", "kernel.cmdline", "memory.total_bytes", "virtualisation.vm")
_HASH = re.compile(r"#[0-9a-f]{8}\b")
"""What stands in a kernel's command line for a value that is not stored (ioassay.host.privacy)."""


def _host_differences(a: Dataset, b: Dataset) -> list[Difference]:
    """Facts of the hosts that differ, of those that change results: of each host that measured for both runs."""
    left, right = (
        {host: facts for study in records.studies for host, facts in records.machines(study).items()}
        for records in (a, b)
    )
    shared = [host for host in left if host in right]
    if not shared:
        return [replace(HOSTS, a=list(filter(None, left)), b=list(filter(None, right)))]
    return [replace(one, host=host) for host in shared for one in _fact_differences(left[host], right[host])]


def _fact_differences(a: Host, b: Host) -> Iterator[Difference]:
    """Whether machine and drives are others, and what else differs. Hashes are compared if one key made them."""
    hosts = (a, b)
    left, right = (section(host, "identity") for host in hosts)
    is_comparable = left.get("key") == right.get("key")
    if left and is_comparable:
        name = next((name for name in ("machine", "name") if name in left and name in right), None)
        if name and left[name] != right[name]:
            yield MACHINE
        devices = [section(host, "disk").get("devices") or () for host in hosts]
        drives = [
            {str(one["identity"]) for one in own if isinstance(one, Mapping) and "identity" in one} for own in devices
        ]
        if all(drives) and drives[0] != drives[1]:
            yield DRIVES
    tools = [list(section(host, "tools")) for host in hosts]
    for fact in (*_FACTS, *(f"tools.{tool}" for tool in tools[0] if tool in tools[1])):
        part, _, name = fact.partition(".")
        seen, other = (section(host, part).get(name) for host in hosts)
        if name == "cmdline" and not is_comparable:
            seen, other = (_HASH.sub("#", text) if isinstance(text, str) else text for text in (seen, other))
        if seen != other:
            yield Difference("host", fact, seen, other)
    only = [[tool for tool in own if tool not in other] for own, other in (tools, tools[::-1])]
    if all(only) and any("/" in tool for tool in (*only[0], *only[1])):  # by its path, and not what is installed
        yield replace(PROGRAMS, a=only[0], b=only[1])
