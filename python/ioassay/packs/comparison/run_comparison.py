"""Two runs compared: is B faster than A, slower, the same, or do the data not decide?

A is the baseline, B is judged. Conditions are matched by study, point and response; the pairs of all responses are
judged together (`analysis/condition_comparison.py`). The cause of a difference is not examined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from ioassay import metrics
from ioassay.analysis import claim_verdicts, machine_conditions
from ioassay.analysis.condition_comparison import Row, RunScatter, Verdict, judged, pair_rows
from ioassay.analysis.machine_conditions import Grade
from ioassay.analysis.measurements.cells import by_key
from ioassay.factors import setting_key
from ioassay.packs.comparison import scatter_evidence
from ioassay.packs.comparison.earlier_runs import EarlierRuns
from ioassay.stats.contrasts import MARGIN, Ratio
from ioassay.store.dataset import Dataset, Host, section
from ioassay.study.model import Study


class Outcome(StrEnum):
    """What a whole comparison comes to, for those who act on one word."""

    CONTRADICTED = "contradicted"
    """The kernel contradicts the tool's claims, so that its numbers are no measurements: no conclusion is drawn."""
    NOT_COMPARABLE = "not-comparable"
    """The machine was not fit: no conclusion is drawn."""
    MEASURED = "measured"
    """The history has too few earlier runs to be a baseline: nothing is compared."""
    SLOWER = "slower"
    """In at least one row."""
    DIFFERS = "differs"
    """In at least one row, and the scatter from run to run is unknown."""
    FASTER = "faster"
    """In at least one row, and slower in none."""
    CHANGED = "changed"
    SAME = "same"
    """In every row."""
    UNDECIDED = "undecided"


def loss(row: Row) -> float:
    """How many times worse B is than A, above 1."""
    ratio = row.ratio.ratio if isinstance(row.ratio, Ratio) else 1.0
    return ratio if metrics.metric(row.response).better == "lower" else 1 / ratio


def is_loss(row: Row) -> bool:
    """Whether B is slower, or the two runs differ and B is the slower one."""
    is_worse = loss(row) > 1 and metrics.metric(row.response).is_speed
    return row.verdict == Verdict.SLOWER or (row.verdict == Verdict.DIFFERS and is_worse)


def _rank(row: Row) -> tuple[int, float]:
    """By verdict, then the largest loss first; of improvements and changes the largest ratio."""
    size = loss(row)
    if row.verdict in (Verdict.FASTER, Verdict.CHANGED):
        size = max(size, 1 / size)
    return list(Verdict).index(row.verdict), -size if isinstance(row.ratio, Ratio) else math.inf


_UNIT_ROUNDING = 1e-4
"""Tools round rates; ratios and errors that differ by less than this share are those of one quantity."""


def restates(one: Row, other: Row) -> bool:
    """Whether rows of a condition say the same in two units: IOPS and bandwidth at one block size."""
    if not (isinstance(one.ratio, Ratio) and isinstance(other.ratio, Ratio)):
        return False
    of = [(row.study, row.label, metrics.direction_of(row.response)) for row in (one, other)]
    are_rates = all(metrics.metric(row.response).kind == metrics.RATE for row in (one, other))
    ends = [(row.ratio, row.ratio * math.exp(row.se)) for row in (one.ratio, other.ratio)]
    pairs = zip(*ends, strict=True)
    return of[0] == of[1] and are_rates and all(math.isclose(*pair, rel_tol=_UNIT_ROUNDING) for pair in pairs)


def families(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows, those together that restate one; each group is one claim."""
    found: dict[tuple[str, str], list[list[Row]]] = {}
    for row in rows:
        groups = found.setdefault((row.study, row.label), [])
        group = next((group for group in groups if restates(row, group[0])), None)
        if group is None:
            groups.append(group := [])
        group.append(row)
    return [group for groups in found.values() for group in groups]


class FailOn(StrEnum):
    """Which rows where B is worse fail a job."""

    KNOWN = "known"
    """Those where the scatter from run to run is known."""
    ANY = "any"
    NEVER = "never"


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
    fail_on: FailOn = FailOn.KNOWN
    earlier: int | None = None
    """Runs of a history that tell the scatter from run to run; None where none was asked."""
    has_baseline: bool = True
    """False where the history is to be the baseline, and has too few runs of every study."""

    def __post_init__(self) -> None:
        if not self.is_conclusive:  # so that nothing which shows a row can say what is withheld
            withheld = tuple(replace(row, verdict=Verdict.WITHHELD) for row in self.rows)
            object.__setattr__(self, "rows", withheld)

    @property
    def outcome(self) -> Outcome:
        """What the rows come to, and whether a conclusion is drawn from them at all."""
        if not self.is_conclusive:
            return Outcome.CONTRADICTED if self.contradicted else Outcome.NOT_COMPARABLE
        if not self.has_baseline:
            return Outcome.MEASURED
        return Outcome(next(iter(self.counts), Verdict.UNDECIDED))

    @property
    def is_conclusive(self) -> bool:
        """Whether the verdicts of the rows are to be relied on."""
        return not (self.contradicted or self.unfit)

    @property
    def regression(self) -> bool:
        """Whether a row fails a job; never where no conclusion is drawn."""
        return any(map(self.fails, self.rows))

    def fails(self, row: Row) -> bool:
        """Whether a row fails a job: B is slower, or with `FailOn.ANY` the two runs differ by a loss of speed."""
        wanted = {FailOn.NEVER: (), FailOn.KNOWN: (Verdict.SLOWER,), FailOn.ANY: (Verdict.SLOWER, Verdict.DIFFERS)}
        return is_loss(row) and row.verdict in wanted[self.fail_on]

    @property
    def scatter(self) -> RunScatter:
        """What tells how much two runs of the same thing differ; unknown if it is of any row."""
        found = {row.scatter for row in self.rows if isinstance(row.ratio, Ratio)}
        return next((one for one in reversed(RunScatter) if one in found), RunScatter.NONE)

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows by verdict, worst first; verdicts that do not occur are absent."""
        found = [row.verdict for row in self.rows]
        return {verdict.value: found.count(verdict) for verdict in Verdict if verdict in found}

    @cached_property
    def results(self) -> list[tuple[Row, ...]]:
        """The rows, worst first; those that restate a row are with it."""
        return sorted(map(tuple, families(self.rows)), key=lambda group: _rank(group[0]))

    @property
    def worst(self) -> Row | None:
        return next((row for row, *_ in self.results if is_loss(row)), None)


def compare(
    a: Dataset,
    b: Dataset,
    margin: float = MARGIN,
    confidence: float = 0.95,
    fail_on: FailOn = FailOn.KNOWN,
    earlier: Mapping[str, EarlierRuns] | None = None,
    *,
    is_history: bool = False,
) -> Comparison:
    """Judge run `b` against the baseline `a`, or where that `is_history` against the runs in it.

    `margin` is the share up to which a difference counts as none; `confidence` that all verdicts are right. `earlier`
    runs tell the scatter from run to run, by study.
    """
    studies, has_baseline = {study.name: study for study in a.studies}, bool(a.studies) or not is_history
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
        repetitions = [] if exact or is_history else scatter_evidence.turns(a, b, baseline, study)
        for response in dict.fromkeys((*b.responses(study), *a.responses(baseline))):
            in_a, in_b = by_key(a, baseline, response), by_key(b, study, response)
            pairs = [(in_a[key], in_b[key]) for key in in_b if key in in_a]
            made = pair_rows(study.name, response, pairs, margin, confidence, exact=exact)
            if not exact:
                made = [replace(row, scatter=RunScatter.UNKNOWN) for row in made]
            if repetitions:
                made = scatter_evidence.by_turns(made, pairs, repetitions)
            elif earlier and study.name in earlier and not exact:
                made = scatter_evidence.by_history(made, pairs, earlier[study.name], is_baseline=is_history)
            rows += made
            only_a += [Unmatched(study.name, in_a[key].label, response) for key in in_a if key not in in_b]
            only_b += [Unmatched(study.name, in_b[key].label, response) for key in in_b if key not in in_a]
    of_hosts = [*_host_differences(a, b)]
    if is_history:
        of_hosts = list(dict.fromkeys(one for study in (earlier or {}).values() for one in study.differences()))
    runs = {"A": a, "B": b}
    conditions = {letter: machine_conditions.of_run(run) for letter, run in runs.items()}
    verdicts = {
        letter: [one for study in run.studies if run.is_measured(study) for one in claim_verdicts.analyse(run, study)]
        for letter, run in runs.items()
    }
    return Comparison(
        a=str(a.root),
        b=str(b.root),
        margin=margin,
        confidence=confidence,
        rows=tuple(judged(rows, 1 - confidence, sum(isinstance(one.ratio, Ratio) for one, *_ in families(rows)))),
        only_a=(*only_a, *map(Unmatched, studies)),
        only_b=tuple(only_b) if has_baseline else (),
        differences=(*differences, *of_hosts),
        unfit=tuple(letter for letter, one in conditions.items() if one and one.grade == Grade.UNFIT),
        contradicted=tuple(letter for letter, own in verdicts.items() if any(one.contradicted for one in own)),
        fail_on=fail_on,
        earlier=None if earlier is None else min((len(one.names) for one in earlier.values()), default=0),
        has_baseline=has_baseline,
    )


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
