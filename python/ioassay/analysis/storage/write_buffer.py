"""Which write buffer is better? Mean response of each policy, and by how much one policy lowers another's.

For simulated SSDs with a factor `policy`. Policies are compared where all else is the same, the requests included:
a comparison is of two runs over one trace, and over repetitions it is paired. Where a run saturated there is no mean,
and the tables say so. Published numbers stand beside, where there are any (`published_results.py`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.storage.write_buffer_text import Comparison, conditions_text, even, reading, shares
from ioassay.factors import CASE, Design
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Undefined
from ioassay.stats.sample import t_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

POLICY, FEED = "policy", "feed"
SATURATED, SATURATED_METRIC, UTILISATION = "saturated", "sim.saturated", "sim.utilisation"
CLASSICS = ("none", "fifo", "lru", "clock", "bplru", "bplru-padded", "fab")
"""What others are held against; every other policy of a study is compared with all."""
EVEN = 0.005
"""Means closer than this share are called even."""


@dataclass(frozen=True)
class Reduction:
    """The mean of a policy over that of another, less one; `low` and `high` bound it over repetitions, if there are."""

    share: float
    low: float | None = None
    high: float | None = None

    def told(self) -> float | str:
        """Percent for a table, with the interval where there is one."""
        if self.low is None or self.high is None:
            return round(100 * self.share, 1) + 0.0  # no minus before a zero
        return f"{100 * self.share:.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Place:
    """All but the policy: `values` are each policy's means by repetition; `saturated` the policies without one."""

    where: Mapping[str, Scalar]
    values: Mapping[str, Mapping[int, float]]
    saturated: frozenset[str]
    utilisation: Mapping[str, float]

    def mean(self, policy: str) -> float | None:
        """Mean over repetitions; None where there is none, or where one of them saturated."""
        found = self.values.get(policy)
        return statistics.fmean(found.values()) if found and policy not in self.saturated else None

    def shown(self, policy: str) -> float | str | None:
        """The mean, or that the policy saturated, or None."""
        return SATURATED if policy in self.saturated else self.mean(policy)

    def reduction(self, policy: str, other: str, confidence: float) -> Reduction | None:
        """By how much `policy` lowers the mean of `other`; None where one of them has none."""
        mean, base = self.mean(policy), self.mean(other)
        if mean is None or not base:
            return None
        both = self.values[policy].keys() & self.values[other].keys()
        pairs = [self.values[policy][one] / self.values[other][one] - 1 for one in sorted(both)]
        interval = t_interval(pairs, confidence) if len(pairs) > 1 else None
        if interval is None or isinstance(interval, Undefined):
            return Reduction(mean / base - 1)
        return Reduction(statistics.fmean(pairs), interval.low, interval.high)


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for each feeding; beside published numbers one more, first. None for other studies."""
    factors = study.levels
    response = _response(records, study)
    if POLICY not in factors or response is None or not _is_simulated(records, study):
        return []
    found = list(places(records, study, response))
    compared = [str(level) for level in factors[POLICY] if any(place.shown(str(level)) for place in found)]
    subjects = [policy for policy in compared if policy not in CLASSICS]
    if len(compared) < 2:
        return []
    asking = _Asking(study, response, compared, subjects)
    feedings = dict.fromkeys(str(place.where.get(FEED, "")) for place in found)
    by_feeding = {feed: [one for one in found if str(one.where.get(FEED, "")) == feed] for feed in feedings}
    return [*asking.published(by_feeding), *(asking.finding(feed, part) for feed, part in by_feeding.items())]


def places(records: Dataset, study: Study, response: str) -> Iterator[Place]:
    """Every combination of the other factors that has a value, in the study's order."""
    design = Design({name: levels for name, levels in study.levels.items() if name != POLICY})
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        if row["status"] == OK:
            rows.setdefault(design.key(row), []).append(row)
    for part in sorted(rows.values(), key=lambda part: design.place(part[0])):
        yield _place(design.point(part[0]), part, response)


def _place(where: Mapping[str, Scalar], rows: Sequence[Mapping[str, Any]], response: str) -> Place:
    values: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.get(response) is not None:
            values.setdefault(str(row[POLICY]), {})[row["repetition"]] = row[response]
    saturated = frozenset(str(row[POLICY]) for row in rows if row.get(SATURATED_METRIC))
    busy = {str(row[POLICY]): row[UTILISATION] for row in rows if row.get(UTILISATION) is not None}
    return Place(where, values, saturated, busy)


def _is_simulated(records: Dataset, study: Study) -> bool:
    trials = records.trials_of(study)
    return any(name.startswith("sim.") and trials[name].null_count() < trials.height for name in trials.columns)


def _response(records: Dataset, study: Study) -> str | None:
    """The mean latency that the study asks for; that of all requests where it asks for none."""
    named = [name for name in records.responses(study) if name.endswith(".lat.mean")]
    usual = [name for name in ("total.lat.mean",) if name in records.trials.columns]
    return next(iter([*named, *usual]), None)


@dataclass(frozen=True)
class _Asking:
    """One study's comparison: its policies, those that are held against all others, and how much is sure."""

    study: Study
    response: str
    policies: Sequence[str]
    subjects: Sequence[str]

    @property
    def confidence(self) -> float:
        return self.study.analysis.confidence

    def finding(self, feed: str, found: Sequence[Place]) -> Finding:
        """One feeding: every mean and every reduction."""
        said = self._said(feed, found)
        tables = [self._means(found), *(self._reductions(subject, found) for subject in self.subjects)]
        return Finding(
            study=self.study.name,
            question="reductions",
            response=self.response,
            title=f"{phrases.name(self.response)} by policy" + (f", {conditions_text(feed)}" if feed else ""),
            statement=" ".join(said),
            where={FEED: feed} if feed else {},
            statistics={"summary": said, "points": [self._numbers(place) for place in found]},
            tables=tables,
            caveats=[*self._doubts(found)],
        )

    def published(self, by_feeding: Mapping[str, Sequence[Place]]) -> list[Finding]:
        """The published reductions beside ours at each feeding; none where nothing was published."""
        known = published_results.of(self.study.name)
        if known is None or known.policy not in self.policies:
            return []
        rows, differences = [], []
        for case, against in known.reductions.items():
            for other in [policy for policy in self.policies if policy in CLASSICS]:
                ours = {feed: self._at(part, case, known.policy, other) for feed, part in by_feeding.items()}
                if any(value is not None for value in ours.values()):
                    rows.append([case, other, against.get(other), *ours.values(), known.notes.get(case, "") if
                                 other == "bplru-padded" else ""])  # fmt: skip
                    differences.append((against.get(other), list(ours.values())))
        if not rows:
            return []
        columns = ["trace", f"{known.policy} against", "published (%)"]
        columns += [f"{conditions_text(feed)} (%)" if feed else "here (%)" for feed in by_feeding]
        said = reading(differences, self._utilised(by_feeding, known))
        return [
            Finding(
                study=self.study.name,
                question="reductions",
                response=self.response,
                title=f"Reductions of the mean response by {known.policy}, beside the published ones",
                statement=" ".join(said),
                statistics={"summary": said[:2], "rows": rows, "source": known.source},
                tables=[Table([*columns, "note"], rows)],
                caveats=[*known.reading, f"Published: {known.source}. A trace called …-like is made, not recorded."],
            )
        ]

    def _at(self, found: Sequence[Place], case: str, policy: str, other: str) -> float | str | None:
        place = next((one for one in found if one.where.get(CASE) == case), None)
        if place is None:
            return None
        if {policy, other} & place.saturated:
            return SATURATED
        reduction = place.reduction(policy, other, self.confidence)
        return None if reduction is None else reduction.told()

    def _utilised(self, by_feeding: Mapping[str, Sequence[Place]], known: published_results.Claims) -> list[float]:
        """How busy the elements were at the original time stamps, where something was published."""
        found = by_feeding.get("open", [])
        return [
            place.utilisation["none"]
            for place in found
            if place.where.get(CASE) in known.reductions and "none" in place.utilisation
        ]

    def _said(self, feed: str, found: Sequence[Place]) -> list[str]:
        told = Comparison(phrases.inside(self.response), conditions_text(feed))
        return [
            *(self._against(told, subject, found) for subject in self.subjects),
            told.lowest({policy: self._wins(policy, found) for policy in self.policies}, len(found)),
            *told.saturated({policy: sum(policy in one.saturated for one in found) for policy in self.policies}),
        ]

    def _against(self, told: Comparison, subject: str, found: Sequence[Place]) -> str:
        by_other = {}
        for other in self.policies:
            known = [place.reduction(subject, other, self.confidence) for place in found if other != subject]
            if values := [one.share for one in known if one is not None]:
                by_other[other] = shares(values)
        if len(self.subjects) > 1 and subject == self.subjects[-1] and len(self.subjects) == 2:
            return told.verdict(subject, self.subjects[0], even(self._pairs(subject, found), EVEN), by_other)
        return told.against(subject, by_other)

    def _pairs(self, subject: str, found: Sequence[Place]) -> list[float]:
        known = (place.reduction(subject, self.subjects[0], self.confidence) for place in found)
        return [one.share for one in known if one is not None]

    def _wins(self, policy: str, found: Sequence[Place]) -> int:
        """Places where no other policy has a lower mean."""
        wins = 0
        for place in found:
            means = {one: mean for one in self.policies if (mean := place.mean(one)) is not None}
            wins += bool(means) and policy in means and means[policy] <= min(means.values())
        return wins

    def _others(self, found: Sequence[Place]) -> list[str]:
        return [name for name in self.study.levels if name not in (POLICY, FEED)] if found else []

    def _means(self, found: Sequence[Place]) -> Table:
        names = self._others(found)
        rows = [[*(place.where[name] for name in names), *map(place.shown, self.policies)] for place in found]
        formats = [*("" for _ in names), *(self.response for _ in self.policies)]
        return Table([*names, *self.policies], rows, formats)

    def _reductions(self, subject: str, found: Sequence[Place]) -> Table:
        names, others = self._others(found), [policy for policy in self.policies if policy != subject]
        rows = [
            [*(place.where[name] for name in names), *(self._cell(place, subject, other) for other in others)]
            for place in found
        ]
        return Table([*names, *(f"{subject} against {other} (%)" for other in others)], rows)

    def _cell(self, place: Place, subject: str, other: str) -> float | str | None:
        if {subject, other} & place.saturated:
            return SATURATED
        reduction = place.reduction(subject, other, self.confidence)
        return None if reduction is None else reduction.told()

    def _numbers(self, place: Place) -> dict[str, Any]:
        return {
            "where": dict(place.where),
            "means": {policy: place.mean(policy) for policy in self.policies},
            "saturated": sorted(place.saturated),
            "reductions": {
                subject: {
                    other: None if (one := place.reduction(subject, other, self.confidence)) is None else one.share
                    for other in self.policies
                    if other != subject
                }
                for subject in self.subjects
            },
        }

    def _doubts(self, found: Sequence[Place]) -> Iterator[str]:
        params = self.study.params
        if params.get("mode", "reshape") == "reshape":
            yield (
                "Means are of the requests that reach the drive: writes that the buffer absorbs take no time here, and "
                "a policy that absorbs more sends fewer."
            )
        if any(place.saturated for place in found):
            yield "A saturated run has no mean: what its requests waited is about the length of the trace."
