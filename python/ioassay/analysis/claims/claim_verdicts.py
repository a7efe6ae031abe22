"""Is what the tools claim true? Every claim of every witnessed trial, set against what the kernel saw.

Verdicts are made anew from the raw counts each time (`witnessed.judge`), so that a better tolerance improves old runs.
Where trials have twins without the witness, the effect of watching is judged for each condition.
Deliberately not here: the rules themselves, which `ioassay witness` uses as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay.analysis.measurements.cells import label
from ioassay.formats import conventions
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import OK, Claim
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_rate, format_size
from ioassay.verify import drive_counters
from ioassay.verify.judge import judge, overall, saw
from ioassay.verify.observer_effect import Twins
from ioassay.verify.session_times import claimed_seconds
from ioassay.verify.verdict import (
    BY_DEVICE,
    BY_DRIVE,
    CATEGORIES,
    CONTRADICTED,
    NOT_IO,
    TRUE_CLAIMS,
    UNSUPPORTED,
    Verdict,
    rank,
    severity_of,
)

if TYPE_CHECKING:
    import polars as pl

from ioassay.records.observation import Observation

_MOST_EXPLAINED, _MOST_ROWS = 10, 120
_COUNTED = ("Verdict", "Claims", "What it means")
_WORST = ("Verdict", "Reason", "Condition", "Claim", "Trials", "Explanation")
_EACH = ("Condition", "Claim", "Trials", "Claimed", "Seen", "Difference in %", "Verdict", "Reason")


@dataclass(frozen=True)
class Judged:
    """One claim of one trial."""

    trial: str
    condition: str
    claim: str
    verdict: Verdict


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for a study that measured; none when it never ran or computes its trials."""
    frames = _frames(records, study)
    if not records.is_measured(study) or not any(frame.height for frame in frames):
        return []
    witnessed = _witnessed(records, frames)
    if not witnessed:
        text = "Its trials were not witnessed, so what the tools claim is taken on trust."
        return [_finding(study, text, {"contradicted": 0, "witnessed_trials": 0}, [], "info")]
    judged, unclaimed = _judged(records, study, witnessed, _twins(frames, records, study))
    if not judged:
        text = f"Its tool claims no I/O that could be confirmed or contradicted. {_all(len(witnessed))} witnessed."
        text += f" Of the last of them: {_small(saw(unclaimed))}" if unclaimed is not None else ""
        return [_finding(study, text, {"contradicted": 0, "witnessed_trials": len(witnessed), "claims": 0}, [], "info")]
    return [_told(study, judged, len(witnessed))]


def judged_claims(records: Dataset, study: Study) -> list[Judged]:
    """Every claim of the study's witnessed trials, judged by the kernel's counts and the drive's own."""
    frames = _frames(records, study)
    return _judged(records, study, _witnessed(records, frames), _twins(frames, records, study))[0]


def _witnessed(records: Dataset, frames: Sequence[pl.DataFrame]) -> list[dict[str, Any]]:
    return [row for row in _rows(frames) if row["trial"] in records.observations]


def _all(trials: int) -> str:
    return "1 trial was" if trials == 1 else f"{trials} trials were"


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _finding(study: Study, text: str, statistics: Mapping[str, Any], tables: Sequence[Table], severity: str) -> Finding:
    return Finding(
        study=study.name,
        question="verdict",
        response="",
        title="What the kernel says of the claims",
        statement=text,
        statistics=plain(statistics),
        tables=tables,
        severity=severity,
    )


def _frames(records: Dataset, study: Study) -> list[pl.DataFrame]:
    """The trials that count, and their watched twins where there are any."""
    import polars as pl

    frames = [records.trials_of(study)]
    if records.traced is not None:
        frames.append(records.traced.filter(pl.col("study") == study.name).sort("order"))
    return frames


def _rows(frames: Sequence[pl.DataFrame]) -> Iterator[dict[str, Any]]:
    for frame in frames:
        yield from frame.iter_rows(named=True)


def _point(row: Mapping[str, Any], factors: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in factors if row.get(name) is not None}


def _judged(
    records: Dataset,
    study: Study,
    witnessed: Sequence[Mapping[str, Any]],
    twins: Mapping[tuple[str, ...], Twins],
) -> tuple[list[Judged], Observation | None]:
    """All claims, judged; and one observation without a claim, where there is one. Each file is read once."""
    design, factors = study.design, list(study.levels)
    found, unclaimed = [], None
    for row in witnessed:
        observation = records.observations[row["trial"]]
        claims = records.claims.get(row["trial"], ())
        if not claims:
            unclaimed = observation
        condition = label(_point(row, factors))
        verdicts = judge(claims, observation, twins=twins.get(design.key(row)), exit_ok=row["status"] == OK)
        verdicts = drive_counters.set_against(verdicts, drive_counters.counts(row))
        found += [
            Judged(row["trial"], condition, _name(claim), verdict)
            for claim, verdict in zip(claims, verdicts, strict=True)
        ]
    return found, unclaimed


def _name(claim: Claim) -> str:
    """'read', 'reread of 1 MiB by 4 KiB': by the tool's own name where its claims have a shape of their own."""
    shared = conventions(claim.source)
    name = claim.test if shared.tests_are_work and claim.test else claim.kind
    if shared.passes and claim.file_bytes and claim.record_bytes:
        return f"{name}, {format_size(claim.file_bytes)} by {format_size(claim.record_bytes)}"
    return name


def _twins(frames: Sequence[pl.DataFrame], records: Dataset, study: Study) -> dict[tuple[str, ...], Twins]:
    """By condition, the study's first response with the witness and without it."""
    if len(frames) < 2 or not frames[1].height:
        return {}
    metric = next((name for name in records.responses(study) if name in frames[1].columns), None)
    if metric is None:
        return {}
    design = study.design
    sides: list[dict[tuple[str, ...], list[float]]] = [{}, {}]
    for side, frame in zip(sides, frames, strict=True):
        for row in frame.iter_rows(named=True):
            if row[metric] is not None:
                side.setdefault(design.key(row), []).append(row[metric])
    untraced, traced = sides
    name = phrases.inside(metric)
    return {key: Twins(name, values, untraced.get(key, [])) for key, values in traced.items()}


def _told(study: Study, judged: Sequence[Judged], trials: int) -> Finding:
    counts = Counter(one.verdict.category for one in judged)
    worst = overall([one.verdict for one in judged])
    ordered = {category: counts[category] for category in reversed(CATEGORIES) if counts[category]}
    rows = _by_condition(judged)
    tables = [Table(_COUNTED, [[name, number, CATEGORIES[name]] for name, number in ordered.items()])]
    doubtful = [row for row in rows if row.worst.severity == "warning"]
    if doubtful:
        shown = sorted(doubtful, key=lambda row: -rank(row.worst))[:_MOST_EXPLAINED]
        tables.append(Table(_WORST, [row.explained() for row in shown]))
    listed = rows if len(rows) <= _MOST_ROWS else sorted(rows, key=lambda row: -rank(row.worst))[:_MOST_ROWS]
    tables.append(Table(_EACH, [row.told() for row in listed]))
    left = f" The table has the {_MOST_ROWS} worst of {len(rows)} rows." if len(rows) > _MOST_ROWS else ""
    statistics = {
        "contradicted": counts[CONTRADICTED],
        "witnessed_trials": trials,
        "claims": len(judged),
        "categories": ordered,
        "worst": {"category": worst.category, "reason": worst.reason, "explanation": worst.explanation},
        "rows": [row.as_dict() for row in rows],
    }
    text = _statement(judged) + left
    return _finding(study, text, statistics, tables, severity_of(worst.category))


def _statement(every: Sequence[Judged]) -> str:
    """Of the claims about I/O; what else was claimed is only counted, unless there is nothing but that."""
    judged = [one for one in every if one.verdict.reason != NOT_IO] or every
    beside = len(every) - len(judged)
    counts = Counter(one.verdict.category for one in judged)
    worst = overall([one.verdict for one in judged])
    kinds = [f"{counts[category]} {category}" for category in CATEGORIES if counts[category]]
    true = sum(counts[category] for category in TRUE_CLAIMS)
    total = phrases.count(len(judged), "claim") + (" about I/O" if beside else "")
    by_drive = sum(one.verdict.reason == BY_DRIVE for one in judged)
    who = f"The kernel confirms {true - by_drive} of {total}"
    who += f", and the drive itself {by_drive} whose path the kernel does not see" if by_drive else ""
    rest = f"; {beside} more {'is' if beside == 1 else 'are'} not about I/O ({UNSUPPORTED})" if beside else ""
    told = f"{who}: {phrases.listed(kinds, most=len(CATEGORIES))}{rest}."
    if worst.category == next(iter(CATEGORIES)):
        return told
    first = next(one for one in judged if one.verdict is worst)
    text = worst.explanation if worst.explanation.endswith((".", "!", "?")) else f"{worst.explanation}."
    return f"{told} {worst.category} is, of {first.condition}, {first.claim}: {text}"


@dataclass(frozen=True)
class _Row:
    """One claim of a condition over its repetitions."""

    condition: str
    claim: str
    members: Sequence[Verdict]

    @property
    def worst(self) -> Verdict:
        return overall(self.members)

    def as_dict(self) -> dict[str, Any]:
        worst = self.worst
        return {
            "condition": self.condition,
            "claim": self.claim,
            "trials": len(self.members),
            "category": worst.category,
            "reason": worst.reason,
            "numbers": dict(worst.numbers),
        }

    def told(self) -> list[Any]:
        """A row of `_EACH`; the numbers are those of the worst repetition."""
        worst = self.worst
        claimed, seen, difference = _sides(worst)
        shown = None if difference is None else float(f"{difference:.3g}")
        return [self.condition, self.claim, len(self.members), claimed, seen, shown, worst.category, worst.reason]

    def explained(self) -> list[Any]:
        """A row of `_WORST`."""
        worst = self.worst
        same = sum(one.category == worst.category for one in self.members)
        of = f"{same} of {len(self.members)}"
        return [worst.category, worst.reason, self.condition, self.claim, of, worst.explanation]


def _by_condition(judged: Sequence[Judged]) -> list[_Row]:
    rows: dict[tuple[str, str], list[Verdict]] = {}
    for one in judged:
        rows.setdefault((one.condition, one.claim), []).append(one.verdict)
    return [_Row(*key, members) for key, members in rows.items()]


def _sides(verdict: Verdict) -> tuple[str | None, str | None, float | None]:
    """Claimed, seen, and the difference in percent: of the rate where it was timed, else of bytes or operations."""
    numbers, claim = verdict.numbers, verdict.claim
    seconds = numbers.get("seen_seconds")
    claimed_s = claimed_seconds(claim) if claim is not None else None
    if claim is not None and claim.bytes and claimed_s and seconds and numbers.get("seen_bytes"):
        rates = claim.bytes / claimed_s, numbers["seen_bytes"] / seconds
        return format_rate(rates[0]), format_rate(rates[1]), (rates[1] / rates[0] - 1) * 100
    for name, shown in (("bytes", format_size), ("operations", format_count)):
        claimed, seen = numbers.get(f"claimed_{name}"), numbers.get(f"seen_{name}")
        if verdict.reason == BY_DEVICE:  # its calls were not seen, its requests were
            seen = numbers.get("device_bytes") if name == "bytes" else numbers.get("device_requests")
        if verdict.reason == BY_DRIVE:
            seen = numbers.get(f"drive_{name}")
        if claimed is not None:
            difference = (seen / claimed - 1) * 100 if seen is not None and claimed else None
            return shown(claimed), shown(seen) if seen is not None else None, difference
    return None, None, None
